# SPDX-License-Identifier: Apache-2.0
"""The headers of a stream: addresses from the ports it runs between, the same whichever tester sends it."""

from ipaddress import ip_address

from xdplab.model import StreamSpec
from xdplab.testbed import Port, TesterPorts
from xdplab.testers.packets import Headers, Range

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
