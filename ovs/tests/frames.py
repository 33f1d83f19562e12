# SPDX-License-Identifier: Apache-2.0
"""Ports of a switch and sockets at their far ends, in namespaces of their own: frames as they are on the wire."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lab import run

#: linux/if_packet.h
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6
AUXDATA = struct.Struct("=IIIHHHH")
ETH_P_ALL = 0x0003
BUFFER_BYTES = 32 << 20
CLONE_NEWNET = 0x40000000


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """The calling thread is in a network namespace; sockets made there stay in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"namespace {namespace}")
        yield
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


class Wire:
    """The far end of a port."""

    def __init__(self, namespace: str, link: str) -> None:
        with inside(namespace):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)  # SO_RCVBUFFORCE
        self.socket.bind((link, ETH_P_ALL))

    def fileno(self) -> int:
        """For select."""
        return self.socket.fileno()

    def send(self, frame: bytes) -> None:
        """Sends a frame of 14 bytes or more; OSError when the link is down."""
        self.socket.send(frame)

    def receive(self) -> Iterator[bytes]:
        """Every frame that has come, with the VLAN tag that the kernel took out."""
        while True:
            try:
                frame, auxiliary, _, _ = self.socket.recvmsg(65536, 64)
            except BlockingIOError:
                return
            yield with_tag(frame, auxiliary)


def with_tag(frame: bytes, auxiliary: Sequence[tuple[int, int, bytes]]) -> bytes:
    """A frame as it was on the wire: packet sockets have the outer VLAN tag beside the frame."""
    for level, kind, data in auxiliary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA) and len(data) >= AUXDATA.size:
            status, *_, tci, tpid = AUXDATA.unpack_from(data)
            if status & TP_STATUS_VLAN_VALID:
                tpid = tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                return frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def wait_readable(wires: Sequence[Wire], timeout_s: float) -> None:
    """Returns when there is a frame, or after that time."""
    select.select(wires, [], [], timeout_s)


@contextmanager
def ports(prefix: str, count: int, queues: int = 1) -> Iterator[tuple[str, list[Wire]]]:
    """Namespace with the ports d0, d1 ... of a switch, and their far ends t0, t1 ...; nothing else sends there.

    The far ends keep NAPI (by GRO), without which the kernel takes no frame that XDP redirects to a veth. With more
    than one of the ports' `queues` they send to two of them, by flow.
    """
    switch, tester = f"{prefix}-d", f"{prefix}-t"
    wires: list[Wire] = []
    try:
        for name in (switch, tester):
            run("ip", "netns", "add", name)
            for which in ("all", "default"):
                run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{which}.disable_ipv6=1")
        for index in range(count):
            near, far = ["name", f"d{index}", "netns", switch], ["name", f"t{index}", "netns", tester]
            many = [["numtxqueues", str(number), "numrxqueues", str(number)] for number in (min(queues, 2), queues)]
            run("ip", "link", "add", *far, *many[0], "type", "veth", "peer", *near, *many[1])
            for number, name, link in ((queues, switch, f"d{index}"), (min(queues, 2), tester, f"t{index}")):
                if queues > 1:
                    run("ip", "netns", "exec", name, "ethtool", "-L", link, "rx", str(number), "tx", str(number))
            for name, link in ((tester, f"t{index}"), (switch, f"d{index}")):
                run("ip", "netns", "exec", name, "ethtool", "-K", link, "tx", "off", "txvlan", "off", "gro", "on")
                run("ip", "-n", name, "link", "set", link, "arp", "off", "up")
            wires.append(Wire(tester, f"t{index}"))
        yield switch, wires
    finally:
        for wire in wires:
            wire.socket.close()
        for name in (switch, tester):
            run("ip", "netns", "del", name, check=False)
