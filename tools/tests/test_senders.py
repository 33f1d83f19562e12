# SPDX-License-Identifier: Apache-2.0
"""Several CPUs that send for one port: how a load is divided, what is told of the parts together, and whose CPUs."""

import os
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.records import latency, stream

from xdplab.model import CpuLayout, FlowFigures, InputError, Path as Way, StreamSpec, TestbedSpec, TrialSpec
from xdplab.runner import make_plan
from xdplab.runner.tester_pool import TesterPool
from xdplab.testbed import FakeTestbed
from xdplab.testbed.base import default_layout
from xdplab.testers import TesterContext, make_tester, xdpgen
from xdplab.testers.xdpgen import Xdpgen, merge_parts, parts_of


def divided(cpus: tuple[int, ...] = (0, 3), **stream_fields: Any) -> list[dict[str, Any]]:
    """What each CPU is given of one load that differs from its fellows'."""
    asked = StreamSpec(**{"kind": "load", "pps": 1000.0, "frame_bytes": 64, **stream_fields})
    keys = ("pps", "count", "start_ns", "flows", "departures")
    parts = parts_of(TrialSpec(streams=(asked,), duration_s=1.0), cpus)
    found = [{key: getattr(part.stream, key) for key in keys} for part in parts]
    assert [part.cpu for part in parts] == [*cpus[: len(parts)]]
    return [{**each, "first_flow": part.first_flow} for each, part in zip(found, parts, strict=True)]


def test_a_load_is_divided_exactly() -> None:
    one = {"pps": 500.0, "count": 0, "start_ns": 7, "flows": 5, "departures": "paced", "first_flow": 0}
    assert divided(start_ns=7, flows=10) == [one, {**one, "start_ns": 1_000_007, "first_flow": 5}]
    undivided = {"flows": 3, "first_flow": 0}
    assert [each | undivided for each in divided(flows=3)] == divided(flows=3)
    drawn = divided(flows=10, flow_choice="zipf")
    assert [(each["flows"], each["first_flow"]) for each in drawn] == [(10, 0)] * 2
    assert [(each["pps"], each["count"]) for each in divided(pps=None, count=101)] == [(None, 51), (None, 50)]
    assert len(divided(count=1)) == 1
    three = divided((0, 1, 2), flows=9, count=10)
    assert [(each["count"], each["first_flow"]) for each in three] == [(4, 0), (3, 3), (3, 6)]
    assert [(each["start_ns"], each["departures"]) for each in divided(departures="burst:32")] == [(0, "burst:16")] * 2
    assert [(each["pps"], each["departures"]) for each in divided(departures="burst:2")] == [(500.0, "paced")] * 2


def test_what_is_time_stamped_has_one_sender() -> None:
    probe = StreamSpec(kind="latency", pps=10.0, frame_bytes=64)
    load = StreamSpec(kind="load", pps=10.0, frame_bytes=64)
    parts = parts_of(TrialSpec(streams=(probe, load, probe), duration_s=1.0), (4, 2))
    assert [(part.of, part.cpu) for part in parts] == [(0, 4), (1, 4), (1, 2), (2, 4)]


def test_counts_of_the_parts_add_up() -> None:
    asked = StreamSpec(kind="load", pps=200.0, frame_bytes=64, flows=4)
    times = {"min_ns": (None, None), "mean_ns": (None, None), "max_ns": (None, None)}
    flows = FlowFigures(sent=(50, 50), received=(50, 49), lost=(0, 1), **times)
    late = latency([100, 300])
    first = stream(
        sent=100, kind="load", received=99, lost=1, rx_pps=99.0, tx_drops=1, on_schedule=90, last_lost=49,
        longest_gap_ns=20, lateness=late, flow_figures=flows, trailing_lost=2, duplicated=3, damaged=1, out_of_order=4,
        beyond_window=5,
    )  # fmt: skip
    second = first.model_copy(update={"last_lost": 79, "longest_gap_ns": 10})
    reported = merge_parts(asked, [first, second])
    names = (
        "offered_pps", "sent", "received", "lost", "tx_drops", "on_schedule", "trailing_lost", "duplicated", "damaged",
        "out_of_order", "beyond_window", "achieved_pps", "rx_pps",
    )  # fmt: skip
    assert [getattr(reported, name) for name in names] == [200, 200, 198, 2, 2, 180, 4, 6, 2, 8, 10, 200, 198]
    assert (reported.last_lost, reported.longest_gap_ns) == (159, 20)
    assert reported.lateness is not None
    assert (reported.lateness.count, reported.lateness.mean_ns) == (4, 200.0)
    assert reported.flow_figures is not None
    assert reported.flow_figures.sent == (50, 50, 50, 50)
    drawn = merge_parts(asked.model_copy(update={"flows": 2}), [first, second]).flow_figures
    assert drawn is not None
    assert (drawn.sent, drawn.lost) == ((100, 100), (0, 2))
    unknown = merge_parts(asked, [first, second.model_copy(update={"longest_gap_ns": None})])
    assert unknown.longest_gap_ns is None
    blind = merge_parts(asked, [first, second.model_copy(update={"tx_drops": None, "last_lost": None})])
    assert (blind.tx_drops, blind.last_lost) == (None, 99)
    # numbers go on over what its card dropped: the last of 200 of one part is as far as the last of all 301
    dropped = merge_parts(asked, [first.model_copy(update={"tx_drops": 100, "last_lost": 199}), second])
    assert dropped.last_lost == 300


class Session:
    """A process that counts what it is asked for."""

    asked: dict[str, Any] = {}
    ends_with_thread = False

    def __init__(self, context: TesterContext) -> None:
        self.place = (context.host, context.workdir)

    def ask(self, asked: dict[str, Any], context: TesterContext, trial: TrialSpec) -> dict[str, Any]:
        Session.asked = asked
        threads = [{"stalls": 0, "stalled_ns": 0, "longest_gap_ns": 0, "run_delay_ns": 0, "nonvoluntary_switches": 0}]
        none = {
            "skipped": 0,
            "lost": 0,
            "duplicated": 0,
            "damaged": None,
            "out_of_order": 0,
            "late_beyond_window": 0,
            "latency": None,
            "lateness": None,
        }
        gaps = {"last_lost": None, "longest_ns": 0, "trailing": 0}
        reported = [
            {"id": each["id"], "frame_bytes": 64, "offered_pps": each["pps"], "achieved_pps": each["pps"],
             "rx_pps": each["pps"], **dict.fromkeys(("intended", "sent", "received"), int(each["pps"])), **none,
             "gaps": gaps}
            for each in asked["streams"]
        ]  # fmt: skip
        return {"sender": "live", "sender_reason": None, "elapsed_s": 1.0, "interrupted": False, "streams": reported,
                "ports": [], "threads": threads * 2}  # fmt: skip

    def stop(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize(("options", "cpus"), [("", [None, 3]), (":senders=1", [None])])
def test_xdpgen_is_given_who_sends_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, cpus: list[int | None]
) -> None:
    monkeypatch.setattr(xdpgen, "_Session", Session)
    tester = make_tester(f"xdpgen{options}")
    assert isinstance(tester, Xdpgen)
    ports = FakeTestbed(studies.a_testbed()).tester_ports(Way.THROUGH)
    layout = CpuLayout(tester_tx=0, forwarder=1, extra_senders=(3,))
    load = StreamSpec(kind="load", pps=1000.0, frame_bytes=64, flows=10)
    reported = tester.run(TesterContext(ports, layout, "tc", tmp_path), TrialSpec(streams=(load,), duration_s=1.0))
    streams = Session.asked["streams"]
    assert [each.get("tx_cpu") for each in streams] == cpus
    assert [each.get("first_flow", 0) for each in streams] == [0, 5][: len(cpus)]
    assert [each["id"] for each in streams] == [*range(len(cpus))]
    assert "senders" not in Session.asked
    assert {each["tx_cpu"] for each in Session.asked["ports"]} == {0}
    assert [(each.sent, each.offered_pps) for each in reported.streams] == [(1000, 1000.0)]


@pytest.mark.parametrize(
    ("there", "given", "beside", "house"),
    [
        (2, {"senders": 2, "queues": 2}, (), (0,)),
        (3, {"senders": 2, "queues": 2}, (2,), (0,)),
        (4, {"senders": 2, "queues": 2}, (3,), (2,)),
        (4, {"senders": 2}, (2,), (3,)),
        (8, {"senders": 4, "queues": 4}, (2, 3, 5), (4, 6, 7)),
        (8, {}, (), (2, 3, 4, 5, 6, 7)),
    ],
)
def test_senders_are_those_that_fill_other_queues(
    monkeypatch: pytest.MonkeyPatch, there: int, given: dict[str, int], beside: tuple[int, ...], house: tuple[int, ...]
) -> None:
    """A veth takes a frame into queue number CPU modulo queues (veth_select_rxq, Linux 6.18)."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(there)))
    layout = default_layout(studies.a_testbed("embedded", **given))
    assert (layout.tester_tx, layout.forwarder, layout.extra_senders, layout.housekeeping) == (0, 1, beside, house)
    if len(beside) + 1 == given.get("queues") and there != 3:
        assert {cpu % given["queues"] for cpu in layout.tx_cpus} == {*range(given["queues"])}


@pytest.mark.parametrize(
    ("tester", "senders", "words"),
    [
        ("xdpgen", 2, "senders: 2 of the testbed file need as many CPUs next to the forwarder's, and there are 1"),
        ("xdpgen:senders=2", 1, "senders=2: the testbed file has senders: 1"),
    ],
)
def test_fewer_cpus_than_senders_are_a_reason(tester: str, senders: int, words: str) -> None:
    testbed = FakeTestbed(TestbedSpec(name="t", kind="fake", senders=senders))
    study = studies.study(tester=tester)
    plan = make_plan(studies.study(), studies.a_testbed(), make_tester("fake"))
    assert (
        TesterPool(study, (make_tester(tester),), testbed).missing(plan.points[0])
        == f"tester {tester.split(':')[0]}: {words}"
    )


def test_what_senders_cannot_divide_is_refused() -> None:
    testbed, tester = studies.a_testbed("embedded", senders=3), make_tester("xdpgen")
    given: dict[str, Any] = {"testbed": "t", "tester": "xdpgen", "forwarders": ["xdp"]}
    many = studies.study(**given, traffic={"frame_bytes": "imix", "address_pairs": 2, "load_pps": 1e5})
    with pytest.raises(InputError, match=r"traffic: 19 streams .*16 are possible"):
        make_plan(many, testbed, tester)
    burst = studies.study(**given, traffic={"departures": "burst:32", "load_pps": 1e5})
    with pytest.raises(InputError, match="burst:32: 3 senders take a multiple of 3"):
        make_plan(burst, testbed, tester)
    assert make_plan(burst, testbed, make_tester("xdpgen:senders=2"))
