# SPDX-License-Identifier: Apache-2.0
"""What the levels of each setting do to the latency: linear models of its logarithm, with interactions by two.

The unit is the configuration: its figure is the median over its repetitions of the logarithm of the sweep's statistic,
after what all configurations that were measured at one time share is taken out (`Table.levelled`). How much repetitions
of one configuration differ by is no measure of how much configurations do, so it is never the error here. The error is
what the model leaves between configurations: the model with interactions where that leaves `_PAIRS_DF` degrees of
freedom, else the one without where that leaves `_ALONE_DF`.

A setting of the whole machine is the same for all that stand side by side, so what such groups differ by is part of its
error (a split plot): each repetition gives one estimate of it, three at least, and Student's t is over these; two such
settings have no interaction here.

A level is judged against the default level, next to all other settings and the interactions among those (type II), by
Student's t; an interaction by F. Holm corrects all levels together and all interactions together, and each of the two
families has half of `ALPHA`: in a table of idle settings, the chance that any of them is named is at most `ALPHA`.

Where a design leaves no error (one setting at a time, saturated designs), each repetition gives one estimate of each
effect, and these are compared as all repetitions are (`compared`), of five repetitions at least: all settings share the
default, and where runs have two levels, three or four repetitions of it are often all at one of them. One configuration
stands for each level there, and whatever it always does is taken for what the level does.

`tools/dev bench-sweeps` shows how often idle settings are named, and real ones found. The module solves its small
least-squares problems itself: statsmodels 0.15 gives no answer at all in designs with aliased terms, counts degrees of
freedom that a nested option has not got, and takes four seconds to import.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from xdplab.analysis.compare import compare_values
from xdplab.analysis.sweep.table import ABSENT, RESOLUTION, Factor, Table
from xdplab.model import Model
from xdplab.model.digits import significant
from xdplab.model.study import Scalar
from xdplab.stats import MIN_ROUNDS

#: Chance that a table of idle settings names one, where noise is normal; where runs have two levels it is 4 %.
ALPHA = 0.03
_PAIRS_DF, _ALONE_DF = 5, 3
#: Of a design that leaves no error.
MIN_REPETITIONS = 5
#: More than this many terms are not looked at: settings alone only.
_MAX_TERMS = 200

#: Of a level: `ratio`, `low`, `high`, `p`, `differs`.
_Judged = dict[str, Any]
_Key = tuple[str, Scalar]
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


def response(table: Table) -> np.ndarray:
    """One logarithm per configuration, shape (rows,)."""
    return np.asarray(np.nanmedian(table.levelled, axis=1))


def anova(table: Table) -> Anova:
    """Of the latencies of a table's configurations."""
    if not table.factors:
        return Anova(effects=(), levels={}, error_df=0, error_from="repetitions", residual_share=1.0)
    y = response(table)
    blocks = _model(table)
    (squares, rank), total = _fit(y, blocks.values()), float(((y - y.mean()) ** 2).sum())
    df, families = len(y) - rank, 1 if len(blocks) == len(table.factors) else 2
    weights = {key: each for factor in table.factors for key, each in _weights(factor, blocks).items()}
    added = {term: _added(y, columns, _beside(term, blocks)) for term, columns in blocks.items()}
    if df >= _ALONE_DF:
        variance = max(squares / df, math.log1p(RESOLUTION) ** 2)
        estimates: dict[_Key, _Estimate | None] = {
            key: (float(each @ y), math.sqrt(variance * float((each**2).sum())), df) for key, each in weights.items()
        }
        whole, logs = table.of_groups, table.logs
        estimates |= {key: _over_repetitions(logs, each) for key, each in weights.items() if key[0] in whole}
        judged = _by_variance({key: each for key, each in estimates.items() if each}, families)
        pairs = _interactions({term: own for term, own in added.items() if not whole.issuperset(term)}, variance, df)
    else:
        judged, pairs = _by_repetitions(weights, table), {}
    levels = {factor.name: _levels(table, factor, y, judged) for factor in table.factors}
    chances: dict[Term, float | None] = {**pairs}
    for name, own in levels.items():
        chances[name,] = min((each.p for each in own if each.p is not None), default=None)
    effects = [
        Effect(
            factors=term,
            df=added[term][1],
            share=added[term][0] / total if total else 0.0,
            p=p,
            differs=any(each.differs for each in levels[term[0]]) if len(term) == 1 else p is not None and p < ALPHA,
        )
        for term in blocks
        for p in [chances.get(term)]
    ]
    return Anova(
        effects=tuple(sorted(effects, key=lambda effect: -effect.share)),
        levels=levels,
        error_df=df if df >= _ALONE_DF else len(table.repetitions) - 1,
        error_from="configurations" if df >= _ALONE_DF else "repetitions",
        residual_share=squares / total if total else 0.0,
    )


def p_words(p: float) -> str:
    """`0.034`, or `< 0.0001`."""
    return "< 0.0001" if p < 1e-4 else significant(p, 2)


def _others(factor: Factor) -> list[Scalar]:
    return [level for level in factor.levels if level not in (factor.default, ABSENT)]


def _model(table: Table) -> dict[Term, np.ndarray]:
    """The terms that the design has room for, one column per judged level; a row without the option has 0 in each."""
    alone: dict[Term, np.ndarray] = {
        (factor.name,): np.array(
            [[float(row.levels[factor.name] == each) for each in _others(factor)] for row in table.rows]
        )
        for factor in table.factors
    }
    pairs = {
        (*one, *other): (alone[one][:, :, None] * alone[other][:, None, :]).reshape(len(table.rows), -1)
        for one, other in itertools.combinations(alone, 2)
    }
    room = len(table.rows) - _PAIRS_DF
    fits = (
        len(alone) + len(pairs) <= _MAX_TERMS
        and _fit(np.zeros(len(table.rows)), [*alone.values(), *pairs.values()])[1] <= room
    )
    return {**alone, **pairs} if fits else alone


def _beside(term: Term, blocks: Mapping[Term, np.ndarray]) -> list[np.ndarray]:
    """All other terms that do not contain it."""
    return [columns for other, columns in blocks.items() if other != term and not set(term) < set(other)]


def _added(y: np.ndarray, columns: np.ndarray, beside: Sequence[np.ndarray]) -> tuple[float, int]:
    """Sum of squares and degrees of freedom of a term next to others."""
    without, with_it = _fit(y, beside), _fit(y, [*beside, columns])
    return max(0.0, without[0] - with_it[0]), with_it[1] - without[1]


def _weights(factor: Factor, blocks: Mapping[Term, np.ndarray]) -> dict[_Key, np.ndarray]:
    """How the logarithm of a level's ratio follows from the rows (`weights @ logs`), where it does."""
    columns = blocks[(factor.name,)]
    design = np.column_stack([columns, np.ones(len(columns)), *_beside((factor.name,), blocks)])
    inverse = np.linalg.pinv(design, rcond=1e-9)
    estimable = np.abs(inverse @ design - np.eye(design.shape[1])).max(axis=1) < 1e-6
    return {(factor.name, level): inverse[n] for n, level in enumerate(_others(factor)) if estimable[n]}


#: Value, its standard error and the degrees of freedom.
_Estimate = tuple[float, float, int]


def _over_repetitions(logs: np.ndarray, weights: np.ndarray) -> _Estimate | None:
    """Of an effect of which each repetition gives one estimate; None of fewer than three."""
    used = np.abs(weights) > 1e-9
    each = weights[used] @ logs[used]
    known = each[~np.isnan(each)]
    if len(known) < MIN_ROUNDS:
        return None
    error = max(float(known.std(ddof=1)) / math.sqrt(len(known)), math.log1p(RESOLUTION))
    return float(known.mean()), error, len(known) - 1


def _by_variance(estimates: Mapping[_Key, _Estimate], families: int) -> dict[_Key, _Judged]:
    """Student's t of each level, Holm over all."""
    from scipy.special import stdtr, stdtrit

    raw = [2 * float(stdtr(df, -abs(value) / error)) for value, error, df in estimates.values()]
    found = {}
    for (key, (value, error, df)), (p, level) in zip(estimates.items(), _holm(raw, families), strict=True):
        half = min(-float(stdtrit(df, level / 2)) * error, 200.0)
        low, ratio, high = (math.exp(each) for each in (value - half, value, value + half))
        found[key] = {"ratio": ratio, "low": low, "high": high, "p": p, "differs": p < ALPHA}
    return found


def _by_repetitions(weights: Mapping[_Key, np.ndarray], table: Table) -> dict[_Key, _Judged]:
    raw, levelled, whole = table.logs, table.levelled, table.of_groups
    unusable = np.isnan(raw)
    family = []
    for (factor, _), each in weights.items():
        used, logs = np.abs(each) > 1e-9, raw if factor in whole else levelled
        known = np.flatnonzero(~unusable[used].any(axis=0))
        family.append([(math.exp(each[used] @ logs[used, at]), 1.0) for at in known])
    return {
        key: {name: getattr(found, name) for name in ("ratio", "low", "high", "differs")} | {"p": found.corrected_p}
        for key, found in zip(weights, compare_values(family, RESOLUTION), strict=True)
        if found is not None and found.rounds >= MIN_REPETITIONS
    }


def _interactions(added: Mapping[Term, tuple[float, int]], variance: float, df: int) -> dict[Term, float]:
    """Probability of every two that are estimable by F, Holm over all of them."""
    from scipy.special import fdtrc

    estimable = {term: each for term, each in added.items() if len(term) == 2 and each[1]}
    raw = [float(fdtrc(own, df, squares / own / variance)) for squares, own in estimable.values()]
    return {term: p for term, (p, _) in zip(estimable, _holm(raw, 2), strict=True)}


def _levels(table: Table, factor: Factor, y: np.ndarray, judged: Mapping[_Key, _Judged]) -> tuple[LevelEffect, ...]:
    result = []
    for level in factor.levels:
        values = [value for row, value in zip(table.rows, y, strict=True) if row.levels[factor.name] == level]
        own = {"ratio": 1.0} if level == factor.default else judged.get((factor.name, level), {})
        mean_us = math.exp(float(np.mean(values)))
        result.append(LevelEffect(level=level, mean_us=mean_us, configurations=len(values), **own))
    return tuple(result)


def _fit(y: np.ndarray, blocks: Iterable[np.ndarray]) -> tuple[float, int]:
    """Residual sum of squares and rank of a least-squares fit with a constant."""
    design = np.column_stack([np.ones(len(y)), *blocks])
    coefficients, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-9)
    return float(((y - design @ coefficients) ** 2).sum()), int(rank)


def _holm(values: Sequence[float], families: int) -> list[tuple[float, float]]:
    """Each p after Holm's step-down over the values and Bonferroni over the families; its level."""
    adjusted = [(1.0, ALPHA)] * len(values)
    running, level, failed = 0.0, ALPHA, False
    for rank, index in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        left = (len(values) - rank) * families
        running = max(running, min(1.0, values[index] * left))
        if not failed:
            level, failed = ALPHA / left, running >= ALPHA
        adjusted[index] = (running, level)
    return adjusted


# Of each setting: that it matters, how small its effect is at most, or why neither is known.
#
# A setting *matters* when one of its levels differs from the default level, or an interaction by two with it does
# (`effects`). Of one that does not, *no effect seen* is said only where the corrected intervals of all its levels lie
# within a factor of `EFFECT` of the default; else it is *too little to tell*.

#: Ratio between a level and the default: what does not exclude this one cannot say that a setting does nothing.
EFFECT = 1.25

Verdict = Literal["matters", "no effect seen", "too little to tell"]


class Importance(Model):
    """What one setting of a sweep does to the figure, and how sure that is."""

    factor: str
    default: Scalar
    #: Share of the variance: of the setting alone, and of its interactions.
    main_share: float
    interaction_share: float
    #: Smallest p of the setting's levels and of interactions with it, corrected; None: not estimable.
    p: float | None
    strongest_interaction: str
    matters: bool
    #: The largest ratio between a level and the default that the data do not exclude; None: any.
    visible: float | None
    levels: tuple[LevelEffect, ...]

    @property
    def verdict(self) -> Verdict:
        if self.matters:
            return "matters"
        return "no effect seen" if self.visible is not None and self.visible <= EFFECT else "too little to tell"

    @property
    def undecided(self) -> bool:
        """True when the run cannot say whether it matters."""
        return self.verdict not in ("matters", "no effect seen")

    @property
    def why(self) -> str:
        if self.matters:
            return f"up to {ratio_words(self.apart)} between its levels" if self.alone else self.strongest_interaction
        if self.visible is None:
            return f"raise the number of configurations, or repetitions to {MIN_REPETITIONS}"
        return f"no effect above {ratio_words(self.visible)}"

    @property
    def alone(self) -> bool:
        """Whether one of its levels differs from the default; else it matters by an interaction."""
        return any(level.differs for level in self.levels)

    @property
    def apart(self) -> float:
        """Ratio between its slowest and its fastest level, of those that differ from the default, and the default."""
        known = [level.ratio for level in self.levels if level.ratio and (level.differs or level.level == self.default)]
        return max(known) / min(known)


def ratio_words(ratio: float) -> str:
    """`5 %` more, or `3 times`."""
    return f"{significant(100 * (ratio - 1), 2)} %" if ratio < 2 else f"{significant(ratio, 2)} times"


def importances(table: Table, found: Anova) -> tuple[Importance, ...]:
    """All settings of a table, those that matter first."""
    result = []
    for factor in table.factors:
        own = [effect for effect in found.effects if factor.name in effect.factors]
        pairs = [effect for effect in own if len(effect.factors) == 2]
        known = [effect.p for effect in own if effect.p is not None]
        result.append(
            Importance(
                factor=factor.name,
                default=factor.default,
                main_share=sum(effect.share for effect in own if len(effect.factors) == 1),
                interaction_share=sum(effect.share for effect in pairs),
                p=min(known, default=None),
                strongest_interaction=next((effect.name for effect in pairs if effect.differs), ""),
                matters=any(effect.differs for effect in own),
                visible=_visible(found.levels[factor.name], factor),
                levels=found.levels[factor.name],
            )
        )
    return tuple(sorted(result, key=lambda each: (not each.matters, -each.main_share)))


def _visible(levels: Sequence[LevelEffect], factor: Factor) -> float | None:
    bounds = [(each.low, each.high) for each in levels if each.level not in (factor.default, ABSENT)]
    ratios = [max(high, 1 / low) for low, high in bounds if low is not None and high is not None]
    return max(ratios) if ratios and len(ratios) == len(bounds) else None
