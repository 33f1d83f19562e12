# SPDX-License-Identifier: Apache-2.0
"""The picture of a report: forwarders in order, each with its interval; those that are not separated are joined."""

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from operator import itemgetter
from typing import Any

from xdplab.analysis.answers.order import Order, Placed, in_order
from xdplab.analysis.columns import figure_text, kpps
from xdplab.analysis.documents import Reproduction
from xdplab.analysis.export import row_of
from xdplab.analysis.run import Run
from xdplab.forwarders.base import THREADS
from xdplab.measure import Figure
from xdplab.measure.distribution import sample_of
from xdplab.measure.point import PointSummary
from xdplab.model import Point, RunRecord, TrialRecord
from xdplab.model.digits import loss, number_of, percent
from xdplab.model.pipeline import SIZED
from xdplab.model.study import unusual
from xdplab.report.chart import Axis, Chart, InRow, Series, row_chart

#: Where the axis begins and ends in a picture, the height of a row, and of a name the letters that have room.
_LEFT, _RIGHT, _ROW, _LETTERS = 220.0, 500.0, 20, 31
#: An interval goes so many times beyond the values at the most.
_BEYOND = 3.0


def panels(orders: Sequence[Order], marked: Container[str]) -> list[dict[str, Any]]:
    """What order.html.j2 draws, on one axis; `marked`: the forwarders of the answer."""
    ends = _ends([one for order in orders for one in order.rows])
    return [_panel(order, marked, *ends) for order in orders]


def _panel(order: Order, marked: Container[str], low: float, high: float) -> dict[str, Any]:

    def at(value: float) -> float:
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    rows = [
        {
            "name": one.point.plain_name + one.point.variant,
            "y": (number + 1) * _ROW + 12,
            "at": at(one.value),
            "ends": [at(end) for end in one.interval] if one.interval else None,
            "text": _text(one, order),
            "marked": one.point.forwarder in marked,
        }
        for number, one in enumerate(order.rows)
    ]
    ticks = {f"{tick / order.figure.per:g}": at(tick) for tick in _ticks(low, high, order.figure.per)}
    title = f"{order.figure.title}{order.where}"
    bars = [(number, len(joined)) for number, joined in _joined(order.rows)]
    return {"title": title, "rows": rows, "ticks": ticks, "bars": bars, "letters": _LETTERS, "row": _ROW}


def _text(one: Placed, order: Order) -> str:
    text = figure_text(one.point, order.figure)
    if one.interval is None:
        return text
    return f"{text} ({' to '.join(order.figure.format(end) for end in one.interval)})"


def _ends(rows: Sequence[Placed]) -> tuple[float, float]:
    values = [one.value for one in rows if math.isfinite(one.value)] or [1.0]
    low, high = min(values), max(values)
    ends = [end for one in rows for end in one.interval or ()]
    return max(min([low, *ends]), low / _BEYOND) / 1.1, min(max([high, *ends]), high * _BEYOND) * 1.1


def _ticks(low: float, high: float, per: float) -> list[float]:
    steps = (1, 2, 5) if high / low < 50 else (1,) if high / low > 2000 else (1, 3)
    powers = range(math.floor(math.log10(low / per)), math.ceil(math.log10(high / per)) + 1)
    return [tick for power in powers for step in steps if low <= (tick := step * 10.0**power * per) <= high]


def _joined(rows: Sequence[Placed]) -> list[tuple[int, list[Placed]]]:
    """Where a bar begins, and the rows that it joins."""
    found, begin = list[tuple[int, list[Placed]]](), 0
    while begin < len(rows):
        tied = [*takewhile(lambda one: not one.separated, rows[begin:])]
        if tied:
            found.append((begin, [*rows[begin : begin + len(tied) + 1]]))
        begin += len(tied) + 1
    return found


# The course of a run: a strip of turns over its time for each point, and above them what the machine took.

#: Of a picture, which the page stretches.
_WIDTH, _HEIGHT = 1000, 30
#: Latencies of so many times the median, and of that part of it, are at its edges.
_EDGE = 2.0
#: Of trials that are of no clause.
_STUDY = "the study's load"


def course(run: Run) -> dict[str, Any]:
    """What strip.html.j2 shows; nothing of a run without trials."""
    times = {trial.started: datetime.fromisoformat(trial.started).timestamp() for trial in run.trials}
    if not times:
        return {}
    begun = min(times.values())
    span = max(times.values()) - begun or 1.0
    at = {started: round(_WIDTH * (time - begun) / span, 1) for started, time in times.items()}
    first: dict[int, float] = {}
    taken: dict[int, float] = {}
    for trial in run.trials:
        x = at[trial.started]
        first[trial.repetition] = min(first.get(trial.repetition, x), x)
        if trial.disturbance:
            taken[round(x)] = max(taken.get(round(x), 0.0), trial.disturbance.taken_share)
    shown = [] if run.sweeps else in_order(run.method, run.points)  # a sweep has hundreds
    rows = [_row(run, point, at) for point in shown if point.repetitions]
    most = max(taken.values(), default=0.0)
    return {
        "rows": rows,
        "labels": [*dict.fromkeys(label for row in rows for label in row["paths"])],
        "rounds": "".join(f"M{x:g} 0v{_HEIGHT}" for x in sorted(first.values())[1:]),
        "taken": "".join(f"M{x} {_HEIGHT}v-{_HEIGHT * share / most:.1f}" for x, share in taken.items() if share),
        "most": percent(most),
        "minutes": span / 60,
        "searched": any(row["searched"] for row in rows),
    }


def _row(run: Run, point: PointSummary, at: Mapping[str, float]) -> dict[str, Any]:
    trials = run.by_point.get(point.point_id, ())
    places: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.purpose == "measure" and (value := _value(trial)):
            places.setdefault(trial.clause or _STUDY, []).append((at[trial.started], value))
    searched = not places
    for trial in trials if searched else ():
        if trial.purpose == "search" and trial.result and trial.result.achieved_pps:
            label = "load, frames lost" if trial.result.lost else "load, nothing lost"
            places.setdefault(label, []).append((at[trial.started], trial.result.achieved_pps))
    every = [value for own in places.values() for _, value in own]
    paths = {label: _path(own, (min(every), max(every)) if searched else None) for label, own in places.items()}
    sides = [*point.by_clause.values(), point]
    figure = next((each for each in run.method.figures if point.searched(each.key)), None)
    text = ", ".join(figure_text(side, figure) for side in sides if side.searched(figure.key)) if figure else ""
    return {
        "name": point.plain_name + point.variant,
        "more": [*point.settings],
        "paths": paths,
        "searched": searched,
        "text": f"{text} {figure.unit}" if figure else "",
        "rounds": _rounds(run, point),
    }


def _value(trial: TrialRecord) -> float | None:
    """Its median latency by rank of what was sent, or the rate that came through where no frame has a time stamp."""
    if trial.result is None:
        return None
    sample = sample_of([trial])
    return sample.percentile_us(50) if sample.arrived.count else trial.result.received / trial.result.elapsed_s


def _path(places: Sequence[tuple[float, float]], ends: tuple[float, float] | None) -> str:
    """Dots; log scale, between the ends, or about the median."""
    values = sorted(value for _, value in places)
    middle = values[len(values) // 2]
    low, high = ends or (middle / _EDGE, middle * _EDGE)
    height = math.log(high / low) if low < high < math.inf else 1.0

    def y(value: float) -> float:
        share = math.log(min(max(value, low), high) / low) / height if math.isfinite(low) else 1.0
        return _HEIGHT - 2 - share * (_HEIGHT - 4)

    return "".join(f"M{x:g} {y(value):.1f}h0" for x, value in places)


def _rounds(run: Run, point: PointSummary) -> list[dict[str, str]]:
    """Each round of each load as a row of a table: its figures, its loss and what was sent."""
    figures = [each for each in run.method.figures if point.searched(each.key)]
    sides = {**point.by_clause, "": point}
    return [
        {
            **({"load": clause or _STUDY} if len(sides) > 1 else {}),
            "round": str(one.repetition + 1),
            **{
                each.title: one.figures[each.key].text(each.per) if each.key in one.figures else "–" for each in figures
            },
            "loss": loss(one.loss_ratio),
            "sent kpps": kpps(one.achieved_pps) if one.achieved_pps else "–",
        }
        for clause, side in sides.items()
        for one in side.by_repetition
    ]


# Rates in rows: by case, and throughputs and ratios at each setting with the published ones below.

_PUBLISHED = "published"


def throughput_chart(found: Reproduction) -> Chart:
    """One row per setting, one series per forwarder; the published ranges stand in a row of their own."""
    rows = [row for row in found.rows if row.mpps]
    places = {
        name: [InRow(at, row.mpps[name]) for at, row in enumerate(rows) if name in row.mpps]
        for name in found.published.forwarders
    }
    for series in found.published.series:
        low, high = series.mpps
        places.setdefault(series.forwarder, []).append(InRow(len(rows), (low + high) / 2, low, high))
    conditions = found.published.conditions
    note = (
        f"Medians here, {conditions.split(',')[0]}. Last row: the published range ({conditions}). Absolute figures are "
        "of different machines: compare the ratios."
    )
    names = [*(row.setting for row in rows), _PUBLISHED]
    return row_chart("throughput next to the published figure", names, Axis("without loss", "Mpps"), places, note)


def ratio_chart(found: Reproduction) -> Chart | None:
    """The ratio at each setting with its interval, and the published one; None where nothing was compared."""
    rows = [row for row in found.rows if any(one.comparison for one in row.ratios)]
    if not rows:
        return None
    places: dict[str, list[InRow]] = {}
    for index, published in enumerate(found.published.ratios):
        own = places[f"{published.of} over {published.to}"] = []
        for at, row in enumerate(rows):
            one = row.ratios[index].comparison
            # a bound is no point with an interval, and what may not be said is not drawn
            if one and one.interval and one.sense == "exact" and not one.blockers:
                own.append(InRow(at, one.interval.ratio, one.interval.low, one.interval.high))
        low, high = published.ratio
        own.append(InRow(len(rows), (low + high) / 2, low, high))
    note = "Ratio of throughputs with its 99 % interval; last row: published."
    names = [*(row.setting for row in rows), _PUBLISHED]
    return row_chart("ratio next to the published one", names, Axis("times as much", ""), places, note)


def rate_chart(points: Sequence[PointSummary], rate: Figure, names: Mapping[str, str]) -> Chart:
    """A row per point (`names`: by its id) with what the table has, and a line over all repetitions."""
    drawn = [(point, values) for point in points if (values := _values(point, rate))]
    places: dict[str, list[InRow]] = {}
    for row, (point, values) in enumerate(drawn):
        one = InRow(row, (point.value(rate.key) or 0.0) / rate.per, min(values), max(values))
        places.setdefault(kind_of(point, rate), []).append(one)
    rows = [f"{names[point.point_id]}{_words(point, rate)}" for point, _ in drawn]
    return row_chart("rates by case", rows, Axis("rate", rate.unit), places, "Lines: all repetitions.")


def kind_of(point: PointSummary, rate: Figure) -> str:
    """What its figure is: `median` or `a bound`."""
    return "median" if point.measured[rate.key].exact else "a bound"


def _words(point: PointSummary, rate: Figure) -> str:
    """Behind the name of what is no fact by itself."""
    found = point.measured[rate.key]
    return "" if found.exact else f" ({figure_text(point, rate)}{' ?' if found.doubt else ''})"


def _values(point: PointSummary, rate: Figure) -> list[float]:
    return [value / rate.per for one in point.by_repetition if (value := one.value(rate.key)) is not None]


# Charts of each figure by a number that points differ in: of flows, of a pipeline's rules, of threads that forward.

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
