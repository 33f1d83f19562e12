# SPDX-License-Identifier: Apache-2.0
"""Frames as scapy builds and reads them: the one description of headers that all testers send.

TRex is given the bytes built here. xdpgen writes its headers inside the kernel; `Headers` is what both are told, and a
test compares what arrives on the wire with what is built here. Imports nothing of xdplab, so that TRex's own Python
with its own older scapy can use it as well (`trex/profiles`).
"""

import ipaddress
from dataclasses import dataclass, replace
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
class Range:
    """Addresses of flows beside the first: number n, from 1 on, is `next` + (n - 1) x `step`."""

    count: int = 1
    #: None: the one after the first.
    next: str | None = None
    step: int = 1

    def address(self, first: str, number: int) -> str:
        """Number `number`, from 0 on."""
        if not number:
            return first
        following = ipaddress.ip_address(self.next) if self.next else ipaddress.ip_address(first) + 1
        return str(following + (number - 1) * self.step)


@dataclass(frozen=True)
class Headers:
    """Ethernet, perhaps a VLAN tag or two, IPv4 or IPv6, UDP, of the first flow; perhaps all of it inside VXLAN."""

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    udp_src: int
    udp_dst: int
    ip: int = 4
    vlan: int | None = None
    vxlan: Vxlan | None = None
    #: Of a tag in front (802.1ad).
    outer_vlan: int | None = None
    #: Of the tags.
    pcp: int = 0
    dei: bool = False
    dscp: int = 0
    #: Of the flows; not in a frame that was read back.
    sources: Range = Range()
    targets: Range = Range()

    @property
    def bytes(self) -> int:
        """Length of all headers."""
        tags = 4 * bool(self.vlan) + 4 * bool(self.outer_vlan)
        outer = 14 + 20 + 8 + 8 if self.vxlan else 0
        return outer + 14 + tags + {4: 20, 6: 40}[self.ip] + 8

    @property
    def pairs(self) -> int:
        """Pairs of addresses that flows have."""
        return self.sources.count * self.targets.count

    def of_flow(self, flow: int) -> "Headers":
        """Those of flow `flow`, from 0 on: targets in turns, then sources, then ports."""
        rest, target = divmod(flow, self.targets.count)
        port, source = divmod(rest, self.sources.count)
        return replace(
            self,
            src_ip=self.sources.address(self.src_ip, source),
            dst_ip=self.targets.address(self.dst_ip, target),
            udp_src=self.udp_src + port,
            sources=Range(),
            targets=Range(),
        )

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
    tag = packet["Dot1Q"] if packet.haslayer("Dot1Q") else None
    outer_tag = packet["Dot1AD"].vlan if packet.haslayer("Dot1AD") else None
    dscp = (network.tos if version == 4 else network.tc) >> 2
    src_ip, dst_ip = (str(ipaddress.ip_address(address)) for address in (network.src, network.dst))
    headers = Headers(
        packet.src, packet.dst, src_ip, dst_ip, udp.sport, udp.dport, version, tag.vlan if tag else None, outer,
        outer_tag, tag.prio if tag else 0, bool(tag and _dei(tag)), dscp,
    )  # fmt: skip
    return Decoded(headers, bytes(udp.payload)[: udp.len - 8], right)


def _stack(headers: Headers, udp_checksum: bool) -> Any:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
    from scapy.layers.vxlan import VXLAN

    packet: Any = Ether(src=headers.src_mac, dst=headers.dst_mac)
    for kind, vlan in ((Dot1AD, headers.outer_vlan), (Dot1Q, headers.vlan)):
        if vlan:
            tag = kind(vlan=vlan, prio=headers.pcp)
            tag.setfieldval(_dei_field(tag), int(headers.dei))
            packet /= tag
    if headers.ip == 4:
        packet /= IP(src=headers.src_ip, dst=headers.dst_ip, ttl=_TTL, flags="DF", id=0, tos=headers.dscp << 2)
    else:
        packet /= IPv6(src=headers.src_ip, dst=headers.dst_ip, hlim=_TTL, tc=headers.dscp << 2)
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


def _dei_field(tag: Any) -> str:
    """Its name; up to scapy 2.5 it is that of the bit before 802.1Q-2005."""
    return "dei" if any(field.name == "dei" for field in tag.fields_desc) else "id"


def _dei(tag: Any) -> int:
    return int(tag.getfieldval(_dei_field(tag)))


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
