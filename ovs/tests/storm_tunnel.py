# SPDX-License-Identifier: Apache-2.0
"""The far end of the VXLAN tunnel of `pipeline_storm.py` (RFC 7348)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from diff_packets import checksum
from frames import Wire
from lab import StormError

HERE, THERE = "172.31.0.1", "172.31.0.2"
HERE_MAC, THERE_MAC = "02:00:00:00:99:01", "02:00:00:00:99:02"
VNI = 7


class VxlanWire:
    """The far end of the tunnel: inner frames, on the wire of the underlay."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def send(self, frame: bytes) -> None:
        """Sends a frame to the tunnel."""
        length = 8 + 8 + len(frame)
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, 64, 17, 0, *map(address, (THERE, HERE)))
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        udp = struct.pack("!HHHHII", 49152 + sum(frame[34:36]), 4789, length, 0, 0x08 << 24, VNI << 8)
        macs = bytes.fromhex((HERE_MAC + THERE_MAC).replace(":", ""))
        self.wire.send(macs + b"\x08\0" + head + udp + frame)

    def receive(self) -> Iterator[bytes]:
        """Every inner frame that has come; raises StormError when an outer one is damaged."""
        for frame in self.wire.receive():
            outer = frame[14:50]
            if frame[12:14] != b"\x08\0" or frame[36:38] != struct.pack("!H", 4789):
                continue  # Open vSwitch asks for addresses by itself
            length = len(frame) - 14
            vni = (0x08 << 24, VNI << 8)
            sizes = (*struct.unpack("!H", outer[2:4]), *struct.unpack("!H", outer[24:26]))
            if checksum(outer[:20]) or sizes != (length, length - 20) or struct.unpack("!II", outer[28:]) != vni:
                raise StormError(f"outer headers of the tunnel are {outer.hex()}, of {length} bytes")
            yield frame[50:]


def address(text: str) -> bytes:
    """The bytes of an IPv4 address."""
    return bytes(map(int, text.split(".")))
