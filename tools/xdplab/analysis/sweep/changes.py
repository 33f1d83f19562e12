# SPDX-License-Identifier: Apache-2.0
"""Best and worst configuration, and the fewest settings to change from the default to come near the best.

Only settings that matter are changed: configurations that differ in others alone are taken as repeats of one.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from xdplab.analysis.sweep.table import ABSENT, Configuration, Table
from xdplab.model import Model
from xdplab.model.digits import significant
from xdplab.model.study import Scalar

#: A configuration is near the best when its latency is at most this share above.
NEAR = 0.10

Levels = tuple[Scalar, ...]


class Named(Model):
    """A configuration with its latency (the sweep's statistic)."""

    point_id: str
    title: str
    value_us: float


class Change(Model):
    """One step on the way, and the latency once it is made; None where no such configuration was measured."""

    factor: str
    before: Scalar
    after: Scalar
    value_us: float | None


class Advice(Model):
    """From the default to near the best."""

    best: Named
    worst: Named
    #: Latency at the default levels of the settings that matter; None: that was not measured.
    default_us: float | None
    #: And after the changes.
    reached_us: float | None
    changes: tuple[Change, ...]
    sentence: str


def advise(table: Table, mattering: Sequence[str]) -> Advice:
    """Over all configurations of a table, outliers among them: the default may be one.

    Args:
        table: all configurations.
        mattering: names of the settings that may be changed.
    """
    ordered = sorted(table.rows, key=table.value_us)
    factors = [factor for factor in table.factors if factor.name in mattering]
    cells: dict[Levels, list[float]] = defaultdict(list)
    for row in table.rows:
        cells[tuple(row.levels[factor.name] for factor in factors)].append(table.value_us(row))
    means = {levels: float(np.exp(np.mean(np.log(values)))) for levels, values in cells.items()}
    default = _at(means, tuple(factor.default for factor in factors))
    changes: tuple[Change, ...] = ()
    reached = default
    if default is not None:
        near = [levels for levels, mean in means.items() if mean <= (1 + NEAR) * min(means.values())]
        start = default
        reached = min(near, key=lambda levels: (len(_differing(start, levels)), means[levels]))
        changes = tuple(_way(means, [factor.name for factor in factors], start, reached))
    default_us, reached_us = (means[levels] if levels is not None else None for levels in (default, reached))
    return Advice(
        best=_named(table, ordered[0]),
        worst=_named(table, ordered[-1]),
        default_us=default_us,
        reached_us=reached_us,
        changes=changes,
        sentence=_sentence(table.statistic, default_us, reached_us, changes),
    )


def _named(table: Table, row: Configuration) -> Named:
    return Named(point_id=row.point_id, title=row.title, value_us=table.value_us(row))


def _at(means: dict[Levels, float], wanted: Levels) -> Levels | None:
    """The measured levels that are the wanted ones; an option that a forwarder has not got does not matter."""
    fitting = [
        levels for levels in means if all(has in (want, ABSENT) for has, want in zip(levels, wanted, strict=True))
    ]
    return min(fitting, key=lambda levels: levels.count(ABSENT), default=None)


def _differing(one: Levels, other: Levels) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b and b != ABSENT]


def _way(means: dict[Levels, float], names: Sequence[str], start: Levels, target: Levels) -> list[Change]:
    """One change at a time, the one that helps most first, as far as what lies between was measured."""
    left, now, steps = _differing(start, target), list(start), []
    while left:
        reached = {i: _at(means, tuple(target[j] if j == i else level for j, level in enumerate(now))) for i in left}
        known = {i: means[levels] for i, levels in reached.items() if levels is not None}
        chosen = min(known, key=lambda i: known[i]) if known else left[0]
        value_us = means[target] if left == [chosen] else known.get(chosen)
        steps.append(Change(factor=names[chosen], before=now[chosen], after=target[chosen], value_us=value_us))
        now[chosen] = target[chosen]
        left.remove(chosen)
    return steps


def _sentence(statistic: str, before: float | None, after: float | None, changes: Sequence[Change]) -> str:
    if before is None or after is None:
        return "The default configuration was not measured."
    if not changes:
        return f"The default is within {NEAR:.0%} of the best ({significant(before)} µs)."
    words = ", ".join(f"{change.factor} from {change.before} to {change.after}" for change in changes)
    verb = "1 change from the default takes" if len(changes) == 1 else f"{len(changes)} changes from the default take"
    figures = f"from {significant(before)} to {significant(after)} µs"
    return f"{verb} the {statistic} {figures}, within {NEAR:.0%} of the best: {words}."
