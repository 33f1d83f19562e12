#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A study over SSH whose connections are cut at random moments: a repetition that was cut is taken again once, and
nothing may stay changed.

    cuts.py [--repetitions 25] [--cuts 50] [--seed 1] [--each-s 4]      25 repetitions of four points are 100 trials

Each host is reached through a relay of ours, which aborts its connections (RST), or lets them hang without a sound
until the other side gives up on them. Needs root.
"""

import argparse
import contextlib
import difflib
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.command import Done, environment, finish, start
from lab.sshlab import SshLab
from xdplab.model import TrialRecord
from xdplab.results import RunFolder

#: How the reason of a repetition ends that was cut twice.
TWICE = ", repeated once with the same result"
#: Seconds of silence after which xdplab drops a connection, here.
DEAD_AFTER_S = 1.5
_STUDY: dict[str, Any] = {
    "schema": 1,
    "name": "cuts",
    "forwarders": ["xdp", "linux-bridge"],
    "knobs": {"threaded_napi": [0, 1]},
    "method": {"name": "latency", "duration_s": 0.1, "warmup_s": 0.02, "drain_s": 0.05},
    "traffic": {"probe_pps": 2000},
}


class Relay:
    """A port of 127.0.0.1 that leads to a host, until it is told to cut."""

    def __init__(self, address: str) -> None:
        self._target = (address, 22)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                pair = (ours, socket.create_connection(self._target))
                with self._lock:
                    self._pairs.append(pair)
                threading.Thread(target=self._copy, args=(pair,), daemon=True).start()

    def _copy(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                for source in select.select(pair, [], [])[0]:
                    data = source.recv(65536)
                    if pair not in self._pairs:
                        return  # hanging: what arrives is swallowed
                    if not data:
                        raise OSError
                    pair[pair[0] is source].sendall(data)
        self._abort(pair)

    def cut(self, *, hang: bool) -> int:
        """Cut what is open now; returns how many connections that were."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            if hang:
                threading.Timer(2 * DEAD_AFTER_S, self._abort, (pair,)).start()
            else:
                self._abort(pair)
        return len(pairs)

    def _abort(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._pairs.remove(pair)
        for sock in pair:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()

    def close(self) -> None:
        self._listener.close()
        self.cut(hang=False)


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    done: Done
    trials: list[TrialRecord]
    cuts: int
    hangs: int
    changed: list[str]
    wall_s: float

    @property
    def measured(self) -> int:
        return sum(trial.result is not None and trial.purpose == "measure" for trial in self.trials)

    @property
    def cut_twice(self) -> int:
        """Repetitions that were cut, and cut again when they were repeated."""
        return sum(trial.reason.endswith(TWICE) for trial in self.trials)


#: Every link with its addresses, flags and XDP program, and the offloads and NAPI files of every interface.
_LOOK = """
ip -details link show; ip -brief address show; cd /sys/class/net
for port in *; do echo "== $port"; ethtool -k $port; ethtool -l $port; grep . $port/threaded $port/gro_flush_timeout \\
$port/napi_defer_hard_irqs /proc/sys/net/ipv6/conf/$port/disable_ipv6; done
"""


def look(lab: SshLab) -> dict[str, list[str]]:
    """All settings of the hosts, as lines of text."""
    seen = {}
    for host in "ABC":
        argv = ["ip", "netns", "exec", lab.netns(host), "sh", "-c", _LOOK]
        seen[host] = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return seen


def running(lab: SshLab) -> list[str]:
    """What runs on the hosts next to sshd: host and name."""
    found = []
    for host in "ABC":
        for pid in set(lab.processes(host)) - {lab.inits[host]}:
            with contextlib.suppress(OSError):
                comm = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                if not comm.startswith("sshd"):
                    found.append(f"{host}: {comm}")
    return found


def changes(lab: SshLab, before: dict[str, list[str]]) -> list[str]:
    """What differs on the hosts from `before`, and what still runs there once agents have had the time to end."""
    deadline = time.monotonic() + 10.0
    while running(lab) and time.monotonic() < deadline:
        time.sleep(0.1)
    found = [f"{each} still runs" for each in running(lab)]
    for host, now in look(lab).items():
        lines = difflib.unified_diff(before[host], now, lineterm="", n=0)
        found += [f"{host}: {line}" for line in lines if not line.startswith(("---", "+++", "@@"))]
    return found


def run(
    folder: Path, *, repetitions: int, cuts: int, seed: int, each_s: float = 1.0, at_most: float = float("inf")
) -> Outcome:
    """Run the study with cuts `each_s` apart on average until it ends, `cuts` at least and `at_most` in all."""
    lab = SshLab(folder / "lab")
    rng = random.Random(seed)
    relays: dict[str, Relay] = {}
    try:
        lab.up()
        relays = {host: Relay(lab.address(host)) for host in "ABC"}
        with lab.known_hosts.open("a", encoding="ascii") as file:
            file.writelines(lab.known_host(host, "127.0.0.1", relay.port) for host, relay in relays.items())
        lab.write_testbed(
            **{
                host.lower(): {"address": "127.0.0.1", "port": relay.port, "dead_after_s": DEAD_AFTER_S}
                for host, relay in relays.items()
            }
        )
        study = folder / "study.yaml"
        spec = {**_STUDY, "path": "through", "testbed": str(lab.testbed), "repetitions": repetitions}
        study.write_text(yaml.safe_dump(spec), encoding="utf-8")
        before = look(lab)
        env = environment({"XDPLAB_STATE": str(folder / "state"), "XDPLAB_RESULTS": str(folder / "results")})
        began = time.monotonic()
        process = start("run", study, env=env)
        made = hangs = 0
        journal = folder / "results" / "latest" / "trials.jsonl"
        while process.poll() is None:
            time.sleep(rng.uniform(0.1, 2 * each_s - 0.1))
            if not journal.exists() or made >= at_most:
                continue  # first connections are refused at once, not made again: nothing has been changed yet
            hang = rng.random() < 0.1
            cut = relays[rng.choice("ABC")].cut(hang=hang)
            made, hangs = made + cut, hangs + (cut if hang else 0)
        done = finish(process)
        latest = (folder / "results" / "latest").resolve()
        trials = RunFolder(latest).trials() if latest.exists() else []
        changed = changes(lab, before)
        left = [path.name for path in (folder / "state").iterdir() if path.suffix == ".json"]
        changed += [f"state file {name} is still there" for name in left]
        if made < cuts:
            changed.append(f"only {made} of {cuts} cuts were made: more repetitions are needed")
        return Outcome(done, trials, made, hangs, changed, time.monotonic() - began)
    finally:
        for relay in relays.values():
            relay.close()
        lab.down()


def main() -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each-s", type=float, default=4.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xdplab-cuts-") as folder:
        found = run(Path(folder), repetitions=given.repetitions, cuts=given.cuts, seed=given.seed, each_s=given.each_s)
    bad = [trial for trial in found.trials if trial.status in ("failed", "unsupported")]
    failed = [trial for trial in bad if not trial.reason.endswith(TWICE)]
    print(
        json.dumps(
            {
                "exit_code": found.done.code,
                "trials": found.measured,
                "cut_twice": found.cut_twice,
                "failed": [trial.reason for trial in failed],
                "cuts": found.cuts,
                "of_them_hanging": found.hangs,
                "left_changed": found.changed,
                "notes": [line for line in found.done.err.splitlines() if "connection" in line],
                "wall_s": round(found.wall_s, 1),
                "seed": given.seed,
            },
            indent=1,
        )
    )
    if found.done.code:
        print(found.done.err[-4000:], file=sys.stderr)
    whole = found.measured + found.cut_twice >= 4 * given.repetitions and not failed
    return 0 if whole and not found.changed and found.done.code == int(bool(bad)) else 1


if __name__ == "__main__":
    assert os.geteuid() == 0, "network namespaces need root"
    sys.exit(main())
