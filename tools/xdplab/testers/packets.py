# SPDX-License-Identifier: Apache-2.0
"""Frames as scapy builds them: the one description of headers that all testers send.

TRex is given the bytes built here. xdpgen writes its headers inside the kernel; `Headers` is what both are given, and a
test compares what arrives on the wire with what is built here. Imports nothing of xdplab, so that TRex's own Python
with its own older scapy can use it as well (`trex/profiles`).
"""

import ipaddress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from xdplab.model import StreamSpec
from xdplab.testbed import Port, TesterPorts

FCS_BYTES = 4
_TTL = 64


@dataclass(frozen=True)
class Range:
    """Addresses of flows next to the first: number n, from 1 on, is `next` + (n - 1) x `step`."""

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
    """Ethernet, perhaps a VLAN tag or two, IPv4 or IPv6, UDP, of the first flow."""

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    udp_src: int
    udp_dst: int
    ip: int = 4
    vlan: int | None = None
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
        tags = 4 * bool(self.vlan) + 4 * bool(self.outer_vlan)
        return 14 + tags + {4: 20, 6: 40}[self.ip] + 8

    @property
    def pairs(self) -> int:
        """Pairs of addresses that flows have."""
        return self.sources.count * self.targets.count

    @property
    def flow_offset(self) -> int:
        """Where the UDP source port lies that tells flows apart."""
        return self.bytes - 8


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


def _stack(headers: Headers, udp_checksum: bool) -> Any:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1AD, Dot1Q, Ether

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
    return packet / UDP(sport=headers.udp_src, dport=headers.udp_dst, chksum=None if udp_checksum else 0)


def _dei_field(tag: Any) -> str:
    """Its name; up to scapy 2.5 it is that of the bit before 802.1Q-2005."""
    return "dei" if any(field.name == "dei" for field in tag.fields_desc) else "id"


# The headers of a stream: addresses from the ports it runs between, the same whichever tester sends it.

#: Addresses of RFC 2544 appendix C.2.2 (198.18.0.0/15) and, for IPv6, of RFC 5180 (2001:2::/48).
_ADDRESSES = {4: ("198.18.{}.1", "198.19.{}.1"), 6: ("2001:2:0:{}::1", "2001:2:1:{}::1")}
_UDP_SRC, _UDP_DST = 10_000, 20_000


def ends_of(stream: StreamSpec, ports: TesterPorts) -> tuple[Port, Port]:
    """The port that sends a stream, and the one its frames are addressed to."""
    far = ports.mirror or ports.last
    return (ports.first, far) if stream.direction == "forward" else (ports.last, ports.first)


def headers_of(stream: StreamSpec, ports: TesterPorts) -> Headers:
    """Ethernet, VLAN, IP and UDP of a stream's first flow."""
    source, target = ends_of(stream, ports)
    addresses = tuple(str(ip_address(address.format(stream.pair))) for address in _ADDRESSES[stream.ip])
    forward = stream.direction == "forward"
    src_ip, dst_ip = addresses if forward else addresses[::-1]
    # where ports have addresses a switch may track connections: what comes back are answers
    answers = bool(source.address) and not forward
    sources, targets = Range(stream.src_addresses), Range(stream.dst_addresses)
    rules = ports.rules[not forward] if ports.rules and stream.rule_match == "all" else None
    if rules is not None:
        met = Range(rules.count, rules.next, rules.step)
        sources, targets = (met, targets) if rules.of == "source" else (sources, met)
    port = stream.udp_port or _UDP_DST
    router = ports.routers[not forward] if ports.routers else None
    return Headers(
        src_mac=source.mac,
        dst_mac=router or target.mac,
        src_ip=source.address or src_ip,
        dst_ip=target.address or dst_ip,
        udp_src=port if answers else _UDP_SRC,
        udp_dst=_UDP_SRC if answers else port,
        ip=stream.ip,
        vlan=stream.vlan,
        outer_vlan=stream.outer_vlan,
        pcp=stream.pcp,
        dei=stream.dei,
        dscp=stream.dscp,
        sources=sources,
        targets=targets,
    )
