#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends single frames by an interface and tells which come in there: frames are hexadecimal, one a line.

Usage: frame_probe.py IFNAME MARK; only frames that hold MARK (hexadecimal) are reported. "ready" comes first. Ends with
its standard input. A VLAN tag that the kernel took off (packet(7), PACKET_AUXDATA) is put back.

Standard library only: it is also run on remote hosts.
"""

import os
import select
import socket
import struct
import sys

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA = 0x0003, 263, 8
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6
ETH_P_8021Q = 0x8100
AUXDATA = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata of linux/if_packet.h


def received(sock: socket.socket) -> "bytes | None":
    """The next frame, with its tag; None: one that this host sent."""
    data, ancillary, _, address = sock.recvmsg(65536, socket.CMSG_SPACE(AUXDATA.size))
    if address[2] == socket.PACKET_OUTGOING:
        return None
    for level, kind, payload in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, *_, tci, tpid = AUXDATA.unpack_from(payload)
            if status & TP_STATUS_VLAN_VALID:
                ethertype = tpid if status & TP_STATUS_VLAN_TPID_VALID else ETH_P_8021Q
                data = data[:12] + struct.pack("!HH", ethertype, tci) + data[12:]
    return data


def main(ifname: str, mark: bytes) -> None:
    """Until the end of standard input."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as sock:
        sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        sock.bind((ifname, ETH_P_ALL))
        print("ready", flush=True)
        asked = b""
        while True:
            readable, _, _ = select.select([0, sock.fileno()], [], [])
            if sock.fileno() in readable:
                frame = received(sock)
                if frame and mark in frame:
                    print(frame.hex(), flush=True)
            if 0 in readable:
                more = os.read(0, 65536)
                if not more:
                    return
                *lines, asked = (asked + more).split(b"\n")
                for line in lines:
                    sock.send(bytes.fromhex(line.decode()))


if __name__ == "__main__":
    try:
        main(sys.argv[1], bytes.fromhex(sys.argv[2]))
    except OSError as exc:
        sys.exit(f"frame_probe: {exc.strerror}")
