#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernel says a driver can do with XDP: one JSON object, interface -> list of features.

Asks the generic netlink family `netdev` (Documentation/netlink/specs/netdev.yaml, kernel 6.3): what a driver registers
there is what it has, so nothing is guessed from its name. `null` in place of the object: the kernel is older.

With `--queue N`: interface -> the NAPI ids that serve queue N, `{"rx": 8193, "tx": 8194}`; `null` for one that the
kernel (before 6.8) or the driver does not tell.

Standard library only: it is also run on remote hosts.  Usage: netdev_probe.py [--queue N] IFNAME...
"""

import json
import socket
import struct
import sys

GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, NETDEV_A_DEV_XDP_FEATURES = 1, 1, 3
NETDEV_CMD_QUEUE_GET, NETDEV_A_QUEUE_ID, NETDEV_A_QUEUE_IFINDEX, NETDEV_A_QUEUE_TYPE, NETDEV_A_QUEUE_NAPI_ID = (
    10, 1, 2, 3, 4)  # fmt: skip
QUEUE_TYPES = {"rx": 0, "tx": 1}
NETLINK_GENERIC, NLM_F_REQUEST, NLMSG_ERROR = 16, 1, 2
#: enum netdev_xdp_act of linux/netdev.h, lowest bit first.
FEATURES = ("basic", "redirect", "ndo-xmit", "xsk-zerocopy", "hw-offload", "rx-sg", "ndo-xmit-sg")


def _attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def _attributes(data: bytes) -> "dict[int, bytes]":
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
    return _attributes(answer[20:])


def _family(sock: socket.socket) -> "int | None":
    """Number of the family `netdev`; None when the kernel has no such."""
    found = _ask(sock, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, _attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0"))
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
            told = _ask(sock, number, NETDEV_CMD_DEV_GET, _attribute(NETDEV_A_DEV_IFINDEX, index)) or {}
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
    request = b"".join(_attribute(key, struct.pack("=I", value)) for key, value in wanted.items())
    told = (_ask(sock, family, NETDEV_CMD_QUEUE_GET, request) or {}).get(NETDEV_A_QUEUE_NAPI_ID)
    return int.from_bytes(told, sys.byteorder) if told else None


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--queue"]:
            print(json.dumps(queue_napis(sys.argv[3:], int(sys.argv[2]))))
        else:
            print(json.dumps(features(sys.argv[1:])))
    except OSError as exc:
        sys.exit(f"netdev_probe: {exc.strerror}")
