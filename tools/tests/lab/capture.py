# SPDX-License-Identifier: Apache-2.0
"""Frames as they arrive at an interface: `python capture.py IFNAME COUNT SECONDS`, one line of hex for each.

Says `ready` first. The kernel hands a VLAN tag over next to the frame (PACKET_AUXDATA); it is put back in its place.
"""

import select
import socket
import struct
import sys
import time

_SOL_PACKET, _PACKET_AUXDATA, _TAG_VALID = 263, 8, 0x10
_OUTGOING = 4
_AUX = struct.Struct("=IIIHHHH")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    ifname, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
    sock.bind((ifname, 0))
    say("ready")
    deadline = time.monotonic() + seconds
    while count and select.select([sock], [], [], max(0.0, deadline - time.monotonic()))[0]:
        frame, extra, _, sender = sock.recvmsg(4096, 256)
        if sender[2] == _OUTGOING:
            continue
        for level, kind, data in extra:
            if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
                status, *_, tag, protocol = _AUX.unpack(data)
                if status & _TAG_VALID:
                    frame = frame[:12] + struct.pack("!HH", protocol or 0x8100, tag) + frame[12:]
        say(frame.hex())
        count -= 1


main()
