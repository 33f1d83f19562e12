# SPDX-License-Identifier: Apache-2.0
"""Runs of socket studies side by side, cell by cell: repetitions of the same number make the pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Literal

from xdplab.analysis.compare import environment_difference
from xdplab.analysis.sockets import SocketRow, figure_of, more_is_better, socket_rows
from xdplab.analysis.stats import Interval, ratio_interval
from xdplab.analysis.trend import MIN_RUNS, Level, levels
from xdplab.model import Model, Shown
from xdplab.model.sockets import SocketRunRecord, SocketTrial, Workload

SocketMetric = Literal["mpps", "figure", "complete_p50_us", "complete_mean_us"]
CellKey = tuple[Workload, str, float | None]
#: Parts of a study that make a difference to each of its cells.
_SHARED = {"testbed", "frame_bytes", "duration_s", "warmup_s", "disturbance"}


@dataclass(frozen=True)
class SocketRunData:
    """A run under the name that it is shown by."""

    name: str
    record: SocketRunRecord
    trials: Sequence[SocketTrial]

    @cached_property
    def rows(self) -> dict[CellKey, SocketRow]:
        """Its cells, in the study's order."""
        return {(row.workload, row.case, row.rate_pps): row for row in socket_rows(self.record.study, self.trials)}

    def values(self, key: CellKey, metric: SocketMetric) -> dict[int, float]:
        """Repetition -> figure of one cell."""
        of_cell = [trial for trial in self.trials if (trial.workload, trial.case, trial.rate_pps) == key]
        found = {trial.repetition: _value(trial, metric) for trial in of_cell}
        return {repetition: value for repetition, value in found.items() if value}


class CellComparison(Model):
    """One figure of a cell in two runs; the interval is of the later run's over the first's."""

    workload: Workload
    case: Shown
    rate_pps: float | None
    metric: SocketMetric
    unit: Shown
    more_is_better: bool
    #: Medians over repetitions, in the unit.
    before: float
    after: float
    interval: Interval

    @property
    def title(self) -> str:
        """The cell, for a table."""
        return cell_title((self.workload, self.case, self.rate_pps))

    def verdict(self) -> str:
        """In words."""
        if self.interval.low is None:
            return "too few repetitions"
        if not self.interval.differs:
            return "no difference seen"
        return "better" if (self.interval.ratio > 1) == self.more_is_better else "worse"


class CellTrend(Model):
    """One figure of a cell over the runs that have it."""

    workload: Workload
    case: Shown
    rate_pps: float | None
    metric: SocketMetric
    levels: tuple[Level, ...]

    @property
    def title(self) -> str:
        """The cell, for a table."""
        return cell_title((self.workload, self.case, self.rate_pps))


def cell_title(key: CellKey) -> str:
    """A cell in one phrase."""
    workload, case, rate = key
    return f"{workload}: {case}" + (f" at {rate:.10g} pps" if rate else "")


def compare_cells(first: SocketRunData, later: SocketRunData) -> list[CellComparison]:
    """The cells that both have measured. Runs are not interleaved: what differs includes the time between them."""
    there = later.rows
    asked = [
        (key, row, metric, first.values(key, metric), later.values(key, metric))
        for key, row in first.rows.items()
        for metric in (_metrics(row, there[key]) if key in there else ())
    ]
    intervals = _family(
        [[(theirs[r], ours[r]) for r in sorted(ours.keys() & theirs.keys())] for *_, ours, theirs in asked]
    )
    return [
        CellComparison(
            workload=key[0],
            case=key[1],
            rate_pps=key[2],
            metric=metric,
            unit=_unit(metric, row),
            more_is_better=more_is_better(row.workload),
            before=median(ours.values()),
            after=median(theirs.values()),
            interval=interval,
        )
        for (key, row, metric, ours, theirs), interval in zip(asked, intervals, strict=True)
        if interval is not None
    ]


def _family(pairs: Sequence[Sequence[tuple[float, float]]]) -> list[Interval | None]:
    """The intervals of one table; None without a pair."""
    return [ratio_interval(each) for each in pairs]


def left_out(first: SocketRunData, later: SocketRunData, compared: Sequence[CellComparison]) -> dict[str, str]:
    """Cell -> why there is no comparison of it: no cell is dropped in silence."""
    done = {(one.workload, one.case, one.rate_pps) for one in compared}
    before, after = first.rows, later.rows
    reasons = {}
    for key in [*before, *(key for key in after if key not in before)]:
        if key in done:
            continue
        missing = next((run.name for run, rows in ((first, before), (later, after)) if key not in rows), None)
        unmeasured = next((row for row in (before.get(key), after.get(key)) if row and not row.repetitions), None)
        if missing:
            reasons[cell_title(key)] = f"not in {missing}"
        elif unmeasured:
            reasons[cell_title(key)] = f"{unmeasured.status}: {unmeasured.reason}"
        else:
            reasons[cell_title(key)] = "no repetition in common"
    return reasons


def difference(first: SocketRunRecord, later: SocketRunRecord) -> dict[str, tuple[Any, Any]]:
    """Key -> (value in the first run, value in the later one) for what differs in environment and study."""
    one, two = _set(first), _set(later)
    common = {case.title for case in first.study.all_cases()} & {case.title for case in later.study.all_cases()}
    for run, settings in ((first, one), (later, two)):
        for case in run.study.all_cases():
            if case.title in common:
                settings[f"case {case.title!r}"] = case.model_dump(mode="json", exclude={"workloads"})
    keys = [*one, *(key for key in two if key not in one)]
    changed = {key: (one.get(key), two.get(key)) for key in keys if one.get(key) != two.get(key)}
    return {**environment_difference(first, later), **changed}


def cell_trends(runs: Sequence[SocketRunData]) -> list[CellTrend]:
    """Group the runs, given in the order of their time, for each cell and figure; as `trend.trends`."""
    rows: dict[CellKey, SocketRow] = {}
    for run in runs:
        rows = {**run.rows, **rows}
    found = []
    for key, row in rows.items():
        for metric in _metrics(row, row):
            series = [(run.name, run.record, values) for run in runs if (values := [*run.values(key, metric).values()])]
            if len(series) >= MIN_RUNS:
                better = more_is_better(row.workload)
                workload, case, rate = key
                steps = levels(series, _precision(metric, row), better, difference)
                found.append(CellTrend(workload=workload, case=case, rate_pps=rate, metric=metric, levels=steps))
    return found


def _metrics(row: SocketRow, other: SocketRow) -> tuple[SocketMetric, ...]:
    """The figures that both have."""
    if row.stages and other.stages:
        return ("complete_p50_us", "complete_mean_us")
    if row.figure is not None and other.figure is not None and row.unit == other.unit:
        return ("figure",)
    return ("mpps",) if row.mpps is not None and other.mpps is not None else ()


def _value(trial: SocketTrial, metric: SocketMetric) -> float | None:
    if metric == "complete_mean_us":
        return trial.stages["complete"].mean_ns / 1000 if trial.stages else None
    return figure_of(trial)


def _unit(metric: SocketMetric, row: SocketRow) -> str:
    return {"mpps": "Mpps", "figure": row.unit, "complete_p50_us": "us, p50", "complete_mean_us": "us, mean"}[metric]


def _precision(metric: SocketMetric, row: SocketRow) -> float:
    """How many of what a figure is worth telling in (frames or requests per second, us of a round, ns) its unit has."""
    if metric == "figure":
        return 1e6 if row.workload == "job" else 1.0
    return 1e6 if metric == "mpps" else 1e3


def _set(run: SocketRunRecord) -> dict[str, Any]:
    """What was set for all cells, and what the environment of other runs does not hold."""
    shared = run.study.model_dump(mode="json", include=_SHARED)
    knobs = {f"knobs.{name}": value for name, value in run.study.knobs.items()}
    return {**shared, **knobs, "layout": run.layout.describe(), "kernel_version": run.kernel_version}
