# SPDX-License-Identifier: Apache-2.0
"""New flows next to the traffic (`traffic.new_flows_pps`): an exact part of the load, counted and timed apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.reading import render
from lab.records import point, result, run_record, stream, trial

from xdplab.analysis import summarise
from xdplab.cli.tables import csv_text, summary_table
from xdplab.measure import make_method
from xdplab.measure.streams import load_streams
from xdplab.model import InputError, Path as Way, StreamSpec, TestbedSpec, TrafficSpec, TrialSpec
from xdplab.testbed import FakeTestbed
from xdplab.testers import make_tester
from xdplab.testers.packets import headers_of
from xdplab.testers.stream_json import NewFlows
from xdplab.testers.trex_streams import behind_known
from xdplab_changes.figures import repetition_figures

PORTS = FakeTestbed(TestbedSpec(name="t", kind="fake")).tester_ports(Way.THROUGH)


@pytest.mark.parametrize(
    ("traffic", "load_pps", "sent"),
    [
        ({}, 1000.0, [("load", 900.0), ("latency", 100.0)]),
        ({}, None, [("latency", 100.0)]),
        ({"bidirectional": True}, 1000.0, [("load", 900.0)] * 2 + [("latency", 100.0)] * 2),
        ({"frame_bytes": "imix"}, 1300.0, [("load", 700.0), ("load", 400.0), ("load", 100.0), ("latency", 100.0)]),
    ],
)
def test_they_are_part_of_the_load(traffic: dict[str, Any], load_pps: float | None, sent: list[Any]) -> None:
    streams = load_streams(TrafficSpec(new_flows_pps=100.0, **traffic), load_pps)
    assert [(each.kind, pytest.approx(each.pps)) for each in streams] == sent
    assert [each.new_flows for each in streams] == [kind == "latency" for kind, _ in sent]
    assert len({(each.direction, each.start_ns) for each in streams}) == len(streams)
    assert not any(each.new_flows for each in load_streams(TrafficSpec(new_flows_pps=100.0), 1000.0, count=10))


def test_no_flow_comes_twice_before_all_were_there() -> None:
    new = StreamSpec(kind="latency", pps=20_000.0, frame_bytes=64, flows=7, flow_choice="zipf", new_flows=True)
    known = StreamSpec(kind="load", pps=1.0, frame_bytes=64, flows=7)
    asked, counter = TrialSpec(streams=(known, new), duration_s=1.0, warmup_s=0.25), NewFlows()
    reported = [counter.objects(asked, PORTS)[1] for _ in range(3)]
    assert [(each["flow_choice"], each["first_flow"]) for each in reported] == [
        ("new", 7), ("new", 25_007), ("new", 7)
    ]  # fmt: skip
    assert [each["first_flow"] + each["flows"] for each in reported] == [55_536] * 3
    assert "first_flow" not in counter.objects(asked, PORTS)[0]
    back = new.model_copy(update={"direction": "backward", "dst_addresses": 250, "src_addresses": 250})
    (there,) = counter.objects(asked.model_copy(update={"streams": (back,)}), PORTS)
    assert (there["first_flow"], there["flows"]) == (7, 55_536 * 62_500 - 7)


def test_trex_has_them_where_nothing_is_sent_before_and_says_so() -> None:
    new = StreamSpec(kind="latency", pps=1.0, frame_bytes=64, flows=7, dst_addresses=3, new_flows=True)
    headers, stream_of_all = behind_known(headers_of(new, PORTS), new)
    assert (headers.udp_src, stream_of_all.flows) == (10_003, (55_536 - 3) * 3)
    why = make_tester("trex").supports_traffic(TrafficSpec(new_flows_pps=1.0), PORTS)
    assert why is not None
    assert why.startswith("new_flows_pps: TRex has the warm-up's flows again")


def test_first_frames_are_reported_apart_from_all_others() -> None:
    at = point(probe_pps=1000.0, new_flows_pps=100.0)
    known, first = [1000] * 1000, [9000] * 98
    one = result(stream(known), stream(first, sent=100, new_flows=True))
    record = run_record(at)
    trials = [trial(at, number, result=one) for number in range(2)]
    (summary,) = summarise(record, trials)
    assert (summary.p50_us, summary.max_us, summary.samples) == (1.0, 1.0, 2000)
    assert summary.loss_ratio == pytest.approx(2 / 1100)
    assert summary.new_flows is not None
    assert summary.new_flows.model_dump(exclude={"p99_us"}) == {
        "sent": 200, "received": 196, "lost": 4, "sent_pps": 100.0, "p50_us": pytest.approx(9.0, rel=0.01)
    }  # fmt: skip
    method = make_method(record.study.method)
    table = summary_table(method, [summary])
    assert table.index("new flows") < table.index("first p50 us") < table.index("Each of these frames is the first")
    assert "new_flows_p50_us" in csv_text(method, [summary])
    assert ">New flows</h2>" in render(record, trials)
    (without,) = summarise(run_record(point()), [trial(point())])
    assert "new flows" not in summary_table(method, [without])


def test_a_simulated_run_counts_them_to_the_frame(results: Path, tmp_path: Path, cli: Callable[..., Done]) -> None:
    traffic = {"probe_pps": 20_000, "load_pps": 100_000, "new_flows_pps": 5_000}
    assert not cli("run", studies.study_file(tmp_path, forwarders=["fake"], traffic=traffic)).complaints
    asked, reported = next(
        (one.asked, one.result) for one in studies.only_run(results).trials() if one.asked and one.result
    )
    assert asked.offered_pps == 120_000
    assert [(each.new_flows, each.sent) for each in reported.streams] == [(False, 1000), (False, 4750), (True, 250)]


SEARCH = {"name": "throughput", "low_pps": 5000}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"new_flows_pps": 0}, "new_flows_pps"),
        ({"new_flows_pps": 2000, "load_pps": 1000}, "2,000 are more than the load of 1,000 frames per second"),
        ({"new_flows_pps": 2e6}, "new flows: 100,000 in a trial are more than the 55,535 of 1 pairs of addresses"),
        ({"new_flows_pps": 1000, "method": {"name": "micro"}}, "method micro sends none; latency, rfc2544"),
        ({"new_flows_pps": 5000, "method": SEARCH}, "leave nothing of method.low_pps, 5,000"),
        (
            {"new_flows_pps": 10, "method": {**SEARCH, "equal_load": {"latency_pps": 10}}},
            "leave nothing of method.equal_load.latency_pps, 10",
        ),
        (
            {"new_flows_pps": 10, "method": {"name": "changes", "kinds": ["new-flows"]}},
            "change new-flows has those of probe_pps; leave one out",
        ),
        (
            {"new_flows_pps": 10, "frame_bytes": "imix", "address_pairs": 2, "bidirectional": True, "flows": 1},
            None,
        ),
        ({"new_flows_pps": 10, "frame_bytes": "imix", "address_pairs": 3, "bidirectional": True}, "22 streams"),
        (
            {"frame_bytes": "imix", "address_pairs": 3, "method": {"name": "rfc2544", "clauses": ["recovery"]}},
            "18 streams",
        ),
        (
            {"loads": [{"new_flows_pps": 9}, {"new_flows_pps": 5000}], "method": SEARCH},
            "leave nothing of method.low_pps",
        ),
        (
            {"loads": [{"new_flows_pps": 9}], "method": {"name": "changes", "kinds": ["new-flows"]}},
            "change new-flows has those of probe_pps; leave one out",
        ),
        (
            {"probe_pps": "80%", "method": {"name": "changes", "kinds": ["new-flows"]}},
            "traffic.probe_pps: 80%: change new-flows sends as many",
        ),
        (  # a reset goes on for four times as long where the forwarder is not back
            {"new_flows_pps": 5000, "method": {"name": "rfc2544", "clauses": ["reset"], "low_pps": 6000}},
            "new flows: 80,500 in a trial are more than the 55,535",
        ),
    ],
)
def test_what_cannot_be_is_one_line(
    tmp_path: Path, cli: Callable[..., Done], changes: dict[str, Any], words: str | None
) -> None:
    given = {key: changes.pop(key) for key in ("method", "loads") if key in changes}
    path = studies.study_file(tmp_path, forwarders=["fake"], traffic={"probe_pps": 20_000, **changes}, **given)
    done = cli("run", path, "--dry-run")
    if words is None:
        assert not done.complaints
    else:
        done.refused(words)


def test_the_gap_of_a_change_is_not_that_between_two_new_flows() -> None:
    probes = stream([1000] * 998, sent=1000, longest_gap_ns=3_000_000, achieved_pps=1000.0)
    rare = {"longest_gap_ns": 101_000_000, "achieved_pps": 10.0, "trailing_lost": 1}
    new = stream([9000] * 9, sent=10, new_flows=True, **rare)
    made = {"clause": "port-added", "figures": {"text": "", "rounds": 1, "steps": {}}}
    found = repetition_figures(trial(point(new_flows_pps=10.0), **made, result=result(probes, new)))
    gap = found.figures["gap_us"]
    assert (gap.value, gap.exact) == (3000.0, True)


def test_a_tester_that_waits_for_each_answer_sends_none() -> None:
    from xdplab.runner import make_plan

    study = studies.study(
        testbed="t", tester="xsk-ping", forwarders=["xdp"], path="hairpin", traffic={"new_flows_pps": 1.0}
    )
    with pytest.raises(InputError, match=r"new_flows_pps: tester xsk-ping waits for each batch"):
        make_plan(study, studies.a_testbed("embedded"), make_tester("xsk-ping"))
