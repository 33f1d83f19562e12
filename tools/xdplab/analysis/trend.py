# SPDX-License-Identifier: Apache-2.0
"""Where a figure changed over a series of runs: groups of runs that are alike, by jumpavg."""

from collections.abc import Sequence
from typing import Any, Literal

import jumpavg

from xdplab.analysis.compare import METRICS, MORE_IS_BETTER, environment_difference
from xdplab.analysis.summary import PointSummary
from xdplab.model import Model, RunRecord

#: jumpavg takes values as multiples of the precision they are worth telling: 1 ns, 1 packet per second.
_UNITS = {"p50_us": 1e3, "p99_us": 1e3, "ndr_pps": 1.0, "forwarding_rate_pps": 1.0}


class Level(Model):
    """Consecutive runs between which the figure did not change; `change` is against the level before."""

    first: str
    last: str
    runs: int
    #: Mean over all repetitions of these runs, in the metric's unit.
    mean: float
    change: Literal["first", "better", "worse"]
    #: Key -> (before, now) of what differs in the environment at the step into this level.
    environment: dict[str, tuple[Any, Any]] = {}


class Trend(Model):
    """One metric of one point over the runs that have it."""

    forwarder: str
    point_id: str
    metric: str
    levels: tuple[Level, ...]


def trends(runs: Sequence[tuple[str, RunRecord, Sequence[PointSummary]]]) -> list[Trend]:
    """Group the runs (name, record, summaries; in the order of their time) for each point and metric.

    Every repetition counts as a sample of its run. A point that fewer than three runs have is left out: two runs are a
    comparison, not a trend.
    """
    found = []
    points = {summary.point_id: summary.forwarder for _, _, summaries in runs for summary in summaries}
    for point_id, forwarder in points.items():
        for metric in METRICS:
            series = [
                (name, record, values)
                for name, record, summaries in runs
                if (values := _values(summaries, point_id, metric))
            ]
            if len(series) >= 3:
                levels = _levels(series, metric)
                found.append(Trend(forwarder=forwarder, point_id=point_id, metric=metric, levels=levels))
    return found


def _values(summaries: Sequence[PointSummary], point_id: str, metric: str) -> list[float]:
    known = [getattr(one, metric) for s in summaries if s.point_id == point_id for one in s.by_repetition]
    return [value for value in known if value]


def _levels(series: Sequence[tuple[str, RunRecord, list[float]]], metric: str) -> tuple[Level, ...]:
    unit = _UNITS[metric]
    groups = jumpavg.classify([[value * unit for value in values] for _, _, values in series])
    levels: list[Level] = []
    start = 0
    for group in groups:
        size = len(group.run_list)
        mean = group.stats.avg / unit
        change: Literal["first", "better", "worse"] = "first"
        environment = {}
        if levels:
            rose = mean > levels[-1].mean
            change = "better" if rose == (metric in MORE_IS_BETTER) else "worse"
            environment = environment_difference(series[start - 1][1], series[start][1])
        first, last = series[start][0], series[start + size - 1][0]
        levels.append(Level(first=first, last=last, runs=size, mean=mean, change=change, environment=environment))
        start += size
    return tuple(levels)
