#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""How the rate of flows in XDP grows with receive queues: frames forwarded with one CPU that sends, and with several.

    ovs/tests/offload_queues.py --build "$(ovs/build | tail -1)"    # in .venv

On veth each CPU that sends fills a queue of its own and does the switch's work for it. `bpf/xdpgen` sends 64-byte
frames of one megaflow as fast as it can, from the first CPU and from all, in turns; each frame that arrives must have
been forwarded by an offloaded flow. The PMD thread, which has nothing to do, sleeps. Rates are of frames that arrived,
per second and per second that the senders had their CPUs: on a machine that others use, these differ. Medians and
ranges over repetitions. Exit code: 0, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

from lab import QUEUES, StormError, Switch, at_least, measured, ready
from new_flows import Names, new_switch
from option_loss import XDPGEN, sender_json, sent_by, spread

#: How long a thread without frames may sleep, in us.
SLEEP = "other_config:pmd-sleep-max=1000"


def rates(switch: Switch, names: Names, cpus: list[int], seconds: float) -> tuple[float, float]:
    """Frames that arrived per second, and per second of a CPU."""
    asked = json.loads(sender_json(names, 1.0, cpus[0], seconds=seconds))
    asked["ports"][1]["rx"] = "xdp"
    asked["streams"] = [{**asked["streams"][0], "id": n, "pps": None, "tx_cpu": cpu} for n, cpu in enumerate(cpus)]
    before = switch.offloaded()
    reported = sent_by(json.dumps(asked))
    arrived = [stream["sent"] - stream["lost"] for stream in reported["streams"]]
    if switch.offloaded() - before < sum(arrived):
        raise StormError(f"of {sum(arrived)} frames flows in XDP forwarded {switch.offloaded() - before}")
    had_s = [thread["ran_ns"] / 1e9 for thread in reported["threads"]]
    return sum(arrived) / reported["elapsed_s"], sum(frames / s for frames, s in zip(arrived, had_s, strict=True))


def measure(asked: argparse.Namespace) -> None:
    """All repetitions, and their table."""
    usable = sorted(cpu for cpu in os.sched_getaffinity(0) if cpu < QUEUES)[: asked.cpus]
    if len(usable) < asked.cpus:
        raise StormError(f"needs {asked.cpus} CPUs, may use {usable}")
    order = random.Random(asked.seed)  # noqa: S311 (an order)
    ways = (usable[:1], usable)
    found: dict[int, list[tuple[float, float]]] = {len(way): [] for way in ways}
    with new_switch(asked.build, offload=True, flow="in_port=1,actions=output:2", far_queues=QUEUES) as (switch, names):
        switch.vsctl("set", "Open_vSwitch", ".", SLEEP, "--", "set", "interface", "d0", f"options:n_rxq={QUEUES}")
        switch.flows_in_xdp()
        time.sleep(1)  # the device is looked at twice a second
        rates(switch, names, usable, 0.2)  # which offloads the flow
        for number in range(asked.repetitions):
            for way in order.sample(ways, len(ways)):
                found[len(way)].append(rates(switch, names, way, asked.seconds))
            reported = ", ".join(f"{cpus}: {rows[-1][0] / 1e6:.2f} Mpps" for cpus, rows in found.items())
            print(f"{number + 1}/{asked.repetitions} CPUs {reported}", file=sys.stderr, flush=True)
    print(f"{'':24}{'per second':>30}{'per second of a CPU':>30}")
    for cpus, rows in found.items():
        cells = [spread([row[which] / 1e6 for row in rows], ".2f") for which in (0, 1)]
        print(f"{f'{cpus} CPUs, Mpps':24}{cells[0]:>30}{cells[1]:>30}")
    both = list(zip(found[1], found[len(usable)], strict=True))
    cells = [spread([several[which] / one[which] for one, several in both], ".2f") for which in (0, 1)]
    print(f"{'times one CPU':24}{cells[0]:>30}{cells[1]:>30}")


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--cpus", type=at_least(2), default=2, help=f"that send, at most {QUEUES}")
    parser.add_argument("--seconds", type=at_least(0.1), default=0.5, help="of a rate")
    parser.add_argument("--repetitions", type=at_least(1), default=9)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    asked = parser.parse_args(argv)
    if not ready("offload_queues", (asked.build,), XDPGEN):
        return 2
    return measured("offload_queues", lambda: measure(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
