# SPDX-License-Identifier: Apache-2.0
"""Several runs side by side."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from statistics import fmean, median, quantiles
from typing import Any, Literal, NamedTuple, TypeVar

import jumpavg
import numpy as np

from xdplab.analysis.compare import compare_between_runs, corrected
from xdplab.analysis.doubts import doubtful
from xdplab.analysis.run import Run
from xdplab.measure.comparison import Comparison
from xdplab.measure.figure import P50, P99, Figure
from xdplab.measure.point import PointSummary
from xdplab.model import Model, RunRecord, TrialRecord
from xdplab.stats import MIN_ROUNDS

# Two runs side by side: the points that both have, and what the runs differ in.


def compare_runs(
    first: Iterable[PointSummary],
    second: Iterable[PointSummary],
    figures: Sequence[Figure] = (P50, P99),
    apart: Iterable[str] = (),
) -> list[tuple[PointSummary, PointSummary, dict[str, Comparison | None]]]:
    """The points that two runs share. Runs are not interleaved: their difference includes the time between them.

    `figures`: what their points are compared by; `apart`: what the runs differ in (`what_differs`); with more than one
    thing no ratio says which of them it is.
    """
    metrics = [each.key for each in figures]
    things = list(apart)
    several = (f"the runs differ in {', '.join(things)}: each of them may be the cause",) if len(things) > 1 else ()
    earlier = {summary.point_id: summary for summary in first}
    shared = [s for s in second if s.point_id in earlier and s.repetitions and earlier[s.point_id].repetitions]
    found = {
        (s.point_id, metric): compare_between_runs(s, earlier[s.point_id], metric)
        for s in shared
        for metric in metrics
        if s.searched(metric) and earlier[s.point_id].searched(metric)
    }
    family = corrected(found)
    family = {key: one.model_copy(update={"blockers": (*several, *one.blockers)}) for key, one in family.items()}
    return [(earlier[s.point_id], s, {metric: family.get((s.point_id, metric)) for metric in metrics}) for s in shared]


def what_differs(first: RunRecord, second: RunRecord) -> dict[str, tuple[Any, Any]]:
    """What two runs were done by, where it differs: a ratio between them is of one such thing, or of none.

    Machine, kernel, programs, method, tester; not what changes with each start, nor our own revision.
    """
    sides = []
    for run in (first, second):
        environment = run.environment
        sides.append(
            {
                "method": run.study.method.model_dump(mode="json"),
                "tester": run.study.all_testers,
                "testbed": run.testbed.name,
                "kernel": environment.kernel,
                "cpu_model": environment.cpu_model,
                "governor": environment.governor,
                **{f"versions.{name}": v for name, v in environment.versions.items() if name != "xdplab"},
            }
        )
    keys = [*sides[0], *(key for key in sides[1] if key not in sides[0])]
    return {key: (sides[0].get(key), sides[1].get(key)) for key in keys if sides[0].get(key) != sides[1].get(key)}


def environment_difference(first: RunRecord, second: RunRecord) -> dict[str, tuple[Any, Any]]:
    """Key -> (value in the first run, value in the second) for every part of the environment that differs."""
    one, two = first.environment.facts(), second.environment.facts()
    return {key: (one.get(key), two.get(key)) for key in sorted({**one, **two}) if one.get(key) != two.get(key)}


class Environments(NamedTuple):
    """Of several runs, by their names."""

    #: Runs that have the same environment in everything, the first run's first.
    groups: list[list[str]]
    #: Fact -> its value in each group, None where there is none; of those that differ.
    differing: dict[str, list[str | None]]
    #: How many facts are the same in all.
    same: int


def environments(runs: Sequence[tuple[str, RunRecord]]) -> Environments:
    """Compare them fact by fact, and what programs printed line by line."""
    groups: list[tuple[dict[str, str], list[str]]] = []
    for name, run in runs:
        facts = _facts(run)
        own = next((names for known, names in groups if known == facts), None)
        if own is None:
            groups.append((facts, own := []))
        own.append(name)
    keys = dict.fromkeys(key for facts, _ in groups for key in facts)
    values = {key: [facts.get(key) for facts, _ in groups] for key in keys}
    found = [(key, each) for key, each in values.items() if len(set(each)) > 1]
    # what has several values comes before what some do not have, such as cards
    differing = dict(sorted(found, key=lambda pair: len({*pair[1]} - {None}) < 2))
    return Environments([names for _, names in groups], differing, len(values) - len(differing))


def _facts(run: RunRecord) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in run.environment.facts().items():
        text = str(value)
        lines = text.splitlines() if "\n" in text else []
        if not lines:
            found[key] = text
        seen: Counter[str] = Counter()
        for line in lines:
            name, colon, content = line.strip().partition(":")
            seen[name] += 1  # `ethtool -g` has what can be and what is under the same names
            again = f" ({seen[name]})" if seen[name] > 1 else ""
            found[f"{key}: {name}{again}"] = content.strip() if colon else "there"
    return found


# Where a figure changed over a series of runs: groups of runs that are alike by jumpavg, and not by chance.

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


# What a run spends its time on next to traffic: starting and proving a program, reading back, stopping, draining.


class Overhead(Model):
    """Dead time of the repetitions that were completed, in s: wall time less the traffic asked for, warm-up counted."""

    repetitions: int
    median_s: float
    #: Without the forwarders' own start and stop: what the suite and its tester take.
    own_median_s: float
    p90_s: float
    #: All dead time over all trials: a search takes many in one repetition.
    per_trial_s: float
    #: Of the repetitions' wall time, what was traffic.
    traffic_share: float
    #: Of a trial in turns: from the end of the one before, of whichever point, to its own, less its traffic, warm-up
    #: counted; None without turns.
    turn_median_s: float | None = None
    turn_p90_s: float | None = None


def overhead(trials: Iterable[TrialRecord]) -> Overhead | None:
    """Over all repetitions of a run; None when none was completed with traffic in it, and of simulated ones.

    A simulated trial takes less time than the traffic that it stands for.
    """
    ends, taken, turns = list[_End](), 0, _Turns()
    for trial in trials:  # of a long run, which would not fit into memory
        taken += trial.result is not None
        turns.add(trial)
        if trial.purpose == "end" and trial.status == "ok":
            ends.append(_End(trial.repetition_s, trial.traffic_s, trial.forwarder_s))
    if any(end.repetition_s < end.traffic_s for end in ends):
        return None
    ends = [end for end in ends if end.traffic_s > 0]
    if not ends:
        return None
    dead = [end.repetition_s - end.traffic_s for end in ends]
    return Overhead(
        repetitions=len(ends),
        median_s=median(dead),
        own_median_s=median(d - end.forwarder_s for d, end in zip(dead, ends, strict=True)),
        p90_s=_p90(dead),
        per_trial_s=sum(dead) / max(1, taken),
        traffic_share=sum(end.traffic_s for end in ends) / sum(end.repetition_s for end in ends),
        turn_median_s=median(turns.dead_s) if turns.dead_s else None,
        turn_p90_s=_p90(turns.dead_s) if turns.dead_s else None,
    )


def _p90(values: Sequence[float]) -> float:
    return quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]


class _End(NamedTuple):
    repetition_s: float
    traffic_s: float
    forwarder_s: float


class _Turns:
    """A trial is recorded at its end; of those that follow one another in a round."""

    def __init__(self) -> None:
        self.dead_s: list[float] = []
        self._ended_s = 0.0
        self._of: int | None = None

    def add(self, trial: TrialRecord) -> None:
        now_s = datetime.fromisoformat(trial.started).timestamp()
        if trial.purpose != "measure" or trial.turn is None or trial.asked is None:
            self._of = None
            return
        if self._of == trial.repetition:
            self.dead_s.append(now_s - self._ended_s - trial.asked.warmup_s - trial.asked.duration_s)
        self._ended_s, self._of = now_s, trial.repetition
