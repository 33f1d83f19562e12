# SPDX-License-Identifier: Apache-2.0
"""The trials of a run, one by one: a table of all, charts over the time of the run, strips of their slices."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup, escape

from xdplab.measure.distribution import distribution, if_enough_samples
from xdplab.model import RunRecord, Slices, TrialRecord
from xdplab.model.naming import Names
from xdplab.report.chart import Axis, Chart, Series

#: Points up to which each has a curve of its own; with more nobody can tell them apart.
_CURVES = 24
_TIME = Axis("time since the first trial was recorded", "s")


@dataclass(frozen=True)
class Row:
    """A trial as it was counted."""

    trial: TrialRecord
    #: The point's title with what tells it from others of the same title.
    name: str
    at_s: float

    @property
    def loss_ratio(self) -> float | None:
        """Frames lost over frames sent, both counted; None where nothing was."""
        result = self.trial.result
        return result.lost / result.sent if result and result.sent else None

    @property
    def achieved_pps(self) -> float | None:
        """Frames that left per second, all streams."""
        return sum(each.achieved_pps for each in self.trial.result.streams) if self.trial.result else None

    def percentile_us(self, percent: float) -> float | None:
        """None without time-stamped frames, or where too few lie above to tell."""
        value = distribution([self.trial]).percentile_us(percent) if self.trial.result else None
        return if_enough_samples([self.trial], percent, value)


def rows_of(run: RunRecord, trials: Sequence[TrialRecord]) -> list[Row]:
    """Every trial, and every attempt that failed, in the order in which they were taken."""
    names = Names(run.points.values())
    shown = [trial for trial in trials if trial.result or trial.status in ("failed", "unsupported")]
    if not shown:
        return []
    begun = datetime.fromisoformat(shown[0].started)
    times = [(datetime.fromisoformat(each.started) - begun).total_seconds() for each in shown]
    return [Row(trial, names.of(run.points[trial.point_id]), at_s) for trial, at_s in zip(shown, times, strict=True)]


def course_charts(run: RunRecord, rows: Sequence[Row]) -> list[Chart]:
    """Latency of the measured trials over the time of the run, and the steps of searches; none without such trials."""
    found = []
    for path in dict.fromkeys(point.path for point in run.points.values()):  # never one-way next to a round trip
        own = [row for row in rows if row.trial.purpose == "measure" and run.points[row.trial.point_id].path is path]
        curves = _curves(own, lambda row: (row.at_s, row.percentile_us(50)))
        note = "p50 of each measured trial."
        found.append(
            Chart(f"Latency of each trial, path {path.value}", _TIME, Axis("p50", "µs", log=True), curves, note)
        )
    steps = [row for row in rows if row.trial.purpose == "search"]
    curves = _curves(steps, lambda row: (row.at_s, _kpps(row)))
    note = "Load that left in each trial of a search."
    found.append(Chart("Steps of the searches", _TIME, Axis("load", "kpps"), curves, note))
    lost = _curves(steps, lambda row: (_kpps(row) or 0.0, _lost_percent(row)), joined=False)
    note = "What of that was lost. One step is no throughput: a search asks several."
    found.append(Chart("Loss in each step", Axis("load", "kpps"), Axis("frames lost", "%"), lost, note))
    return [chart for chart in found if sum(len(series.x) for series in chart.series) > 1]


def _curves(rows: Sequence[Row], at: Callable[[Row], tuple[float, float | None]], joined: bool = True) -> list[Series]:
    """A curve for each point and clause, or one of all where there are too many."""
    by_name: dict[str, list[tuple[float, float | None]]] = {}
    for row in rows:
        place = at(row)
        if place[1] is None:
            continue
        by_name.setdefault(", ".join(filter(None, (row.name, row.trial.clause))), []).append(place)
    if len(by_name) > _CURVES:
        by_name, joined = {"all points": [place for places in by_name.values() for place in places]}, False
    return [Series(name, *_columns(places), joined=joined) for name, places in by_name.items()]


def _columns(places: Sequence[tuple[float, float | None]]) -> tuple[list[float], list[float | None]]:
    return [x for x, _ in places], [y for _, y in places]


def _kpps(row: Row) -> float | None:
    return None if row.achieved_pps is None else row.achieved_pps / 1e3


def _lost_percent(row: Row) -> float | None:
    return None if row.loss_ratio is None else 100 * row.loss_ratio


_WIDTH, _HEIGHT, _MARK, _GAP = 600.0, 18, 4, 6
#: A median is drawn over the range of its trial, which is at least this factor wide.
_LEAST_RANGE = 2.0


def strips(trials: Sequence[TrialRecord]) -> Markup:
    """One strip for each trial that has slices, as an <svg>; empty where none has."""
    rows = [(trial, trial.result.slices) for trial in trials if trial.result and trial.result.slices]
    if not rows:
        return Markup()
    parts = [_strip(trial, slices, at * (_HEIGHT + _MARK + _GAP)) for at, (trial, slices) in enumerate(rows)]
    height = len(rows) * (_HEIGHT + _MARK + _GAP)
    opened = f'<svg class="strips" role="img" viewBox="0 0 {_WIDTH + 150:g} {height}" width="{_WIDTH + 150:g}">'
    named = "<title>median latency of each slice of time, and below it the slices that a clock marks</title>"
    return Markup(f"{opened}{named}{''.join(parts)}</svg>")  # noqa: S704 - of numbers, and escaped


def _strip(trial: TrialRecord, slices: Slices, top: int) -> str:
    medians, marked = slices.medians_us(), slices.marked()
    known = [value for value in medians if math.isfinite(value) and value > 0]
    low, high = (min(known), max(max(known), _LEAST_RANGE * min(known))) if known else (1.0, _LEAST_RANGE)
    step = _WIDTH / slices.count
    path, marks = [], []
    for number, median in enumerate(medians):
        left = number * step
        if math.isfinite(median) and median > 0:
            share = math.log(median / low) / math.log(high / low)
            path.append(f"M{left:.1f} {top + _HEIGHT * (1 - share):.1f}h{step:.1f}")
        if marked[number]:
            marks.append(f"M{left:.1f} {top + _HEIGHT + _MARK / 2}h{step:.1f}")
    text = escape(f"#{trial.repetition + 1} {trial.clause}".strip() + f": {low:.3g} to {high:.3g} µs")
    return (
        f'<path d="{"".join(path)}" stroke="var(--c0, #0072B2)" stroke-width="2" fill="none"/>'
        f'<path d="{"".join(marks)}" stroke="var(--c1, #D55E00)" stroke-width="{_MARK}" fill="none"/>'
        f'<text x="{_WIDTH + 8:g}" y="{top + _HEIGHT - 4}" font-size="11" fill="var(--ink, #000)">{text}</text>'
    )
