#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""The same random frames through two Open vSwitches with the same random flows, without and with XDP flow offload.

    ovs/tests/offload_diff.py --build DIR --packets 10000 --seed 1     # DIR: result folder of ovs/build
    ovs/tests/offload_diff.py --build DIR --other DIR2 --no-offload    # any two builds, both without offload
    ovs/tests/offload_diff.py --build DIR --plant bytes                # must find the fault that it plants itself

Each table of OpenFlow flows (`diff_tables.py`) meets `--frames` frames (`diff_packets.py`), all of them `--times` times
one after the other, so that the later ones meet installed flows; some are in tunnels. Tables that track meet a sixth as
many connections instead, one frame of each at a time. What must be the same on both sides: the port by which each frame
leaves, its bytes, packets and bytes of each OpenFlow flow, and the connections; and the flows must have counted every
frame. A frame that makes a difference is sent again by itself, and printed with the flows of the datapath. With offload
some frames must have met offloaded flows; with 10,000 frames flows of each kind of action, and some frames several.
Exit code: 0 the same, 1 different or nothing offloaded, 2 it could not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from diff_packets import TUNNEL_IP, TUNNEL_MAC, VLANS, Connections, Packets, macs
from diff_tables import HIGHEST, PLANTS, SECOND, TUNNELS, Table, Tables, edits, not_offloaded, planted
from frames import Wire, ports, wait_readable
from lab import FAILED, StormError, Switch, at_least, ready, run, wait_for

PORTS = ("d0", "d1", "d2")
# Two daemons on two processors: an idle PMD thread sleeps, and nothing is forgotten while the other side works.
SETTINGS = tuple(f"other_config:{key}" for key in ("pmd-sleep-max=500", "max-idle=600000", "vlan-limit=2"))
# The action debug_recirc is one of its test actions.
DEBUG = ("--enable-dummy",)
QUIET_S, LATE_S = 0.03, 2.0
COUNTED = re.compile(r"^(?:table_id=[12], )?duration=\w+, n_packets=(\d+), n_bytes=(\d+), priority=(\d+)", re.MULTILINE)


class Side:
    """One switch, and what came out of it."""

    def __init__(self, name: str, switch: Switch, wires: list[Wire]) -> None:
        self.name = name
        self.switch = switch
        self.wires = wires
        self.came: Counter[tuple[int, bytes]] = Counter()

    def add_tunnels(self) -> None:
        """Ports of tunnels, whose frames come to the switch's own port."""
        mac = TUNNEL_MAC.hex(":")
        self.switch.vsctl("set", "Bridge", "br0", f"other-config:hwaddr={mac}")
        # with nobody to talk to: the kernel must not answer what comes to the port
        run("ip", "-n", self.switch.namespace, "addr", "add", f"{TUNNEL_IP}/32", "dev", "br0")
        run("ip", "-n", self.switch.namespace, "link", "set", "br0", "arp", "off", "multicast", "off", "up")
        for number, kind in TUNNELS.items():
            self.switch.vsctl("add-port", "br0", kind, "--", "set", "interface", kind, f"type={kind}",
                              "options:remote_ip=flow", "options:key=flow", f"ofport_request={number}")  # fmt: skip
            self.switch.ofctl("mod-port", kind, "no-flood")
        wait_for(
            lambda: self.switch.appctl("tnl/ports/show", "-v").count(f"dst={mac})") >= len(TUNNELS),
            f"{self.name}: the tunnels do not end at {TUNNEL_IP}",
        )

    def load(self, table: Table) -> None:
        """The flows of a table, and none of the datapath from before."""
        self.switch.ofctl("del-flows")
        self.switch.appctl("revalidator/purge")
        self.switch.appctl("dpctl/flush-conntrack")
        self.switch.ofctl("add-flows", "-", stdin="\n".join(table.flows) + "\n")
        self.came.clear()

    def send(self, port: int, frame: bytes) -> None:
        """By the far end of a port."""
        self.wires[port].send(frame)

    def collect(self) -> int:
        """How many frames came since the last call."""
        before = self.came.total()
        for port, wire in enumerate(self.wires):
            self.came.update((port, frame) for frame in wire.receive())
        return self.came.total() - before

    def counts(self, how: str = "wait") -> dict[int, tuple[int, int]]:
        """Packets and bytes of flows by their priority, after a round of the revalidators; with `purge` their last one.

        A purge under traffic loses some: what the PMD thread counts on a flow that was just read and deleted.
        """
        self.switch.appctl(f"revalidator/{how}")
        # ovs-ofctl does not know debug_recirc; the daemon has hidden flows, too
        found = COUNTED.findall(self.switch.appctl("bridge/dump-flows", "br0"))
        own = ((int(priority), int(packets), int(octets)) for packets, octets, priority in found)
        return {priority: (packets, octets) for priority, packets, octets in own if priority <= HIGHEST}

    def connections(self) -> list[str]:
        """Those that are tracked, and in which state."""
        return sorted(self.switch.appctl("dpctl/dump-conntrack").splitlines())

    def flows(self) -> str:
        """The datapath's flows."""
        return self.switch.appctl("dpctl/dump-flows", "-m")


@dataclass
class Found:
    """What a run saw.

    Attributes:
        sent: Frames into each side.
        came: Frames out of the first side.
        connections: Tracked ones at the end of a table.
        offloaded: Frames that met offloaded flows, on the second side.
        offloaded_in: Kinds of tables, and in how many of them some did.
        several_in: Kinds of tables, and frames of theirs that met several offloaded flows.
        edits: What offloaded flows of the second side change, and how many of them do.
        differences: In words.
    """

    sent: int = 0
    came: int = 0
    offloaded: int = 0
    offloaded_in: Counter[str] = field(default_factory=Counter)
    several_in: Counter[str] = field(default_factory=Counter)
    edits: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    tables: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def settle(sides: tuple[Side, Side]) -> bool:
    """Waits until both sides have put out the same and are quiet, or for long; whether they have."""
    last = time.monotonic()
    wires = [wire for side in sides for wire in side.wires]
    while True:
        wait_readable(wires, QUIET_S)
        if sum(side.collect() for side in sides):
            last = time.monotonic()
        quiet_s = time.monotonic() - last
        same = sides[0].came == sides[1].came
        if quiet_s > (QUIET_S if same else LATE_S):
            return same


def greet(sides: tuple[Side, Side], packets: Packets) -> int:
    """Every address is learned in every VLAN, so that `normal` depends on no order; how many frames it took."""
    sent = 0
    for port in range(len(PORTS)):
        for mac in macs(port):
            for vlan in (None, *VLANS):
                for side in sides:
                    side.send(port, packets.greeting(port, mac, vlan))
                sent += 1
        settle(sides)
    all_counted(sides, sent)
    settle(sides)
    for side in sides:
        side.came.clear()
    return sent


def all_counted(sides: tuple[Side, Side], sent: int) -> list[dict[int, tuple[int, int]]]:
    """The counters of both, as soon as they have every frame, or after a while; the datapath then has no flows."""
    deadline = time.monotonic() + LATE_S
    while True:
        counts = [side.counts() for side in sides]
        if time.monotonic() > deadline or all(first_counts(side) == sent for side in counts):
            return [side.counts("purge") for side in sides]
        time.sleep(0.05)


def first_counts(counts: dict[int, tuple[int, int]]) -> int:
    """Packets of the flows that frames meet first: every frame meets one of them."""
    return sum(packets for priority, (packets, _) in counts.items() if priority < SECOND)


def judge_counts(
    sides: tuple[Side, Side], tables: tuple[Table, Table], counts: list[dict[int, tuple[int, int]]], sent: int
) -> list[str]:
    """Differences of the counters of flows."""
    left, right = counts
    found = []
    for priority in sorted(left.keys() | right.keys()):
        if left.get(priority) != right.get(priority):
            flows = [flow for table in tables for flow in table.flows if flow.startswith(f"priority={priority},")]
            reported = f"{sides[0].name}: {left.get(priority)}, {sides[1].name}: {right.get(priority)} (packets, bytes)"
            found.append(f"counters of {flows[-1]}: {reported}")
    for side, flows_of_it in zip(sides, (left, right), strict=True):
        counted = first_counts(flows_of_it)
        if counted != sent and not found:
            found.append(f"{side.name}: {sent} frames sent, {counted} counted by its flows")
    return found


def explain(sides: tuple[Side, Side], frames: list[tuple[int, bytes]], asked: argparse.Namespace) -> list[str]:
    """Sends each frame by itself; the first that make a difference, with what came out and the datapath's flows."""
    found: list[str] = []
    for number, (port, frame) in enumerate(frames):
        for side in sides:
            side.switch.appctl("revalidator/purge")
        for time_sent in range(1, asked.times + 1):
            for side in sides:
                side.came.clear()
                side.send(port, frame)
            if not settle(sides):
                words = [f"frame {number}, in_port={port + 1}, time {time_sent}: {frame.hex()}"]
                for side in sides:
                    out = [f"port {to + 1}: {data.hex()}" for (to, data), n in side.came.items() for _ in range(n)]
                    words += [f"  {side.name}: {'; '.join(out) or 'nothing'}", *indented(side.flows())]
                found.append("\n".join(words))
                break
        if len(found) == asked.show:
            break
    return found or ["no frame makes a difference when it is sent by itself"]


def indented(text: str) -> list[str]:
    """Lines, further to the right."""
    return [f"    {line}" for line in text.splitlines()]


def unlike(here: Counter[tuple[int, bytes]], there: Counter[tuple[int, bytes]]) -> list[str]:
    """The first frames that came on one side only."""
    return [
        f"  {side}: port {port + 1}: {frame.hex()}"
        for side, counter in (("without", here - there), ("with", there - here))
        for port, frame in list(counter)[:3]
    ]


def all_frames(packets: Packets, table: Table, asked: argparse.Namespace) -> Iterator[list[tuple[int, bytes]]]:
    """Random frames with their ports, all of them as many times as asked for."""
    frames = []
    for _ in range(asked.frames):
        port = packets.random.randrange(len(PORTS))
        frames.append((port, packets.frame(port, tunnels=0.7 if table.kind == "tunnel" else 0.0)))
    yield from [frames] * asked.times


def tracked_frames(seed: str, packets: Packets, asked: argparse.Namespace) -> Iterator[list[tuple[int, bytes]]]:
    """Frames of connections, in their order, and others between them that are not of IP."""
    connections = Connections(seed, max(asked.frames // 6, 1))
    for step in connections.steps():
        for _ in range(2):
            port = packets.random.randrange(len(PORTS))
            step.append((port, packets.not_ip(port)))
        yield step
    packets.kinds.update(connections.kinds)


def run_table(sides: tuple[Side, Side], number: int, asked: argparse.Namespace, found: Found) -> None:
    """One table, its frames, and what differs."""
    seed = f"{asked.seed}/{number}"
    table = Tables(seed, len(PORTS)).table()
    tables = planted(table, asked.plant) if asked.plant else (table, table)
    packets = Packets(seed, len(PORTS))
    if table.kind == "conntrack":
        batches = list(tracked_frames(seed, packets, asked))
    else:
        batches = list(all_frames(packets, table, asked))
    frames = [frame for batch in batches for frame in batch]
    for side, flows in zip(sides, tables, strict=True):
        side.load(flows)
    greeted = greet(sides, packets) if "normal" in table.flows[0] else 0
    for batch in batches:
        for port, frame in batch:
            for side in sides:
                side.send(port, frame)
        settle(sides)
    sent = len(frames)
    found.sent += sent
    found.tables[table.kind] += 1
    found.kinds.update(packets.kinds)
    total = sides[1].switch.offloaded()
    found.offloaded_in[table.kind] += total > found.offloaded
    found.offloaded = total
    several = sides[1].switch.offloaded("recirculated")
    found.several_in[table.kind] += several - found.several_in.total()
    found.edits.update(edits(sides[1].switch.appctl("dpctl/dump-flows", "-m", "type=offloaded")))
    counts = all_counted(sides, greeted + sent)
    same = settle(sides)
    found.came += sides[0].came.total()
    differences = judge_counts(sides, tables, counts, greeted + sent)
    connections = [side.connections() for side in sides]
    found.connections += len(connections[0])
    if connections[0] != connections[1]:
        only = [set(connections[index]) - set(connections[1 - index]) for index in range(2)]
        differences += [f"connections: {sides[0].name}: {sorted(only[0])}, {sides[1].name}: {sorted(only[1])}"]
    if not same:
        here, there = (side.came for side in sides)
        words = (
            f"{(here - there).total()} frames came only without offload or later, {(there - here).total()} only with"
        )
        more = [] if table.kind == "conntrack" else explain(sides, batches[0], asked)
        differences = [words, *unlike(here, there), *more, *differences]
    if differences:
        head = f"table {number} ({table.kind}), seed {asked.seed}:"
        flows = "\n".join(f"    {flow}" for flow in tables[1].flows)
        found.differences.append("\n".join([head, flows, *(f"  {line}" for line in differences)]))
        print(found.differences[-1], flush=True)


def run_all(asked: argparse.Namespace, stack: ExitStack, folder: Path) -> Found:
    """Both switches side by side, table after table."""
    sides = []
    for name, build, offload in (
        ("without" if asked.offload else "first", asked.other or asked.build, False),
        ("with" if asked.offload else "second", asked.build, asked.offload),
    ):
        here = folder / name
        here.mkdir()
        namespace, wires = stack.enter_context(ports(f"diff{os.getpid()}-{len(sides)}", len(PORTS)))
        settings = (*SETTINGS, f"other_config:hw-offload={str(offload).lower()}")
        switch = Switch(build.resolve(), here, namespace, ports=PORTS, requests=PORTS, settings=settings, options=DEBUG)
        stack.callback(switch.stop)
        switch.start()
        sides.append(Side(name, switch, wires))
        sides[-1].add_tunnels()
    found = Found()
    pair = (sides[0], sides[1])
    for number in range(-(-asked.packets // asked.frames)) if asked.table is None else (asked.table,):
        run_table(pair, number, asked, found)
        for side in sides:
            if not side.switch.alive():
                raise StormError(f"{side.name}: ovs-vswitchd ended in table {number}; its log is in {folder}")
        if len(found.differences) >= asked.stop_after:
            break
    for side in sides:
        if code := side.switch.stop():
            found.differences.append(f"{side.name}: ovs-vswitchd ended with {code}")
    reports = [path.read_text()[:2000] for path in folder.glob("*/asan.*")]
    found.differences += reports
    return found


def arguments(argv: list[str]) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--other", type=Path, metavar="DIR", help="for the side without offload; default: the same")
    parser.add_argument("--no-offload", dest="offload", action="store_false", help="on neither side")
    parser.add_argument("--packets", type=at_least(1), default=2000, help="different frames, over all tables")
    parser.add_argument("--frames", type=at_least(1), default=150, help="different ones to a table; a ring takes 256")
    parser.add_argument("--times", type=at_least(1), default=3, help="how often each is sent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", type=at_least(0), help="only the table with this number")
    parser.add_argument("--plant", choices=PLANTS, help="what the second side's catch-all does otherwise")
    parser.add_argument("--stop-after", type=at_least(1), default=3, metavar="N", help="tables with differences")
    parser.add_argument("--show", type=at_least(1), default=5, metavar="N", help="frames of each that are explained")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    asked = arguments(argv)
    builds = [build for build in (asked.build, asked.other) if build is not None]
    if not ready("offload_diff", builds):
        return 2
    folder = Path(tempfile.mkdtemp(prefix="ovs-diff-"))
    try:
        with ExitStack() as stack:
            found = run_all(asked, stack, folder)
    except FAILED as error:
        print(f"offload_diff: {error}; logs are in {folder}", file=sys.stderr)
        return 2
    if asked.offload and not found.differences:
        found.differences += not_offloaded(found.sent, found.offloaded, found.edits, found.several_in)
    print(f"{found.sent} frames in, {found.came} out, {found.tables.total()} tables: {dict(found.tables)}")
    print(f"frames: {dict(found.kinds.most_common())}")
    print(f"connections: {found.connections}")
    if asked.offload:
        print(f"offloaded: {found.offloaded} frames, in tables {dict(found.offloaded_in)}")
        print(f"several flows in XDP: {dict(+found.several_in)} frames")
        print(f"offloaded flows with {dict(found.edits)}")
    if found.differences:
        print(f"offload_diff: {len(found.differences)} differences, the last: {found.differences[-1]}", file=sys.stderr)
        print(f"offload_diff: seed {asked.seed}; logs are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    print("the same ports, the same bytes, the same counters")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
