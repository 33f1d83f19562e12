# SPDX-License-Identifier: Apache-2.0
"""What the proof of pipelines says of frames that come out wrong, and of rules that are others."""

import itertools
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lab import studies
from lab.work import dut
from scapy.layers.l2 import Ether

from xdplab.forwarders import work
from xdplab.forwarders.base import Dut
from xdplab.model import InputError, Pipeline, Point, PointFailed
from xdplab.runner import make_plan
from xdplab.runner.plan import _check_pipeline
from xdplab.runner.proof import Frame, exchange, in_tunnel, settled
from xdplab.runner.work_proof import WorkProof
from xdplab.testers import make_tester

POINT: dict[str, Any] = {"forwarder": "ovs-afxdp", "path": "through", "knobs": {}, "traffic": {}}
Networks = tuple[IPv4Network, IPv4Network]


class Clock:
    """Time that passes only while a probe waits: a busy machine cannot run into the proof's limits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _time_of_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.runner.proof.time", CLOCK)


class Switch:
    """Both probes; what is sent on one side comes out as a table says."""

    def __init__(self, table: dict[str, list[tuple[int, str]]]) -> None:
        self.table = table
        self.out: tuple[list[str], list[str]] = ([], [])
        self.probes: Any = [self.probe(side) for side in (0, 1)]

    def probe(self, side: int) -> Any:
        def send(frame: bytes) -> None:
            for to, form in self.table.get(frame.hex(), []):
                self.out[to].append(form)

        def receive(timeout_s: float) -> bytes | None:
            if self.out[side]:
                return bytes.fromhex(self.out[side].pop(0))
            CLOCK.now += timeout_s
            return None

        return SimpleNamespace(send=send, receive=receive)


GOOD, BAD = (Frame("a frame", 0, bytes(100), {1: (b"\1" * 100,)}), Frame("a stray", 0, b"\2" * 100))


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({GOOD.data.hex(): [(1, "01" * 100)]}, ""),
        (
            {GOOD.data.hex(): [(1, "00" * 78 + "01" * 22)]},
            "it came out on side 1 as 0000.*; it must be on side 1 as 01",
        ),
        ({GOOD.data.hex(): [(0, "01" * 100)]}, "a frame sent on side 0: "),
        ({GOOD.data.hex(): [(1, "01" * 100)] * 2}, "came out on side 1, where it must not"),
        ({GOOD.data.hex(): [(1, "01" * 100)], BAD.data.hex(): [(1, "02" * 100)]}, "a stray came out on side 1"),
        ({}, "a frame sent on side 0: nothing of it came out"),
    ],
    ids=["right", "another form", "another side", "twice", "leaked", "lost"],
)
def test_a_frame_that_comes_out_wrong_is_reported(table: dict[str, Any], why: str) -> None:
    switch = Switch(table)
    if not why:
        assert exchange(switch.probes, [BAD, GOOD], Pipeline()) == [(1, b"\1" * 100)]
        return
    with pytest.raises(PointFailed, match=why):
        exchange(switch.probes, [BAD, GOOD], Pipeline())


def test_a_tunnel_leaves_less_room_for_a_frame_and_not_every_tester_sees_into_it() -> None:
    tester = make_tester("fake")
    make_plan(studies.study(pipeline="vxlan", traffic={"frame_bytes": 1468}), studies.a_testbed(), tester)
    with pytest.raises(InputError, match=r"1469 does not fit: .* to 1468 bytes .*, of which VXLAN takes 50"):
        make_plan(studies.study(pipeline="vxlan", traffic={"frame_bytes": 1469}), studies.a_testbed(), tester)
    fake = SimpleNamespace(name="trex", knows_tunnelled=False)
    point = Point.model_validate({**POINT, "pipeline": "vxlan"})
    with pytest.raises(InputError, match="pipeline vxlan: tester trex does not know its frames in a tunnel"):
        _check_pipeline(point, cast("Any", fake))


OUTER = ("02:00:00:00:00:01", "02:00:00:00:00:03", "198.19.255.254", "198.19.255.253")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"UDP": {"sport": 61000}}, True),
        ({"UDP": {"sport": 61000, "chksum": None}}, True),
        ({"IP": {"ttl": 254, "id": 7, "flags": 0}}, True),
        ({"UDP": {"chksum": 5}}, False),
        ({"UDP": {"len": 9}}, False),
        ({"IP": {"chksum": 5}}, False),
        ({"IP": {"flags": "MF"}}, False),
        ({"IP": {"tos": 4}}, False),
        ({"IP": {"dst": "198.19.255.252"}}, False),
        ({"VXLAN": {"vni": work.VNI + 1}}, False),
        ({"VXLAN": {"flags": 0}}, False),
        ({"Ether": {"src": "02:00:00:00:00:09"}}, False),
    ],
)
def test_of_a_tunnel_only_what_its_sender_may_choose_may_differ(changes: dict[str, Any], same: bool) -> None:
    inner = WorkProof(dut("vxlan"))._udp(*work.sides(dut("vxlan")))
    right = in_tunnel(inner, *OUTER, work.VNI)
    packet = right.copy()
    for layer, fields in changes.items():
        for name, value in fields.items():
            setattr(packet[layer], name, value)
    assert settled(bytes(right)) == bytes(right)
    assert (settled(bytes(packet)) == bytes(right)) is same


@pytest.mark.parametrize(
    ("port", "checksum", "why"),
    [(1024, None, ""), (65535, None, ""), (1024, 7, "a new connection sent on side 0: it came out on side 1")],
)
def test_a_translation_may_choose_any_port_but_no_checksum(port: int, checksum: int | None, why: str) -> None:
    proof = WorkProof(dut("nat"))
    seen: list[tuple[int, bytes]] = []
    rounds: Iterator[list[Frame]] = proof._rounds(seen)
    first = next(rounds)
    out = Ether(first[0].out[1][0])
    out["UDP"].sport, out["UDP"].chksum = port, checksum
    switch = Switch({first[0].data.hex(): [(1, bytes(out).hex())]})
    if why:
        with pytest.raises(PointFailed, match=why):
            exchange(switch.probes, first, proof._pipeline, proof._settled)
        return
    seen[:] = exchange(switch.probes, first, proof._pipeline, proof._settled)
    assert [Ether(frame.data)["UDP"].dport for frame in next(rounds)[1:]] == [port ^ 1, port]


def test_a_group_that_takes_one_bucket_only_fails() -> None:
    proof = WorkProof(dut("group"))
    seen: list[tuple[int, bytes]] = []
    rounds: Iterator[list[Frame]] = proof._rounds(seen)
    frames = next(rounds)
    seen[:] = [(1, frame.out[1][0]) for frame in frames]
    with pytest.raises(PointFailed, match="64 flows took the buckets 02:00:00:00:00:b1 only"):
        next(rounds)


def _by_flow(frame: Frame, turn: int) -> int:
    return int(Ether(frame.data)["UDP"].sport) % 2


def _by_turns(frame: Frame, turn: int) -> int:
    return turn % 2


def _by_halves(frame: Frame, turn: int) -> int:
    return turn // 64


def _by_ttl(frame: Frame, turn: int) -> int:
    return int(Ether(frame.data)["IP"].ttl) % 2


@pytest.mark.parametrize("bucket", [_by_flow, _by_turns, _by_halves, _by_ttl])
def test_frames_of_a_flow_take_one_bucket(bucket: Callable[[Frame, int], int]) -> None:
    seen: list[tuple[int, bytes]] = []
    rounds = WorkProof(dut("group"))._rounds(seen)
    frames = next(rounds)
    seen[:] = [(1, frame.out[1][bucket(frame, turn)]) for turn, frame in enumerate(frames)]
    if bucket is _by_flow:
        assert len(next(rounds)) == len(frames) == 128
        return
    with pytest.raises(PointFailed, match=r"^group: [1-9]\d? of 64 flows took both buckets, "):
        next(rounds)


class Router(Switch):
    """Routes what one of its rules lets pass: pairs of networks for each side that frames come by."""

    def __init__(self, asked: Dut, rules: tuple[list[Networks], list[Networks]]) -> None:
        super().__init__({})
        self.asked, self.rules = asked, rules

    def forward(self, side: int, frame: bytes) -> None:
        packet, target = Ether(frame), work.sides(self.asked)[1 - side]
        src, dst = IPv4Address(packet["IP"].src), IPv4Address(packet["IP"].dst)
        known = packet["IP"].ttl > 1 and packet["Ether"].dst == self.asked.ports[side].mac
        passes = [1 for source, to in self.rules[side] if src in source and dst in to and packet["UDP"].dport == 20000]
        if known and passes and (dst in target.network or dst in IPv4Network("10.0.0.0/8")):
            del packet["IP"].chksum
            self.out[1 - side].append(bytes(WorkProof(self.asked)._routed(packet, target)).hex())

    def probe(self, side: int) -> Any:
        made = super().probe(side)
        made.send = lambda frame: self.forward(side, frame)
        return made


def _prove(asked: Dut, rules: tuple[list[Networks], list[Networks]]) -> None:
    seen: list[tuple[int, bytes]] = []
    probes = Router(asked, rules).probes
    for frames in WorkProof(asked)._rounds(seen):
        seen[:] = exchange(probes, frames, asked.pipeline)


#: What a translation makes of the rules of one direction, and what the proof says of it.
WRONG_LISTS: dict[str, tuple[Callable[[list[Networks]], list[Networks]], str]] = {
    "two rules for all": (
        lambda rules: [(IPv4Network("10.0.0.0/8"), rules[0][1]), (rules[-1][0], rules[-1][1])],
        # the rule that is tried by chance may be one whose frames these two do not let through
        "came out on side 1, where it must not|a frame by rule [0-9]+ of 100 sent on side 0: nothing of it came out",
    ),
    "wider sources": (lambda rules: [(s.supernet(), to) for s, to in rules], "a frame next to rule"),
    "a wider source of the first": (
        lambda rules: [(rules[0][0].supernet(), rules[0][1]), *rules[1:]],
        "a frame next to rule 1 of 100 came out",
    ),
    "a wider source of the traffic": (
        lambda rules: [*rules[:-1], (rules[-1][0].supernet(), rules[-1][1])],
        "a frame next to rule 100 of 100 came out",
    ),
    "a narrower source of the traffic": (
        lambda rules: [*rules[:-1], (IPv4Network(f"{rules[-1][0][1]}/32"), rules[-1][1])],
        "a frame by rule 100 of 100 sent on side 0: nothing",
    ),
    "a wider target of a mask": (
        lambda rules: [*rules[:-2], (rules[-2][0], rules[-2][1].supernet()), rules[-1]],
        "a frame next to rule 99 of 100 came out",
    ),
    "no rule of one mask": (lambda rules: [*rules[:-4], *rules[-3:]], "a frame by rule 97 of 100 sent on side 0"),
}


@pytest.mark.parametrize("wrong", WRONG_LISTS)
def test_an_access_list_whose_rules_are_others_fails_the_proof(wrong: str) -> None:
    asked = dut("acl:100x8")
    here, there = work.sides(asked)
    ways = ((here, there), (there, here))
    forth, back = ([(each.source, each.target) for each in work.acl_rules(asked.pipeline, *way)] for way in ways)
    _prove(asked, (forth, back))
    change, why = WRONG_LISTS[wrong]
    with pytest.raises(PointFailed, match=why):
        _prove(asked, (change(forth), back))
    with pytest.raises(PointFailed, match=r"^acl:100x8: "):
        _prove(asked, (forth, change(back)))


@pytest.mark.parametrize("text", ["acl:1", "acl:2", "acl:7x3", "acl:200x64"])
def test_what_an_access_list_lets_pass_is_what_one_of_its_rules_does(text: str) -> None:
    asked = dut(text)
    here, there = work.sides(asked)
    rules = work.acl_rules(asked.pipeline, here, there)
    sources = {net[at] + by for net in (rule.source for rule in rules) for at in (0, -1) for by in (-1, 0, 1)}
    targets = {net[at] + by for net in (rules[0].target, rules[-1].target) for at in (0, -1) for by in (-1, 0, 1)}
    for src, dst in itertools.product(sources, targets):
        known = any(src in rule.source and dst in rule.target for rule in rules)
        assert work.lets_pass(asked.pipeline, here, there, src, dst) is known
