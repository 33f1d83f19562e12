# SPDX-License-Identifier: Apache-2.0
"""The modes of a network function in order of throughput: ours, the published one, and how far both agree."""

import itertools
import math
from collections.abc import Mapping
from statistics import median
from typing import Literal

from xdplab.analysis.standing import MIN_REPETITIONS, Contender
from xdplab.model import Model
from xdplab.model.functions import NfMode, NfTraffic
from xdplab.model.published import Published

#: Where more is better, and an order was published.
_COMPARED: frozenset[NfTraffic] = frozenset({"dropped", "pass-through", "mixed", "local"})


class ModeFigure(Model):
    """One mode: ours in the agreement's unit, the published figure in Mpps; None where there is none."""

    mode: NfMode
    ours: float | None
    published: float | None


class RankAgreement(Model):
    """One function at one traffic.

    `tau` is Kendall's tau-b over the modes that both have: 1 is the same order, -1 the reverse; None with fewer than
    two of them. Each pair of them that the publication tells apart is in one of the three lists, the published winner
    first: `unclear` where our repetitions overlap, are fewer than `MIN_REPETITIONS`, or were mostly disturbed.
    """

    traffic: NfTraffic
    group: str
    unit: Literal["Mpps", "requests/s"]
    figures: tuple[ModeFigure, ...]
    tau: float | None
    agree: tuple[tuple[NfMode, NfMode], ...]
    differ: tuple[tuple[NfMode, NfMode], ...]
    unclear: tuple[tuple[NfMode, NfMode], ...]
    #: The fewest of a mode that was compared; 0: none was.
    repetitions: int

    @property
    def order(self) -> tuple[NfMode, ...]:
        """Our measured modes, the fastest first."""
        measured = [figure for figure in self.figures if figure.ours is not None]
        return tuple(figure.mode for figure in sorted(measured, key=lambda figure: -(figure.ours or 0)))

    @property
    def published_order(self) -> tuple[NfMode, ...]:
        """The published modes, the fastest first."""
        given = [figure for figure in self.figures if figure.published is not None]
        return tuple(figure.mode for figure in sorted(given, key=lambda figure: -(figure.published or 0)))

    @property
    def sentence(self) -> str:
        """The agreement in words."""
        if self.tau is None:
            return "nothing published to compare with" if not self.published_order else "fewer than two modes in common"
        parts = [f"Kendall's tau {self.tau:+.2f}"]
        for name, pairs in (("as published", self.agree), ("the other way round", self.differ)):
            if pairs:
                parts.append(f"{name}: {', '.join(f'{first} above {second}' for first, second in pairs)}")
        if self.unclear:
            few = f" ({self.repetitions} repetitions, {MIN_REPETITIONS} are needed)"
            told = ", ".join(f"{first} and {second}" for first, second in self.unclear)
            parts.append(f"not told apart here{few if self.repetitions < MIN_REPETITIONS else ''}: {told}")
        return "; ".join(parts)


def kendall_tau(ours: Mapping[NfMode, float], published: Mapping[NfMode, float]) -> float | None:
    """Tau-b over the common keys; None where it is not defined (fewer than two, or all the same)."""
    common = sorted(ours.keys() & published.keys())
    if len(common) < 2:
        return None
    from scipy.stats import kendalltau  # takes long to import

    tau = float(kendalltau([ours[mode] for mode in common], [published[mode] for mode in common]).statistic)
    return None if math.isnan(tau) else tau


def rank_agreements(
    published: Published | None, modes: Mapping[tuple[NfTraffic, str], Mapping[NfMode, Contender]]
) -> list[RankAgreement]:
    """One per function and kind of traffic, in the study's order; those without a published figure have ours alone.

    `modes`: (traffic, what modes are compared within) -> those that were measured.
    """
    theirs = published.modes_mpps if published else {}
    return [
        _agreement(traffic, group, members, theirs.get(traffic, {}).get(_published_group(traffic, group), {}))
        for (traffic, group), members in modes.items()
        if traffic in _COMPARED
    ]


def _published_group(traffic: NfTraffic, group: str) -> str:
    """Of local traffic only macswap was published, whose frames the stack here would not take."""
    return "macswap" if traffic == "local" else group


def _agreement(
    traffic: NfTraffic, group: str, modes_of: Mapping[NfMode, Contender], published: Mapping[NfMode, float]
) -> RankAgreement:
    measured = {mode: row for mode, row in modes_of.items() if row.values}
    ours = {mode: median(row.values) for mode, row in measured.items()}
    lists: dict[str, list[tuple[NfMode, NfMode]]] = {"agree": [], "differ": [], "unclear": []}
    common = sorted(ours.keys() & published.keys(), key=lambda mode: -published[mode])
    for first, second in itertools.combinations(common, 2):
        if published[first] > published[second]:
            lists[_verdict(measured[first], measured[second])].append((first, second))
    modes = [*modes_of, *(mode for mode in published if mode not in modes_of)]
    return RankAgreement(
        traffic=traffic,
        group=group,
        unit="requests/s" if traffic == "local" else "Mpps",
        figures=tuple(ModeFigure(mode=mode, ours=ours.get(mode), published=published.get(mode)) for mode in modes),
        tau=kendall_tau(ours, published),
        agree=tuple(lists["agree"]),
        differ=tuple(lists["differ"]),
        unclear=tuple(lists["unclear"]),
        repetitions=min((len(measured[mode].values) for mode in common), default=0),
    )


def _verdict(first: Contender, second: Contender) -> str:
    if any(len(row.values) < MIN_REPETITIONS or row.mostly_disturbed for row in (first, second)):
        return "unclear"
    if min(first.values) > max(second.values):
        return "agree"
    return "differ" if max(first.values) < min(second.values) else "unclear"
