# SPDX-License-Identifier: Apache-2.0
"""Traffic that fits a pipeline: addresses that meet each rule, and departures of its load."""

from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from lab import studies
from lab.frames import of_flow
from test_pipelines import dut

from xdplab.forwarders import work
from xdplab.forwarders.base import Dut
from xdplab.measure.streams import load_streams, probe_streams
from xdplab.model import InputError, StreamSpec, TrafficSpec
from xdplab.runner import make_plan
from xdplab.testbed import TesterPorts
from xdplab.testers import make_tester
from xdplab.testers.packets import headers_of


def frames_of(asked: Dut, flows: int, direction: Literal["forward", "backward"]) -> list[tuple[IPv4Address, ...]]:
    """Source and target of each flow of a tester that shall meet all rules."""
    end: Any = SimpleNamespace(mac="02:00:00:00:00:01", address="")
    ports = TesterPorts(end, end, rules=work.other_rules(asked.pipeline))
    stream = StreamSpec(kind="load", pps=1, frame_bytes=64, flows=flows, rule_match="all", direction=direction)
    each = [of_flow(headers_of(stream, ports), number) for number in range(flows)]
    return [(IPv4Address(headers.src_ip), IPv4Address(headers.dst_ip)) for headers in each]


@pytest.mark.parametrize("text", ["route:1", "route:100", "acl:1", "acl:100", "acl:100x64"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_traffic_that_meets_all_has_a_flow_for_each_rule_and_none_for_the_others(
    text: str, direction: Literal["forward", "backward"]
) -> None:
    asked = dut(text)
    source, target = work.sides(asked)[:: 1 if direction == "forward" else -1]
    prefixes, rules = list(work.prefixes(asked.pipeline, target)), work.acl_rules(asked.pipeline, source, target)
    met: list[list[Any]] = []
    for src, dst in frames_of(asked, asked.pipeline.rules, direction):
        if asked.pipeline.kind == "route":
            met.append([prefix for prefix in prefixes if dst in prefix])
            assert src in source.network
        else:
            met.append([rule for rule in rules if src in rule.source and dst in rule.target])
            assert dst in target.network
    assert {len(each) for each in met} == {1}
    assert len({each[0] for each in met}) == asked.pipeline.rules


def test_departures_are_of_a_load() -> None:
    tester = make_tester("fake")
    loaded = {"departures": "poisson", "load_pps": 1000}
    assert make_plan(studies.study(traffic=loaded), studies.a_testbed(), tester)
    with pytest.raises(InputError, match="it is of the load, and none is sent here"):
        make_plan(studies.study(traffic={"departures": "poisson"}), studies.a_testbed(), tester)
    sent = load_streams(TrafficSpec(departures="burst:32"), 1000.0)
    assert {each.departures for each in sent} == {"burst:32"}
    assert {each.departures for each in probe_streams(TrafficSpec(departures="burst:32"))} == {"paced"}


def test_fewer_flows_than_rules_do_not_meet_all() -> None:
    study = studies.study(pipeline="route:1000", traffic={"rule_match": "all", "flows": 999})
    with pytest.raises(
        InputError, match="999 flows do not exercise all rules of pipeline route:1000: give 1,000 or more"
    ):
        make_plan(study, studies.a_testbed(), make_tester(study.tester))


@pytest.mark.parametrize("pipeline", ["cross", "route:1", "acl:1"])
def test_more_flows_than_rules_have_ports_do_not_meet_all(pipeline: str) -> None:
    asked: dict[str, Any] = {"pipeline": pipeline, "traffic": {"rule_match": "all", "flows": 55_536}}
    tester = make_tester("fake")
    make_plan(studies.study(**asked), studies.a_testbed(), tester)
    asked["traffic"]["flows"] += 1
    with pytest.raises(
        InputError, match=r"^traffic.flows: 55,537 are more than the 1 of pipeline .* 55,536 source ports"
    ):
        make_plan(studies.study(**asked), studies.a_testbed(), tester)
    make_plan(studies.study(**{**asked, "pipeline": "acl:2"}), studies.a_testbed(), tester)
