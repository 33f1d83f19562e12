# SPDX-License-Identifier: Apache-2.0
"""Comparisons are paired: the same repetition of two points, taken minutes apart on the same machine.

This is the only module that sees repetitions of two points next to one another. Winners, orders, advice and "no
measurable difference" all ask it; `xdplab.analysis.words` says what it found. The rules are in docs/claims.md.

Which pairs decide is chosen by statuses, never by values (`paired_repetitions`): clean ones; or those that were
disturbed a little, or all, each as the bound that its disturbed part leaves (`xdplab.stats.contamination`); else
nothing is said. A row's own figure is of that row's clean repetitions (`measure.usable`).
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import geometric_mean, median
from typing import NamedTuple, TypeVar

from xdplab.analysis.doubts import doubts_of
from xdplab.measure.comparison import Answer, Basis, Comparison, Sense
from xdplab.measure.figure import Figure
from xdplab.measure.measured import Measured, RepetitionFigures
from xdplab.measure.point import PointSummary
from xdplab.measure.registry import figure
from xdplab.measure.usable import usable_repetitions
from xdplab.stats.contamination import LITTLE, MIN_BOUNDED, unseen
from xdplab.stats.interval import (
    CONFIDENCE,
    MIN_PAIRS,
    Difference,
    Interval,
    apart_interval,
    difference_interval,
    holm_corrected,
    ratio_interval,
)

Key = TypeVar("Key")
Pair = tuple[RepetitionFigures, RepetitionFigures]
#: From the values of the side that is above and of the side that is below.
MakeInterval = Callable[[Sequence[float], Sequence[float]], Interval | None]

#: How far runs of the same thing are from one another without being different, as a ratio: a machine may be a third
#: slower in one of them, and differ by some percent besides.
RUNS_APART = 1.5
#: Shares of a trial between which the one is searched at which a verdict breaks down.
_SHARES = [share / 100 for share in range(100)]


class Paired(NamedTuple):
    """Repetitions that both sides have: all, those that the machine disturbed on neither, and those that decide."""

    pairs: list[Pair]
    clean: list[Pair]
    used: list[Pair]
    basis: Basis


def paired_repetitions(point: PointSummary, reference: PointSummary, metric: str) -> Paired | None:
    """By their number; None when no repetition is there on both sides."""
    ours = {figures.repetition: figures for figures in point.by_repetition}
    theirs = {figures.repetition: figures for figures in reference.by_repetition}
    pairs = [
        (ours[number], theirs[number])
        for number in sorted(ours.keys() & theirs.keys())
        if ours[number].was_searched(metric) and theirs[number].was_searched(metric)
    ]
    clean = [pair for pair in pairs if not any(figures.was_disturbed(metric) for figures in pair)]
    needed = figure(metric).pairs
    if not pairs:
        return None
    if all(figures.turns.get(metric) for pair in pairs for figures in pair):
        return Paired(pairs, pairs, pairs, "turns")
    shares = [_share(pair, metric) for pair in pairs]
    little = [pair for pair, share in zip(pairs, shares, strict=True) if share is not None and share <= LITTLE]
    if len(clean) < MIN_BOUNDED <= len(little):
        return Paired(pairs, clean, little, "bounds")
    if len(clean) >= needed:
        return Paired(pairs, clean, clean, "clean")
    if len(pairs) >= MIN_BOUNDED and None not in shares:
        return Paired(pairs, clean, pairs, "bounds")
    return Paired(pairs, clean, pairs, "few")


def compare_points(point: PointSummary, reference: PointSummary, metric: str = "p50_us") -> Comparison | None:
    """Pairs repetitions of the same number; None when no repetition is there on both sides."""
    paired = paired_repetitions(point, reference, metric)
    if paired is None:
        return None
    pairs, clean, used, basis = paired
    sense, interval = _interval(used, metric, basis)
    shares = [_share(pair, metric) for pair in (used if basis == "bounds" else pairs)]
    ours, theirs = zip(*used, strict=True)
    doubts = doubts_of(((point, ours), (reference, theirs)), metric, len(pairs), len(clean), basis)
    found = Comparison(
        point=point.forwarder,
        reference=reference.forwarder,
        point_id=point.point_id,
        reference_id=reference.point_id,
        metric=metric,
        basis=basis,
        sense=sense,
        interval=interval,
        estimate=_estimate(pairs, metric),
        first=_first(pairs, point.planned, metric),
        clean=len(clean),
        repetitions=len(pairs),
        share=None if None in shares else max((share for share in shares if share is not None), default=0.0),
        alike_within=point.alike_within,
        hindrances=doubts.hindrances
        or (
            _lost(used, metric, (point.forwarder, reference.forwarder)) or _unordered(basis)
            if sense == "unknown"
            else ()
        ),
        remarks=doubts.remarks,
    )
    if found.better is not None and _medians_say_the_opposite(point, reference, found):
        remark = "their medians, each of its own clean repetitions, say the opposite: the machine changed in between"
        found = found.model_copy(update={"remarks": (*found.remarks, remark)})
    return found.model_copy(update={"breakdown": _breakdown(used, found)}) if basis == "bounds" else found


def _medians_say_the_opposite(point: PointSummary, reference: PointSummary, found: Comparison) -> bool:
    """Medians of other repetitions than the pairs that decide (`measure.usable`)."""
    ours, theirs = point.value(found.metric), reference.value(found.metric)
    if ours is None or theirs is None or ours == theirs:
        return False
    return ((ours > theirs) == figure(found.metric).more) != found.better


def hindrance_of(point: PointSummary, metric: str) -> str:
    """Why nothing may be said of a point next to any other; empty where something may, be it a bound."""
    paired = paired_repetitions(point, point, metric)
    if paired is None:
        return "it was not measured"
    own = [figures for figures, _ in paired.used]
    doubts = doubts_of(((point, own),), metric, len(paired.pairs), len(paired.clean), paired.basis)
    lost = _lost(paired.used, metric, (point.forwarder, point.forwarder))
    return next(iter((*doubts.hindrances, *lost)), "")


def compare_values(family: Sequence[Sequence[tuple[float, float]]], resolution: float) -> list[Interval | None]:
    """Ratios of the first over the second of pairs of undisturbed repetitions, corrected together; None without any."""
    return holm_corrected([ratio_interval(pairs, resolution=resolution) for pairs in family])


def difference(ours: PointSummary, theirs: PointSummary, metric: str, family: int = 1) -> Difference | None:
    """Ours less theirs over their clean pairs, in the metric's unit, at the confidence of one of a family (Bonferroni).

    None where too few pairs are clean on both sides.
    """
    paired = paired_repetitions(ours, theirs, metric)
    if paired is None or paired.basis not in ("clean", "turns"):
        return None
    values = [(one.value(metric), other.value(metric)) for one, other in paired.used]
    known = [(one, other) for one, other in values if one is not None and other is not None]
    if len(known) < len(values) or not all(map(math.isfinite, itertools.chain(*known))):
        return None
    return difference_interval(known, 1 - (1 - CONFIDENCE) / family)


def loss_difference(ours: PointSummary, theirs: PointSummary, metric: str) -> Difference | None:
    """The share of its frames that ours lost, less that of theirs: over clean pairs, or all used where too few are.

    None of a figure that is searched for, whose loss is asked for.
    """
    paired = paired_repetitions(ours, theirs, metric)
    if paired is None or not figure(metric).at_load:
        return None
    pairs = paired.clean if len(paired.clean) >= MIN_PAIRS else paired.used
    return difference_interval([(one.loss_ratio, other.loss_ratio) for one, other in pairs])


def compare_apart(after: PointSummary, before: PointSummary, metric: str) -> Comparison | None:
    """The same point in two runs, which were not interleaved: two machines until one run measures both.

    The unit is a run's mean: what its repetitions differ by says nothing of what runs differ by, so the interval has a
    half-width of `RUNS_APART` however many repetitions there are. None when one run has none.
    """
    after, before = (
        side.model_copy(update={"forwarder": f"{side.forwarder} ({when})"})
        for side, when in ((after, "after"), (before, "before"))
    )
    sides = [usable_repetitions(side.by_repetition, metric) for side in (after, before)]
    if not all(sides):
        return None
    clean = min(sum(not one.was_disturbed(metric) for one in side) for side in sides)
    share_known = all(one.figures[metric].share is not None for side in sides for one in side)
    fewest = min(map(len, sides))
    bounded = fewest >= MIN_BOUNDED and share_known
    basis: Basis = "clean" if clean >= figure(metric).pairs else "bounds" if bounded else "few"
    ours, theirs = ([_ends(one.figures[metric], basis) for one in side] for side in sides)
    make: MakeInterval = lambda above, below: apart_interval(above, below, fixed=RUNS_APART)  # noqa: E731
    sense, interval = _of_ends(ours, theirs, make, more=figure(metric).more)
    doubts = doubts_of(((after, sides[0]), (before, sides[1])), metric, fewest, clean, basis)
    return Comparison(
        point=after.forwarder,
        reference=before.forwarder,
        point_id=after.point_id,
        reference_id=before.point_id,
        metric=metric,
        basis="runs",
        sense=sense,
        interval=interval,
        clean=clean,
        repetitions=fewest,
        hindrances=doubts.hindrances or (_unordered(basis) if sense == "unknown" else ()),
        remarks=doubts.remarks,
        alike_within=after.alike_within,
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
    """The comparisons of one table that have pairs, corrected together (Holm); the same at two places counts once."""
    found = {key: one for key, one in family.items() if one is not None}
    alike = {key: one.model_dump_json() for key, one in found.items()}
    distinct = {alike[key]: one for key, one in found.items()}
    intervals = holm_corrected([one.interval for one in distinct.values()])
    first = holm_corrected([one.first or one.interval for one in distinct.values()])
    made = {
        same: one.model_copy(update={"interval": interval, "first": one.first and alone})
        for (same, one), interval, alone in zip(distinct.items(), intervals, first, strict=True)
    }
    return {key: made[same] for key, same in alike.items()}


def _first(pairs: Sequence[Pair], planned: int, metric: str) -> Interval | None:
    """Over the first attempts alone, however disturbed; None where nothing was repeated."""
    first = [pair for pair in pairs if pair[0].repetition < planned]
    return None if len(first) == len(pairs) else _estimate(first, metric)


def _lost(pairs: Sequence[Pair], metric: str, titles: tuple[str, str]) -> tuple[str, ...]:
    """Whose percentile is that of a lost frame, which has no ratio to another one."""
    sides = zip(titles, zip(*pairs, strict=True), strict=True)
    lost = dict.fromkeys(title for title, side in sides if any(one.value(metric) == math.inf for one in side))
    return (f"a lost frame is the {figure(metric).name} of {' and of '.join(lost)}",) if lost else ()


def _unordered(basis: Basis) -> tuple[str, ...]:
    if basis == "bounds":
        return ("the machine disturbed so much of the trials that nothing is left to say: repeat on a quieter one",)
    return ("both figures are bounds, and nothing says which is higher",)


def _share(pair: Pair, metric: str) -> float | None:
    """The larger of its sides; None where one is not known."""
    shares = [each.figures[metric].share for each in pair]
    return None if None in shares else max(share for share in shares if share is not None)


def _ends(one: Measured, basis: Basis) -> tuple[float, float]:
    """Between what and what a figure is taken to lie."""
    if basis == "few" and one.limited_by == "machine" and one.value is not None:
        return one.value, one.value  # no statement about it; the plain ratio stands in tables next to the reason
    return one.low, one.high


def _estimate(pairs: Sequence[Pair], metric: str) -> Interval | None:
    """The plain ratio: of what was measured, whatever the machine did."""
    return _interval(pairs, metric, "few")[1]


def _interval(pairs: Sequence[Pair], metric: str, basis: Basis) -> tuple[Sense, Interval | None]:
    """What is known of the ratio, from what is known of each side of each pair."""
    resolution = max((each.figures[metric].resolution for pair in pairs for each in pair), default=0.0)
    if basis in ("turns", "few") and all(each.turns.get(metric) for pair in pairs for each in pair):
        return _of_turns(pairs, metric, resolution)
    ours, theirs = ([_ends(pair[side].figures[metric], basis) for pair in pairs] for side in (0, 1))
    floor = geometric_mean(unseen(_share(pair, metric) or 0.0) for pair in pairs) if basis == "bounds" else 1.0
    make = _paired_interval(resolution, floor)
    return _of_ends(ours, theirs, make, more=figure(metric).more)


def _paired_interval(resolution: float, fixed: float) -> MakeInterval:
    return lambda above, below: ratio_interval([*zip(above, below, strict=True)], resolution=resolution, fixed=fixed)


def _of_turns(pairs: Sequence[Pair], metric: str, resolution: float) -> tuple[Sense, Interval | None]:
    """Student's t over rounds, of which each gives the median over its turns of the ratio within a turn.

    Only the resolution is a floor: where the two stand side by side, a slow spell meets both (docs/claims.md).
    """
    ratios = [_of_round(ours.turns[metric], theirs.turns[metric], more=figure(metric).more) for ours, theirs in pairs]
    if not all(0 < each < math.inf for each in ratios):
        return "unknown", None
    found = ratio_interval([(each, 1.0) for each in ratios], resolution=resolution, depth=None)
    return ("exact", found) if found else ("unknown", None)


def _of_round(ours: Mapping[int, float | None], theirs: Mapping[int, float | None], *, more: bool) -> float:
    """Above 1 where ours is better; 0 or infinite where a lost frame is the percentile of most turns."""
    both = [(ours[turn], theirs[turn]) for turn in ours.keys() & theirs.keys()]
    ratios = [one / other if other else math.inf for one, other in both if one is not None and other is not None]
    known = [each for each in ratios if not math.isnan(each)]  # two lost frames have no ratio
    middle = median(known) if 2 * len(known) > len(both) else math.nan
    return middle if more or not middle else 1 / middle


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
    if lowest.low is None or highest.high is None:
        return "unknown", None
    # neither end decides: all that is known is where it lies, and no correction makes that wider or narrower
    middle = math.sqrt(lowest.ratio * highest.ratio)
    return "within", Interval(ratio=middle, low=lowest.low, high=highest.high, pairs=lowest.pairs)


def _ratio(above: Sequence[float], below: Sequence[float], make: MakeInterval) -> Interval | None:
    """None when a value is without bound: it may not be left out."""
    usable = all(0 < value < math.inf for value in (*above, *below))
    return make(above, below) if usable and above and below else None


def _breakdown(pairs: Sequence[Pair], found: Comparison) -> float | None:
    """The largest share of every trial, clean ones too, at which the same side would still be ahead.

    None where it is not decided, or where a figure is no percentile of latencies that are known.
    """
    wanted = figure(found.metric)
    if found.better is None or wanted.percent is None or any(each.sample is None for pair in pairs for each in pair):
        return None

    def holds(share: float) -> bool:
        ours, theirs = ([pair[side].sample.ends_us(wanted.percent, share) for pair in pairs] for side in (0, 1))
        sense, interval = _of_ends(ours, theirs, _paired_interval(0.0, unseen(share)), more=False)
        at_share = found.model_copy(update={"sense": sense, "interval": interval})
        return at_share.better == found.better

    low, high = 0, len(_SHARES)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(_SHARES[middle]) else (low, middle)
    return _SHARES[low]


def unsaid(comparisons: Iterable[Comparison | None]) -> dict[str, list[str]]:
    """Why a table has no ratio -> of which points."""
    found: dict[str, list[str]] = {}
    for one in filter(None, comparisons):
        for hindrance in one.hindrances:
            found.setdefault(hindrance, []).append(one.point)
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
