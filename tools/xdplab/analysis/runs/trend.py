# SPDX-License-Identifier: Apache-2.0
"""Where a figure changed over a series of runs: groups of runs that are alike by jumpavg, and not by chance."""

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Literal, TypeVar

import jumpavg
import numpy as np

from xdplab.analysis.doubts import doubtful
from xdplab.analysis.run import Run
from xdplab.analysis.runs.apart import environment_difference, what_differs
from xdplab.measure.point import PointSummary
from xdplab.model import Model
from xdplab.stats import MIN_ROUNDS

#: Two runs are a comparison, not a trend.
MIN_RUNS = 3
#: Chance of a step, over all steps of a series, in runs that differ by chance alone.
MAX_CHANCE = 0.05
_ORDERS = 4000

#: Runs that differ in one of these do not continue each other.
_BY = {"method", "tester", "testbed"}

_Record = TypeVar("_Record")


class Stretch(Model):
    """Consecutive runs between which the figure did not change; `change` is against the stretch before."""

    first: str
    last: str
    runs: int
    #: Mean over all repetitions of these runs, in the metric's unit.
    mean: float
    change: Literal["first", "better", "worse"]
    #: Key -> (before, now) of what differs in the environment at the step into this one.
    environment: dict[str, tuple[Any, Any]] = {}


class TrendRun(Model):
    """What a run adds to a trend: its repetitions, in the metric's unit."""

    name: str
    mean: float
    low: float
    high: float
    count: int


class Trend(Model):
    """One metric of one point over the runs that have it."""

    forwarder: str
    point_id: str
    metric: str
    stretches: tuple[Stretch, ...]
    runs: tuple[TrendRun, ...]


def trends(runs: Sequence[Run]) -> list[Trend]:
    """Group the runs (in the order of their time) for each point and metric.

    Every repetition counts as a sample of its run. A run is left out with fewer of them than a comparison needs,
    or with a bound among them, or what a comparison would not take; so are a point that fewer than `MIN_RUNS` runs
    have, and runs by another method, tester or testbed than the last one's.
    """
    last = runs[-1].record if runs else None
    runs = [run for run in runs if last is not None and not _BY.intersection(what_differs(last, run.record))]
    found = []
    points = {point.point_id: point.forwarder for run in runs for point in run.points}
    figures = runs[-1].method.figures if runs else ()
    for point_id, forwarder in points.items():
        for figure in figures:
            series = [
                (run.name, run.record, values)
                for run in runs
                if len(values := _values(run.points, point_id, figure.key)) >= MIN_ROUNDS
            ]
            if len(series) >= MIN_RUNS:
                steps = stretches(series, figure.precision, figure.more, environment_difference)
                own = tuple(
                    TrendRun(name=name, mean=fmean(values), low=min(values), high=max(values), count=len(values))
                    for name, _, values in series
                )
                found.append(
                    Trend(forwarder=forwarder, point_id=point_id, metric=figure.key, stretches=steps, runs=own)
                )
    return found


def _values(summaries: Sequence[PointSummary], point_id: str, metric: str) -> list[float]:
    """Nothing where the point's percentile is not carried by its samples, or a repetition has no fact."""
    figures = [
        one
        for s in summaries
        if s.point_id == point_id and getattr(s, metric, 0) is not None
        for one in s.by_repetition
    ]
    searched = [one for one in figures if one.was_searched(metric)]
    if any(doubtful(one, metric) for one in searched):
        return []
    values = [value for one in searched if (value := one.value(metric)) is not None]
    return values if values and 0 < fmean(values) < math.inf else []  # a step is of their logarithms


def stretches(
    series: Sequence[tuple[str, _Record, list[float]]],
    precision: float,
    more_is_better: bool,
    difference: Callable[[_Record, _Record], dict[str, tuple[Any, Any]]],
) -> tuple[Stretch, ...]:
    """Groups of runs (name, record, figures; in the order of their time) whose figure is alike.

    The unit is a run's mean: its repetitions say nothing of what runs of the same thing differ by. A step between two
    groups stands where the order of their runs is hardly chance (`_chance` below `MAX_CHANCE`, shared by all steps);
    the least certain one is taken out until all that are left do.

    `precision`: how many of what the figure is worth reporting in make one of its unit; `difference`: of two records.
    """
    means = [fmean(values) for _, _, values in series]
    groups = jumpavg.classify([[mean * precision] for mean in means])
    starts = [0, *itertools.accumulate(len(group.run_list) for group in groups)]
    while len(starts) > 2:
        chances = {at: _chance(means[starts[at - 1] : starts[at + 1]]) for at in range(1, len(starts) - 1)}
        worst = max(chances, key=lambda at: chances[at])
        if chances[worst] <= MAX_CHANCE / len(chances):
            break
        del starts[worst]
    found: list[Stretch] = []
    for start, end in itertools.pairwise(starts):
        mean = fmean(means[start:end])
        change: Literal["first", "better", "worse"] = "first"
        environment = {}
        if found:
            change = "better" if (mean > found[-1].mean) == more_is_better else "worse"
            environment = difference(series[start - 1][1], series[start][1])
        first, last = series[start][0], series[end - 1][0]
        found.append(
            Stretch(first=first, last=last, runs=end - start, mean=mean, change=change, environment=environment)
        )
    return tuple(found)


def _chance(means: Sequence[float]) -> float:
    """How often runs in a random order show a step as clear as the clearest of these, wherever it is.

    A permutation test on the largest difference between the runs before and after any point, in standard errors.
    """
    values, draws = np.log(np.array(means)), np.random.default_rng(len(means))
    orders = np.array([values, *(draws.permutation(values) for _ in range(_ORDERS))])
    count = len(values)
    sums = np.cumsum(orders, axis=1)[:, :-1]
    before = np.arange(1, count)
    apart = np.abs(sums / before - (sums[:, -1:] + orders[:, -1:] - sums) / (count - before))
    clearest = (apart * np.sqrt(before * (count - before) / count)).max(axis=1)
    return float(np.mean(clearest >= clearest[0] * (1 - 1e-12)))
