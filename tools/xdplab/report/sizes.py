# SPDX-License-Identifier: Apache-2.0
"""Charts of each figure by a number that points differ in: of flows, of a pipeline's rules, of threads that forward."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from xdplab.analysis.tables.export import row_of
from xdplab.forwarders.base import THREADS
from xdplab.measure import Figure
from xdplab.measure.point import PointSummary
from xdplab.model import Point, RunRecord
from xdplab.model.digits import number_of
from xdplab.model.pipeline import SIZED
from xdplab.model.study import unusual
from xdplab.report.chart import Axis, Chart, Series

_Place = tuple[int, PointSummary]


@dataclass(frozen=True)
class _Size:
    """A number that points differ in."""

    #: Of what.
    name: str
    #: None: the point has no such number.
    of: Callable[[Point], int | None]
    #: What else a chart is of, but for the forwarder and what `_others` tells.
    rest: tuple[Callable[[Point], str], ...]
    #: The forwarder, which has a line.
    line: Callable[[Point], str] | None = None


def size_charts(run: RunRecord, summaries: Sequence[PointSummary], figures: Sequence[Figure]) -> list[Chart]:
    """A chart for each figure, and for each kind of points that differ in the forwarder and in one number only."""
    return [
        chart
        for size in _SIZES
        for title, lines in _groups(run, summaries, size).items()
        for figure in figures
        if (chart := _chart(figure, f"{figure.name} by number of {size.name}, {title}", size.name, lines))
    ]


def _groups(run: RunRecord, summaries: Sequence[PointSummary], size: _Size) -> dict[str, dict[str, list[_Place]]]:
    """What is the same for its points -> line -> number and point."""
    found: dict[str, dict[str, list[_Place]]] = {}
    for summary in summaries:
        point = run.points[summary.point_id]
        if number := size.of(point):
            hidden = {} if size.line else summary.options
            title = ", ".join([*(each(point) for each in size.rest), *_others(point, hidden)])
            line = size.line(point) if size.line else summary.forwarder
            found.setdefault(title, {}).setdefault(line, []).append((number, summary))
    return found


def _flows(point: Point) -> int:
    return point.traffic.flows * point.traffic.address_pairs


def _rules(point: Point) -> int | None:
    return point.pipeline.rules if point.pipeline.kind in SIZED else None


def _threads(point: Point) -> int | None:
    options = point.forwarder.options
    return next((int(options[name]) for name in THREADS if options.get(name)), None)


def _pipeline(point: Point) -> str:
    return f"pipeline {point.pipeline}"


def _kind(point: Point) -> str:
    masks = f" in {point.pipeline.masks} masks" if point.pipeline.masks > 1 else ""
    return f"pipeline {point.pipeline.kind}{masks}"


def _flow_count(point: Point) -> str:
    return number_of(_flows(point), "flow")


def _without_threads(point: Point) -> str:
    """A line has the same number of queues, which is an option."""
    options = {name: value for name, value in point.forwarder.options.items() if name not in THREADS}
    return point.forwarder.model_copy(update={"options": options, "label": ""}).title


_SIZES = (
    _Size("flows", _flows, (_pipeline,)),
    _Size("rules", _rules, (_kind, _flow_count)),
    _Size("threads", _threads, (_pipeline, _flow_count), _without_threads),
)


def _others(point: Point, hidden: Mapping[str, object]) -> Iterator[str]:
    """All else but the forwarder, in words; `hidden`: its options that a label hides."""
    yield f"path {point.path.value}"
    traffic = unusual(point.traffic, "flows", "address_pairs")
    settings = {**traffic, **point.levels, **hidden, **point.knobs, **point.tester_options}
    settings |= {"tester": point.tester} if point.tester else {}
    yield from (f"{name} {value}" for name, value in settings.items())


def _chart(figure: Figure, title: str, number: str, lines: Mapping[str, Sequence[_Place]]) -> Chart | None:
    """None where no line has the figure at two numbers."""
    series, bounds, left, doubtful = [], [], [], []
    for name, places in lines.items():
        own = sorted(((size, row_of(each, figure)) for size, each in places), key=itemgetter(0))
        # no end of the band: in a repetition the frame was lost
        whole = [(size, row) for size, row in own if row["value"] and row["high"] is not None]
        known = [(size, row) for size, row in whole if row["below"] is None or row["at_least"]]
        drawn = {size for size, _ in known}
        left += [f"{name} at {size:,} ({row['text']})" for size, row in own if row["searched"] and size not in drawn]
        if len(drawn) < 2:
            continue
        values = {key: [row[key] / figure.per for _, row in known] for key in ("value", "low", "high")}
        series.append(Series(name, [size for size, _ in known], values["value"], values["low"], values["high"]))
        bounds += [f"{name} at {size:,}" for size, row in known if row["at_least"]]
        doubtful += [f"{name} at {size:,}" for size, row in known if row["doubts"]]
    if not series:
        return None
    note = "Band: lowest to highest of all rounds."
    note += f" Lower bounds, because the tester or the time set them: {', '.join(bounds)}." if bounds else ""
    note += f" Not drawn: {', '.join(left)}." if left else ""
    note += f" Doubtful, see their tables: {', '.join(doubtful)}." if doubtful else ""
    return Chart(
        title, Axis(f"number of {number}", "", log=True), Axis(figure.name, figure.unit, log=True), series, note
    )
