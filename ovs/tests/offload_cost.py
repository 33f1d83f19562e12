#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""What flow offload to XDP costs the frames that it does not forward: the first of each flow, and those that miss.

    ovs/tests/offload_cost.py --build "$(ovs/build --base 4.0.0 --series xdp | tail -1)"    # in .venv

Open vSwitch between two veth pairs in namespaces of its own, `bpf/xdpgen` sends.

New flows, with `hw-offload` off and on in turns, each time with a new daemon. Every frame is the first of its flow (UDP
source port), and every flow a megaflow of its own: first at `--pps`, with the one-way latency of each frame. Then all
flows are removed, and frames come at `--burst-pps`, again and again, until the datapath has all flows, and XDP as well
where it is on: the time from the first frame to that, looked at every few milliseconds, gives the flows installed in a
second. The entries of removed flows are not used again for a second, so there must be room for twice the flows.

Frames that miss, in turns and with new daemons as well: of 1,024 flows XDP takes 8, each in a mask of its own, and in
all 8 it looks in vain for the others. What is forwarded when more is offered than can be (median of three trials);
ratios are of neighbours in time.

Medians and ranges over repetitions. Exit code: 0, or 2 if it could not run.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram
from lab import StormError, Switch, namespaces, run, wait_for
from option_loss import XDPGEN, prepare, processors, sender_json, sent_by, spread

from xdplab.forwarders.ovs_options import OvsOptions
from xdplab.forwarders.ovs_rules import rules

WITHIN_S = 30.0
MASKS, MISSING_FLOWS = 8, 1024
NEW_ROWS = ("lost", "p50_us", "p99_us", "per_s", "offloaded_per_s")
Names = tuple[str, str, str]


def in_datapath(switch: Switch) -> int:
    """Megaflows of the datapath."""
    return int(re.findall(r"^\s*flows: (\d+)", switch.appctl("dpctl/show"), re.MULTILINE)[0])


def in_xdp(switch: Switch, what: str = "n_flows") -> int:
    """Flows, or masks, in the XDP program of the port that receives."""
    return int(switch.show()["d0"].get("xdp-flows", {}).get(what, 0))


def set_offload(switch: Switch, on: bool) -> None:
    """Sets it in the running daemon."""
    switch.vsctl("set", "Open_vSwitch", ".", f"other_config:hw-offload={str(on).lower()}")


@contextmanager
def switch_with(asked: argparse.Namespace, flows: list[str]) -> Iterator[tuple[Switch, Names]]:
    """A new daemon with these OpenFlow flows, and ports to which XDP can send."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-cost-")))
        names = stack.enter_context(namespaces(f"cost{os.getpid()}"))
        switch = Switch(asked.build.resolve(), folder, names[1])
        stack.callback(switch.stop)
        switch.start()
        prepare(switch, names)
        for end, link in ((names[0], "t0"), (names[2], "t1")):  # a veth takes redirected frames only with NAPI
            run("ip", "netns", "exec", end, "ethtool", "-K", link, "gro", "on")
        switch.ofctl("del-flows")
        for flow in flows:
            switch.ofctl("add-flow", flow)
        yield switch, names


def first_frames(names: Names, asked: argparse.Namespace) -> dict[str, float]:
    """Each frame the first of its flow."""
    seconds = asked.flows / asked.pps
    told = sent_by(sender_json(names, asked.pps, processors()[0], kind="latency", flows=asked.flows, seconds=seconds))
    (stream,) = told["streams"]
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
        started, found, count = None, {}, 0
        deadline = time.monotonic() + WITHIN_S
        while len(found) < 1 + offload:
            if time.monotonic() > deadline or sender.poll() is not None:
                there = f"{count} in the datapath, {in_xdp(switch)} in XDP"
                raise StormError(f"not all of {asked.flows} flows are installed: {there}")
            count = in_datapath(switch)
            if started is None and count > 1:
                started = time.monotonic()
            if started is not None and count >= asked.flows:
                found.setdefault("per_s", asked.flows / (time.monotonic() - started))
            if started is not None and offload and in_xdp(switch) >= asked.flows:
                found.setdefault("offloaded_per_s", asked.flows / (time.monotonic() - started))
    finally:
        sender.send_signal(signal.SIGINT)
        sender.wait()
    return found


def new_flows(asked: argparse.Namespace, offload: bool) -> dict[str, float]:
    """Both, with a daemon of its own."""
    flow = "in_port=1,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:2"
    with switch_with(asked, [flow]) as (switch, names):
        set_offload(switch, offload)
        time.sleep(1)  # the device is looked at twice a second
        return {**first_frames(names, asked), **installed(switch, names, offload, asked)}


def missed(asked: argparse.Namespace, offload: bool) -> float:
    """Frames forwarded in a second, of flows that XDP does not have."""
    flows = rules("1", "2", OvsOptions(rules="misses", rule_masks=MASKS))
    with switch_with(asked, flows) as (switch, names):
        set_offload(switch, offload)
        cpu = processors()[0]

        def ready() -> bool:
            sent_by(sender_json(names, 100_000, cpu, flows=MISSING_FLOWS, seconds=0.3))
            return in_xdp(switch, "n_masks") == MASKS * offload

        wait_for(ready, f"there are not {MASKS * offload} masks in XDP", WITHIN_S)
        config = sender_json(names, asked.overload_pps, cpu, flows=MISSING_FLOWS, seconds=asked.seconds)
        return statistics.median(sent_by(config)["streams"][0]["received"] / asked.seconds for _ in range(3))


def misses(asked: argparse.Namespace, order: random.Random) -> None:
    """Prints what frames that miss cost."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(asked.pairs):
        for offload in order.sample([False, True], 2):
            found[offload].append(missed(asked, offload) / 1e3)
        last = ", ".join(f"{way[-1]:.0f}" for way in found.values())
        print(f"misses {number + 1}/{asked.pairs}: kpps without and with {last}", file=sys.stderr, flush=True)
    print(f"{'missed_kpps':18}{spread(found[False], '.1f'):>30}{spread(found[True], '.1f'):>30}")
    ratios = sorted(on / off for off, on in zip(found[False], found[True], strict=True))
    print(
        f"with to without, {len(ratios)} pairs: {spread(ratios, '.3f')}; {', '.join(f'{each:.2f}' for each in ratios)}"
    )


def new(asked: argparse.Namespace, order: random.Random) -> None:
    """Prints what new flows cost."""
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for number in range(asked.repetitions):
        for offload in order.sample([False, True], 2):
            found[offload].append(new_flows(asked, offload))
            told = f"new {number + 1}/{asked.repetitions} offload {offload}: {found[offload][-1]}"
            print(told, file=sys.stderr, flush=True)
    for row in NEW_ROWS:
        cells = [spread([each[row] for each in found[way]], ".1f") if row in found[way][0] else "" for way in found]
        print(f"{row:18}{cells[0]:>30}{cells[1]:>30}")


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--flows", type=int, default=5_000, help="new ones; less than half of xdp-flow-entries")
    parser.add_argument("--pps", type=float, default=5_000, help="new flows in a second while latency is measured")
    parser.add_argument("--burst-pps", type=float, default=200_000, help="frames in a second while flows are installed")
    parser.add_argument("--repetitions", type=int, default=5, help="of the new flows")
    parser.add_argument("--pairs", type=int, default=20, help="of the frames that miss")
    parser.add_argument("--overload-pps", type=float, default=1_600_000, help="frames offered that miss")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a trial with them")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    asked = parser.parse_args(argv)
    if os.geteuid() != 0 or not (asked.build / "ovs-vswitchd").exists() or not XDPGEN.exists():
        print("offload_cost: needs root, --build with the result of ovs/build, and make -C bpf", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with the clean-up of the contexts
    order = random.Random(asked.seed)  # noqa: S311 (an order)
    try:
        print(f"{'':18}{'without offload':>30}{'with':>30}")
        if asked.repetitions:
            new(asked, order)
        if asked.pairs:
            misses(asked, order)
    except (StormError, subprocess.TimeoutExpired) as error:
        print(f"offload_cost: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
