#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernel says a driver can do with XDP: one JSON object, interface -> list of features. And NAPI's settings.

Asks the generic netlink family `netdev` (Documentation/netlink/specs/netdev.yaml, kernel 6.3): what a driver registers
there is what it has, so nothing is guessed from its name. `null` in place of the object: the kernel is older.

With `--queue N`: interface -> the NAPI ids that serve queue N, `{"rx": 8193, "tx": 8194}`; `null` for one that the
kernel (before 6.8) or the driver does not tell.

With `--suspend`: interface -> irq-suspend-timeout in ns of each of its NAPIs, lowest id first; `null` where the kernel
(before 6.13) has none. With `--suspend NS,NS...` they are set first; the last number stands for all that follow.

Standard library only: it is also run on remote hosts.
Usage: netdev_probe.py [--queue N | --suspend [NS,...]] IFNAME...
"""

import json
import os
import socket
import struct
import sys

GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, NETDEV_A_DEV_XDP_FEATURES = 1, 1, 3
NETDEV_CMD_QUEUE_GET, NETDEV_A_QUEUE_ID, NETDEV_A_QUEUE_IFINDEX, NETDEV_A_QUEUE_TYPE, NETDEV_A_QUEUE_NAPI_ID = (
    10, 1, 2, 3, 4)  # fmt: skip
NETDEV_A_QUEUE_XSK = 7
NETDEV_CMD_NAPI_GET, NETDEV_CMD_NAPI_SET = 11, 14
NETDEV_A_NAPI_IFINDEX, NETDEV_A_NAPI_ID, NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT = 1, 2, 7
QUEUE_TYPES = {"rx": 0, "tx": 1}
NETLINK_GENERIC, NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLMSG_ERROR, NLMSG_DONE = 16, 1, 4, 0x300, 2, 3
#: enum netdev_xdp_act of linux/netdev.h, lowest bit first.
FEATURES = ("basic", "redirect", "ndo-xmit", "xsk-zerocopy", "hw-offload", "rx-sg", "ndo-xmit-sg")


def attribute(kind: int, data: bytes) -> bytes:
    """One attribute of a netlink message."""
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def attributes(data: bytes) -> "dict[int, bytes]":
    """The attributes of a netlink message, or within one, by kind."""
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[length + (-length % 4) :]
    return found


def _ask(sock: socket.socket, family: int, command: int, attribute: bytes) -> "dict[int, bytes] | None":
    """The attributes of the answer; None when the kernel answers with an error."""
    body = struct.pack("=BBH", command, 1, 0) + attribute
    sock.send(struct.pack("=IHHII", 16 + len(body), family, NLM_F_REQUEST, 1, 0) + body)
    answer = sock.recv(65536)
    if struct.unpack_from("=IH", answer)[1] == NLMSG_ERROR:
        return None
    return attributes(answer[20:])


def _family(sock: socket.socket) -> "int | None":
    """Number of the family `netdev`; None when the kernel has no such."""
    found = _ask(sock, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0"))
    return int.from_bytes(found[CTRL_ATTR_FAMILY_ID], sys.byteorder) if found else None


def features(names: "list[str]") -> "dict[str, list[str]] | None":
    """Interface -> what its driver can do; None when the kernel does not tell."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as sock:
        sock.bind((0, 0))
        number = _family(sock)
        if number is None:
            return None
        found = {}
        for name in names:
            index = struct.pack("=I", socket.if_nametoindex(name))
            told = _ask(sock, number, NETDEV_CMD_DEV_GET, attribute(NETDEV_A_DEV_IFINDEX, index)) or {}
            bits = struct.unpack("=Q", told.get(NETDEV_A_DEV_XDP_FEATURES, bytes(8)))[0]
            found[name] = [feature for bit, feature in enumerate(FEATURES) if bits & 1 << bit]
        return found


def queue_napis(names: "list[str]", queue: int) -> "dict[str, dict[str, int | None]]":
    """Interface -> direction -> NAPI id of a queue; None where it is not told."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as sock:
        sock.bind((0, 0))
        number = _family(sock)
        return {name: {way: _napi(sock, number, name, kind, queue) for way, kind in QUEUE_TYPES.items()}
                for name in names}  # fmt: skip


def _napi(sock: socket.socket, family: "int | None", name: str, kind: int, queue: int) -> "int | None":
    if family is None:
        return None
    wanted = {NETDEV_A_QUEUE_IFINDEX: socket.if_nametoindex(name), NETDEV_A_QUEUE_TYPE: kind, NETDEV_A_QUEUE_ID: queue}
    request = b"".join(attribute(key, struct.pack("=I", value)) for key, value in wanted.items())
    told = (_ask(sock, family, NETDEV_CMD_QUEUE_GET, request) or {}).get(NETDEV_A_QUEUE_NAPI_ID)
    return int.from_bytes(told, sys.byteorder) if told else None


def _napis(sock: socket.socket, family: int, ifindex: int) -> "list[dict[int, bytes]]":
    """Attributes of each NAPI of an interface, lowest id first; [] when the kernel lists none."""
    found = _dump(sock, family, NETDEV_CMD_NAPI_GET, attribute(NETDEV_A_NAPI_IFINDEX, struct.pack("=I", ifindex)))
    return sorted(found, key=lambda napi: napi[NETDEV_A_NAPI_ID])


def _dump(sock: socket.socket, family: int, command: int, wanted: bytes) -> "list[dict[int, bytes]]":
    """Attributes of each thing that the kernel lists."""
    body = struct.pack("=BBH", command, 1, 0) + wanted
    sock.send(struct.pack("=IHHII", 16 + len(body), family, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
    found: "list[dict[int, bytes]]" = []
    while True:
        answer, offset = sock.recv(65536), 0
        while offset < len(answer):
            length, kind = struct.unpack_from("=IH", answer, offset)
            if kind in (NLMSG_ERROR, NLMSG_DONE):
                return found
            found.append(attributes(answer[offset + 20 : offset + length]))
            offset += length + (-length % 4)


def held_queues(names: "list[str]") -> "list[str]":
    """Those of the interfaces of which an AF_XDP socket has a queue; kernels before 6.15 tell of none."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as sock:
        sock.bind((0, 0))
        family = _family(sock)
        found = []
        for name in names if family is not None else []:
            index = attribute(NETDEV_A_QUEUE_IFINDEX, struct.pack("=I", socket.if_nametoindex(name)))
            if any(NETDEV_A_QUEUE_XSK in queue for queue in _dump(sock, family or 0, NETDEV_CMD_QUEUE_GET, index)):
                found.append(name)
        return found


def suspend_timeouts(names: "list[str]", wanted_ns: "list[int]") -> "dict[str, list[int] | None]":
    """Interface -> irq-suspend-timeout (ns) of its NAPIs, after setting them when `wanted_ns` is given; see above."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as sock:
        sock.bind((0, 0))
        family = _family(sock)
        if family is None:
            return dict.fromkeys(names)
        found: "dict[str, list[int] | None]" = {}
        for name in names:
            index = socket.if_nametoindex(name)
            for number, napi in enumerate(_napis(sock, family, index) if wanted_ns else []):
                _suspend(sock, family, napi[NETDEV_A_NAPI_ID], wanted_ns[min(number, len(wanted_ns) - 1)])
            told = [napi.get(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT) for napi in _napis(sock, family, index)]
            known = [int.from_bytes(each, sys.byteorder) for each in told if each is not None]
            found[name] = known if known and len(known) == len(told) else None
        return found


def _suspend(sock: socket.socket, family: int, napi: bytes, timeout_ns: int) -> None:
    attributes = attribute(NETDEV_A_NAPI_ID, napi)
    attributes += attribute(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, struct.pack("=I", timeout_ns))
    body = struct.pack("=BBH", NETDEV_CMD_NAPI_SET, 1, 0) + attributes
    sock.send(struct.pack("=IHHII", 16 + len(body), family, NLM_F_REQUEST | NLM_F_ACK, 1, 0) + body)
    code = struct.unpack_from("=i", sock.recv(65536), 16)[0]
    if code:
        raise OSError(-code, os.strerror(-code))


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--suspend"]:
            given = [int(each) for each in sys.argv[2].split(",")] if sys.argv[2][:1].isdigit() else []
            print(json.dumps(suspend_timeouts(sys.argv[3:] if given else sys.argv[2:], given)))
        elif sys.argv[1:2] == ["--queue"]:
            print(json.dumps(queue_napis(sys.argv[3:], int(sys.argv[2]))))
        else:
            print(json.dumps(features(sys.argv[1:])))
    except OSError as exc:
        sys.exit(f"netdev_probe: {exc.strerror}")
