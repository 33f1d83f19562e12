#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""What flow offload to XDP costs while flows are new: the first frame's latency, and flows installed in a second.

    ovs/tests/new_flows.py --build "$(ovs/build | tail -1)"    # in .venv

Open vSwitch between two veth pairs in namespaces of its own, with `hw-offload` off and on in turns, each time a new
daemon. Every frame is the first of its flow (UDP source port), and every flow a megaflow of its own. First
`bpf/xdpgen` sends them at `--pps`, and measures the one-way latency of each. Then all flows are removed, frames come
at `--burst-pps`, again and again, until the datapath has all flows, and XDP as well where it is on: the time from the
last look without flows to that, every few milliseconds, gives the flows installed in a second, at the least. The
entries of removed flows are not used again for a second, so there must be room for twice the flows. Medians and
ranges over repetitions.
Exit code: 0, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram
from lab import StormError, Switch, at_least, measured, namespaces, ready, run
from option_loss import XDPGEN, prepare, processors, sender_json, sent_by, spread

WITHIN_S = 30.0
ROWS = ("lost", "p50_us", "p99_us", "per_s", "offloaded_per_s")
#: Makes megaflows that have the UDP source port.
OF_PORTS = "in_port=1,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:2"
Names = tuple[str, str, str]


def in_datapath(switch: Switch) -> int:
    """Megaflows of the datapath."""
    return int(re.findall(r"^\s*flows: (\d+)", switch.appctl("dpctl/show"), re.MULTILINE)[0])


def in_xdp(switch: Switch) -> int:
    """Flows in the XDP program of the port that receives."""
    return int(switch.show()["d0"].get("xdp-flows", {}).get("n_flows", 0))


@contextmanager
def new_switch(build: Path, offload: bool, flow: str = OF_PORTS, far_queues: int = 1) -> Iterator[tuple[Switch, Names]]:
    """A new daemon with one OpenFlow flow, and ports to which XDP can send."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-cost-")))
        names = stack.enter_context(namespaces(f"cost{os.getpid()}{int(offload)}", far_queues))
        settings = (f"other_config:hw-offload={str(offload).lower()}",)
        switch = Switch(build.resolve(), folder, names[1], settings=settings)
        stack.callback(switch.stop)
        switch.start()
        prepare(switch, names)
        for end, link in ((names[0], "t0"), (names[2], "t1")):  # a veth takes redirected frames only with NAPI
            run("ip", "netns", "exec", end, "ethtool", "-K", link, "gro", "on")
        switch.ofctl("del-flows")
        switch.ofctl("add-flow", flow)
        time.sleep(1)  # the device is looked at twice a second
        yield switch, names


def first_frames(names: Names, asked: argparse.Namespace) -> dict[str, float]:
    """Each frame the first of its flow."""
    seconds = asked.flows / asked.pps
    reported = sent_by(
        sender_json(names, asked.pps, processors()[0], kind="latency", flows=asked.flows, seconds=seconds)
    )
    (stream,) = reported["streams"]
    times = HdrHistogram.decode(stream["latency"]["hdr"])
    found = {f"p{share}_us": times.get_value_at_percentile(share) / 1e3 for share in (50, 99)}
    return {"lost": stream["lost"], **found}


def installed(switch: Switch, names: Names, offload: bool, asked: argparse.Namespace) -> dict[str, Any]:
    """How fast all flows are in the datapath, and in XDP."""
    switch.appctl("revalidator/purge")
    text = sender_json(names, asked.burst_pps, processors()[0], flows=asked.flows, seconds=WITHIN_S)
    sender = subprocess.Popen([XDPGEN, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert sender.stdin is not None
        sender.stdin.write(text.encode())
        sender.stdin.close()
        found: dict[str, Any] = {}
        started, count, seen = time.monotonic(), 0, False
        deadline = started + WITHIN_S
        while len(found) < 1 + offload:
            if time.monotonic() > deadline or sender.poll() is not None:
                there = f"{count} in the datapath, {in_xdp(switch)} in XDP"
                raise StormError(f"not all of {asked.flows} flows are installed: {there}")
            looked = time.monotonic()
            count = in_datapath(switch)
            seen |= count > 1
            if not seen:
                started = looked  # none were there: they may all come before the next look
            if count >= asked.flows:
                found.setdefault("per_s", asked.flows / (time.monotonic() - started))
            if seen and offload and in_xdp(switch) >= asked.flows:
                found.setdefault("offloaded_per_s", asked.flows / (time.monotonic() - started))
    finally:
        sender.send_signal(signal.SIGINT)
        sender.wait()
    return found


def repetition(asked: argparse.Namespace, offload: bool) -> dict[str, float]:
    """Both, with a daemon of its own."""
    with new_switch(asked.build, offload) as (switch, names):
        return {**first_frames(names, asked), **installed(switch, names, offload, asked)}


def measure(asked: argparse.Namespace) -> None:
    """All repetitions, and their table."""
    order = random.Random(asked.seed)  # noqa: S311 (an order)
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for number in range(asked.repetitions):
        for offload in order.sample([False, True], 2):
            found[offload].append(repetition(asked, offload))
            reported = f"{number + 1}/{asked.repetitions} offload {offload}: {found[offload][-1]}"
            print(reported, file=sys.stderr, flush=True)
    print(f"{'':18}{'without offload':>30}{'with':>30}")
    for row in ROWS:
        cells = [spread([each[row] for each in found[way]], ".1f") if row in found[way][0] else "" for way in found]
        print(f"{row:18}{cells[0]:>30}{cells[1]:>30}")


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--flows", type=at_least(2), default=5_000, help="less than half of xdp-flow-entries")
    parser.add_argument(
        "--pps", type=at_least(1.0), default=5_000.0, help="new flows in a second while latency is measured"
    )
    parser.add_argument(
        "--burst-pps", type=at_least(1.0), default=200_000.0, help="frames in a second while flows are installed"
    )
    parser.add_argument("--repetitions", type=at_least(1), default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    asked = parser.parse_args(argv)
    if not ready("new_flows", (asked.build,), XDPGEN):
        return 2
    return measured("new_flows", lambda: measure(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
