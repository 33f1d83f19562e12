# SPDX-License-Identifier: Apache-2.0
"""The trials of a run, one by one: a table of all, charts over the time of the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from xdplab.measure.distribution import distribution, if_enough_samples
from xdplab.model import RunRecord, TrialRecord
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
