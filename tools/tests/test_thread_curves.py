# SPDX-License-Identifier: Apache-2.0
"""Throughput over threads: what is said of it, never firmer than what was measured."""

from typing import Any

import pytest
from lab import studies
from lab.claims import RATE, searched, with_repetitions
from lab.records import point, run_record, trial

from xdplab import app
from xdplab.analysis import summarise
from xdplab.measure import Measured
from xdplab.methods.rfc2544.report import curves, lines
from xdplab.runner import make_plan
from xdplab.testers import make_tester
from xdplab.tools import project_root

STUDY = project_root() / "suites" / "studies" / "scaling.yaml"


def lines_of(*rows: tuple[str, list[float], Any], **fields: Any) -> list[str]:
    """Forwarder, its rates and who set them."""
    points = [point(title) for title, _, _ in rows]
    run = run_record(*points, study={"method": {"name": "rfc2544"}, "repetitions": 5})
    found = summarise(run, [trial(each, 0) for each in points])
    reported = [searched(each, rates, limited) for each, (_, rates, limited) in zip(found, rows, strict=True)]
    reported[-1] = reported[-1].model_copy(update=fields)
    return [*lines(curves(run, reported))]


def curve_of(two: list[float], *, limited: Any = ("forwarder", "forwarder"), repetitions: int = 5) -> list[str]:
    """Open vSwitch with one thread at 1 Mpps, and with two."""
    names = [f"ovs-afxdp:pmd_cores={each},n_rxq={each}" for each in (1, 2)]
    return lines_of(*zip(names, (RATE[:repetitions], two[:repetitions]), limited, strict=True))


def test_efficiency_is_an_interval() -> None:
    alone, both = curve_of([1.6e6, 1.58e6, 1.62e6, 1.6e6, 1.6e6])
    assert alone == "ovs-afxdp: 1 thread, 1 queue: 1 Mpps"
    assert both == "ovs-afxdp: 2 threads, 2 queues: 1.6 Mpps, 77 to 83 % of 2 times one thread"


@pytest.mark.parametrize(
    ("limit", "words"), [("tester", "the tester was the limit"), ("budget", "the search ran out of time")]
)
def test_what_the_tester_or_the_time_limits_is_a_lower_bound(limit: str, words: str) -> None:
    reported = curve_of([1.6e6] * 5, limited=("forwarder", limit))
    assert reported[1].endswith(f"at least 1.6 Mpps, at least 78 % of 2 times one thread ({words})")
    alone = curve_of([1.6e6] * 5, limited=(limit, "forwarder"))
    assert "%" not in " ".join(alone)
    assert alone[-1].endswith(f"no efficiency: one thread: {words}")


def test_a_rate_below_the_lowest_load_is_no_rate() -> None:
    reported = curve_of([0.0] * 5, limited=("forwarder", "below-minimum"))
    assert reported[1].endswith(
        ": below 0.002 Mpps, at most 0 % of 2 times one thread (it lost frames at the lowest load)"
    )
    assert "was 0 in 5 of 5 repetitions" in curve_of([0.0] * 5)[1]
    names = [f"ovs-afxdp:pmd_cores={each}" for each in (1, 2)]
    (_, second, why) = lines_of((names[0], [0.0] * 5, "below-minimum"), (names[1], RATE, "forwarder"))
    assert "%" not in second
    assert why.endswith("no efficiency: one thread: it lost frames at the lowest load")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"failed": 2, "reason": "it died"}, "ovs-afxdp:pmd_cores=2,n_rxq=2 failed in 2 of 5 repetitions: it died"),
        ({}, "ovs-afxdp:pmd_cores=2,n_rxq=2: so it was"),
    ],
)
def test_nothing_is_a_part_of_what_is_no_fact(fields: dict[str, Any], words: str) -> None:
    reported = lines_of(*_two(1.6e6), **fields) if fields else _doubted()
    assert f"1.6 Mpps, uncertain: {words}" in reported[1]
    assert "%" not in reported[1]


def _two(rate: float) -> list[tuple[str, list[float], Any]]:
    return [(f"ovs-afxdp:pmd_cores={each},n_rxq={each}", [rate] * 5, "forwarder") for each in (1, 2)]


def _doubted() -> list[str]:
    """Two threads whose repetitions are all doubted."""
    points = [point(title) for title, _, _ in _two(0)]
    run = run_record(*points, study={"method": {"name": "rfc2544"}, "repetitions": 5})
    found = [searched(each, [1.6e6] * 5) for each in summarise(run, [trial(each, 0) for each in points])]
    return [*lines(curves(run, [found[0], searched(found[1], [1.6e6] * 5, doubt="so it was")]))]


def test_a_bounded_rate_of_one_thread_may_be_the_best() -> None:
    """With one queue the tester was the limit at 5 Mpps: 6 Mpps of two threads are 60 % at the most."""
    reported = lines_of(
        ("ovs-afxdp:pmd_cores=1,n_rxq=1", [5e6] * 5, "tester"),
        ("ovs-afxdp:pmd_cores=1,n_rxq=2", [3e6] * 5, "forwarder"),
        ("ovs-afxdp:pmd_cores=2,n_rxq=2", [6e6] * 5, "forwarder"),
    )
    assert "%" not in " ".join(reported)
    assert reported[-1].endswith("no efficiency: one thread: the tester was the limit")


def test_no_point_stands_for_another() -> None:
    """Of other loads, and of other names."""
    one, two = (f"ovs-afxdp:pmd_cores={each}" for each in (1, 2))
    points = [point(title, flows=flows) for flows in (1, 100) for title in (one, two)]
    label = points[1].forwarder.model_copy(update={"label": "again"})
    points.append(points[1].model_copy(update={"forwarder": label}))
    run = run_record(*points, study={"method": {"name": "rfc2544"}, "repetitions": 5})
    found = summarise(run, [trial(each, 0) for each in points])
    reported = [*lines(curves(run, [searched(each, [n * 1e6] * 5) for n, each in enumerate(found, 1)]))]
    assert [line.partition(" Mpps")[0] for line in reported] == [
        "ovs-afxdp, flows=1: 1 thread, 1 queue: 1",
        "ovs-afxdp, flows=1: 2 threads, 1 queue (ovs-afxdp:pmd_cores=2): 2",
        "ovs-afxdp, flows=1: 2 threads, 1 queue (again): 5",
        "ovs-afxdp, flows=100: 1 thread, 1 queue: 3",
        "ovs-afxdp, flows=100: 2 threads, 1 queue: 4",
    ]


def test_where_no_throughput_was_searched_the_forwarding_rate_grows() -> None:
    points = [point(f"ovs-afxdp:pmd_cores={each}") for each in (1, 2)]
    run = run_record(*points, study={"method": {"name": "rfc2544"}, "repetitions": 5})
    found = [searched(each, [1e6] * 5) for each in summarise(run, [trial(each, 0) for each in points])]
    rates = [{"figures": {"forwarding_rate_pps": Measured(value=each, resolution=0.1)}} for each in RATE]
    flooded = [
        with_repetitions(
            each, [one.model_copy(update=rate) for one, rate in zip(each.by_repetition, rates, strict=True)]
        )
        for each in found
    ]
    assert [*lines(curves(run, flooded))] == [
        "ovs-afxdp: 1 thread, 1 queue, forwarding rate at overload: 1 Mpps",
        "ovs-afxdp: 2 threads, 1 queue, forwarding rate at overload: 1 Mpps, 45 to 55 % of 2 times one thread",
    ]


def test_fewer_repetitions_say_less() -> None:
    assert "76 to 85 % of 2 times one thread" in curve_of([1.6e6] * 5, repetitions=3)[1]
    alone = curve_of([1.6e6] * 5, repetitions=1)
    assert "%" not in " ".join(alone)
    assert "uncertain: 1 of the 3 rounds that an interval needs" in alone[1]


def test_forwarders_without_a_number_of_threads_have_no_curve() -> None:
    points = [point("ovs-afxdp"), point("ovs-afpacket")]
    run = run_record(*points, study={"method": {"name": "rfc2544"}, "repetitions": 5})
    assert curves(run, summarise(run, [trial(each, 0) for each in points])) == {}


@pytest.mark.parametrize("name", ["ovs-afxdp", "vpp-afxdp"])
def test_the_study_gives_each_thread_a_queue(name: str) -> None:
    study = app.read_study(STUDY)
    plan = make_plan(study, studies.a_testbed("embedded"), make_tester(study.tester))
    options = [each.forwarder.options for each in plan.points if each.forwarder.name == name]
    threads = [(int(each.get("pmd_cores", each.get("workers", 0))), int(each["n_rxq"])) for each in options]
    assert sorted(threads) == [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4)]
