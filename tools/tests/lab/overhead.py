#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a trial costs next to its traffic, over SSH and in plain namespaces of the same machine, interleaved.

    overhead.py [--repetitions 5] [--rounds 2]

Takes the time from the end of one repetition to the end of the next, less its traffic. Needs root.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.command import environment, xdplab
from lab.sshlab import SshLab
from xdplab.results import RunFolder

_METHOD = {"name": "latency", "duration_s": 0.1, "warmup_s": 0.05, "drain_s": 0.05}
_TRAFFIC_S = 0.2


def measure(folder: Path, repetitions: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Forwarder -> kind of testbed -> seconds per repetition; `run` -> what a run takes next to its repetitions."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    lab = SshLab(folder / "lab")
    env = environment({"XDPLAB_STATE": str(folder / "state"), "XDPLAB_RESULTS": str(folder / "results")})
    embedded = folder / "embedded.yaml"
    embedded.write_text(yaml.safe_dump({"schema": 1, "name": f"e-{lab.tag}", "kind": "embedded"}), encoding="utf-8")
    try:
        lab.up()
        for seed in range(rounds):
            for kind, testbed in (("namespaces", embedded), ("ssh", lab.testbed)):
                study: dict[str, Any] = {
                    "schema": 1, "name": kind, "forwarders": ["xdp", "linux-bridge", "ovs-afxdp"], "method": _METHOD,
                    "traffic": {"probe_pps": 2000}, "repetitions": repetitions,
                    "seed": seed, "testbed": str(testbed), "path": "through",
                }  # fmt: skip
                path = folder / "study.yaml"
                path.write_text(yaml.safe_dump(study), encoding="utf-8")
                done = xdplab("run", path, env=env, timeout_s=600)
                assert done.code == 0, done.err
                run = RunFolder((folder / "results" / "latest").resolve())
                head = run.load()
                ends = [trial for trial in run.trials() if trial.purpose == "end"]
                times = [datetime.fromisoformat(trial.started).timestamp() for trial in ends]
                for trial, before, after in zip(ends[1:], times, times[1:], strict=False):
                    name = head.points[trial.point_id].forwarder.name
                    found[name][kind].append(after - before - _TRAFFIC_S)
                found["run"][kind].append((head.wall_s or 0.0) - (times[-1] - times[0]))
    finally:
        lab.down()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xdplab-overhead-") as folder:
        found = measure(Path(folder), given.repetitions, given.rounds)
    rows = {
        name: {
            **{kind: [round(f(values), 3) for f in (median, min, max)] for kind, values in kinds.items()},
            "difference_of_medians_s": round(median(kinds["ssh"]) - median(kinds["namespaces"]), 3),
        }
        for name, kinds in found.items()
    }
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
