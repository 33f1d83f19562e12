# SPDX-License-Identifier: Apache-2.0
"""Comparisons are made within rounds: the same round of two points, side by side or one after the other.

This is the only module that sees rounds of two points next to one another. Winners, orders, advice and "no measurable
difference" all ask it; `xdplab.analysis.words` says what it found. The rules are in docs/claims.md.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from xdplab.analysis.doubts import doubts_of, searched
from xdplab.measure.comparison import Answer, Comparison, Sense
from xdplab.measure.figure import Figure
from xdplab.measure.measured import RepetitionFigures
from xdplab.measure.method import figure
from xdplab.measure.point import PointSummary
from xdplab.stats import (
    CONFIDENCE,
    Difference,
    Interval,
    apart_interval,
    between_ends,
    difference_interval,
    holm_corrected,
    ratio_interval,
)

Key = TypeVar("Key")
Round = tuple[RepetitionFigures, RepetitionFigures]
#: From the values of the side that is above and of the side that is below.
MakeInterval = Callable[[Sequence[float], Sequence[float]], Interval | None]

#: How far runs of the same thing are from one another without being different, as a ratio: a machine may be a third
#: slower in one of them, and differ by some percent besides.
BETWEEN_RUNS = 1.5


def shared_rounds(point: PointSummary, reference: PointSummary, metric: str) -> list[Round]:
    """Those in which a figure was looked for on both sides, by their number."""
    ours = {figures.repetition: figures for figures in point.by_repetition}
    theirs = {figures.repetition: figures for figures in reference.by_repetition}
    both = [(ours[number], theirs[number]) for number in sorted(ours.keys() & theirs.keys())]
    return [pair for pair in both if all(figures.was_searched(metric) for figures in pair)]


def compare_points(point: PointSummary, reference: PointSummary, metric: str = "p50_us") -> Comparison | None:
    """By the rounds that both have; None without any."""
    rounds = shared_rounds(point, reference, metric)
    if not rounds:
        return None
    sense, interval = _interval(rounds, metric)
    ours, theirs = zip(*rounds, strict=True)
    doubts = doubts_of(((point, ours), (reference, theirs)), metric)
    unknown = _lost(rounds, metric, (point.forwarder, reference.forwarder)) or _UNORDERED
    return Comparison(
        point=point.forwarder,
        reference=reference.forwarder,
        point_id=point.point_id,
        reference_id=reference.point_id,
        metric=metric,
        sense=sense,
        interval=interval,
        rounds=len(rounds),
        equivalence_margin=point.equivalence_margin,
        blockers=doubts.blockers or (unknown if sense == "unknown" else ()),
        remarks=doubts.remarks,
    )


def blocker_of(point: PointSummary, metric: str) -> str:
    """Why nothing may be said of a point next to any other; empty where something may, be it a bound."""
    rounds = shared_rounds(point, point, metric)
    if not rounds:
        return "it was not measured"
    doubts = doubts_of(((point, [figures for figures, _ in rounds]),), metric)
    lost = _lost(rounds, metric, (point.forwarder, point.forwarder))
    return next(iter((*doubts.blockers, *lost)), "")


def compare_values(family: Sequence[Sequence[tuple[float, float]]], resolution: float) -> list[Interval | None]:
    """Ratios of the first over the second of pairs of rounds, corrected together; None without any."""
    ratios = [[one / other for one, other in pairs if one > 0 and other > 0] for pairs in family]
    return holm_corrected([ratio_interval(each, resolution=resolution) for each in ratios])


def difference(ours: PointSummary, theirs: PointSummary, metric: str, family: int = 1) -> Difference | None:
    """Ours less theirs over rounds, in the metric's unit, at the confidence of one of a family (Bonferroni).

    None without a round, or where one has no finite value.
    """
    values = [(one.value(metric), other.value(metric)) for one, other in shared_rounds(ours, theirs, metric)]
    known = [(one, other) for one, other in values if one is not None and other is not None]
    if len(known) < len(values) or not all(map(math.isfinite, itertools.chain(*known))):
        return None
    return difference_interval(known, 1 - (1 - CONFIDENCE) / family)


def loss_difference(ours: PointSummary, theirs: PointSummary, metric: str) -> Difference | None:
    """The share of its frames that ours lost, less that of theirs.

    None of a figure that is searched for, whose loss is asked for.
    """
    if not figure(metric).at_load:
        return None
    rounds = shared_rounds(ours, theirs, metric)
    return difference_interval([(one.loss_ratio, other.loss_ratio) for one, other in rounds])


def compare_between_runs(after: PointSummary, before: PointSummary, metric: str) -> Comparison | None:
    """The same point in two runs, which were not interleaved: two machines until one run measures both.

    The unit is a run's mean: what its repetitions differ by says nothing of what runs differ by, so the interval has a
    half-width of `BETWEEN_RUNS` however many repetitions there are. None when one run has none.
    """
    after, before = (
        side.model_copy(update={"forwarder": f"{side.forwarder} ({when})"})
        for side, when in ((after, "after"), (before, "before"))
    )
    sides = [searched(side, metric) for side in (after, before)]
    if not all(sides):
        return None
    ours, theirs = ([_ends(one, metric) for one in side] for side in sides)
    sense, interval = _of_ends(ours, theirs, _apart, more=figure(metric).more)
    doubts = doubts_of(((after, sides[0]), (before, sides[1])), metric)
    return Comparison(
        point=after.forwarder,
        reference=before.forwarder,
        point_id=after.point_id,
        reference_id=before.point_id,
        metric=metric,
        apart=True,
        sense=sense,
        interval=interval,
        rounds=min(map(len, sides)),
        blockers=doubts.blockers or (_UNORDERED if sense == "unknown" else ()),
        remarks=doubts.remarks,
        equivalence_margin=after.equivalence_margin,
    )


def compare_all(
    points: Iterable[PointSummary], reference: PointSummary | None, metric: str = "p50_us"
) -> dict[str, Comparison]:
    """Point id -> comparison with the reference's forwarder at the same setting: no ratio mixes paths, sizes or knobs.

    `points` is what a table shows: its comparisons are a family and corrected together (Holm).
    """
    points = list(points)
    at_setting = {one.setting: one for one in points if reference is not None and _same_forwarder(one, reference)}
    found = {
        one.point_id: compare_points(one, at_setting[one.setting], metric)
        for one in points
        if one.setting in at_setting and one.point_id != at_setting[one.setting].point_id
    }
    return corrected(found)


def _same_forwarder(one: PointSummary, other: PointSummary) -> bool:
    """Variants that a label hides have one name."""
    return (one.forwarder, one.options) == (other.forwarder, other.options)


def corrected(family: Mapping[Key, Comparison | None]) -> dict[Key, Comparison]:
    """The comparisons of one table that have rounds, corrected together (Holm); the same at two places counts once."""
    found = {key: one for key, one in family.items() if one is not None}
    alike = {key: one.model_dump_json() for key, one in found.items()}
    distinct = {alike[key]: one for key, one in found.items()}
    intervals = holm_corrected([one.interval for one in distinct.values()])
    made = {
        same: one.model_copy(update={"interval": interval})
        for (same, one), interval in zip(distinct.items(), intervals, strict=True)
    }
    return {key: made[same] for key, same in alike.items()}


def _lost(rounds: Sequence[Round], metric: str, titles: tuple[str, str]) -> tuple[str, ...]:
    """Whose percentile is that of a lost frame, which has no ratio to another one."""
    sides = zip(titles, zip(*rounds, strict=True), strict=True)
    lost = dict.fromkeys(title for title, side in sides if any(one.value(metric) == math.inf for one in side))
    return (f"a lost frame is the {figure(metric).name} of {' and of '.join(lost)}",) if lost else ()


_UNORDERED = ("both figures are bounds only, and which is higher is not known",)


def _ends(one: RepetitionFigures, metric: str) -> tuple[float, float]:
    """Between what and what a figure lies."""
    found = one.figures[metric]
    return found.low, found.high


def _interval(rounds: Sequence[Round], metric: str) -> tuple[Sense, Interval | None]:
    """Student's t over rounds, of which each gives one ratio: the median over its turns, where it has turns."""
    more, resolution = figure(metric).more, max(each.figures[metric].resolution for pair in rounds for each in pair)
    if all(each.turns.get(metric) for pair in rounds for each in pair):
        ratios = [_of_round(ours.turns[metric], theirs.turns[metric], more=more) for ours, theirs in rounds]
        found = ratio_interval(ratios, resolution=resolution)
        return ("exact", found) if found else ("unknown", None)
    ours, theirs = ([_ends(pair[side], metric) for pair in rounds] for side in (0, 1))
    return _of_ends(ours, theirs, _within_rounds(resolution), more=more)


def _of_round(ours: Mapping[int, float | None], theirs: Mapping[int, float | None], *, more: bool) -> float:
    """Above 1 where ours is better; 0 or infinite where a lost frame is the percentile of most turns."""
    both = [(ours[turn], theirs[turn]) for turn in ours.keys() & theirs.keys()]
    ratios = [one / other if other else math.inf for one, other in both if one is not None and other is not None]
    known = [each for each in ratios if not math.isnan(each)]  # two lost frames have no ratio
    middle = median(known) if 2 * len(known) > len(both) else math.nan
    return middle if more or not middle else 1 / middle


def _within_rounds(resolution: float) -> MakeInterval:
    return lambda above, below: ratio_interval(
        [one / other for one, other in zip(above, below, strict=True)], resolution=resolution
    )


def _apart(above: Sequence[float], below: Sequence[float]) -> Interval | None:
    return apart_interval(above, below, resolution=BETWEEN_RUNS - 1)


def _of_ends(
    ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]], make: MakeInterval, *, more: bool
) -> tuple[Sense, Interval | None]:
    above, below = (ours, theirs) if more else (theirs, ours)
    lowest = _ratio([low for low, _ in above], [high for _, high in below], make)
    highest = _ratio([high for _, high in above], [low for low, _ in below], make)
    if all(low == high for low, high in (*ours, *theirs)):
        return ("exact", lowest) if lowest else ("unknown", None)
    if highest is None or (lowest is not None and lowest.differs and lowest.ratio > 1):
        return ("at least", lowest) if lowest else ("unknown", None)
    if lowest is None or (highest.differs and highest.ratio < 1):
        return "at most", highest
    if lowest.error is None:
        return "unknown", None
    return "exact", between_ends(lowest, highest)


def _ratio(above: Sequence[float], below: Sequence[float], make: MakeInterval) -> Interval | None:
    """None when a value is without bound: it may not be left out."""
    usable = all(0 < value < math.inf for value in (*above, *below))
    return make(above, below) if usable and above and below else None


def missing_ratios(comparisons: Iterable[Comparison | None]) -> dict[str, list[str]]:
    """Why a table has no ratio -> of which points."""
    found: dict[str, list[str]] = {}
    for one in filter(None, comparisons):
        for blocker in one.blockers:
            found.setdefault(blocker, []).append(one.point)
    return found


def metric_of(ours: PointSummary, theirs: PointSummary, figures: Sequence[Figure]) -> str:
    """The first figure of a method that one of the two has."""
    has = {one.key for side in (ours, theirs) for one in figures if side.searched(one.key)}
    return next((each.key for each in figures if each.key in has), figures[0].key)


def ratios_of(answer: Answer, points: Sequence[PointSummary], clause: str = "") -> dict[str, Comparison]:
    """Point id -> comparison with the answer's reference at the same setting; of the trials of `clause`."""
    compared = (answer.at_rate and answer.comparison) if clause else (answer.at_rate or answer.comparison)
    sides = [each.by_clause[clause] for each in points if clause in each.by_clause] if clause else list(points)
    if compared is None or not sides:
        return {}
    reference = next(point for point in sides if point.point_id == compared.reference_id)
    return compare_all(sides, reference, compared.metric)
