# SPDX-License-Identifier: Apache-2.0
"""The fewest settings to change from the default to come near the best, as far as `compare` confirms each step.

The steps are chosen on one half of the repetitions and confirmed on the other. Only settings that matter are changed.
Configurations that differ in others alone are paired, one pair for each repetition of the other half; where a
design has too few such pairs, the means of a repetition are. Configurations that lost frames (`outliers.lossy`) are
nobody's aim.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xdplab.analysis.compare import compare_values
from xdplab.analysis.sweep.table import ABSENT, RESOLUTION, Configuration, Table
from xdplab.model import Model
from xdplab.model.digits import significant
from xdplab.model.study import Scalar
from xdplab.stats import MIN_ROUNDS, Interval

#: A configuration is near the best when its latency is at most this share above.
NEAR = 0.10

Levels = tuple[Scalar, ...]


class Named(Model):
    """A configuration with its latency (the sweep's statistic), as it was measured and compared with nothing."""

    point_id: str
    title: str
    value_us: float


class Change(Model):
    """One change that is confirmed, alone or with those after it up to one that has an interval."""

    factor: str
    before: Scalar
    after: Scalar
    #: Latency once it is made: `ChangeAdvice.default_us` over the ratio of each interval so far.
    value_us: float | None
    #: Latency before over after.
    interval: Interval | None


class ChangeAdvice(Model):
    """From the default to near the best."""

    #: None where every configuration lost frames.
    best: Named | None
    worst: Named
    #: Latencies at the default levels of the settings that matter, over the pairs that confirm the first change, and
    #: after all.
    default_us: float | None = None
    reached_us: float | None = None
    changes: tuple[Change, ...] = ()
    sentence: str


@dataclass(frozen=True)
class _Step:
    """Changes (their numbers among the settings) that lead from one cell to the next."""

    changed: tuple[int, ...]
    before: Levels
    after: Levels


#: Levels of the settings that matter -> levels of the others, repetition -> latency.
_Cells = dict[Levels, dict[tuple[Levels, int], float]]


def _cells(table: Table, known: np.ndarray, names: Sequence[str], repetitions: set[int]) -> _Cells:
    """What was measured in some of the repetitions; `known`: logarithms of the table's shape."""
    found: _Cells = defaultdict(dict)
    for row, logs in zip(table.rows, known, strict=True):
        cell = tuple(row.levels[name] for name in names)
        others = tuple(level for name, level in row.levels.items() if name not in names)
        for repetition, log in zip(table.repetitions, logs, strict=True):
            if repetition in repetitions and not math.isnan(log):
                found[cell][others, repetition] = math.exp(log)
    return found


def _pairs(step: _Step, cells: _Cells, *, whole: bool) -> list[tuple[float, float]]:
    """`whole`: one for each repetition only, for a setting that all of a group share."""
    before, after = cells.get(step.before, {}), cells.get(step.after, {})
    alike = [(before[key], after[key]) for key in before if key in after]
    if len(alike) >= MIN_ROUNDS and not whole:
        return alike
    shared = {number for _, number in before} & {number for _, number in after}
    return [
        (
            _mean(v for (_, n), v in before.items() if n == number),
            _mean(v for (_, n), v in after.items() if n == number),
        )
        for number in sorted(shared)
    ]


def advise(table: Table, mattering: Collection[str], lossy: Mapping[str, str]) -> ChangeAdvice:
    """Over all configurations of a table, outliers among them: the default may be one.

    Args:
        table: all configurations.
        mattering: names of the settings that may be changed.
        lossy: configurations that lost frames.
    """
    ordered = sorted(table.rows, key=table.value_us)
    best = next((row for row in ordered if row.point_id not in lossy), None)
    advice = ChangeAdvice(best=best and _named(table, best), worst=_named(table, ordered[-1]), sentence="")
    factors = [factor for factor in table.factors if factor.name in mattering]
    names = [factor.name for factor in factors]
    if not names:
        return _none(advice, "")
    halves = [set(table.repetitions[start::2]) for start in (0, 1)]
    chosen, other = (_cells(table, table.levelled, names, half) for half in halves)
    means = {cell: _mean(values.values()) for cell, values in chosen.items()}
    default = _at(means, tuple(factor.default for factor in factors))
    if default is None:
        return _none(advice, "the default was not measured")
    bad = {tuple(row.levels[name] for name in names) for row in table.rows if row.point_id in lossy}
    if default in bad:
        return _none(advice, "the default lost frames, and its latency is that of the frames that arrived")
    known = {cell: mean for cell, mean in means.items() if cell not in bad}
    near = [cell for cell, mean in known.items() if mean <= (1 + NEAR) * min(known.values())]
    target = min(near, key=lambda cell: (len(_differing(default, cell)), known[cell]))
    steps = _way(known, default, target)
    if not steps:
        return _none(advice, f"none that was tried came more than {NEAR:.0%} below it")
    of_groups, as_measured = table.of_groups, _cells(table, table.logs, names, halves[1])
    whole = [any(names[i] in of_groups for i in step.changed) for step in steps]
    family = [_pairs(step, as_measured if each else other, whole=each) for step, each in zip(steps, whole, strict=True)]
    return _confirmed(advice, table.statistic, names, family, steps)


def _confirmed(
    advice: ChangeAdvice,
    statistic: str,
    names: Sequence[str],
    family: Sequence[Sequence[tuple[float, float]]],
    steps: Sequence[_Step],
) -> ChangeAdvice:
    """The steps as far as each of them is confirmed. `family`: latencies before and after each step."""
    if len(family[0]) < MIN_ROUNDS:
        pairs = f"{len(family[0])} of the {MIN_ROUNDS} pairs of repetitions that it takes"
        return _none(advice, f"{pairs}: ask for 6 repetitions")
    changes: list[Change] = []
    # of the pairs alone: a cell has configurations without a counterpart, and repetitions that only one side has
    before = after = _mean(one for one, _ in family[0])
    for step, interval in zip(steps, compare_values(family, RESOLUTION), strict=True):
        if interval is None or not interval.differs or interval.ratio <= 1:
            break
        after /= interval.ratio
        for i in step.changed:
            last = i == step.changed[-1]
            changes.append(
                Change(
                    factor=names[i],
                    before=step.before[i],
                    after=step.after[i],
                    value_us=after if last else None,
                    interval=interval if last else None,
                )
            )
    if not changes:
        looked = " and ".join(f"{names[i]}={steps[0].after[i]}" for i in steps[0].changed)
        return _none(
            advice, f"{looked} was faster in one half of the repetitions, which the other half does not confirm"
        )
    words = ", ".join(f"{change.factor} from {change.before} to {change.after}" for change in changes)
    verb = "1 change from the default takes" if len(changes) == 1 else f"{len(changes)} changes from the default take"
    figures = f"from {significant(before)} to {significant(after)} µs"
    found = {"default_us": before, "reached_us": after, "changes": tuple(changes)}
    return advice.model_copy(update={**found, "sentence": f"{verb} the {statistic} {figures}: {words}."})


def _none(advice: ChangeAdvice, why: str) -> ChangeAdvice:
    sentence = f"No change from the default is confirmed to help{': ' if why else ''}{why}."
    return advice.model_copy(update={"sentence": sentence})


def _named(table: Table, row: Configuration) -> Named:
    return Named(point_id=row.point_id, title=row.title, value_us=table.value_us(row))


def _mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


def _at(cells: Collection[Levels], wanted: Levels) -> Levels | None:
    """The measured levels that are the wanted ones; an option that a forwarder has not got does not matter."""
    fitting = [cell for cell in cells if all(has in (want, ABSENT) for has, want in zip(cell, wanted, strict=True))]
    return min(fitting, key=lambda cell: cell.count(ABSENT), default=None)


def _differing(one: Levels, other: Levels) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b and b != ABSENT]


def _way(means: Mapping[Levels, float], start: Levels, target: Levels) -> list[_Step]:
    """One change at a time, the one that helps most first; what helps only together is one step."""
    steps, now = [], start
    while left := _differing(now, target):
        cells = {i: _at(means, tuple(target[j] if j == i else level for j, level in enumerate(now))) for i in left}
        known = {i: cell for i, cell in cells.items() if cell is not None and means[cell] < means[now]}
        if known and len(left) > 1:
            i = min(known, key=lambda i: means[known[i]])
            steps.append(_Step((i,), now, known[i]))
        else:
            steps.append(_Step(tuple(left), now, target))
        now = steps[-1].after
    return steps
