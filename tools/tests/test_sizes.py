# SPDX-License-Identifier: Apache-2.0
"""Figures by number of flows, rules and threads: only points that differ in it are joined, and what is known."""

import json
from typing import Literal

from lab.claims import LATENCY, measured, searched
from lab.reading import render
from lab.records import point, result as result_of, run_record, stream, trial

from xdplab.analysis import answer, summarise
from xdplab.measure import make_method
from xdplab.methods.rfc2544.figures import NDR
from xdplab.model import Pipeline, Point, TrialRecord
from xdplab.report.chart import Chart
from xdplab.report.pictures import size_charts


def at(made: Point, work: str) -> Point:
    return Point.model_validate({**made.model_dump(), "pipeline": work})


def charts(*trials: tuple[Point, int]) -> tuple[dict[str, Chart], str]:
    """Of points with p50 in ns; and the report."""
    run = run_record(*(each for each, _ in trials))
    records = [
        trial(each, repetition, [p50 + 100 * repetition] * 2000) for each, p50 in trials for repetition in range(3)
    ]
    found = size_charts(run, summarise(run, records), make_method(run.study.method).figures)
    return {each.title: each for each in found}, render(run, records)


def test_a_line_joins_points_that_differ_in_flows_only() -> None:
    one, hundred = point("fake:seed=1"), point("fake:seed=1", flows=100)
    several = point("fake:seed=1", flows=100, address_pairs=4)
    other, larger = point("fake:seed=2", flows=100), point("fake:seed=2", flows=400, frame_bytes=512)
    found, html = charts((hundred, 3000), (several, 9000), (one, 2000), (other, 4000), (larger, 1))
    chart = found["p50 by number of flows, pipeline cross, path through"]
    (line,) = chart.series  # one number of flows is no line
    assert (line.name, list(line.x)) == ("fake:seed=1", [1, 100, 400])
    assert [round(value or 0, 1) for value in line.y] == [2.1, 3.1, 9.1]
    assert line.low is not None
    assert line.high is not None
    assert all(low < high for low, high in zip(line.low, line.high, strict=True))  # type: ignore[operator]
    assert len(found) == 1  # of p99 too few samples are known
    assert "By number of flows, rules and threads</h2>" in html

    assert f"<h3>{chart.title}</h3>" in html
    assert ", 64 bytes, 100 flows" in html  # the tables say what the points are


def test_a_line_by_rules_joins_no_other_masks_flows_or_kinds() -> None:
    made = point("fake:seed=1")
    sizes = [at(made, work) for work in ("acl:10x2", "acl:1000x2", "acl:100", "route:7", "nat")]
    found, _ = charts(
        *((each, 1000 + 100 * place) for place, each in enumerate(sizes)),
        (at(point("fake:seed=1", flows=9), "acl:20x2"), 1),
    )
    chart = found["p50 by number of rules, pipeline acl in 2 masks, 1 flow, path through"]
    assert [list(line.x) for line in chart.series] == [[10, 1000]]
    assert len(found) == 1


def test_what_is_not_known_is_not_drawn_and_what_is_doubtful_is_named() -> None:
    less, good, silent = (at(point("fake:seed=1"), f"route:{n}") for n in (1, 10, 100))
    run = run_record(less, good, silent)
    records: list[TrialRecord] = [trial(good, repetition, [1000] * 2000) for repetition in range(3)]
    records += [trial(less, repetition, [1000] * 2000, offered_pps=4000.0) for repetition in range(3)]
    lost = result_of(stream([], sent=2000))
    records += [trial(silent, 0, [1]).model_copy(update={"result": lost})]
    (chart,) = (each for each in size_charts(run, summarise(run, records), make_method(run.study.method).figures)
                if each.title.startswith("p50"))  # fmt: skip
    assert list(chart.series[0].x) == [1, 10]
    assert "Doubtful, see their tables: fake:seed=1 at 1." in chart.note
    assert "Not drawn: fake:seed=1 at 100 (∞)." in chart.note  # all were lost
    assert json.loads(chart.json())["x"]["log"]


def test_a_point_whose_frames_were_lost_in_one_repetition_has_no_band_and_is_not_drawn() -> None:
    sizes = [at(point("fake:seed=1"), f"route:{n}") for n in (1, 10, 100)]
    run = run_record(*sizes)
    records = [trial(each, repetition, [1000] * 2000) for each in sizes for repetition in range(3)]
    lost = result_of(stream([], sent=2000))
    records[-1] = records[-1].model_copy(update={"result": lost})
    (chart,) = (each for each in size_charts(run, summarise(run, records), make_method(run.study.method).figures)
                if each.title.startswith("p50"))  # fmt: skip
    assert list(chart.series[0].x) == [1, 10]
    assert "Not drawn: fake:seed=1 at 100 (" in chart.note


def test_a_run_of_one_size_has_no_such_chart() -> None:
    found, html = charts((point("fake:seed=1"), 1000), (point("fake:seed=2"), 2000))
    assert found == {}
    assert "By number of flows" not in html


def test_the_answer_tells_numbers_of_flows_apart() -> None:
    kinds: tuple[Literal["bridge", "nat"], ...] = ("bridge", "nat")
    loads = [(kind, flows) for kind in kinds for flows in (1, 500)]
    points = [
        point(name, flows=flows).model_copy(update={"pipeline": Pipeline(kind=kind)})
        for kind, flows in loads
        for name in ("ovs-afxdp", "ovs-afpacket")
    ]
    took = [2.0, 4.0, 6.0, 2.0] * 2
    trials = [each for at, us in zip(points, took, strict=True) for each in measured(at, us)]
    run = run_record(*points, study={**LATENCY, "repetitions": 5, "pipeline": ["bridge", "nat"]})
    reported = answer(run, summarise(run, trials), trials).text()
    assert "Bridge, 1 flow: ovs-afxdp 2 times as fast" in reported
    assert "Bridge, 500 flows: ovs-afpacket 3 times as fast" in reported
    assert "settings" not in reported
    larger = [
        each.model_copy(update={"traffic": each.traffic.model_copy(update={"frame_bytes": 512})}) for each in points
    ]
    trials += [each for at, us in zip(larger, took, strict=True) for each in measured(at, us)]
    run = run_record(*points, *larger, study={**LATENCY, "repetitions": 5, "pipeline": ["bridge", "nat"]})
    reported = answer(run, summarise(run, trials), trials).text()
    assert reported.endswith("  Each at the first of 2 settings; the table has the others.")


def test_a_rate_below_the_lowest_load_is_named_and_not_drawn() -> None:
    """0 has no place on a logarithmic axis."""
    points = [point("fake:seed=1", flows=flows) for flows in (1, 10, 1000)]
    run = run_record(*points, study={"method": {"name": "rfc2544"}})
    found = [searched(each, [1e6] * 5) for each in summarise(run, [trial(each, 0) for each in points])]
    found[2] = searched(found[2], [0.0] * 5, "below-minimum", high=2000.0)
    (chart,) = (each for each in size_charts(run, found, (NDR,)))
    assert list(chart.series[0].x) == [1, 10]
    assert "Not drawn: fake:seed=1 at 1,000 (below 2 kpps)." in chart.note


def test_a_line_by_threads_has_the_same_queues_and_other_options() -> None:
    made = [f"ovs-afxdp:n_rxq=2,pmd_cores={n}" for n in (1, 2)] + [
        "ovs-afxdp:n_rxq=4,pmd_cores=2",
        "vpp-afxdp:workers=1",
    ]
    found, _ = charts(*((point(each), 1000 + 100 * place) for place, each in enumerate(made)))
    chart = found["p50 by number of threads, pipeline cross, 1 flow, path through"]
    assert [(line.name, list(line.x)) for line in chart.series] == [("ovs-afxdp:n_rxq=2", [1, 2])]
    assert len(found) == 1
