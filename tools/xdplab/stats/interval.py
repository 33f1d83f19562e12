# SPDX-License-Identifier: Apache-2.0
"""A ratio of paired measurements, where it lies, and whether it may be called different from 1.

Repetitions of two points that have the same number make a pair. The ratio is the geometric mean over the pairs; its
99 % interval is Student's t on the log ratios with a floor under its half-width. The floor is there because t believes
what it has seen: a machine has slow spells, and those that the few repetitions of one side happened to miss are in no
spread. Over n pairs a spell that comes with up to a share of 1 - 0.05^(1/n) of the repetitions goes unseen once in
twenty studies. It moves the mean by that share of its depth, so the half-width is at least that: with a depth of 4/3 (a
rate a quarter lower), 20 % at 3 pairs, 14 % at 5, 9 % at 8, 6 % at 14. A bimodal side shows how deep a spell is, which
counts if it is deeper. The resolution of the measure (width of a search, bucket of a histogram) is a floor as well.
Spread and floor add as squares.

So three pairs show a factor of two, twelve to fourteen a tenth. `differs` says that the interval leaves
out 1, or that every pair lies apart by a factor of two in the same direction: then, where t on few unlike pairs says
nothing, low and high are the least and the greatest ratio of a pair ("at least 10.4 times in each of 3 repetitions").
`holm_corrected` corrects a table of comparisons after Holm (1979): a family has one chance in a hundred of a false
difference, and in twenty of a spell unseen. Its comparisons lend one another what they know of the spread
(`stats/spread.py`), and every pair must be farther apart there (`clear_of`).

`tools/dev false-alarms --simulated 1000` gives how often equal things are called different and real differences found,
`--tables 100` the same of a table's leader and the others.
A studentised bootstrap does no better with the floor: on long tails it finds more, next to slow spells of one side far
less, and it has no p below one over its draws, which a correction needs. A sign or permutation test cannot reach 1 %
below eight pairs.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

from xdplab.model import Model
from xdplab.stats.bimodal import Bimodal, bimodal
from xdplab.stats.spread import Scatter, shared

#: One comparison in a hundred may be called different by the chance that t knows of: a report holds many of them.
CONFIDENCE = 0.99
MIN_PAIRS = 3
#: Every pair apart by this factor in the same direction is a difference whatever t says; within a family `clear_of`.
CLEAR = 2.0
#: How far apart a machine's speeds are when nothing is known of it: a rate a quarter lower, a time a third longer.
DEPTH = 4 / 3
#: How often a slow spell may go unseen in all repetitions of a side, at `CONFIDENCE`; less in a family, in proportion.
UNSEEN = 0.05

#: Keeps the logarithm of a width finite.
_WIDEST = 200.0
_LEAST_P, _HALVINGS = 1e-12, 30

_Way = Literal["none", "student-t", "each-pair"]


class Interval(Model):
    """A ratio, and where it lies at the stated confidence; bounds are None with fewer than three pairs."""

    #: Geometric mean over the pairs.
    ratio: float
    #: Lower bound.
    low: float | None
    #: Upper bound.
    high: float | None
    #: How many there are.
    pairs: int
    #: Of the verdict; within a family (`holm_corrected`) of all its verdicts at once.
    confidence: float = CONFIDENCE
    #: `each-pair`: t says nothing, but every pair is clear; low and high are the least and greatest ratio of a pair.
    method: _Way = "none"
    #: Two-sided, that the ratio is 1, as far as the mean lies beyond the floor; not corrected.
    p: float | None = None
    #: Half-width below which the interval never is, as a ratio.
    floor: float = 1.0
    #: The pair nearest to 1, as a ratio of at least 1, when all pairs point the same way.
    least: float | None = None
    #: The pair farthest from 1, likewise.
    most: float | None = None
    #: Of a side that was seen to be so, the one that is farther apart.
    bimodal: Bimodal | None = None
    #: Standard error of the mean log ratio; within a family with what its other comparisons say of it.
    error: float | None = None
    #: Degrees of freedom of that error.
    freedom: float | None = None
    #: How deep a slow spell is taken to be, as a ratio; with `resolution` it made `floor`.
    depth: float = DEPTH
    #: Relative difference that the measure resolves.
    resolution: float = 0.0
    #: Half-width, as a ratio, that no number of pairs makes smaller: of disturbed pairs, of runs apart.
    fixed: float = 1.0
    #: Comparisons that the verdict was corrected for.
    family: int = 1
    #: p after Holm.
    corrected_p: float | None = None

    @property
    def differs(self) -> bool:
        """True when the interval leaves out 1."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high

    @property
    def clear(self) -> bool:
        """Whether every pair, of at least three, is apart by `clear_of` in the same direction."""
        return self.pairs >= MIN_PAIRS and self.least is not None and self.least >= clear_of(self.pairs, self.family)

    def inverted(self) -> "Interval":
        """The same with the sides swapped."""
        low, high = (None if bound is None else 1 / bound for bound in (self.high, self.low))
        return self.model_copy(update={"ratio": 1 / self.ratio, "low": low, "high": high})


class Difference(Model):
    """A difference in the unit of what was measured; otherwise as `Interval`."""

    #: Over the pairs.
    mean: float
    #: Lower bound; None with fewer than three pairs.
    low: float | None
    #: Upper bound.
    high: float | None
    #: How many there are.
    pairs: int
    #: Of the bounds.
    confidence: float = CONFIDENCE
    #: How they were found.
    method: Literal["none", "student-t"] = "none"
    #: Half-width below which the interval never is.
    floor: float = 0.0
    #: As of a ratio.
    bimodal: Bimodal | None = None


def clear_of(pairs: int, family: int) -> float:
    """The ratio by which every pair must be apart to be called so: `CLEAR`, or more in a family of comparisons.

    There it is what noise of a factor of two on both sides reaches in all pairs of one comparison of the family, once
    in a hundred families.
    """
    if family == 1:
        return CLEAR
    each = ((1 - CONFIDENCE) / (2 * family)) ** (1 / pairs)
    return max(CLEAR, math.exp(-NormalDist(sigma=math.sqrt(2) * math.log(2)).inv_cdf(each)))


def ratio_interval(
    pairs: Sequence[tuple[float, float]],
    confidence: float = CONFIDENCE,
    *,
    resolution: float = 0.0,
    depth: float | None = DEPTH,
    fixed: float = 1.0,
) -> Interval | None:
    """Geometric mean of `a / b` over paired measurements, with its interval; None without a usable pair.

    `resolution`: two values nearer than this (relative) are one to the measure. `depth`: how far apart the speeds of
    this machine are, as a ratio of at least 1, where its history says it; None where no speed can meet one side alone,
    as in one process that is measured with and without something in turns. `fixed`: see `Interval`.
    """
    usable = [(a, b) for a, b in pairs if a > 0 and b > 0]
    if not usable:
        return None
    logs = np.log([a / b for a, b in usable])
    split = _deeper(usable)
    one_way = bool((logs > 0).all() or (logs < 0).all())
    sizes = np.abs(logs)
    found = Interval(
        ratio=math.exp(logs.mean()),
        low=None,
        high=None,
        pairs=len(logs),
        confidence=confidence,
        least=math.exp(sizes.min()) if one_way else None,
        most=math.exp(sizes.max()) if one_way else None,
        bimodal=split,
        error=_error(logs) if len(logs) >= MIN_PAIRS else None,
        freedom=len(logs) - 1 if len(logs) >= MIN_PAIRS else None,
        depth=_deepest(depth, split),
        resolution=resolution,
        fixed=fixed,
    )
    return found if found.error is None else _bounded(found.model_copy(update={"p": _p(found)}), 1 - confidence)


def apart_interval(
    above: Sequence[float], below: Sequence[float], confidence: float = CONFIDENCE, *, fixed: float
) -> Interval | None:
    """Ratio of the geometric means of two samples that make no pairs, each of positive values; None without any.

    Welch's standard error, with the degrees of freedom of the smaller sample. `fixed`: see `Interval`.
    """
    if not above or not below:
        return None
    logs = [np.log(np.array(side)) for side in (above, below)]
    fewest = min(len(side) for side in logs)
    found = Interval(
        ratio=math.exp(logs[0].mean() - logs[1].mean()),
        low=None,
        high=None,
        pairs=fewest,
        confidence=confidence,
        error=math.hypot(*(_error(side) for side in logs)) if fewest >= MIN_PAIRS else None,
        freedom=fewest - 1 if fewest >= MIN_PAIRS else None,
        depth=1.0,
        fixed=fixed,
    )
    return found if found.error is None else _bounded(found.model_copy(update={"p": _p(found)}), 1 - confidence)


def holm_corrected(intervals: Sequence[Interval | None]) -> list[Interval | None]:
    """The comparisons of one table, corrected after Holm (1979): bounds, verdict and `corrected_p` agree.

    Each interval is that at the level which Holm's steps ask of it. Those that are None or have too few pairs stay as
    they are, and do not count.

    Raises:
        ValueError: when the confidences differ.
    """
    if len({found.confidence for found in intervals if found}) > 1:
        raise ValueError("a family of comparisons has one confidence")
    intervals = _with_shared_spread(intervals)
    known = sorted(((found.p, at) for at, found in enumerate(intervals) if found and found.p is not None))
    made = list(intervals)
    corrected, level, failed = 0.0, 1.0, False
    for rank, (p, at) in enumerate(known):
        found = intervals[at]
        assert found is not None
        if not failed:  # from the first that fails on, all are judged at its level
            level = (1 - found.confidence) / (len(known) - rank)
            failed = p >= level
        corrected = max(corrected, min(1.0, p * (len(known) - rank)))
        made[at] = _bounded(found.model_copy(update={"family": len(known), "corrected_p": corrected}), level)
    return made


def _with_shared_spread(intervals: Sequence[Interval | None]) -> list[Interval | None]:
    """Each that has an error with what the others say of it."""
    own = {
        at: Scatter(found.pairs * found.error**2, found.freedom)
        for at, found in enumerate(intervals)
        if found and found.error is not None and found.freedom is not None
    }
    made = list(intervals)
    for at, spread in zip(own, shared([*own.values()]), strict=True):
        found = intervals[at]
        assert found is not None
        lent = found.model_copy(update={"error": math.sqrt(spread.variance / found.pairs), "freedom": spread.freedom})
        made[at] = lent.model_copy(update={"p": _p(lent)})
    return made


def difference_interval(
    pairs: Sequence[tuple[float, float]],
    confidence: float = CONFIDENCE,
    *,
    resolution: float = 0.0,
    depth: float | None = DEPTH,
) -> Difference | None:
    """Mean of `a - b` over paired measurements, with its interval by the rules of a ratio; None without a pair.

    `resolution` in the unit of the values; `depth` as in a ratio, of the mean of both sides.
    """
    if not pairs:
        return None
    differences = np.array([a - b for a, b in pairs])
    mean, count = float(differences.mean()), len(pairs)
    split = _deeper(pairs)
    if count < MIN_PAIRS:
        return Difference(mean=mean, low=None, high=None, pairs=count, confidence=confidence, bimodal=split)
    deep = math.log(_deepest(depth, split)) * float(np.abs(pairs).mean())  # so that it says the same as the ratio
    error = _error(differences)
    half, floor = _half_width(1 - confidence, count, error, count - 1, deep, resolution)
    return Difference(
        mean=mean,
        low=mean - half,
        high=mean + half,
        pairs=count,
        confidence=confidence,
        method="student-t",
        floor=floor,
        bimodal=split,
    )


def _bounded(found: Interval, alpha: float) -> Interval:
    """With its bounds at that level; those of the pairs where t holds 1 and every pair is clear."""
    centre = math.log(found.ratio)
    half, floor = _log_half_width(found, alpha)
    low, high = centre - half, centre + half
    method: _Way = "student-t"
    if low <= 0 <= high and found.clear:
        assert found.least is not None
        assert found.most is not None
        ends = math.log(found.least), math.log(found.most)
        low, high = ends if centre > 0 else (-ends[1], -ends[0])
        method = "each-pair"
    return found.model_copy(
        update={"low": math.exp(low), "high": math.exp(high), "method": method, "floor": math.exp(floor)}
    )


def _p(found: Interval) -> float:
    """The level at which the interval of t just touches 1, by halving; 1 within the floor."""
    centre = abs(math.log(found.ratio))
    if centre <= _log_half_width(found, 1.0)[0]:
        return 1.0
    low, high = math.log(_LEAST_P), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = centre <= _log_half_width(found, math.exp(middle))[0]
        low, high = (middle, high) if inside else (low, middle)
    return math.exp(high)


def _log_half_width(found: Interval, alpha: float) -> tuple[float, float]:
    assert found.error is not None
    assert found.freedom is not None
    least = max(math.log1p(found.resolution), math.log(found.fixed))
    half, floor = _half_width(alpha, found.pairs, found.error, found.freedom, math.log(found.depth), least)
    return min(half, _WIDEST), floor


def _half_width(
    alpha: float, pairs: int, error: float, freedom: float, depth: float, resolution: float
) -> tuple[float, float]:
    """Of the interval that is wrong with probability `alpha`, and the floor within; in the unit of error and depth."""
    from scipy.special import stdtrit  # the quantile of Student's t; takes 0.2 s to import, and scipy.stats 0.7 s

    missed = min(UNSEEN, UNSEEN * alpha / (1 - CONFIDENCE)) ** (1 / pairs)
    floor = max(resolution, depth * (1 - missed))
    return math.hypot(-float(stdtrit(freedom, alpha / 2)) * error, floor), floor


def _error(data: np.ndarray) -> float:
    return float(data.std(ddof=1)) / math.sqrt(len(data))


def _deeper(pairs: Sequence[tuple[float, float]]) -> Bimodal | None:
    """That of either side whose groups are farther apart."""
    found = [split for side in zip(*pairs, strict=True) if (split := bimodal(side)) is not None]
    return max(found, key=lambda split: split.apart, default=None)


def _deepest(depth: float | None, split: Bimodal | None) -> float:
    if depth is None:
        return 1.0
    return max(depth, split.apart) if split else depth
