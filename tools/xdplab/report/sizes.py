# SPDX-License-Identifier: Apache-2.0
"""Charts of each figure by the number of flows, and by the number of a pipeline's rules, where points differ in it."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from xdplab.analysis import PointSummary
from xdplab.analysis.export import row_of
from xdplab.methods import Figure
from xdplab.model import Point, RunRecord
from xdplab.model.naming import unusual
from xdplab.model.pipeline import SIZED
from xdplab.report.chart import Axis, Chart, Series

_Place = tuple[int, PointSummary]


def size_charts(run: RunRecord, summaries: Sequence[PointSummary], figures: Sequence[Figure]) -> list[Chart]:
    """A chart for each figure, and for each kind of points that differ in the forwarder and in one number only."""
    return [
        chart
        for number, size, rest in (("flows", _flows, _without_flows), ("rules", _rules, _without_rules))
        for title, places in _groups(run, summaries, size, rest).items()
        for figure in figures
        if (chart := _chart(figure, f"{figure.name} by number of {number}, {title}", number, places))
    ]


def _groups(
    run: RunRecord, summaries: Sequence[PointSummary], size: Callable[[Point], int], rest: Callable[[Point], str]
) -> dict[str, list[_Place]]:
    """What is the same for its points -> number and point."""
    found: dict[str, list[_Place]] = {}
    for summary in summaries:
        point = run.points[summary.point_id]
        if number := size(point):
            found.setdefault(rest(point), []).append((number, summary))
    return {title: places for title, places in found.items() if len({number for number, _ in places}) > 1}


def _flows(point: Point) -> int:
    return point.traffic.flows * point.traffic.address_pairs


def _rules(point: Point) -> int:
    return point.pipeline.rules if point.pipeline.kind in SIZED else 0


def _without_flows(point: Point) -> str:
    return ", ".join([f"pipeline {point.pipeline}", *_others(point)])


def _without_rules(point: Point) -> str:
    masks = f" in {point.pipeline.masks} masks" if point.pipeline.masks > 1 else ""
    flows = f"{_flows(point):,} flow{'s' if _flows(point) > 1 else ''}"
    return ", ".join([f"pipeline {point.pipeline.kind}{masks}", flows, *_others(point)])


def _others(point: Point) -> Iterator[str]:
    """All else but the forwarder, in words."""
    yield f"path {point.path.value}"
    traffic = unusual(point.traffic, "flows", "address_pairs")
    settings = {**traffic, **point.levels, **point.knobs, **point.tester_options}
    settings |= {"tester": point.tester} if point.tester else {}
    yield from (f"{name} {value}" for name, value in settings.items())


def _chart(figure: Figure, title: str, number: str, places: Sequence[_Place]) -> Chart | None:
    """None where no forwarder has the figure at two numbers."""
    series, bounds, below, doubtful = [], [], [], []
    for name in dict.fromkeys(summary.forwarder for _, summary in places):
        rows = [(size, row_of(each, figure)) for size, each in places if each.forwarder == name]
        own = sorted(rows, key=itemgetter(0))
        known = [(size, row) for size, row in own if row["value"] and (row["below"] is None or row["at_least"])]
        below += [f"{name} at {size:,} ({row['text']})" for size, row in own if row["below"] and not row["at_least"]]
        if len({size for size, _ in known}) < 2:
            continue
        values = {key: [row[key] / figure.per for _, row in known] for key in ("value", "low", "high")}
        series.append(Series(name, [size for size, _ in known], values["value"], values["low"], values["high"]))
        bounds += [f"{name} at {size:,}" for size, row in known if row["at_least"]]
        doubtful += [f"{name} at {size:,}" for size, row in known if row["doubts"] or row["machine_tail"]]
    if not series:
        return None
    note = "Band: lowest to highest of the repetitions that stand."
    note += f" Lower bounds, for the tester or the time set them: {', '.join(bounds)}." if bounds else ""
    note += f" Below what was measured: {', '.join(below)}." if below else ""
    note += f" Not to be taken for facts, see their tables: {', '.join(doubtful)}." if doubtful else ""
    return Chart(
        title, Axis(f"number of {number}", "", log=True), Axis(figure.name, figure.unit, log=True), series, note
    )
