# SPDX-License-Identifier: Apache-2.0
"""How much each setting matters: by permutation on configurations that the model has not seen, and by variance.

Permutation: a forest of trees is grown on four fifths of the configurations; on the rest, the levels of one setting are
shuffled, and what the prediction loses is that setting's importance (Breiman 2001), as a share of the variance of the
logarithm of the latency. The interval is the middle 95 % over folds and their repeats, without those in which the
setting does not vary (a rare level may not be among them): they say nothing about it. A setting *matters* when
its term or an interaction with it is significant in the analysis of variance (1 % after Holm) and the interval of its
permutation importance leaves out 0.
"""

from collections.abc import Sequence

import numpy as np

from xdplab.analysis.sweep.anova import Anova
from xdplab.analysis.sweep.rules import questions
from xdplab.analysis.sweep.table import Factor, Table
from xdplab.model import Model
from xdplab.model.study import Scalar

ALPHA = 0.01
_FOLDS, _REPEATS, _SHUFFLES, _TREES = 5, 4, 5, 60
#: Fewer configurations than this are too few for folds.
MIN_CONFIGURATIONS = 10


class LevelEffect(Model):
    """Geometric mean of the latencies at a level, and over that at the default level."""

    level: Scalar
    mean_us: float
    ratio: float
    configurations: int


class Importance(Model):
    """One setting."""

    factor: str
    default: Scalar
    permutation: float | None
    low: float | None
    high: float | None
    #: Share of the variance: of the setting alone, and of its interactions.
    main_share: float
    interaction_share: float
    #: Smallest p of the setting's term and of interactions with it, after Holm.
    p: float | None
    strongest_interaction: str
    matters: bool
    levels: tuple[LevelEffect, ...]

    @property
    def verdict(self) -> str:
        """In words."""
        if self.matters:
            return "matters"
        return "cannot be told from this design" if self.p is None else "no effect seen"


def importances(table: Table, found: Anova, seed: int = 0) -> tuple[Importance, ...]:
    """All settings of a table, the most important first."""
    response = np.array([np.log(table.value_us(row)) for row in table.rows])
    drawn = _permutations(table, response, seed)
    result = []
    for number, factor in enumerate(table.factors):
        own = [effect for effect in found.effects if factor.name in effect.factors]
        alone = [effect for effect in own if len(effect.factors) == 1]
        pairs = [effect for effect in own if len(effect.factors) == 2]
        known = [effect.p for effect in own if effect.p is not None]
        significant = [effect for effect in pairs if effect.p is not None and effect.p < ALPHA]
        told = drawn[number][~np.isnan(drawn[number])] if drawn is not None else np.array([])
        values = told if len(told) >= _REPEATS else None
        low, high = (float(np.quantile(values, q)) for q in (0.025, 0.975)) if values is not None else (None, None)
        result.append(
            Importance(
                factor=factor.name,
                default=factor.default,
                permutation=float(np.median(values)) if values is not None else None,
                low=low,
                high=high,
                main_share=sum(effect.share for effect in alone),
                interaction_share=sum(effect.share for effect in pairs),
                p=min(known) if known else None,
                strongest_interaction=max(significant, key=lambda e: e.share).name if significant else "",
                matters=bool(known and min(known) < ALPHA and (low is None or low > 0)),
                levels=_levels(table, factor, response),
            )
        )
    return tuple(sorted(result, key=lambda each: -(each.permutation or each.main_share)))


def _permutations(table: Table, response: np.ndarray, seed: int) -> np.ndarray | None:
    """Losses of each setting, shape (settings, draws), NaN where it does not vary; None: too few configurations."""
    from sklearn.ensemble import ExtraTreesRegressor

    variance = float(response.var())
    if len(response) < MIN_CONFIGURATIONS or not variance:
        return None
    asked = questions(table)
    answers = np.column_stack([question.answers(table) for question in asked]).astype(np.float32)
    mine = [[i for i, q in enumerate(asked) if q.factor == factor] for factor in table.factors]
    rng = np.random.default_rng(seed)
    losses: list[list[float]] = [[] for _ in table.factors]
    for _ in range(_REPEATS):
        folds = rng.permutation(len(response)) % _FOLDS
        for fold in range(_FOLDS):
            test = folds == fold
            forest = ExtraTreesRegressor(_TREES, random_state=int(rng.integers(1 << 31)), n_jobs=1)
            forest.fit(answers[~test], response[~test])
            shuffled, truth = [answers[test]], response[test]
            for columns in mine:
                for _ in range(_SHUFFLES):
                    copy = answers[test].copy()
                    copy[:, columns] = copy[rng.permutation(len(copy))][:, columns]
                    shuffled.append(copy)
            errors = (forest.predict(np.concatenate(shuffled)).reshape(len(shuffled), -1) - truth) ** 2
            lost = errors[1:].mean(axis=1).reshape(len(mine), _SHUFFLES).mean(axis=1) - errors[0].mean()
            for number, value in enumerate(lost):
                varies = len(np.unique(answers[test][:, mine[number]], axis=0)) > 1
                losses[number].append(float(value) / variance if varies else np.nan)
    return np.array(losses)


def _levels(table: Table, factor: Factor, response: np.ndarray) -> tuple[LevelEffect, ...]:
    by_level: dict[Scalar, Sequence[float]] = {
        level: [y for row, y in zip(table.rows, response, strict=True) if row.levels[factor.name] == level]
        for level in factor.levels
    }
    base = float(np.mean(by_level[factor.default]))
    return tuple(
        LevelEffect(
            level=level,
            mean_us=float(np.exp(np.mean(values))),
            ratio=float(np.exp(np.mean(values) - base)),
            configurations=len(values),
        )
        for level, values in by_level.items()
    )
