# SPDX-License-Identifier: Apache-2.0
"""A pipeline in numbers that every forwarder translates: who lies on which side, prefixes, rules.

The traffic of a tester goes from 198.18.0.0/16, the tester's side, to 198.19.0.0/16 and back (RFC 2544 appendix C.2.2).
What a table has next to leads nowhere near it, but costs a look: 10.0.0.0/8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from xdplab.forwarders.base import Dut
from xdplab.model import Pipeline
from xdplab.testbed import RuleAddresses

#: Tag of `vlan` on the far side.
VLAN = 100
#: Of `vxlan`: the network's number, and the UDP port of RFC 7348 section 5.
VNI, VXLAN_PORT = 5000, 4789
#: What the tester's side is translated to by `nat` (RFC 5737).
NAT_ADDRESS = "203.0.113.1"
#: Frames per second that `meter` lets pass: more than any port brings.
METER_PPS = 100_000_000
#: Source addresses that the buckets of `group` write.
BUCKET_MACS = ("02:00:00:00:00:b1", "02:00:00:00:00:b2")
#: Of the traffic (`testers/packets.py`).
UDP_DST = 20_000
#: The shorter prefix of both sides: what takes it has missed the longer one.
TRAP = IPv4Network("198.18.0.0/15")
_SIDES = (IPv4Network("198.18.0.0/16"), IPv4Network("198.19.0.0/16"))
_DECOYS = IPv4Network("10.0.0.0/8")
_DECOY_BITS = 28
#: Prefix lengths of source and target that the traffic's rule has: all address pairs of a tester.
_TRAFFIC_MASK = (22, 16)
#: From a decoy to the next: no two are the same in any mask.
_ACL_STEP = 1 << (32 - _TRAFFIC_MASK[0])


@dataclass(frozen=True)
class Side:
    """One port of the switch and what lies behind it."""

    #: Of the switch's ports.
    index: int
    #: Its interface, and that interface's address.
    ifname: str
    mac: str
    #: The tester's port on the other end.
    peer_mac: str
    network: IPv4Network
    #: Of the first station there.
    station: str

    @property
    def address(self) -> str:
        return str(self.network[-2])

    @property
    def next_hop(self) -> str:
        return str(self.network[-3])


def sides(dut: Dut) -> tuple[Side, Side]:
    """The tester's side and the other."""
    one, other = (
        Side(index, port.ifname, port.mac, peer.mac, _SIDES[index], peer.address or str(_SIDES[index][1]))
        for index, (port, peer) in enumerate(zip(dut.ports, dut.peers, strict=True))
    )
    return one, other


def other_rules(pipeline: Pipeline) -> tuple[RuleAddresses, RuleAddresses] | None:
    """An address for each of `prefixes`, or of `acl_rules`, but the traffic's, in each direction; None: there is none.

    The first station of a prefix, the only one of the narrowest rule.
    """
    count = pipeline.rules
    if count == 1:
        return None
    if pipeline.kind == "acl":
        sources = RuleAddresses("source", count, str(_decoy_source(1)), _ACL_STEP)
        return sources, sources
    there, here = ((_decoy(side, 0), _decoy(side, 1)) for side in (1, 0))
    step = int(there[1][0]) - int(there[0][0])
    return RuleAddresses("target", count, str(there[0][1]), step), RuleAddresses("target", count, str(here[0][1]), step)


def prefixes(pipeline: Pipeline, side: Side) -> Iterator[IPv4Network]:
    """Those that lead to a side: the one that the traffic takes is the last; besides `route` there is no other."""
    yield from (decoy(side, number) for number in range(pipeline.rules - 1 if pipeline.kind == "route" else 0))
    yield side.network


def decoy(side: Side, number: int) -> IPv4Network:
    """One of those other prefixes, from 0 on."""
    return _decoy(side.index, number)


def _decoy(side: int, number: int) -> IPv4Network:
    return IPv4Network((int(_DECOYS[0]) + ((2 * number + side) << (32 - _DECOY_BITS)), _DECOY_BITS))


def _decoy_source(number: int) -> IPv4Address:
    return _DECOYS[0] + number * _ACL_STEP


@dataclass(frozen=True)
class AclRule:
    """One that lets UDP pass."""

    source: IPv4Network
    target: IPv4Network
    udp_dst: int


def acl_rules(pipeline: Pipeline, source: Side, target: Side) -> list[AclRule]:
    """Of one direction; the last one is the traffic's. A mask is a pair of prefix lengths."""
    return [acl_rule(pipeline, source, target, number) for number in range(pipeline.rules - 1, -1, -1)]


def acl_rule(pipeline: Pipeline, source: Side, target: Side, number: int) -> AclRule:
    """One of them; they are numbered from the last one, the traffic's, which is 0. The first `masks` differ in mask."""
    mask = number % pipeline.masks
    lengths = (32 - (mask - 1) % 8, 17 + (mask - 1) // 8) if mask else _TRAFFIC_MASK
    first = (int(_decoy_source(number) if number else source.network[0]), int(target.network[0]))
    mine, theirs = (IPv4Network(each) for each in zip(first, lengths, strict=True))
    return AclRule(mine, theirs, UDP_DST)


def lets_pass(pipeline: Pipeline, source: Side, target: Side, src: IPv4Address, dst: IPv4Address) -> bool:
    """Whether one of them does; of those next to no two are of one block of addresses."""
    number = (int(src) - int(_DECOYS[0])) // _ACL_STEP
    rule = acl_rule(pipeline, source, target, number if 0 < number < pipeline.rules else 0)
    return src in rule.source and dst in rule.target
