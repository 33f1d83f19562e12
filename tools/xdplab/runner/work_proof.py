# SPDX-License-Identifier: Apache-2.0
"""Proof of a pipeline, packet by packet: what goes in on one side, and what must come out where, to the byte.

Scapy makes both, from the pipeline alone: no forwarder is asked what it would do. Frames that must not come out are
sent in front of one that must, by the same port: when that one is there, they would be.
"""

import itertools
import random
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path as FilePath
from typing import Any, Literal

from xdplab.forwarders import Dut, Forwarder
from xdplab.forwarders.base import RuleCounting, RuleHits
from xdplab.forwarders.work import (
    BUCKET_MACS,
    NAT_ADDRESS,
    UDP_DST,
    VLAN,
    VNI,
    AclRule,
    Side,
    acl_rule,
    decoy,
    lets_pass,
    sides,
)
from xdplab.hosts.frames import FrameProbe
from xdplab.hosts.kernel import napi_on
from xdplab.model import Pipeline, PointFailed, StreamSpec, TrialResult, TrialSpec
from xdplab.runner.frame_ends import FRAMES, Sent, where_a_frame_ends
from xdplab.runner.proof import (
    SETTLED_TTL,
    Frame,
    Missing,
    exchange,
    in_tunnel,
    payload,
    repeated,
    settled,
)

#: Frames for each direction.
_FRAMES = 1000
#: How many a second, and the fewest that decide, for a tester leaves out what it is late for: at first, and again where
#: one was lost or too few were sent.
_TRIES = ((10_000, 100), (1_000, 100), (1_000, 100), (1_000, 100), (1_000, 1))
_FRAME_BYTES = 100
Direction = Literal["forward", "backward"]


def prove_rules(forwarder: Forwarder[Any], pipeline: Pipeline) -> None:
    """None is missing, and there is no other.

    Raises:
        PointFailed: how many there are.
    """
    rules = forwarder.rule_count() if isinstance(forwarder, RuleCounting) else None
    if rules is not None and rules[0] != rules[1]:
        raise PointFailed(f"{pipeline}: {forwarder.name} has {rules[0]:,} rules of {rules[1]:,}")


def prove_counts(forwarder: Forwarder[Any], pipeline: Pipeline, send: Callable[[TrialSpec], TrialResult]) -> None:
    """Frames go both ways, where the pipeline lets them; all come out, and as many have met the rules.

    Raises:
        PointFailed: the counts differ; or frames were lost each time, also at the lowest rate.
    """
    if not isinstance(forwarder, RuleHits) or not (before := forwarder.rule_hits()):
        return
    ways: tuple[Direction, ...] = ("forward",) if pipeline.one_way else ("forward", "backward")
    for pps, fewest in _TRIES:
        streams = tuple(
            StreamSpec(kind="load", pps=pps, frame_bytes=_FRAME_BYTES, count=_FRAMES, direction=way) for way in ways
        )
        rules = send(TrialSpec(streams=streams, duration_s=2 * _FRAMES / pps)).streams
        after = forwarder.rule_hits()
        met = {name: after[name] - before[name] for name in after}
        sent: dict[str, int] = {stream.direction: stream.sent for stream in rules}
        came: dict[str, int] = {stream.direction: stream.received for stream in rules}
        asked = {"forth": sent["forward"], "back": sent.get("backward", 0), "meter": sum(sent.values())}
        if sent == came and any(met[name] < asked[name] for name in met):
            break
        # more than were sent: a frame of somebody else's, such as LLDP of a card, which does not come each time
        if sent == came and met == {name: asked[name] for name in met} and min(sent.values()) >= fewest:
            return
        before = after
    raise PointFailed(
        f"{pipeline}: frames sent: {_words(sent)}; came out: {_words(came)}; matched by its rules: {_words(met)}"
    )


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


#: Stations and networks that nobody has routed, allowed or learned (RFC 5737, RFC 7042 section 2.1.2).
_STRANGER = "192.0.2.1"
_STATION = "00:00:5e:00:53:01"
#: Source ports of a proof, of which each has some of its own: connections of the one before are still known.
_UDP_SRC, _UDP_SRCS, _TURNS = 30_000, 100, 300
_turns = itertools.count()
#: Flows that a group spreads, and the TTLs of the frames of each: no part of a flow.
_FLOWS_OF_GROUP, _TTLS_OF_FLOW = 64, (64, 63)


def prove_work(
    forwarder: Forwarder[Any],
    dut: Dut,
    workdir: FilePath,
    send: Callable[[TrialSpec], TrialResult],
    *,
    own_ends: bool = False,
) -> None:
    """That all rules are there, frame by frame, and that the rules have met what was sent, where they are counted.

    Nothing for `cross`, which `prove` has proven. `own_ends`: no tester has sent before, and NAPI may be off where its
    frames are redirected to.

    Raises:
        PointFailed: a rule is missing; a frame came out as it must not, or not as it must; or the counts differ.
    """
    if dut.pipeline.kind == "cross":
        return
    prove_rules(forwarder, dut.pipeline)
    redirected = dut.peers if forwarder.redirects else ()
    with napi_on([(port.host, port.ifname) for port in redirected if port.netns is not None]):
        WorkProof(dut).carry_out(workdir, partial(where_a_frame_ends, forwarder, dut))
    received = dut.ports if own_ends else ()
    with napi_on([(port.host, port.ifname) for port in received if port.netns is not None]):
        prove_counts(forwarder, dut.pipeline, send)


class WorkProof:
    """Sends and compares, on both sides at once."""

    def __init__(self, dut: Dut) -> None:
        self._pipeline = dut.pipeline
        self._sides = sides(dut)
        self._ports = dut.peers
        self._mark = b"xdplab" + secrets.token_bytes(4)
        self._number = itertools.count()
        turn = next(_turns) % _TURNS
        self._port = _UDP_SRC + _UDP_SRCS * turn
        self._chance = random.Random(f"{dut.pipeline}:{turn}")  # noqa: S311 - which rules are tried, no secret

    def carry_out(self, workdir: FilePath, where: Callable[[int, int, Callable[[], Sent]], str] | None = None) -> None:
        """All rounds. `where` asks, of a frame that did not come out, where such frames end (`where_a_frame_ends`).

        Raises:
            PointFailed: a frame did not come out as it must; the first one, with both forms, or with where it ended.
        """
        with ExitStack() as stack:
            probes = []
            for port in self._ports:
                log = workdir / f"proof-{port.role}.log"
                probes.append(FrameProbe(port.host, port.ifname, self._mark, log))
                stack.callback(probes[-1].stop)
            seen: list[tuple[int, bytes]] = []
            try:
                for frames in self._rounds(seen):
                    seen[:] = exchange(probes, frames, self._pipeline, self._settled)
            except Missing as missing:
                if where is None:
                    raise
                again = partial(self._again, probes, missing)
                found = where(missing.frame.side, missing.side, again) or f"sent {FRAMES} times more it came out"
                raise PointFailed(f"{missing}; {found}") from None

    def _again(self, probes: Sequence[FrameProbe], missing: Missing) -> Sent:
        return Sent(FRAMES, FRAMES, repeated(probes, missing, FRAMES, self._settled))

    def _rounds(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        """Frames of each round; `seen` is what came out in the one before."""
        rounds: dict[str, Callable[..., Iterator[list[Frame]]]] = {
            "bridge": self._bridge, "vlan": self._vlan, "vxlan": self._vxlan, "group": self._group,
            "mirror": self._mirror, "route": self._route, "acl": self._acl,
            "conntrack": self._stateful, "nat": self._stateful,
        }  # fmt: skip
        yield from rounds.get(self._pipeline.kind, self._cross)(seen)

    def _settled(self, data: bytes) -> bytes:
        """A frame as it is compared: a translation may have changed its source port, too (RFC 4787 section 4.2)."""
        if self._pipeline.kind != "nat":
            return settled(data)
        from scapy.layers.inet import IP, UDP
        from scapy.layers.l2 import Ether

        packet = Ether(data)
        if UDP not in packet or packet[IP].src != NAT_ADDRESS:
            return data
        del packet[UDP].chksum
        if bytes(packet) != data:  # the checksum is wrong
            return data
        packet[UDP].sport = self._port
        del packet[UDP].chksum
        return bytes(packet)

    def _udp(self, source: Side, target: Side, **changes: Any) -> Any:
        """A packet from one side to the other, as scapy has it; `changes` are of its fields."""
        from scapy.layers.inet import IP, UDP
        from scapy.layers.l2 import Dot1Q, Ether

        to = source.mac if self._pipeline.routed else target.peer_mac
        ether = Ether(src=changes.get("eth_src", source.peer_mac), dst=changes.get("eth_dst", to))
        if "vlan" in changes:
            ether /= Dot1Q(vlan=changes["vlan"])
        src, dst = changes.get("src", source.station), changes.get("dst", target.station)
        ip = IP(src=src, dst=dst, ttl=changes.get("ttl", SETTLED_TTL), flags="DF", id=0)
        udp = UDP(sport=changes.get("sport", self._port), dport=changes.get("dport", UDP_DST))
        payload = self._mark + changes.get("number", next(self._number)).to_bytes(4, "big") + bytes(8)
        return ether / ip / udp / payload

    def _routed(self, packet: Any, target: Side) -> Any:
        out = packet.copy()
        out["Ether"].src, out["Ether"].dst = target.mac, target.peer_mac
        out["IP"].ttl -= 1
        return out

    def _both(self) -> Iterator[tuple[Side, Side]]:
        here, there = self._sides
        yield here, there
        yield there, here

    def _cross(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        """The second one is an answer: rules of a node may let no other pass."""
        for source, target in self._both():
            sport, dport = (self._port, UDP_DST) if source.index == 0 else (UDP_DST, self._port)
            packet = self._udp(source, target, sport=sport, dport=dport)
            yield [Frame("a frame", source.index, bytes(packet), {target.index: (bytes(packet),)})]

    def _bridge(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        here, there = self._sides
        yield from self._cross(seen)
        station = self._udp(here, there, eth_src=_STATION)
        yield [Frame("a frame of another station", here.index, bytes(station), {there.index: (bytes(station),)})]
        local = self._udp(here, there, eth_dst=_STATION)
        yield [
            Frame("a frame to a station of its own side", here.index, bytes(local)),
            *next(self._cross(seen)),
        ]

    def _mirror(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        for source, target in self._both():
            packet = bytes(self._udp(source, target))
            yield [Frame("a frame", source.index, packet, {target.index: (packet,), source.index: (packet,)})]

    def _vlan(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        here, there = self._sides
        plain = self._udp(here, there, number=0)
        tagged = self._udp(here, there, number=0, vlan=VLAN)
        yield [Frame("an untagged frame", here.index, bytes(plain), {there.index: (bytes(tagged),)})]
        yield [
            Frame("a frame of another VLAN", there.index, bytes(self._udp(there, here, vlan=VLAN + 1))),
            Frame("an untagged frame on the trunk", there.index, bytes(self._udp(there, here))),
            Frame(
                "a tagged frame",
                there.index,
                bytes(self._udp(there, here, number=1, vlan=VLAN)),
                {here.index: (bytes(self._udp(there, here, number=1)),)},
            ),
        ]

    def _vxlan(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        here, there = self._sides
        plain, back = self._udp(here, there), self._udp(there, here)
        out = in_tunnel(plain, there.mac, there.peer_mac, there.address, there.next_hop, VNI)
        yield [Frame("a plain frame", here.index, bytes(plain), {there.index: (bytes(out),)})]

        def tunnelled(packet: Any, to: str = there.address, vni: int = VNI) -> bytes:
            return bytes(in_tunnel(packet, there.peer_mac, there.mac, there.next_hop, to, vni))

        yield [
            Frame("a frame outside the tunnel", there.index, bytes(self._udp(there, here))),
            Frame("a frame of another VNI", there.index, tunnelled(self._udp(there, here), vni=VNI + 1)),
            Frame("a frame to another end", there.index, tunnelled(self._udp(there, here), to=_STRANGER)),
            Frame("a frame in the tunnel", there.index, tunnelled(back), {here.index: (bytes(back),)}),
        ]

    def _group(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        for source, target in self._both():
            flow_of, frames = {}, []
            for flow, ttl in itertools.product(range(_FLOWS_OF_GROUP), _TTLS_OF_FLOW):
                data = bytes(self._udp(source, target, sport=self._port + flow, ttl=ttl))
                flow_of[payload(data)] = flow
                forms = (data[:6] + bytes.fromhex(mac.replace(":", "")) + data[12:] for mac in BUCKET_MACS)
                frames.append(Frame(f"flow {flow}", source.index, data, {target.index: tuple(forms)}))
            self._chance.shuffle(frames)  # what goes by turns would give the frames of a flow the same bucket
            yield frames
            taken: dict[int, set[str]] = defaultdict(set)
            for _, data in seen:
                taken[flow_of[payload(data)]].add(data[6:12].hex(":"))
            used = set().union(*taken.values())
            if used != set(BUCKET_MACS):
                raise PointFailed(f"group: {_FLOWS_OF_GROUP} flows took the buckets {', '.join(sorted(used))} only")
            spread = [flow for flow, buckets in taken.items() if len(buckets) > 1]
            if spread:
                raise PointFailed(
                    f"group: {len(spread)} of {_FLOWS_OF_GROUP} flows took both buckets, {spread[0]} first"
                )

    def _forwarded(self, what: str, source: Side, target: Side, **changes: Any) -> Frame:
        packet = self._udp(source, target, **changes)
        return Frame(what, source.index, bytes(packet), {target.index: (bytes(self._routed(packet, target)),)})

    def _refused(self, what: str, source: Side, target: Side, **changes: Any) -> Frame:
        return Frame(what, source.index, bytes(self._udp(source, target, **changes)))

    def _route(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        """By both ends of the first prefix, of any one, and of the traffic's; and next to the last of the others."""
        decoys = self._pipeline.rules - 1
        for source, target in self._both():
            ways = {"the traffic's prefix": target.network}
            if decoys:
                number = self._chance.randrange(decoys)
                ways |= {"the first prefix": decoy(target, 0), f"prefix {number + 1}": decoy(target, number)}
            yield [
                self._refused("a frame with a TTL of 1", source, target, ttl=1),
                self._refused("a frame to nowhere", source, target, dst=_STRANGER),
                self._refused("a frame behind the last prefix", source, target, dst=str(decoy(target, decoys)[0])),
                self._refused("a frame to another station", source, target, eth_dst=_STATION),
                *(
                    self._forwarded(f"a frame by {what}", source, target, dst=str(prefix[end]))
                    for what, prefix in ways.items()
                    for end in (0, -1, 1)
                ),
            ]

    def _acl(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        """By a rule of each mask, the first and any one: its last addresses, and those that it is too narrow for."""
        rules = self._pipeline.rules
        for source, target in self._both():
            tried = {*range(min(self._pipeline.masks, rules)), rules - 1, self._chance.randrange(rules)}
            yield [
                self._refused("a frame from elsewhere", source, target, src=_STRANGER),
                self._refused("a frame to another UDP port", source, target, dport=UDP_DST + 1),
                *(frame for number in sorted(tried) for frame in self._by_rule(source, target, number)),
                self._forwarded("a frame", source, target),
            ]

    def _by_rule(self, source: Side, target: Side, number: int) -> Iterator[Frame]:
        """Past it on either side, where no other rule lets that pass, then by it."""
        rule = acl_rule(self._pipeline, source, target, number)
        called = f"rule {self._pipeline.rules - number} of {self._pipeline.rules}"
        last = rule.source[-1], rule.target[-1]
        for src, dst in _beside(rule):
            if not lets_pass(self._pipeline, source, target, src, dst):
                yield self._refused(f"a frame next to {called}", source, target, src=str(src), dst=str(dst))
        yield self._forwarded(f"a frame by {called}", source, target, src=str(last[0]), dst=str(last[1]))

    def _stateful(self, seen: Sequence[tuple[int, bytes]]) -> Iterator[list[Frame]]:
        """The port that a translation gave to the connection is read from what came out."""
        from scapy.layers.l2 import Ether

        here, there = self._sides
        packet = self._udp(here, there)
        out = self._routed(packet, there)
        nat = self._pipeline.kind == "nat"
        if nat:
            out["IP"].src = NAT_ADDRESS
        yield [Frame("a new connection", here.index, bytes(packet), {there.index: (bytes(out),)})]
        (came,) = [Ether(data) for side, data in seen if side == there.index]
        to = {"dst": came["IP"].src, "sport": UDP_DST}
        answer = self._udp(there, here, dport=came["UDP"].sport, **to)
        back = self._routed(answer, here)
        back["IP"].dst, back["UDP"].dport = here.station, self._port
        yield [
            self._refused("a new connection from the other side", there, here, sport=self._port),
            self._refused("an answer to another port", there, here, dport=came["UDP"].sport ^ 1, **to),
            Frame("an answer", there.index, bytes(answer), {here.index: (bytes(back),)}),
        ]


def _beside(rule: AclRule) -> Iterator[tuple[IPv4Address, IPv4Address]]:
    """Pairs of which one address is behind the last of its network, or in the other half of that twice as wide."""
    src, dst = rule.source[-1], rule.target[-1]
    yield from dict.fromkeys((each, dst) for each in (src + 1, _twin(rule.source)))
    yield src, _twin(rule.target)


def _twin(network: IPv4Network) -> IPv4Address:
    """The last address of the other half: every shorter prefix has it."""
    return IPv4Address(int(network[-1]) ^ network.num_addresses)
