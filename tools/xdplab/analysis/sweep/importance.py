# SPDX-License-Identifier: Apache-2.0
"""Of each setting: that it matters, how small its effect is at most, or why neither is known.

A setting *matters* when one of its levels differs from the default level, or an interaction by two with it does
(`effects`). Of one that does not, *no effect seen* is said only where the corrected intervals of all its levels lie
within a factor of `EFFECT` of the default; else it is *too little to tell*.
"""

from collections.abc import Sequence
from typing import Literal

from xdplab.analysis.sweep.effects import MIN_REPETITIONS, Anova, LevelEffect
from xdplab.analysis.sweep.table import ABSENT, Factor, Table
from xdplab.model import Model
from xdplab.model.digits import significant
from xdplab.model.study import Scalar

#: Ratio between a level and the default: what does not exclude this one cannot say that a setting does nothing.
EFFECT = 1.25

Verdict = Literal["matters", "no effect seen", "too little to tell"]


class Importance(Model):
    """One setting."""

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
