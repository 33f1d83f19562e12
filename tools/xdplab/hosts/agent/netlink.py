# SPDX-License-Identifier: Apache-2.0
"""Links, XDP programs, queues and NAPIs, asked of the kernel by netlink, in the network namespace of the caller.

What a driver can do with XDP is what it has registered with the generic netlink family `netdev`
(Documentation/netlink/specs/netdev.yaml, kernel 6.3): nothing is guessed from its name.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

ROUTE, _NETLINK_GENERIC = 0, 16
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_DUMP, _NLMSG_ERROR, _NLMSG_DONE = 1, 4, 0x300, 2, 3
#: Where among attributes an answer's family header is: the kernel numbers them from 1 on.
HEADER = 0
#: linux/if_link.h
_RTM_GETLINK = 18
_IFLA_IFNAME, _IFLA_MTU, _IFLA_STATS64, _IFLA_XDP, _IFLA_XDP_ATTACHED, _IFLA_XDP_PROG_ID = 3, 4, 23, 43, 2, 4
_XDP_MODES = {1: "native", 2: "generic", 3: "offload", 4: "multi"}
#: linux/bpf.h; struct bpf_prog_info up to its `name`.
_PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD = 13, 15
_SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_PROG_INFO, _PROG_NAME = 80, slice(64, 80)
#: linux/netdev.h
_CTRL, _CTRL_CMD_GETFAMILY, _CTRL_ATTR_FAMILY_ID, _CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
_DEV_GET, _DEV_IFINDEX, _DEV_XDP_FEATURES = 1, 1, 3
_QUEUE_GET, _QUEUE_ID, _QUEUE_IFINDEX, _QUEUE_TYPE, _QUEUE_NAPI_ID, _QUEUE_XSK = 10, 1, 2, 3, 4, 7
_NAPI_GET, _NAPI_SET, _NAPI_IFINDEX, _NAPI_ID, _NAPI_IRQ_SUSPEND_TIMEOUT = 11, 14, 1, 2, 7
_QUEUE_TYPES = {"rx": 0, "tx": 1}
#: linux/sock_diag.h, linux/xdp_diag.h: struct xdp_diag_msg, and of struct xdp_diag_info interface and queue.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _AF_XDP, _SHOW_INFO, _DIAG_INFO, _DIAG_HEADER_BYTES = 4, 20, 44, 1, 1, 16
_ANY_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)
#: enum netdev_xdp_act, lowest bit first.
_FEATURES = ("basic", "redirect", "ndo-xmit", "xsk-zerocopy", "hw-offload", "rx-sg", "ndo-xmit-sg")
_libc = ctypes.CDLL(None, use_errno=True)


class Link(NamedTuple):
    """A network interface."""

    mtu: int
    #: As `ip -json -s link` has them in `stats64`.
    counters: dict[str, dict[str, int]]
    ifindex: int = 0
    #: Id of its XDP program; 0: it has none.
    xdp: int = 0


class XdpAttachment(NamedTuple):
    """The XDP program on an interface, as the kernel reports it."""

    mode: str
    prog_id: int
    prog_name: str


def links() -> dict[str, Link]:
    found = list(ask(ROUTE, _RTM_GETLINK, bytes(16), 16, dump=True))
    return {
        each[_IFLA_IFNAME].rstrip(b"\0").decode(): Link(
            number_of(each[_IFLA_MTU]),
            _counters(each[_IFLA_STATS64]),
            number_of(each[HEADER][4:8]),
            number_of(attributes_of(each.get(_IFLA_XDP, b"")).get(_IFLA_XDP_PROG_ID, b"")),
        )
        for each in found
    }


def xdp(ifname: str) -> XdpAttachment | None:
    """The XDP program of an interface."""
    body = bytes(16) + attribute(_IFLA_IFNAME, ifname.encode() + b"\0")
    (link,) = ask(ROUTE, _RTM_GETLINK, body, 16)
    attributes = attributes_of(link.get(_IFLA_XDP, b""))
    if _IFLA_XDP_PROG_ID not in attributes:
        return None
    prog_id = number_of(attributes[_IFLA_XDP_PROG_ID])
    return XdpAttachment(_XDP_MODES.get(attributes[_IFLA_XDP_ATTACHED][0], "none"), prog_id, _program_name(prog_id))


def features(ifname: str) -> list[str] | None:
    """What its driver can do; None when the kernel does not tell."""
    with _netdev() as family:
        if family is None:
            return None
        try:
            (attributes,) = _netdev_ask(family, _DEV_GET, {_DEV_IFINDEX: socket.if_nametoindex(ifname)})
        except OSError:
            return []
    bits = number_of(attributes.get(_DEV_XDP_FEATURES, b""))
    return [feature for bit, feature in enumerate(_FEATURES) if bits & 1 << bit]


def held_queues(ifnames: Sequence[str]) -> list[str] | None:
    """Those of the interfaces of which an AF_XDP socket has a queue; None: kernels before 6.15 do not tell."""
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 15):
        return None
    with _netdev() as family:
        queues = {
            name: _netdev_ask(family or 0, _QUEUE_GET, {_QUEUE_IFINDEX: socket.if_nametoindex(name)}, dump=True)
            for name in ifnames
        }
    return [name for name, found in queues.items() if any(_QUEUE_XSK in queue for queue in found)]


def xsk_queues(ifname: str) -> list[int] | None:
    """Its receive queues that AF_XDP sockets have; None: a kernel before 6.15, without xsk_diag, does not tell."""
    if held_queues(()) is None:
        try:
            return _queues_by_diag(ifname)
        except OSError:
            return None
    with _netdev() as family:
        found = _netdev_ask(family or 0, _QUEUE_GET, {_QUEUE_IFINDEX: socket.if_nametoindex(ifname)}, dump=True)
    receive = [each for each in found if _QUEUE_XSK in each and not number_of(each[_QUEUE_TYPE])]
    return sorted(number_of(each[_QUEUE_ID]) for each in receive)


def _queues_by_diag(ifname: str) -> list[int]:
    """The same by sock_diag(7), for which Debian's kernels load a module (linux/xdp_diag.h).

    Raises:
        OSError: there is none.
    """
    index, asked = socket.if_nametoindex(ifname), struct.pack("=2BH4I", _AF_XDP, 0, 0, 0, _SHOW_INFO, *_ANY_COOKIE)
    found = ask(_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, asked, _DIAG_HEADER_BYTES, dump=True)
    places = [struct.unpack_from("=2I", each[_DIAG_INFO]) for each in found if _DIAG_INFO in each]
    return sorted({queue for at, queue in places if at == index})


def queue_napis(ifname: str, queue: int) -> dict[str, int | None]:
    """Direction -> NAPI id of a queue."""
    found: dict[str, int | None] = dict.fromkeys(_QUEUE_TYPES)
    index = socket.if_nametoindex(ifname)
    with _netdev() as family:
        for way, kind in _QUEUE_TYPES.items() if family is not None else ():
            try:
                wanted = {_QUEUE_IFINDEX: index, _QUEUE_TYPE: kind, _QUEUE_ID: queue}
                (attributes,) = _netdev_ask(family or 0, _QUEUE_GET, wanted)
            except OSError:
                continue
            if _QUEUE_NAPI_ID in attributes:
                found[way] = number_of(attributes[_QUEUE_NAPI_ID])
    return found


def suspend_timeouts(ifname: str, wanted_ns: Sequence[int] = ()) -> list[int] | None:
    """irq-suspend-timeout (ns) of its NAPIs, lowest id first; None where kernel (before 6.13) or driver has none.

    `wanted_ns` is set first; its last number stands for all that follow.
    """
    index = socket.if_nametoindex(ifname)
    with _netdev() as family:
        if family is None:
            return None
        for number, napi in enumerate(_napis(family, index) if wanted_ns else ()):
            timeout_ns = wanted_ns[min(number, len(wanted_ns) - 1)]
            wanted = {_NAPI_ID: number_of(napi[_NAPI_ID]), _NAPI_IRQ_SUSPEND_TIMEOUT: timeout_ns}
            _netdev_ask(family, _NAPI_SET, wanted, acknowledged=True)
        attributes = [napi.get(_NAPI_IRQ_SUSPEND_TIMEOUT) for napi in _napis(family, index)]
    known = [number_of(each) for each in attributes if each is not None]
    return known if known and len(known) == len(attributes) else None


def _napis(family: int, index: int) -> list[dict[int, bytes]]:
    found = _netdev_ask(family, _NAPI_GET, {_NAPI_IFINDEX: index}, dump=True)
    return sorted(found, key=lambda napi: napi[_NAPI_ID])


@contextmanager
def _netdev() -> Iterator[int | None]:
    """Number of the family `netdev`; None when the kernel has no such."""
    name = attribute(_CTRL_ATTR_FAMILY_NAME, b"netdev\0")
    try:
        (found,) = ask(_NETLINK_GENERIC, _CTRL, struct.pack("=BBH", _CTRL_CMD_GETFAMILY, 1, 0) + name, 4)
    except OSError:
        yield None
    else:
        yield number_of(found[_CTRL_ATTR_FAMILY_ID])


def _netdev_ask(
    family: int, command: int, wanted: dict[int, int], *, dump: bool = False, acknowledged: bool = False
) -> list[dict[int, bytes]]:
    """A command of the family with attributes of 32 bits; a dump that the kernel refuses lists nothing."""
    body = struct.pack("=BBH", command, 1, 0)
    body += b"".join(attribute(key, struct.pack("=I", value)) for key, value in wanted.items())
    try:
        return list(ask(_NETLINK_GENERIC, family, body, 4, dump=dump, acknowledged=acknowledged))
    except OSError:
        if dump:
            return []
        raise


def ask(
    protocol: int,
    kind: int,
    body: bytes,
    header: int,
    *,
    dump: bool = False,
    acknowledged: bool = False,
    flags: int = 0,
) -> Iterator[dict[int, bytes]]:
    """Attributes of each answer, and the family header of so many bytes before them.

    Raises:
        OSError: what the kernel answers with.
    """
    flags |= _NLM_F_REQUEST | (_NLM_F_DUMP if dump else 0) | (_NLM_F_ACK if acknowledged else 0)
    with closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)) as sock:
        sock.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        while True:
            answer = sock.recv(1 << 18)
            while answer:
                length, found = struct.unpack_from("=IH", answer)
                if found == _NLMSG_ERROR:
                    error = -struct.unpack_from("=i", answer, 16)[0]
                    if error:
                        raise OSError(error, os.strerror(error))
                if found in (_NLMSG_ERROR, _NLMSG_DONE):
                    return
                yield {HEADER: answer[16 : 16 + header], **attributes_of(answer[16 + header : length])}
                answer = answer[length + (-length % 4) :]
            if not dump:
                return


def attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def attributes_of(data: bytes) -> dict[int, bytes]:
    """The attributes of a message, or within one, by kind."""
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[length + (-length % 4) :]
    return found


def number_of(data: bytes) -> int:
    return int.from_bytes(data, sys.byteorder)  # type: ignore[arg-type, unused-ignore]


def _counters(data: bytes) -> dict[str, dict[str, int]]:
    (rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped,
     multicast, collisions, _, over, _, _, _, _, _, carrier) = struct.unpack_from("=18Q", data)  # fmt: skip
    return {
        "rx": {"bytes": rx_bytes, "packets": rx_packets, "errors": rx_errors, "dropped": rx_dropped,
               "over_errors": over, "multicast": multicast},
        "tx": {"bytes": tx_bytes, "packets": tx_packets, "errors": tx_errors, "dropped": tx_dropped,
               "carrier_errors": carrier, "collisions": collisions},
    }  # fmt: skip


def _program_name(prog_id: int) -> str:
    """Name of an XDP program; empty where this user, kernel or architecture does not tell it."""
    number = _SYS_BPF.get(platform.machine())
    if number is None:
        return ""
    fd = _libc.syscall(number, _PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("=I", prog_id), 128), 128)
    if fd < 0:
        return ""
    try:
        info = ctypes.create_string_buffer(_PROG_INFO)
        asked = struct.pack("=IIQ", fd, _PROG_INFO, ctypes.addressof(info))
        if _libc.syscall(number, _OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(asked, 128), 128):
            return ""
        return info.raw[_PROG_NAME].rstrip(b"\0").decode()
    finally:
        os.close(fd)
