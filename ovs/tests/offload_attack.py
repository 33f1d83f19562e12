#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201
"""What others must not be able to do to flows in XDP: a device that refuses frames, a small peer, a crowd of flows.

    ovs/tests/offload_attack.py --build "$(ovs/build | tail -1)"

- refused: while the daemon is stopped, the peer of the output loses NAPI, and refuses what XDP sends. All but the
  frames of one NAPI poll arrive, and each OpenFlow flow counts exactly those that arrived.
- mtu: the peer of the output gets a smaller MTU. Larger frames go to the socket, and XDP loses none.
- crowd: every frame is of a new flow, for longer than the table takes to fill. A bulk flow that begins then gets its
  place in XDP.
Exit code: 0 passed, 1 failed, 2 it could not run.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from frames import Wire, ports
from lab import FAILED, StormError, Switch, ready, run, wait_for
from storm_traffic import headers

POLL = 64  # frames of one NAPI poll
ENTRIES, FEWEST_IN_XDP = 1024, 0.6
BULK = 50_000  # the flow
#: Makes megaflows that have the UDP source port.
OF_PORTS = "in_port=1,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:2"


class Lab:
    """Open vSwitch between two ports, its flows, and both far ends."""

    def __init__(self, switch: Switch, namespace: str, wires: list[Wire]) -> None:
        self.switch = switch
        self.namespace = namespace
        self.wires = wires

    def send(self, count: int, size: int = 64, flow: int = 1) -> None:
        """Frames of a flow, some thousand in a second."""
        for _ in range(count):
            self.wires[0].send(frame(flow, size))
            time.sleep(0.0003)

    def arrived(self) -> int:
        """Frames since the last call."""
        return len(list(self.wires[1].receive()))

    def counted(self) -> int:
        """By the OpenFlow flows."""
        self.switch.appctl("revalidator/wait")
        return sum(map(int, re.findall(r"n_packets=(\d+)", self.switch.ofctl("dump-flows"))))

    def in_xdp(self, port: str, counter: str) -> int:
        """A counter of the XDP program of a port."""
        counters = self.switch.show()[port]["xdp-flows"]
        if counter not in counters:
            raise StormError(f"this build has no counter {counter} of flows in XDP")
        return int(counters[counter])

    def asked_kernel(self) -> int:
        """Netlink messages that the daemon has sent."""
        return int(self.switch.appctl("coverage/read-counter", "netlink_sent"))

    def offload(self) -> None:
        """Returns when the flow of `send` is in XDP."""
        before = self.in_xdp("d0", "packets")

        def offloaded() -> bool:
            self.send(10)
            return self.in_xdp("d0", "packets") > before

        wait_for(offloaded, "the flow was not offloaded")
        time.sleep(0.5)
        self.arrived()


def frame(flow: int, size: int = 64) -> bytes:
    """A UDP frame without checksums; the flow is its source port."""
    whole = bytearray(headers(0).ljust(size, b"\0"))
    struct.pack_into("!H", whole, 16, size - 14)
    struct.pack_into("!HHHH", whole, 34, 1024 + flow, 1, size - 34, 0)
    return bytes(whole)


@contextmanager
def laboratory(build: Path, options: tuple[str, ...] = ()) -> Iterator[Lab]:
    """A new daemon with offload, and ports to which XDP can send."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ovs-attack-")))
        prefix = f"attack{os.getpid()}"
        namespace, wires = stack.enter_context(ports(prefix, 2))
        switch = Switch(build.resolve(), folder, namespace, settings=("other_config:hw-offload=true",))
        stack.callback(switch.stop)
        switch.start()
        if "xdp-flows" not in switch.show()["d0"]:
            raise StormError("this build has no flows in XDP")
        for port in ("d0", "d1"):
            switch.vsctl("set", "interface", port, *options) if options else None
        switch.ofctl("del-flows")
        switch.ofctl("add-flow", OF_PORTS)
        yield Lab(switch, f"{prefix}-t", wires)


def refused(build: Path) -> str:
    """A device that refuses what XDP sends."""
    sent = 1000
    with laboratory(build) as lab:
        lab.offload()
        before = lab.counted()
        assert lab.switch.daemon is not None
        lab.switch.daemon.send_signal(signal.SIGSTOP)
        try:
            run("ip", "netns", "exec", lab.namespace, "ethtool", "-K", "t1", "gro", "off")
            lab.send(sent)
        finally:
            lab.switch.daemon.send_signal(signal.SIGCONT)
        came = 0

        def settled() -> bool:
            nonlocal came
            more = lab.arrived()
            came += more
            return came > 0 and not more

        wait_for(settled, f"of {sent} frames none arrived")
        time.sleep(1)
        came += lab.arrived()
        if came < sent - POLL:
            raise StormError(f"refused: of {sent} frames {came} arrived")
        wait_for(lambda: lab.counted() - before == came, f"refused: {came} arrived, {lab.counted() - before} counted")
        before = lab.asked_kernel()
        time.sleep(5)
        if (asked := lab.asked_kernel() - before) > 12:
            raise StormError(f"refused: the kernel was asked {asked} times in 5 s, and nothing had changed")
        return f"{came} of {sent} frames arrived, and were counted"


def mtu(build: Path) -> str:
    """A peer with a smaller MTU."""
    sent = 200
    with laboratory(build) as lab:
        lab.offload()
        run("ip", "-n", lab.namespace, "link", "set", "t1", "mtu", "1000")
        wait_for(lambda: lab.in_xdp("d1", "max_len") == 1018, "mtu: nobody noticed the MTU of the peer")
        before = lab.in_xdp("d0", "unsendable")
        lab.send(sent, 1100)
        wait_for(lambda: lab.in_xdp("d0", "unsendable") - before == sent, "mtu: large frames did not go to the socket")
        if lost := lab.in_xdp("d0", "lost"):
            raise StormError(f"mtu: XDP lost {lost} frames")
        return f"{sent} frames above the peer's MTU went to the socket"


def crowd(build: Path) -> str:
    """Others' new flows, and a bulk flow that comes later."""
    with laboratory(build, (f"options:xdp-flow-entries={ENTRIES}",)) as lab:
        new = iter(range(2, BULK))

        def attack(seconds: float, bulk: int = 0) -> int:
            """New flows, and so many frames of the bulk flow after each; how many of these were sent."""
            until, sent = time.monotonic() + seconds, 0
            while time.monotonic() < until:
                lab.wires[0].send(frame(next(new)))
                for _ in range(bulk):
                    lab.wires[0].send(frame(BULK))
                    sent += 1
                time.sleep(0.0005)
                lab.arrived()
            return sent

        attack(3)
        wait_for(lambda: lab.in_xdp("d0", "n_flows") == ENTRIES, "crowd: the table is not full")
        before = lab.in_xdp("d0", "packets")
        sent = attack(5, 3)
        share = (lab.in_xdp("d0", "packets") - before) / sent
        if share < FEWEST_IN_XDP:
            raise StormError(f"crowd: {share:.0%} of the bulk flow's first {sent} frames met a flow in XDP")
        return f"{share:.0%} of the first {sent} frames of a bulk flow met a flow in XDP, the table being full"


ATTACKS: dict[str, Callable[[Path], str]] = {"refused": refused, "mtu": mtu, "crowd": crowd}


def main(argv: list[str]) -> int:
    """Does what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="result folder of ovs/build")
    parser.add_argument("--only", choices=ATTACKS, action="append", help="default: all")
    asked = parser.parse_args(argv)
    if not ready("offload_attack", (asked.build,)):
        return 2
    code = 0
    for name in asked.only or ATTACKS:
        try:
            print(f"{name}: {ATTACKS[name](asked.build)}", flush=True)
        except StormError as error:
            print(f"offload_attack: {error}", file=sys.stderr)
            code = 1
        except FAILED as error:
            print(f"offload_attack: {name}: {error}", file=sys.stderr)
            return 2
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
