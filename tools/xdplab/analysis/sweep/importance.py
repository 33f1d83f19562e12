# SPDX-License-Identifier: Apache-2.0
"""How much each setting matters: by permutation on configurations that the model has not seen, and by variance.

Permutation: a forest of trees is grown on four fifths of the configurations; on the rest, the levels of one setting are
shuffled, and what the prediction loses is that setting's importance (Breiman 2001), as a share of the variance of the
logarithm of the latency. The interval is the middle 95 % over folds and their repeats, without those in which the
setting does not vary (a rare level may not be among them): they say nothing about it.

A setting *matters* when its term or an interaction by two with it is significant in the analysis of variance (1 % after
Holm), or the interval of its permutation importance leaves out 0, which also sees what acts in one combination of three
or more settings only. Of one that does not, *no effect seen* is said only where an effect of `EFFECT` would have been
seen; else it was *too disturbed to say*, by repetitions marked as disturbed or by what repetitions differ by,
or the design is too small for what its configurations differ by.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from xdplab.analysis.sweep.anova import Anova, Design
from xdplab.analysis.sweep.rules import questions
from xdplab.analysis.sweep.table import Factor, Table
from xdplab.analysis.sweep.visible import smallest_visible
from xdplab.model import Model
from xdplab.model.digits import significant
from xdplab.model.study import Scalar

ALPHA = 0.01
#: Ratio between two levels: what would not show this one cannot say that a setting does nothing.
EFFECT = 1.25
_FOLDS, _REPEATS, _SHUFFLES, _TREES = 5, 4, 5, 60
#: Fewer configurations than this are too few for folds.
MIN_CONFIGURATIONS = 10

Verdict = Literal["matters", "no effect seen", "too disturbed to say", "cannot be told from this design"]


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
    #: Smallest p of the setting's term and of interactions with it, after Holm; None: not estimable.
    p: float | None
    strongest_interaction: str
    matters: bool
    #: Of one that does not: the smallest ratio between two levels that would have been seen; None: none that was tried.
    visible: float | None
    #: Of the repetitions at its most disturbed level, those that were disturbed, and all.
    disturbed: int
    repetitions: int
    #: Most of what hides an effect is what repetitions of one configuration differ by.
    restless: bool
    levels: tuple[LevelEffect, ...]

    @property
    def verdict(self) -> Verdict:
        """In words."""
        if self.matters:
            return "matters"
        if self.p is None:
            return "cannot be told from this design"
        if 2 * self.disturbed > self.repetitions:
            return "too disturbed to say"
        if self.visible is not None and self.visible <= EFFECT:
            return "no effect seen"
        return "too disturbed to say" if self.restless else "cannot be told from this design"

    @property
    def undecided(self) -> bool:
        """True when the run cannot say whether it matters."""
        return self.verdict not in ("matters", "no effect seen")

    @property
    def why(self) -> str:
        """What the verdict on a setting that does not matter rests on."""
        if self.p is None:
            return "the design leaves nothing to judge it by"
        if 2 * self.disturbed > self.repetitions:
            return f"{self.disturbed} of {self.repetitions} repetitions at one level were disturbed"
        if self.visible is None:
            return "not even a large effect would have been seen"
        return f"an effect of {ratio_words(self.visible)} would have been seen, a smaller one not"


def ratio_words(ratio: float) -> str:
    """`5 %` more, or `3 times`."""
    return f"{100 * (ratio - 1):.0f} %" if ratio < 2 else f"{significant(ratio, 2)} times"


def importances(table: Table, found: Anova, seed: int = 0) -> tuple[Importance, ...]:
    """All settings of a table, the most important first."""
    response = np.array([np.log(table.value_us(row)) for row in table.rows])
    drawn = _permutations(table, response, seed)
    design = Design.of(table)
    restless = design.restless()
    result = []
    for number, factor in enumerate(table.factors):
        own = [effect for effect in found.effects if factor.name in effect.factors]
        alone = [effect for effect in own if len(effect.factors) == 1]
        pairs = [effect for effect in own if len(effect.factors) == 2]
        known = [effect.p for effect in own if effect.p is not None]
        clear = [effect for effect in pairs if effect.p is not None and effect.p < ALPHA]
        told = drawn[number][~np.isnan(drawn[number])] if drawn is not None else np.array([])
        values = told if len(told) >= _REPEATS else None
        low, high = (float(np.quantile(values, q)) for q in (0.025, 0.975)) if values is not None else (None, None)
        matters = bool(known and min(known) < ALPHA) or bool(low and low > 0)
        disturbed, repetitions = _most_disturbed(table, factor)
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
                strongest_interaction=max(clear, key=lambda e: e.share).name if clear else "",
                matters=matters,
                visible=None if matters or not known else smallest_visible(design, table, factor, ALPHA),
                disturbed=disturbed,
                repetitions=repetitions,
                restless=restless,
                levels=_levels(table, factor, response),
            )
        )
    return tuple(sorted(result, key=lambda each: (not each.matters, -(each.permutation or each.main_share))))


def _most_disturbed(table: Table, factor: Factor) -> tuple[int, int]:
    """Disturbed repetitions and all repetitions of the level where their share is largest."""
    counts = []
    for level in factor.levels:
        rows = [row for row in table.rows if row.levels[factor.name] == level]
        counts.append((sum(row.disturbed for row in rows), sum(len(row.by_repetition) for row in rows)))
    return max(counts, key=lambda count: count[0] / count[1])


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
