# SPDX-License-Identifier: Apache-2.0
"""Pipelines as text, as plans, as tables; what the proof says of frames that come out wrong; the answer by work."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from lab import studies
from lab.claims import LATENCY, measured
from lab.records import point, result, run_record, stream
from pydantic import TypeAdapter, ValidationError
from scapy.layers.l2 import Ether

from xdplab.analysis import answer, summarise
from xdplab.forwarders import work
from xdplab.forwarders.base import Dut
from xdplab.forwarders.linux_router import LinuxRouter, RouterOptions, _rules
from xdplab.forwarders.ovs_options import OvsOptions
from xdplab.forwarders.ovs_pipelines import rule_hits, tables
from xdplab.model import (
    CpuLayout,
    InputError,
    Path,
    Pipeline,
    Point,
    PointFailed,
    StreamSpec,
    TrialResult,
    TrialSpec,
    Unsupported,
)
from xdplab.model.pipeline import KINDS, PipelineText
from xdplab.runner import make_plan
from xdplab.runner.frame_exchange import Frame, exchange, in_tunnel, settled
from xdplab.runner.plan import _check_pipeline
from xdplab.runner.work_proof import WorkProof, prove_work
from xdplab.testbed import TesterPorts
from xdplab.testers import make_tester
from xdplab.testers.headers import headers_of

POINT: dict[str, Any] = {"forwarder": "ovs-afxdp", "path": "through", "knobs": {}, "traffic": {}}
TEXT: TypeAdapter[Pipeline] = TypeAdapter(PipelineText)


def dut(pipeline: str) -> Dut:
    names = ("b0", "b1", "a0", "c0")
    ports: Any = [SimpleNamespace(role=n, ifname=n, mac=f"02:00:00:00:00:{i:02x}") for i, n in enumerate(names)]
    layout = CpuLayout(tester_tx=0, forwarder=1)
    host: Any = None
    made = TEXT.validate_python(pipeline)
    return Dut(host, tuple(ports[:2]), Path.THROUGH, layout, FilePath("/"), peers=tuple(ports[2:]), pipeline=made)


@pytest.mark.parametrize(
    "text", ["cross", "bridge", "route:1", "route:100000", "acl:10", "acl:100x8", "acl:64x64", "nat"]
)
def test_a_pipeline_is_written_as_it_is_read(text: str) -> None:
    assert TEXT.dump_python(TEXT.validate_python(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rout:10", "did you mean 'route'?"),
        ("nat:5", "nat takes no number"),
        ("route:5x2", "route takes one number"),
        ("route:100001", "route:N takes 1 to 100000"),
        ("acl:0", "acl:N takes 1 to 10000"),
        ("acl:4x5", "no more than rules"),
        ("acl:100x65", "1 to 64 masks"),
        ("", "a pipeline is expected: cross, bridge"),
        (5, "a pipeline is expected"),
    ],
)
def test_what_is_none_is_one_line(text: object, why: str) -> None:
    with pytest.raises(ValidationError, match=r"pipeline|takes|masks") as told:
        TEXT.validate_python(text)
    assert why in str(told.value)


def test_each_pipeline_is_a_point_and_the_one_that_always_was_keeps_its_id() -> None:
    study, before, fake = studies.study(pipeline=["cross", "route:10"]), studies.study(), studies.a_testbed()
    tester = make_tester(study.tester)
    made, alone = make_plan(study, fake, tester), make_plan(before, fake, tester)
    assert sorted(str(point.pipeline) for point in made.points) == ["cross"] * 2 + ["route:10"] * 2
    assert {point.id for point in alone.points} < {point.id for point in made.points}
    assert len({point.setting for point in made.points}) == 2 * len({point.setting for point in alone.points})


@pytest.mark.parametrize(
    ("pipeline", "changes", "why"),
    [
        ("nat", {"traffic": {"bidirectional": True}}, "traffic.bidirectional: the other side cannot begin"),
        ("route:10", {"traffic": {"ip": 6}}, "traffic.ip: 6"),
        ("vlan", {"traffic": {"vlan": 5}}, "traffic.vlan"),
        ("acl:5", {"path": "hairpin"}, "path hairpin: its frames come back by themselves"),
        ("vxlan", {"traffic": {"bidirectional": True}}, "traffic.bidirectional: the other side cannot begin"),
    ],
)
def test_traffic_that_does_not_fit_is_refused_before_anything_runs(
    pipeline: str, changes: dict[str, Any], why: str
) -> None:
    study = studies.study(pipeline=pipeline, **changes)
    with pytest.raises(InputError, match=f"^pipeline {pipeline}: {why}"):
        make_plan(study, studies.a_testbed(), make_tester(study.tester))


def test_frames_are_addressed_to_a_router_and_to_nothing_else() -> None:
    end: Any = SimpleNamespace
    ports = TesterPorts(end(mac="a0"), end(mac="c0"))
    forth, back = (StreamSpec(kind="load", pps=1, frame_bytes=64, direction=way) for way in ("forward", "backward"))
    assert [headers_of(each, ports).dst_mac for each in (forth, back)] == ["c0", "a0"]
    routed = TesterPorts(ports.first, ports.last, routers=("b0", "b1"))
    assert [headers_of(each, routed).dst_mac for each in (forth, back)] == ["b0", "b1"]


@pytest.mark.parametrize("text", ["acl:1", "acl:100", "acl:10000", "acl:100x8", "acl:10000x64"])
def test_an_access_list_has_as_many_rules_and_masks_as_asked_and_one_for_the_traffic(text: str) -> None:
    asked = dut(text)
    here, there = work.sides(asked)
    found = work.acl_rules(asked.pipeline, here, there)
    assert (len(set(found)), len(found)) == (asked.pipeline.rules,) * 2
    masks = {(rule.source.prefixlen, rule.target.prefixlen) for rule in found}
    assert len(masks) == asked.pipeline.masks
    matching = [rule for rule in found if here.network[1] in rule.source and there.network[1] in rule.target]
    assert matching == [found[-1]]


def test_a_routing_table_has_its_prefixes_and_one_takes_the_traffic() -> None:
    asked = dut("route:100000")
    for side in work.sides(asked):
        found = list(work.prefixes(asked.pipeline, side))
        assert len(set(found)) == 100_000
        assert [net for net in found if side.network[1] in net] == [side.network]
    ours, theirs = (set(work.prefixes(asked.pipeline, side)) for side in work.sides(asked))
    assert not ours & theirs
    assert all(side.network.subnet_of(work.TRAP) for side in work.sides(asked))
    assert not work.TRAP.overlaps(IPv4Network("10.0.0.0/8"))


@pytest.mark.parametrize("kind", KINDS)
def test_open_vswitch_is_told_every_pipeline(kind: str) -> None:
    asked = dut({"route": "route:7", "acl": "acl:9x3"}.get(kind, kind))
    made = tables(asked, ("p0", "p1"), OvsOptions())
    marked = [rule for rule in made.flows if "cookie=1," in rule or "cookie=2," in rule]
    expected = {"cross": 0, "conntrack": 3, "nat": 3}
    assert len(marked) == expected.get(kind, 2)
    assert len(made.flows) == {"route": 15, "acl": 18 + 3, "vxlan": 4, "conntrack": 7, "nat": 7}.get(kind, 2)
    assert (len(made.groups), len(made.meters)) == (2 * (kind == "group"), int(kind == "meter"))


def test_options_that_make_other_rules_are_not_dropped_in_silence() -> None:
    with pytest.raises(Unsupported, match="rules=flows: these are rules of pipeline cross, not of nat"):
        tables(dut("nat"), ("p0", "p1"), OvsOptions(rules="flows"))


@pytest.mark.parametrize(("kind", "adds"), [("route", "ip protocol udp"), ("conntrack", "ct state established")])
def test_a_flowtable_is_over_both_ports_and_takes_connections(kind: str, adds: str) -> None:
    asked = dut(kind)
    rules = "\n".join(_rules(asked, *work.sides(asked), flowtable=True))
    assert 'devices = { "b0", "b1" }' in rules
    assert f"{adds} flow add @known" in rules
    assert "flow" not in "\n".join(_rules(asked, *work.sides(asked), flowtable=False))


def test_a_kernel_without_flowtables_says_so_and_one_that_takes_none_too() -> None:
    asked = dut("conntrack")
    done = SimpleNamespace(returncode=1, complaint="Error: Could not process rule")
    host: Any = SimpleNamespace(run=lambda argv, **_: done)
    router = LinuxRouter(RouterOptions(flowtable=True))
    there = replace(asked, host=host, ports=tuple(SimpleNamespace(lasting=False) for _ in asked.ports))  # type: ignore[misc]
    assert (router.supported(there) or "").startswith("flowtable=true: this kernel has no flowtables (CONFIG_NF_FLOW")
    assert "meets no access list" in (router.supported(replace(there, pipeline=dut("acl:5").pipeline)) or "")
    router._dut = there
    assert "not in force" in (router.ineffective() or "")


def test_rules_are_counted_by_their_cookie() -> None:
    dumped = (
        " cookie=0x0, duration=2s, table=0, n_packets=7, n_bytes=0, ip\n"
        " cookie=0x1, duration=2s, table=1, n_packets=1000, n_bytes=9, priority=5,ip actions=drop\n"
        " cookie=0x1, duration=2s, table=1, n_packets=2, n_bytes=9, ip\n"
        " cookie=0x2, duration=2s, table=1, n_packets=0, n_bytes=9, ip\n"
    )
    assert rule_hits(dumped) == {"forth": 1002, "back": 0}


class Switch:
    """Both probes; what is sent on one side comes out as a table says."""

    def __init__(self, table: dict[str, list[tuple[int, str]]]) -> None:
        self.table = table
        self.out: tuple[list[str], list[str]] = ([], [])
        self.probes: Any = [self.probe(side) for side in (0, 1)]

    def probe(self, side: int) -> Any:
        def send(line: str) -> None:
            for to, form in self.table.get(line, []):
                self.out[to].append(form)

        def receive(timeout_s: float) -> str | None:
            return self.out[side].pop(0) if self.out[side] else None

        return SimpleNamespace(process=SimpleNamespace(send=send), receive=receive)


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
def test_a_frame_that_comes_out_wrong_is_told_of(
    table: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xdplab.runner.frame_exchange._ANSWER_S", 0.05)
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
    ("checksum", "why"), [(None, ""), (7, "a new connection sent on side 0: it came out on side 1")]
)
def test_a_translation_may_choose_the_port_but_no_checksum(
    checksum: int | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xdplab.runner.frame_exchange._ANSWER_S", 0.05)
    proof = WorkProof(dut("nat"))
    seen: list[tuple[int, bytes]] = []
    rounds: Iterator[list[Frame]] = proof._rounds(seen)
    first = next(rounds)
    out = Ether(first[0].out[1][0])
    out["UDP"].sport, out["UDP"].chksum = 1024, checksum
    switch = Switch({first[0].data.hex(): [(1, bytes(out).hex())]})
    if why:
        with pytest.raises(PointFailed, match=why):
            exchange(switch.probes, first, proof._pipeline, proof._settled)
        return
    seen[:] = exchange(switch.probes, first, proof._pipeline, proof._settled)
    assert Ether(next(rounds)[-1].data)["UDP"].dport == 1024


def test_a_group_that_takes_one_bucket_only_fails() -> None:
    proof = WorkProof(dut("group"))
    seen: list[tuple[int, bytes]] = []
    rounds: Iterator[list[Frame]] = proof._rounds(seen)
    frames = next(rounds)
    seen[:] = [(1, frame.out[1][0]) for frame in frames]
    with pytest.raises(PointFailed, match="64 flows took the buckets 02:00:00:00:00:b1 only"):
        next(rounds)


def test_the_answer_names_a_winner_for_each_work_by_itself() -> None:
    kinds: tuple[Literal["bridge", "nat", "meter"], ...] = ("bridge", "nat", "meter")
    points = [
        point(name).model_copy(update={"pipeline": Pipeline(kind=kind)})
        for kind in kinds
        for name in ("ovs-afxdp", "ovs-afpacket")
    ]
    took = [2.0, 6.0, 4.0, 4.0, 2.0, 6.0]
    status = ["ok"] * 4 + ["disturbed"] * 2
    trials = [each for at, us, is_ in zip(points, took, status, strict=True) for each in measured(at, us, status=is_)]
    run = run_record(*points, study={**LATENCY, "repetitions": 5, "pipeline": kinds})
    told = answer(run, summarise(run, trials), trials)
    assert told.said
    assert "p50 at 0.2 kpps, by work: bridge: ovs-afxdp 3 times as fast (99% interval " in told.sentence
    assert "cannot be told apart in nat" in told.sentence
    assert "nothing is said of meter: 0 clean of 5 paired repetitions" in told.sentence


@pytest.mark.parametrize(
    ("trials", "proven"),
    [
        ([(1000, 1000, 0)], True),
        ([(0, 0, 0)] * 3, False),
        ([(300, 1000, 0)] * 3, False),
        ([(1000, 300, 0)] * 3, False),
        ([(1000, 1000, 1)] * 3, False),
        ([(990, 990, 0), (1000, 1000, 0)], True),
    ],
)
def test_all_frames_that_are_counted_meet_the_rule_and_come_out(
    monkeypatch: pytest.MonkeyPatch, trials: list[tuple[int, int, int]], proven: bool
) -> None:
    """Of 1,000 so many come out, and meet the rules of either direction; they are sent again where some do not."""
    monkeypatch.setattr(WorkProof, "carry_out", lambda self, workdir: None)
    hits = {"forth": 7, "back": 3}
    left = iter(trials)

    def send(spec: TrialSpec) -> TrialResult:
        received, forth, back = next(left)
        hits.update(forth=hits["forth"] + forth, back=hits["back"] + back)
        return result(stream([1000] * received, sent=1000))

    forwarder: Any = SimpleNamespace(rule_hits=lambda: dict(hits))
    with (
        nullcontext() if proven else pytest.raises(PointFailed, match=r"of 1000 frames sent .* came out, and its rules")
    ):
        prove_work(forwarder, dut("acl:10"), FilePath(), send)
    assert list(left) == []
