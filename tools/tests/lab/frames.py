# SPDX-License-Identifier: Apache-2.0
"""Frames read back by scapy, with checksums that it computes anew; and the headers of each flow of a stream."""

import ipaddress
from dataclasses import dataclass, replace
from typing import Any

from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from xdplab.testers.packets import Headers, Range


def of_flow(headers: Headers, flow: int) -> Headers:
    """Those of flow `flow`, from 0 on: targets in turns, then sources, then ports."""
    rest, target = divmod(flow, headers.targets.count)
    port, source = divmod(rest, headers.sources.count)
    return replace(
        headers,
        src_ip=headers.sources.address(headers.src_ip, source),
        dst_ip=headers.targets.address(headers.dst_ip, target),
        udp_src=headers.udp_src + port,
        sources=Range(),
        targets=Range(),
    )


@dataclass(frozen=True)
class Decoded:
    """A frame that was read back."""

    headers: Headers
    payload: bytes
    #: IPv4 header checksums and UDP checksums are right; a UDP checksum of zero over IPv4 stands for none.
    checksums_right: bool


def decode(data: bytes) -> Decoded:
    """Read a frame's headers back and check its checksums by computing them anew.

    Raises:
        ValueError: it is not one of the stacks that `build` makes.
    """
    packet = Ether(data)
    right = _checksums_right(packet)
    if not packet.haslayer(UDP):
        raise ValueError(f"no UDP in {packet.summary()}")
    version = 4 if packet.haslayer("IP") else 6
    network, udp = packet["IP" if version == 4 else "IPv6"], packet[UDP]
    tag = packet["Dot1Q"] if packet.haslayer("Dot1Q") else None
    outer_tag = packet["Dot1AD"].vlan if packet.haslayer("Dot1AD") else None
    dscp = (network.tos if version == 4 else network.tc) >> 2
    src_ip, dst_ip = (str(ipaddress.ip_address(address)) for address in (network.src, network.dst))
    headers = Headers(
        packet.src, packet.dst, src_ip, dst_ip, udp.sport, udp.dport, version, tag.vlan if tag else None,
        outer_tag, tag.prio if tag else 0, bool(tag and _dei(tag)), dscp,
    )  # fmt: skip
    return Decoded(headers, bytes(udp.payload)[: udp.len - 8], right)


def _dei(tag: Any) -> int:
    return int(tag.getfieldval("dei" if any(field.name == "dei" for field in tag.fields_desc) else "id"))


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
