# SPDX-License-Identifier: Apache-2.0
"""Links and the XDP programs on them, asked of the kernel without starting a program; also in a named namespace."""

import ctypes
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

from xdplab.hosts import netdev_probe
from xdplab.hosts.netdev_probe import attribute, attributes

_CLONE_NEWNET = 0x40000000
_RTM_GETLINK, _NLM_F_REQUEST, _NLM_F_DUMP, _NLMSG_ERROR, _NLMSG_DONE = 18, 1, 0x300, 2, 3
#: linux/if_link.h
_IFLA_IFNAME, _IFLA_MTU, _IFLA_STATS64, _IFLA_XDP, _IFLA_XDP_ATTACHED, _IFLA_XDP_PROG_ID = 3, 4, 23, 43, 2, 4
#: linux/bpf.h
_PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD = 13, 15
_SYS_BPF = {"x86_64": 321, "aarch64": 280}
#: struct bpf_prog_info up to its `name`.
_PROG_INFO, _PROG_NAME = 80, slice(64, 80)
_libc = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


def attached(netns: str | None, ifname: str) -> tuple[int, int] | None:
    """Attach mode (`enum xdp_attached`) and program id; None when it carries none. `netns` None: the one we are in.

    Raises:
        OSError: there is no such interface, or no such namespace.
    """
    return _within(netns, partial(_attached, ifname))


class Link(NamedTuple):
    """A network interface."""

    mtu: int
    #: As `ip -json -s link` has them in `stats64`.
    counters: dict[str, dict[str, int]]


def links(netns: str | None) -> dict[str, Link]:
    """Each link by its name.

    Raises:
        OSError: there is no such namespace.
    """
    return _within(netns, _links)


def held_queues(netns: str | None, ifnames: list[str]) -> list[str]:
    """Those of the interfaces of which an AF_XDP socket has a queue; kernels before 6.15 tell of none.

    Raises:
        OSError: there is no such interface, or no such namespace.
    """
    return _within(netns, partial(netdev_probe.held_queues, ifnames))


def program_name(prog_id: int) -> str | None:
    """Name of an XDP program; None: this kernel or architecture does not tell it so."""
    number = _SYS_BPF.get(platform.machine())
    if number is None:
        return None
    fd = _libc.syscall(number, _PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("=I", prog_id), 128), 128)
    if fd < 0:
        return None
    try:
        info = ctypes.create_string_buffer(_PROG_INFO)
        asked = struct.pack("=IIQ", fd, _PROG_INFO, ctypes.addressof(info))
        if _libc.syscall(number, _OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(asked, 128), 128):
            return None
        return info.raw[_PROG_NAME].rstrip(b"\0").decode()
    finally:
        os.close(fd)


def _within(netns: str | None, ask: Callable[[], T]) -> T:
    if netns is None:
        return ask()
    with ThreadPoolExecutor(max_workers=1) as pool:  # a thread of its own, which ends there
        return pool.submit(_there, netns, ask).result()


def _there(netns: str, ask: Callable[[], T]) -> T:
    fd = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        if _libc.setns(fd, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return ask()
    finally:
        os.close(fd)


def _messages(sock: socket.socket) -> Iterator[bytes]:
    """Attributes of each link of a dump."""
    while True:
        answer = sock.recv(1 << 18)
        while answer:
            length, kind = struct.unpack_from("=IH", answer)
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                error = -struct.unpack_from("=i", answer, 16)[0]
                raise OSError(error, os.strerror(error))
            yield answer[32:length]
            answer = answer[length + (-length % 4) :]


def _links() -> dict[str, Link]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.send(struct.pack("=IHHII", 32, _RTM_GETLINK, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0) + bytes(16))
        found = [attributes(each) for each in _messages(sock)]
    return {
        each[_IFLA_IFNAME].rstrip(b"\0").decode(): Link(
            int.from_bytes(each[_IFLA_MTU], sys.byteorder), _counted(each[_IFLA_STATS64])
        )
        for each in found
    }


def _counted(data: bytes) -> dict[str, dict[str, int]]:
    """Of struct rtnl_link_stats64."""
    (rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped,
     multicast, collisions, _, over, _, _, _, _, _, carrier) = struct.unpack_from("=18Q", data)  # fmt: skip
    return {
        "rx": {"bytes": rx_bytes, "packets": rx_packets, "errors": rx_errors, "dropped": rx_dropped,
               "over_errors": over, "multicast": multicast},
        "tx": {"bytes": tx_bytes, "packets": tx_packets, "errors": tx_errors, "dropped": tx_dropped,
               "carrier_errors": carrier, "collisions": collisions},
    }  # fmt: skip


def _attached(ifname: str) -> tuple[int, int] | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        body = bytes(16) + attribute(_IFLA_IFNAME, ifname.encode() + b"\0")
        sock.send(struct.pack("=IHHII", 16 + len(body), _RTM_GETLINK, _NLM_F_REQUEST, 1, 0) + body)
        answer = sock.recv(1 << 16)
    if struct.unpack_from("=IH", answer)[1] == _NLMSG_ERROR:
        error = -struct.unpack_from("=i", answer, 16)[0]
        raise OSError(error, os.strerror(error))
    xdp = attributes(attributes(answer[32:]).get(_IFLA_XDP, b""))
    if _IFLA_XDP_PROG_ID not in xdp:
        return None
    return xdp[_IFLA_XDP_ATTACHED][0], struct.unpack("=I", xdp[_IFLA_XDP_PROG_ID])[0]
