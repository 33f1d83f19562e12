#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""What a frame that misses all masks of the flow table in XDP costs the XDP program, in nanoseconds.

    ovs/tests/miss_cost.py --build "$(ovs/build | tail -1)"    # in .venv

Flows are offloaded in 0 to 64 masks, and frames sent of which none is theirs: they are looked up in all masks and go to
the socket. How long the program runs for a frame is what the kernel counts (`kernel.bpf_stats_enabled`, with its own 20
to 40 ns in each row); `without` is Open vSwitch's program with `hw-offload` off. The numbers of masks come in turns, in
random order, all with the same daemon but `without`. Medians and ranges over repetitions; the cost of a number of masks
is the median of its differences to `without`. Exit code: 0, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from frames import Wire, ports
from lab import Switch, at_least, measured, ready, run, wait_for
from option_loss import spread
from storm_traffic import FIRST_PORT, headers

from xdplab.forwarders.ovs.pipelines import READS

MASKS = (0, 1, 8, 64)
MISS = 1000  # a flow that is not offloaded
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")


@contextmanager
def counted() -> Iterator[None]:
    """The kernel counts how long BPF programs run; until the end."""
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


@contextmanager
def new_switch(build: Path, offload: bool) -> Iterator[tuple[Switch, list[Wire]]]:
    """A new daemon between two ports."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-miss-")))
        namespace, wires = stack.enter_context(ports(f"miss{os.getpid()}{int(offload)}", 2))
        settings = (f"other_config:hw-offload={str(offload).lower()}", "other_config:max-idle=600000")
        switch = Switch(build.resolve(), folder, namespace, settings=settings)
        stack.callback(switch.stop)
        switch.start()
        switch.vsctl(
            "set-fail-mode", "br0", "secure", "--", "set", "interface", "d0", f"options:xdp-flow-masks={MASKS[-1]}"
        )
        time.sleep(1)  # the far end is looked at twice a second
        yield switch, wires


def program_time(switch: Switch, port: str) -> tuple[int, int]:
    """Nanoseconds that the XDP program of a port ran, and how often."""
    (link,) = json.loads(run("ip", "-n", switch.namespace, "-j", "-d", "link", "show", port))
    reported = json.loads(run("bpftool", "-j", "prog", "show", "id", str(link["xdp"]["prog"]["id"])))
    return int(reported.get("run_time_ns", 0)), int(reported.get("run_cnt", 0))


def frame(flow: int) -> bytes:
    """Of a flow, as long as the storms' frames."""
    return headers(flow) + struct.pack("24x")


def load(switch: Switch, wires: list[Wire], masks: int) -> None:
    """Offloads a flow in each of so many masks; all other frames get an action that no offload knows."""
    flows = ["priority=0,in_port=1,actions=output(port=2,max_len=65535)"]
    for number in range(masks):
        reads = [f"move:{field}," for bit, field in enumerate(READS) if number >> bit & 1]
        flows.append(f"priority=10,in_port=1,udp,tp_src={FIRST_PORT + number},actions={''.join(reads)}output:2")
    switch.ofctl("replace-flows", "-", stdin="\n".join(flows) + "\n")
    switch.appctl("revalidator/purge")
    for number in (*range(masks), MISS):
        wires[0].send(frame(number))
    found = lambda: int(switch.flows_in_xdp()["n_masks"])  # noqa: E731
    wait_for(lambda: found() == masks, f"{found()} masks are in XDP, not {masks}")


def ns_per_frame(switch: Switch, wires: list[Wire], count: int) -> float:
    """Of `count` frames that miss."""
    missing = frame(MISS)
    before = program_time(switch, "d0")
    for number in range(count):
        wires[0].send(missing)
        if number % 64 == 63:
            time.sleep(0.001)  # a veth's ring takes 256
            for _ in wires[1].receive():
                pass
    wait_for(lambda: program_time(switch, "d0")[1] - before[1] >= count * 0.9, "the XDP program did not run")
    after = program_time(switch, "d0")
    return (after[0] - before[0]) / (after[1] - before[1])


def measure(asked: argparse.Namespace) -> None:
    """All repetitions, and their table."""
    order = random.Random(asked.seed)  # noqa: S311 (an order)
    ways: list[int | None] = [None, *MASKS]
    found: dict[int | None, list[float]] = {way: [] for way in ways}
    with counted(), new_switch(asked.build, False) as without, new_switch(asked.build, True) as with_it:
        without[0].ofctl("add-flow", "priority=0,in_port=1,actions=output(port=2,max_len=65535)")
        for _ in range(asked.repetitions):
            for way in order.sample(ways, len(ways)):
                side = without if way is None else with_it
                if way is not None:
                    load(*side, way)
                found[way].append(ns_per_frame(*side, asked.frames))
    print(f"{'masks':10}{'ns of the program':>26}{'more than without':>20}")
    for way in ways:
        more = statistics.median(a - b for a, b in zip(found[way], found[None], strict=True))
        print(f"{'without' if way is None else way:<10}{spread(found[way], '.0f'):>26}{more:>20.0f}")


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--frames", type=at_least(1), default=20_000, help="for each figure")
    parser.add_argument("--repetitions", type=at_least(1), default=7)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    asked = parser.parse_args(argv)
    if not ready("miss_cost", (asked.build,), "bpftool"):
        return 2
    return measured("miss_cost", lambda: measure(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
