# SPDX-License-Identifier: Apache-2.0
"""Pipelines as text, as plans, as tables; the answer by work."""

import re
from dataclasses import replace
from ipaddress import IPv4Network, ip_network
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from lab import studies
from lab.claims import LATENCY, measured
from lab.records import point, result, run_record, stream
from lab.work import TEXT, dut
from pydantic import ValidationError

from xdplab.analysis import answer, summarise
from xdplab.forwarders import work
from xdplab.forwarders.kernel.router import LinuxRouter, RouterOptions, _Router, _rules
from xdplab.forwarders.ovs.daemon import BRIDGE
from xdplab.forwarders.ovs.forwarder import OvsAfxdp, OvsDpdk, OvsForwarder
from xdplab.forwarders.ovs.options import OvsAfxdpOptions, OvsDpdkOptions, UserspaceOptions
from xdplab.forwarders.ovs.pipelines import TUNNEL_ENDS, route_added, tables
from xdplab.model import InputError, Pipeline, StreamSpec, Unsupported, XdplabError
from xdplab.model.pipeline import KINDS, TOPOLOGIES, WITH_PODS
from xdplab.runner import make_plan
from xdplab.runner.refusals import _of_work
from xdplab.testbed import TesterPorts
from xdplab.testers import make_tester
from xdplab.testers.packets import headers_of

POINT: dict[str, Any] = {"forwarder": "ovs-afxdp", "path": "through", "knobs": {}, "traffic": {}}


@pytest.mark.parametrize(
    "text",
    [
        "cross",
        "bridge",
        "route:1",
        "route:100000",
        "acl:10",
        "acl:100x8",
        "acl:64x64",
        "nat",
        "containers:8",
        "vhost-user:1",
        "vxlan-link",
        "openflow:my nodes/one.yaml",
    ],
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
        ("containers:9", "containers:N takes 1 to 8"),
        ("containers:2x2", "containers takes one number"),
        ("geneve-link:2", "geneve-link takes no number"),
        ("openflow", "openflow:FILE takes the file"),
        ("openflow:", "a pipeline is expected"),
        ("", "a pipeline is expected: cross, bridge"),
        (5, "a pipeline is expected"),
    ],
)
def test_what_is_none_is_one_line(text: object, why: str) -> None:
    with pytest.raises(ValidationError, match=r"pipeline|takes|masks") as reported:
        TEXT.validate_python(text)
    assert why in str(reported.value)


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
    ports = TesterPorts(end(mac="a0", address=""), end(mac="c0", address=""))
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
    made = [set(work.prefixes(asked.pipeline, side)) for side in work.sides(asked)]
    assert [len(each) for each in made] == [100_000] * 2
    for side, found in zip(work.sides(asked), made, strict=True):
        around = {ip_network((side.network[1], bits), strict=False) for bits in range(33)}
        assert found & around == {side.network}
    assert not set.intersection(*made)
    assert all(side.network.subnet_of(work.TRAP) for side in work.sides(asked))
    assert not work.TRAP.overlaps(IPv4Network("10.0.0.0/8"))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "openflow"])
def test_open_vswitch_is_given_every_pipeline(kind: str) -> None:
    asked = dut({"route": "route:7", "acl": "acl:9x3"}.get(kind, f"{kind}:2" if kind in WITH_PODS else kind))
    further = ["p1a", "p1b", "p2a", "p2b"] if kind in TOPOLOGIES else []
    made = tables(asked, ("p0", "p1"), UserspaceOptions(), further)
    marked = [rule for rule in made.flows if "cookie=1," in rule or "cookie=2," in rule]
    expected = {"cross": 0, "conntrack": 3, "nat": 3}
    assert len(marked) == expected.get(kind, 2)
    other = 4 + 4 if kind.endswith("-link") else 2 * 3 if kind in WITH_PODS else 2
    assert len(made.flows) == {"route": 15, "acl": 18 + 3, "vxlan": 4, "conntrack": 7, "nat": 7}.get(kind, other)
    assert (len(made.groups), len(made.meters)) == (2 * (kind == "group"), int(kind == "meter"))


@pytest.mark.parametrize("way", [("p0", "p1"), ("p1", "p0")])
def test_frames_pass_all_containers_on_their_way_and_the_first_rule_of_each_direction_counts(
    way: tuple[str, str],
) -> None:
    inside = ["p1a", "p1b", "p2a", "p2b", "p3a", "p3b"]
    rules = tables(dut("containers:3"), ("p0", "p1"), UserspaceOptions(), inside).flows
    out = dict(re.findall(r"in_port=(\w+),actions=output:(\w+)", "\n".join(rules)))
    other = {a: b for pair in zip(inside[::2], inside[1::2], strict=True) for a, b in (pair, pair[::-1])}
    at, last, passed = way[0], way[1], []
    while (at := out[at]) != last:
        passed.append(at)
        at = other[at]
    assert passed == (inside[::2] if way[0] == "p0" else inside[::-1][::2])
    assert [rule for rule in rules if rule.startswith("cookie=1,")] == ["cookie=1,in_port=p0,actions=output:p1a"]
    assert [rule for rule in rules if rule.startswith("cookie=2,")] == ["cookie=2,in_port=p1,actions=output:p3b"]


def test_what_an_end_of_a_tunnel_sends_leaves_by_its_own_link_and_comes_in_by_the_other() -> None:
    rules = tables(dut("geneve-link"), ("p0", "p1"), UserspaceOptions(), ["u1", "u2", "t1", "t2"]).flows
    here, there = TUNNEL_ENDS
    for source, target, by, at in ((here, there, "u1", "u2"), (there, here, "u2", "u1")):
        outer = f"udp,nw_src={source},nw_dst={target},tp_dst=6081"
        assert f"in_port=LOCAL,{outer},actions=output:{by}" in rules
        assert f"in_port={at},{outer},actions=output:LOCAL" in rules


def test_containers_are_of_the_testbed_that_builds_its_hosts() -> None:
    asked = dut("taps:2")
    reason = _of_work(
        SimpleNamespace(), SimpleNamespace(), OvsAfxdp(OvsAfxdpOptions()), asked, SimpleNamespace(trex=None)
    )  # type: ignore[arg-type]
    assert (reason or "").startswith("pipeline taps:2: containers are namespaces of this machine")


def test_dpdk_that_counts_its_memory_wrongly_is_refused_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OvsForwarder, "unsupported", lambda self, dut: None)
    version = {"version": "ovs-vswitchd (Open vSwitch) 3.1.0 DPDK 22.11.1"}
    monkeypatch.setattr("xdplab.forwarders.ovs.forwarder.build_facts", lambda host, build: version)
    monkeypatch.setattr(OvsDpdk, "build", lambda self, host: None)

    def refused(pipeline: str, **options: Any) -> bool:
        return "takes its UMEM for smaller" in (OvsDpdk(OvsDpdkOptions(**options)).unsupported(dut(pipeline)) or "")

    assert [refused(each) for each in ("taps:1", "vhost-user:1", "containers:1", "cross")] == [True, True, False, False]
    assert not refused("taps:1", hugepages=True)
    assert not refused("taps:1", port="af_packet")
    for on_links in ("containers:1", "af-xdp-apps:1", "geneve-link"):
        reason = OvsDpdk(OvsDpdkOptions(port="pmd")).unsupported(dut(on_links))
        assert reason == f"pipeline {on_links}: with port=pmd a port is a card, and the links of this pipeline are not"
    version["version"] = "ovs-vswitchd (Open vSwitch) 3.5.0 DPDK 24.11.2"
    assert not refused("taps:1")


def test_options_that_make_other_rules_are_not_dropped_in_silence() -> None:
    with pytest.raises(Unsupported, match="rules=flows: these are rules of pipeline cross, not of nat"):
        tables(dut("nat"), ("p0", "p1"), UserspaceOptions(rules="flows"))


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
    assert (router.unsupported(there) or "").startswith("flowtable=true: this kernel has no flowtables (CONFIG_NF_FLOW")
    assert "bypass the access list" in (router.unsupported(replace(there, pipeline=dut("acl:5").pipeline)) or "")
    router.instance = _Router(there, flowtable=True)
    assert "not in force" in (router.ineffective() or "")


def test_the_answer_names_a_winner_for_each_work_by_itself() -> None:
    kinds: tuple[Literal["bridge", "nat", "meter"], ...] = ("bridge", "nat", "meter")
    points = [
        point(name).model_copy(update={"pipeline": Pipeline(kind=kind)})
        for kind in kinds
        for name in ("ovs-afxdp", "ovs-afpacket")
    ]
    took = [2.0, 6.0, 4.0, 4.0, 2.0, 6.0]
    rounds = [5] * 4 + [2] * 2
    trials = [each for at, us, n in zip(points, took, rounds, strict=True) for each in measured(at, us)[:n]]
    run = run_record(*points, study={**LATENCY, "repetitions": 5, "pipeline": kinds})
    reported = answer(run, summarise(run, trials), trials)
    assert reported.decided
    assert reported.sentence == (
        "ovs-afxdp is ahead in 1 of 3 pieces of work, p50 at 0.2 kpps, ovs-afpacket in none; "
        "no measurable difference in 1; undecided in 1."
    )
    assert "Bridge: ovs-afxdp 3 times as fast (99 % interval " in reported.text()
    assert "No measurable difference in nat (" in reported.text()
    assert "No statement about meter: 2 of the 3 rounds that an interval needs" in reported.text()


def test_the_answer_by_work_names_the_loads_that_it_compares() -> None:
    """Of 100 and 5 kpps the first was compared, and the sentence said 5 kpps, where the other one is ahead."""
    kinds: tuple[Literal["cross", "nat"], ...] = ("cross", "nat")
    points = [
        point(name, probe_pps=pps).model_copy(update={"pipeline": Pipeline(kind=kind)})
        for name in ("ovs-afxdp", "ovs-afpacket")
        for pps in (100e3, 5e3)
        for kind in kinds
    ]
    trials = []
    for at in points:
        pps = at.traffic.probe_pps
        faster = (at.forwarder.name == "ovs-afxdp") == (pps == 5e3)
        for one in measured(at, 10 if faster else 20):
            sent = stream([10_000 if faster else 20_000] * 200, achieved_pps=pps)
            trials.append(one.model_copy(update={"result": result(sent), "offered_pps": pps}))
    run = run_record(*points, study={**LATENCY, "repetitions": 5})
    found = answer(run, summarise(run, trials), trials)
    assert found.sentence == "ovs-afxdp is ahead in 0 of 2 pieces of work, p50 at 100 kpps, ovs-afpacket in 2."


def test_a_route_is_added_once_the_daemon_knows_the_bridge_s_address() -> None:
    """Open vSwitch learns of it by netlink, and refuses the route until then (seen with 3.5 on a busy machine)."""
    answers = ["Error while inserting route.", "Error while inserting route.", ""]
    asked: list[tuple[str, ...]] = []

    class Daemon:
        name = "ovs-afxdp"

        def control(self, *words: str) -> str:
            asked.append(words)
            if answer := answers.pop(0):
                raise XdplabError(f"B: ovs-vswitchd.ctl: {answer}")
            return ""

    daemon: Any = Daemon()
    assert [route_added(daemon, "10.0.0.2") for _ in range(3)] == [False, False, True]
    assert set(asked) == {("ovs/route/add", "10.0.0.2/32", BRIDGE)}
    answers.append("unknown command")
    with pytest.raises(XdplabError, match="unknown command"):
        route_added(daemon, "10.0.0.2")
