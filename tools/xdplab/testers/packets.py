# SPDX-License-Identifier: Apache-2.0
"""Frames as scapy builds and reads them: the one description of headers that all testers send.

TRex is given the bytes built here. xdpgen writes its headers inside the kernel; `Headers` is what both are told, and a
test compares what arrives on the wire with what is built here. Imports nothing of xdplab, so that TRex's own Python
with its own older scapy can use it as well (`trex/profiles`).
"""

import ipaddress
from dataclasses import dataclass
from typing import Any

FCS_BYTES = 4
VXLAN_PORT = 4789
_TTL = 64


@dataclass(frozen=True)
class Vxlan:
    """An outer Ethernet, IPv4, UDP and VXLAN header around a frame (RFC 7348)."""

    vni: int
    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    udp_src: int = 49152


@dataclass(frozen=True)
class Headers:
    """Ethernet, perhaps one VLAN tag, IPv4 or IPv6, UDP; perhaps all of it inside VXLAN."""

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    udp_src: int
    udp_dst: int
    ip: int = 4
    vlan: int | None = None
    vxlan: Vxlan | None = None

    @property
    def bytes(self) -> int:
        """Length of all headers."""
        tag = 4 if self.vlan else 0
        outer = 14 + 20 + 8 + 8 if self.vxlan else 0
        return outer + 14 + tag + {4: 20, 6: 40}[self.ip] + 8

    @property
    def flow_offset(self) -> int:
        """Where the UDP source port lies that tells flows apart: the inner one inside VXLAN."""
        return self.bytes - 8


@dataclass(frozen=True)
class Decoded:
    """A frame that was read back."""

    headers: Headers
    payload: bytes
    #: IPv4 header checksums and UDP checksums are right; a UDP checksum of zero over IPv4 stands for none.
    checksums_right: bool


def build(headers: Headers, frame_bytes: int, *, payload: bytes = b"", udp_checksum: bool = True) -> bytes:
    """The bytes of a frame of `frame_bytes` (FCS counted, not included), its payload filled up with zeros.

    Without `udp_checksum` the field is zero, for testers that change the payload of each frame. Over IPv6 that is
    allowed to tunnels only (RFC 6935); a switch that checks it would drop such frames.

    Raises:
        ValueError: headers and payload do not fit.
    """
    room = frame_bytes - FCS_BYTES - headers.bytes
    if room < len(payload):
        raise ValueError(f"frame of {frame_bytes} bytes: {headers.bytes} of headers leave no room for {len(payload)}")
    packet = _stack(headers, udp_checksum)
    return bytes(packet / (bytes(payload) + bytes(room - len(payload))))


def decode(data: bytes) -> Decoded:
    """Read a frame's headers back and check its checksums by computing them anew.

    Raises:
        ValueError: it is not one of the stacks that `build` makes.
    """
    from scapy.layers.inet import UDP
    from scapy.layers.l2 import Ether
    from scapy.layers.vxlan import VXLAN

    packet = Ether(data)
    outer = None
    right = _checksums_right(packet)
    if packet.haslayer(VXLAN):
        tunnel = packet[VXLAN]
        layers = packet["Ether"], packet["IP"], packet[UDP]
        outer = Vxlan(tunnel.vni, layers[0].src, layers[0].dst, layers[1].src, layers[1].dst, layers[2].sport)
        packet = tunnel.payload
    if not packet.haslayer(UDP):
        raise ValueError(f"no UDP in {packet.summary()}")
    version = 4 if packet.haslayer("IP") else 6
    network, udp = packet["IP" if version == 4 else "IPv6"], packet[UDP]
    tag = packet["Dot1Q"].vlan if packet.haslayer("Dot1Q") else None
    src_ip, dst_ip = (str(ipaddress.ip_address(address)) for address in (network.src, network.dst))
    headers = Headers(packet.src, packet.dst, src_ip, dst_ip, udp.sport, udp.dport, version, tag, outer)
    return Decoded(headers, bytes(udp.payload)[: udp.len - 8], right)


def _stack(headers: Headers, udp_checksum: bool) -> Any:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.layers.vxlan import VXLAN

    packet: Any = Ether(src=headers.src_mac, dst=headers.dst_mac)
    if headers.vlan:
        packet /= Dot1Q(vlan=headers.vlan)
    if headers.ip == 4:
        packet /= IP(src=headers.src_ip, dst=headers.dst_ip, ttl=_TTL, flags="DF", id=0)
    else:
        packet /= IPv6(src=headers.src_ip, dst=headers.dst_ip, hlim=_TTL)
    packet /= UDP(sport=headers.udp_src, dport=headers.udp_dst, chksum=None if udp_checksum else 0)
    if headers.vxlan is None:
        return packet
    outer = headers.vxlan
    return (
        Ether(src=outer.src_mac, dst=outer.dst_mac)
        / IP(src=outer.src_ip, dst=outer.dst_ip, ttl=_TTL, flags="DF", id=0)
        / UDP(sport=outer.udp_src, dport=VXLAN_PORT, chksum=0)  # RFC 7348 §5: should be zero
        / VXLAN(vni=outer.vni, flags="Instance")
        / packet
    )


def _checksums_right(packet: Any) -> bool:
    """Every checksum of a frame against one that scapy computes; those that are absent count as right."""
    again = packet.copy()
    present = []
    layer = again
    while layer:
        if layer.name in ("IP", "UDP"):
            if layer.name == "IP" or layer.chksum:
                present.append((layer.name, layer.chksum))
            elif layer.underlayer.name == "IPv6":
                return False  # RFC 8200 §8.1: not optional
            if layer.chksum:
                del layer.chksum
        layer = layer.payload
    computed = []
    layer = packet.__class__(bytes(again))
    while layer:
        if layer.name in ("IP", "UDP") and layer.chksum:
            computed.append((layer.name, layer.chksum))
        layer = layer.payload
    return computed == present
