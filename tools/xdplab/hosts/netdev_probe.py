#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernel says a driver can do with XDP: one JSON object, interface -> list of features.

Asks the generic netlink family `netdev` (Documentation/netlink/specs/netdev.yaml, kernel 6.3): what a driver registers
there is what it has, so nothing is guessed from its name. `null` in place of the object: the kernel is older.

Standard library only: it is also run on remote hosts.  Usage: netdev_probe.py IFNAME...
"""

import json
import socket
import struct
import sys

GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, NETDEV_A_DEV_XDP_FEATURES = 1, 1, 3
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


def features(names: "list[str]") -> "dict[str, list[str]] | None":
    """Interface -> what its driver can do; None when the kernel has no such family."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as sock:
        sock.bind((0, 0))
        family = _ask(sock, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, _attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0"))
        if family is None:
            return None
        number = struct.unpack("=H", family[CTRL_ATTR_FAMILY_ID])[0]
        found = {}
        for name in names:
            index = struct.pack("=I", socket.if_nametoindex(name))
            told = _ask(sock, number, NETDEV_CMD_DEV_GET, _attribute(NETDEV_A_DEV_IFINDEX, index)) or {}
            bits = struct.unpack("=Q", told.get(NETDEV_A_DEV_XDP_FEATURES, bytes(8)))[0]
            found[name] = [feature for bit, feature in enumerate(FEATURES) if bits & 1 << bit]
        return found


if __name__ == "__main__":
    try:
        print(json.dumps(features(sys.argv[1:])))
    except OSError as exc:
        sys.exit(f"netdev_probe: {exc.strerror}")
