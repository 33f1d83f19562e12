# SPDX-License-Identifier: Apache-2.0
"""What the levels of each setting do to the latency: linear models of its logarithm, with interactions by two.

The unit is the configuration: its figure is the median over its repetitions of the logarithm of the sweep's statistic,
after what all configurations of a repetition share (a machine that drifts) is taken out. How much repetitions of one
configuration differ by is no measure of how much configurations do, so it is never the error here. The error is what
the model leaves between configurations: the model with interactions where that leaves `_PAIRS_DF` degrees of freedom,
else the one without where that leaves `_ALONE_DF`.

A level is judged against the default level, beside all other settings and the interactions among those (type II), by
Student's t; an interaction by F. Holm corrects all levels together and all interactions together, and each of the two
families has half of `ALPHA`: in a table of idle settings, the chance that any of them is named is at most `ALPHA`.

Where a design leaves no error (one setting at a time, saturated designs), each repetition gives one estimate of each
effect, and these are compared as all repetitions are (`compared`), of five repetitions at least: all settings share the
default, and where runs have two levels, three or four repetitions of it are often all at one of them.

`xdplab dev bench-sweeps` shows how often idle settings are named, and real ones found. The module solves its small
least-squares problems itself: statsmodels 0.15 gives no answer at all in designs with aliased terms, counts degrees of
freedom that a nested option has not got, and takes four seconds to import.
"""

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdplab.analysis.sweep.compared import RESOLUTION, compared
from xdplab.analysis.sweep.table import ABSENT, Factor, Table
from xdplab.model import Model
from xdplab.model.digits import significant
from xdplab.model.study import Scalar

#: Chance that a table of idle settings names one; below the 5 % that is promised, for noise that is not normal.
ALPHA = 0.04
_PAIRS_DF, _ALONE_DF = 5, 3
#: Of a design that leaves no error.
MIN_REPETITIONS = 5
#: More than this many terms are not looked at: settings alone only.
_MAX_TERMS = 200

#: Of a level: `ratio`, `low`, `high`, `p`, `differs`.
_Judged = dict[str, Any]
#: A setting, or two.
Term = tuple[str, ...]


class Effect(Model):
    """One term: a setting, or two together."""

    factors: Term
    df: int
    #: Of the variation of the logarithms between configurations.
    share: float
    #: Smallest of its levels, or of the interaction; corrected. None when it is not estimable.
    p: float | None
    differs: bool = False

    @property
    def name(self) -> str:
        """`a`, or both with a cross between."""
        return " × ".join(self.factors)


class LevelEffect(Model):
    """Geometric mean of the latencies at a level, and the effect of the level: its ratio to the default level."""

    level: Scalar
    mean_us: float
    configurations: int
    #: Beside all other settings; None when it is not estimable.
    ratio: float | None = None
    #: Corrected for all levels of all settings; None when the design leaves no error.
    low: float | None = None
    high: float | None = None
    p: float | None = None
    differs: bool = False


class Anova(Model):
    """All effects, largest first, and where the error came from."""

    effects: tuple[Effect, ...]
    #: Setting -> each of its levels.
    levels: dict[str, tuple[LevelEffect, ...]]
    error_df: int
    error_from: str
    #: Share of the variation of the logarithms that no term explains.
    residual_share: float


@dataclass(frozen=True)
class _Estimate:
    """How the logarithm of a level's ratio follows from the rows: `weights @ logs`; None when it does not."""

    factor: str
    level: Scalar
    weights: np.ndarray | None


def response(table: Table) -> np.ndarray:
    """One logarithm per configuration, shape (rows,)."""
    logs = table.logs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a repetition that is nowhere known
        shared = np.nanmedian(logs - np.nanmedian(logs, axis=1, keepdims=True), axis=0)
    return np.asarray(np.nanmedian(logs - shared, axis=1))


def anova(table: Table) -> Anova:
    """Of the latencies of a table's configurations."""
    if not table.factors:
        return Anova(effects=(), levels={}, error_df=0, error_from="repetitions", residual_share=1.0)
    y = response(table)
    blocks = {(factor.name,): _columns(table, factor) for factor in table.factors}
    blocks, error_df = _model(blocks, len(y))
    paired = any(len(term) == 2 for term in blocks)
    squares, total = _fit(y, blocks.values())[0], float(((y - y.mean()) ** 2).sum())
    variance = max(squares / error_df, math.log1p(RESOLUTION) ** 2) if error_df >= _ALONE_DF else None
    estimates = [each for factor in table.factors for each in _estimates(factor, blocks)]
    if variance is not None:
        found, error_from = _by_variance(estimates, y, variance, error_df, 1 + paired), "configurations"
    else:
        found, error_from = _by_repetitions(estimates, table), "repetitions"
    levels = {factor.name: _levels(table, factor, y, found) for factor in table.factors}
    effects = []
    for term, columns in blocks.items():
        without, with_it = _fit(y, _beside(term, blocks)), _fit(y, [*_beside(term, blocks), columns])
        share = (without[0] - with_it[0]) / total if total else 0.0
        known = [each.p for each in levels[term[0]] if each.p is not None] if len(term) == 1 else []
        differs = len(term) == 1 and any(each.differs for each in levels[term[0]])
        effects.append(
            Effect(
                factors=term,
                df=with_it[1] - without[1],
                share=max(0.0, share),
                p=min(known, default=None),
                differs=differs,
            )
        )
    if paired and variance is not None:
        effects = _interactions(effects, total, variance, error_df)
    return Anova(
        effects=tuple(sorted(effects, key=lambda effect: -effect.share)),
        levels=levels,
        error_df=error_df if variance is not None else len(table.repetitions) - 1,
        error_from=error_from,
        residual_share=squares / total if total else 0.0,
    )


def p_words(p: float) -> str:
    """`0.034`, or `< 0.0001`."""
    return "< 0.0001" if p < 1e-4 else significant(p, 2)


def _columns(table: Table, factor: Factor) -> np.ndarray:
    """One column per level but the default, shape (rows, levels); an option that a row has not got is 0 in each."""
    others = [level for level in factor.levels if level not in (factor.default, ABSENT)]
    return np.array([[float(row.levels[factor.name] == level) for level in others] for row in table.rows])


def _model(alone: dict[Term, np.ndarray], rows: int) -> tuple[dict[Term, np.ndarray], int]:
    """The terms that the design has room for, and the degrees of freedom that they leave."""
    pairs = {
        (*one, *other): (alone[one][:, :, None] * alone[other][:, None, :]).reshape(rows, -1)
        for one, other in itertools.combinations(alone, 2)
    }
    everything = {**alone, **pairs}
    if len(everything) <= _MAX_TERMS:
        left = rows - _fit(np.zeros(rows), everything.values())[1]
        if left >= _PAIRS_DF:
            return everything, left
    return alone, rows - _fit(np.zeros(rows), alone.values())[1]


def _beside(term: Term, blocks: dict[Term, np.ndarray]) -> list[np.ndarray]:
    """All other terms that do not contain it."""
    return [columns for other, columns in blocks.items() if other != term and not set(term) < set(other)]


def _estimates(factor: Factor, blocks: dict[Term, np.ndarray]) -> list[_Estimate]:
    columns = blocks[(factor.name,)]
    design = np.column_stack([columns, np.ones(len(columns)), *_beside((factor.name,), blocks)])
    inverse = np.linalg.pinv(design, rcond=1e-9)
    told = np.abs(inverse @ design - np.eye(design.shape[1])).max(axis=1) < 1e-6
    others = [level for level in factor.levels if level not in (factor.default, ABSENT)]
    return [_Estimate(factor.name, level, inverse[n] if told[n] else None) for n, level in enumerate(others)]


def _by_variance(
    estimates: Sequence[_Estimate], y: np.ndarray, variance: float, df: int, families: int
) -> dict[tuple[str, Scalar], _Judged]:
    """Student's t of each estimate, Holm over all."""
    from scipy.special import stdtr, stdtrit

    told = [each for each in estimates if each.weights is not None]
    values = [float(each.weights @ y) for each in told]  # type: ignore[operator]
    errors = [math.sqrt(variance * float((each.weights**2).sum())) for each in told]  # type: ignore[operator]
    raw = [2 * float(stdtr(df, -abs(value) / error)) for value, error in zip(values, errors, strict=True)]
    found = {}
    for each, value, error, (p, level) in zip(told, values, errors, _holm(raw, families), strict=True):
        half = min(-float(stdtrit(df, level / 2)) * error, 200.0)
        found[each.factor, each.level] = {
            "ratio": math.exp(value),
            "low": math.exp(value - half),
            "high": math.exp(value + half),
            "p": p,
            "differs": p < ALPHA,
        }
    return found


def _by_repetitions(estimates: Sequence[_Estimate], table: Table) -> dict[tuple[str, Scalar], _Judged]:
    """Each repetition estimates each effect; those in which a row that it rests on was disturbed do not count."""
    logs = table.logs
    disturbed = np.array([[number in row.disturbed for number in table.repetitions] for row in table.rows])
    told, family = [], []
    for each in estimates:
        if each.weights is None:
            continue
        used = np.abs(each.weights) > 1e-9
        clean = ~(disturbed | np.isnan(logs))[used].any(axis=0)
        told.append(each)
        family.append([(math.exp(each.weights[used] @ logs[used, at]), 1.0) for at in np.flatnonzero(clean)])
    found = {}
    for each, interval in zip(told, compared(family), strict=True):
        if interval is None or interval.pairs < MIN_REPETITIONS:
            continue
        bounds = {"low": interval.low, "high": interval.high, "p": interval.corrected_p}
        found[each.factor, each.level] = {"ratio": interval.ratio, **bounds, "differs": interval.differs}
    return found


def _levels(
    table: Table, factor: Factor, y: np.ndarray, found: dict[tuple[str, Scalar], _Judged]
) -> tuple[LevelEffect, ...]:
    result = []
    for level in factor.levels:
        values = [value for row, value in zip(table.rows, y, strict=True) if row.levels[factor.name] == level]
        own = {"ratio": 1.0} if level == factor.default else found.get((factor.name, level), {})
        mean_us = math.exp(float(np.mean(values)))
        result.append(LevelEffect(level=level, mean_us=mean_us, configurations=len(values), **own))
    return tuple(result)


def _interactions(effects: Sequence[Effect], total: float, variance: float, df: int) -> list[Effect]:
    """With F and p of every two that are estimable, Holm over all of them."""
    from scipy.special import fdtrc

    told = [effect for effect in effects if len(effect.factors) == 2 and effect.df]
    raw = [float(fdtrc(each.df, df, each.share * total / each.df / variance)) for each in told]
    judged = {each.factors: {"p": p, "differs": p < ALPHA} for each, (p, _) in zip(told, _holm(raw, 2), strict=True)}
    return [effect.model_copy(update=judged.get(effect.factors, {})) for effect in effects]


def _fit(y: np.ndarray, blocks: Sequence[np.ndarray]) -> tuple[float, int]:
    """Residual sum of squares and rank of a least-squares fit with a constant."""
    design = np.column_stack([np.ones(len(y)), *blocks])
    coefficients, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-9)
    return float(((y - design @ coefficients) ** 2).sum()), int(rank)


def _holm(values: Sequence[float], families: int) -> list[tuple[float, float]]:
    """p after Holm's step-down over the values and Bonferroni over the families; the level that each is judged at."""
    adjusted = [(1.0, ALPHA)] * len(values)
    running, level, failed = 0.0, ALPHA, False
    for rank, index in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        left = (len(values) - rank) * families
        running = max(running, min(1.0, values[index] * left))
        if not failed:
            level, failed = ALPHA / left, running >= ALPHA
        adjusted[index] = (running, level)
    return adjusted
