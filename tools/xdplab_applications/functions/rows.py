# SPDX-License-Identifier: Apache-2.0
"""What a run of network functions says: orders of the modes, scaling, and the sections of the report."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, get_args

from xdplab.api import (
    MPPS,
    NEVER_PAIRED,
    Comparison,
    Contender,
    CountingMethod,
    Curve,
    Model,
    NfMode,
    Page,
    PointSummary,
    Published,
    Rung,
    Section,
    compare_points,
    corrected,
    number_of,
    rate_chart,
    significant,
)
from xdplab_applications.functions.nf import NfPoint, NfTraffic
from xdplab_applications.functions.spec import FunctionFigures, FunctionsSpec

# The modes of a network function in order of throughput: ours, the published one, and how far both agree.

#: Where more is better, and an order was published.
_COMPARED: frozenset[NfTraffic] = frozenset({"dropped", "pass-through", "mixed", "local"})


class ModeFigure(Model):
    """One mode: ours in the agreement's unit, the published figure in Mpps; None where there is none."""

    mode: NfMode
    ours: float | None
    published: float | None


class RankAgreement(Model):
    """One function at one traffic.

    `tau` is Kendall's tau-b over the medians of the modes that both have: 1 is the same order, -1 the reverse; None
    with fewer than two of them, where our comparison of a pair names no winner, and where a winner has the lower
    median. Each pair of them that the publication tells apart is in one of the four lists, the published winner first:
    `alike` without a measurable difference, `undecided` where it is too little to tell (docs/claims.md).
    """

    traffic: NfTraffic
    group: str
    unit: Literal["Mpps", "requests/s"]
    figures: tuple[ModeFigure, ...]
    tau: float | None
    agree: tuple[tuple[NfMode, NfMode], ...]
    differ: tuple[tuple[NfMode, NfMode], ...]
    alike: tuple[tuple[NfMode, NfMode], ...]
    undecided: tuple[tuple[NfMode, NfMode], ...]
    #: Of each of the undecided pairs, why; empty where the interval is too wide.
    reasons: tuple[str, ...]

    @property
    def medians(self) -> tuple[str, ...]:
        """Our measured modes with their medians, the highest first: no order where a pair of them has no winner."""
        measured = sorted((-figure.ours, figure.mode) for figure in self.figures if figure.ours is not None)
        return tuple(f"{mode} {significant(-value)}" for value, mode in measured)

    @property
    def published_order(self) -> tuple[NfMode, ...]:
        """The published modes, the fastest first."""
        given = [figure for figure in self.figures if figure.published is not None]
        return tuple(figure.mode for figure in sorted(given, key=lambda figure: -(figure.published or 0)))

    @property
    def sentence(self) -> str:
        if not self.published_order:
            return "nothing published to compare with"
        if not (self.agree or self.differ or self.alike or self.undecided):
            return "fewer than two modes in common"
        parts = [f"Kendall's tau {self.tau:+.2f}"] if self.tau is not None else []
        for name, pairs in (("as published", self.agree), ("the other way round", self.differ)):
            if pairs:
                parts.append(f"{name}: {', '.join(f'{first} above {second}' for first, second in pairs)}")
        without = {"no measurable difference here": self.alike}
        for reason in dict.fromkeys(self.reasons):
            same = tuple(pair for pair, why in zip(self.undecided, self.reasons, strict=True) if why == reason)
            without[f"too little to tell here{f' ({reason})' if reason else ''}"] = same
        for name, pairs in without.items():
            if pairs:
                parts.append(f"{name}: {', '.join(f'{first} and {second}' for first, second in pairs)}")
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
    given = [
        (traffic, group, members, theirs.get(traffic, {}).get(_published_group(traffic, group), {}))
        for (traffic, group), members in modes.items()
        if traffic in _COMPARED
    ]
    compared = {
        (traffic, group, (one, two)): compare_points(members[one].point, members[two].point, members[one].figure.key)
        for traffic, group, members, known in given
        for one, two in _pairs(members, known)
    }
    adjusted = corrected(compared)
    return [
        _agreement(
            traffic,
            group,
            members,
            known,
            {key[2]: adjusted.get(key) for key in compared if key[:2] == (traffic, group)},
        )
        for traffic, group, members, known in given
    ]


def _published_group(traffic: NfTraffic, group: str) -> str:
    """Of local traffic only macswap was published, whose frames the stack here would not take."""
    return "macswap" if traffic == "local" else group


def _pairs(members: Mapping[NfMode, Contender], published: Mapping[NfMode, float]) -> list[tuple[NfMode, NfMode]]:
    """Of the modes that both have, those that the publication tells apart, its winner first."""
    common = sorted(
        (mode for mode in members if members[mode].values and mode in published), key=lambda mode: -published[mode]
    )
    return [pair for pair in itertools.combinations(common, 2) if published[pair[0]] > published[pair[1]]]


def _agreement(
    traffic: NfTraffic,
    group: str,
    members: Mapping[NfMode, Contender],
    published: Mapping[NfMode, float],
    compared: Mapping[tuple[NfMode, NfMode], Comparison | None],
) -> RankAgreement:
    ours = {mode: median(row.values) for mode, row in members.items() if row.values}
    verdicts = {pair: one.better if one else None for pair, one in compared.items()}
    alike = tuple(pair for pair, one in compared.items() if one and one.alike)
    undecided = {
        pair: NEVER_PAIRED if one is None else next(iter(one.blockers), "")
        for pair, one in compared.items()
        if one is None or not one.decided
    }
    # a median is of other repetitions than the pairs that decide, and may say the opposite
    medians_agree = all((ours[one] > ours[two]) == better for (one, two), better in verdicts.items())
    modes = [*members, *(mode for mode in published if mode not in members)]
    return RankAgreement(
        traffic=traffic,
        group=group,
        unit="requests/s" if traffic == "local" else "Mpps",
        figures=tuple(ModeFigure(mode=mode, ours=ours.get(mode), published=published.get(mode)) for mode in modes),
        tau=kendall_tau(ours, published) if medians_agree else None,
        agree=tuple(pair for pair, better in verdicts.items() if better),
        differ=tuple(pair for pair, better in verdicts.items() if better is False),
        alike=alike,
        undecided=tuple(undecided),
        reasons=tuple(undecided.values()),
    )


Row = tuple[NfTraffic, NfPoint, Contender]


def function_of(point: PointSummary) -> NfPoint:
    function = FunctionFigures.of(point).function
    assert function is not None, "each point of the method has one"
    return function


def rows_of(method: CountingMethod[FunctionsSpec], summaries: Sequence[PointSummary]) -> list[Row]:
    """Those that were measured, also without a figure."""
    figures = {one.point.point_id: one.figure for one in method.contenders(summaries)}
    return [
        (traffic, function_of(point), method.place(point, figures.get(point.point_id, MPPS)))
        for point in summaries
        for traffic in get_args(NfTraffic)
        if traffic == point.levels["traffic"]
    ]


def orders(spec: FunctionsSpec, rows: Sequence[Row]) -> list[RankAgreement]:
    """Of the modes of each function."""
    modes: dict[tuple[NfTraffic, str], dict[NfMode, Contender]] = {}
    for traffic, function, row in rows:
        modes.setdefault((traffic, function.group), {})[function.mode] = row
    return rank_agreements(spec.published, modes)


def findings(method: CountingMethod[FunctionsSpec], summaries: Sequence[PointSummary]) -> list[str]:
    rows = rows_of(method, summaries)
    grown = scalings(rows)
    if grown:
        return [f"{each.traffic}: {each.title}: {each.sentence}" for each in grown]
    return [_order(rank) for rank in orders(method.spec, rows)]


def _order(rank: RankAgreement) -> str:
    ours, theirs = ", ".join(rank.medians) or "-", " > ".join(rank.published_order) or "-"
    return f"{rank.traffic}: {rank.group}: our medians {ours}; published {theirs}; {rank.sentence}"


def sections(method: CountingMethod[FunctionsSpec], page: Page) -> list[Section]:
    rows = rows_of(method, page.summaries)
    rates = [row.point for _, _, row in rows if row.figure == MPPS and row.values]
    grown: list[Scaling] = scalings(rows)
    plot = ""
    if rates:
        names = {point.point_id: f"{point.levels['traffic']}: {point.forwarder}" for point in rates}
        plot = page.chart(rate_chart(rates, MPPS, names))
    found = {
        "plot": plot,
        "served": any(row.figure != MPPS for _, _, row in rows),
        "ranks": [] if grown else orders(method.spec, rows),
        "scaling": grown,
        "misses": sorted({each for point in page.measured for each in FunctionFigures.of(point).cache_misses}),
        "published": method.spec.published,
    }
    return [page.section(method, "report.html.j2", **found)]


# How the rate of a network function grows with cores: the same function, mode, ring and cache ways, by cores.

#: A core more that brings less than this part of what the first one does is where scaling ends.
_WORTH = 0.5


@dataclass(frozen=True)
class Scaling(Curve):
    """One function in one mode at one setting, fewest cores first."""

    traffic: NfTraffic
    title: str

    @property
    def sentence(self) -> str:
        """Up to how many cores it scales, by what was measured."""
        known = [(place, rung) for place, rung in enumerate(self.rungs) if rung.values]
        if len({rung.number for _, rung in known}) < 2:
            return "one number of cores was measured" if known else "not measured"
        family = self.compared()
        for (_, fewer), (place, more) in itertools.pairwise(known):
            if fewer.number == more.number:
                continue
            past = f"past {number_of(fewer.number, 'core')}"
            found = family.get(-place)
            doubt = fewer.doubt or more.doubt or (f"one core: {self.without}" if self.without else "")
            doubt = doubt or next(iter(found.blockers if found else ()), "")
            if doubt or found is None or found.interval is None or found.interval.low is None:
                return f"whether it scales {past} is undecided: {doubt or 'too few repetitions'}"
            needed = self._needed(fewer, more)
            if found.interval.high is not None and found.interval.high < needed:
                return f"does not scale {past}"
            if found.interval.low < needed:
                return f"whether it scales {past} is undecided: too little to tell, ask for more repetitions"
        place, most = known[-1]
        over_one = family.get(place)
        how = (
            ""
            if over_one is None or over_one.interval is None
            else f"{100 * over_one.interval.confidence:.0f} % interval"
        )
        times = self.times(most)
        return f"scales up to {most.number} cores" + (f": {times} times one core ({how})" if times else "")

    def _needed(self, fewer: Rung, more: Rung) -> float:
        """Ratio of two rates from which on each core more brings `_WORTH` of what the first one does."""
        assert self.one is not None
        cores = more.number - fewer.number
        return 1 + _WORTH * cores * median(self.one.values) / median(fewer.values)


def scalings(rows: Sequence[tuple[NfTraffic, NfPoint, Contender]]) -> list[Scaling]:
    """Those of all functions whose cores vary, in the order of the rows; [] when none does."""
    groups: dict[tuple[NfTraffic, str, tuple[str, ...]], list[Rung]] = {}
    for traffic, function, row in rows:
        if function.channels:
            title = function.title.replace(f", {function.cores} cores", "")
            groups.setdefault((traffic, title, _others(function, row)), []).append(Rung(function.cores, row))
    alike = set.intersection(*(set(others) for _, _, others in groups)) if groups else set()
    return [
        Scaling(
            rungs=sorted(rungs, key=lambda rung: rung.number),
            traffic=traffic,
            title=", ".join([title, *(each for each in others if each not in alike)]),
        )
        for (traffic, title, others), rungs in groups.items()
    ]


def _others(function: NfPoint, row: Contender) -> tuple[str, ...]:
    """What else it is of, but for settings that go with the function."""
    settings = [each for each in row.point.settings if each.partition("=")[0] not in {"traffic", *function.knobs}]
    by = [f"by {row.point.tester}"] if row.point.tester else []
    return (f"{row.point.frame_bytes} bytes", *by, *settings)
