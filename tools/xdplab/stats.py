# SPDX-License-Identifier: Apache-2.0
"""Intervals, bounds and levels of numbers: nothing here knows what a frame is.

A ratio over rounds, where it lies, and whether it may be called different from 1.

Each round gives one ratio. The estimate is their geometric mean, its 99 % interval Student's t on their logarithms,
never narrower than what the measure resolves. `holm_corrected` corrects the comparisons of one table after Holm
(1979).
`tools/dev false-alarms` says how often equal things are called different, and real differences found.
"""

import math
from collections.abc import Sequence

import numpy as np

from xdplab.model import Model

#: One comparison in a hundred may be called different by chance: a report holds many of them.
CONFIDENCE = 0.99
MIN_ROUNDS = 3

#: Keeps the logarithm of a width finite.
_WIDEST = 200.0
#: So many times the rounds that there are is no advice any more.
_MOST_TIMES = 10


class Interval(Model):
    """A ratio, and where it lies at the stated confidence; bounds are None with fewer than three rounds."""

    #: Geometric mean over the rounds; of figures that lie between two ends, the middle.
    ratio: float
    #: Lower bound.
    low: float | None
    #: Upper bound.
    high: float | None
    #: How many there are.
    rounds: int
    #: Of the verdict; within a family (`holm_corrected`) of all its verdicts at once.
    confidence: float = CONFIDENCE
    #: Two-sided, that the ratio is 1, as far as the mean lies beyond the resolution; not corrected.
    p: float | None = None
    #: Standard error of the mean log ratio.
    error: float | None = None
    #: Least half-width, as a ratio less 1: what the measure resolves, or how far runs of the same thing lie apart.
    resolution: float = 0.0
    #: What the figures themselves leave open, as the logarithm of a ratio either way: they lie between two ends.
    open_log: float = 0.0
    #: Comparisons that the verdict was corrected for.
    family: int = 1
    #: p after Holm.
    corrected_p: float | None = None

    @property
    def differs(self) -> bool:
        """True when the interval leaves out 1."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high

    def rounds_until_known(self, equivalence_margin: float) -> int | None:
        """About how many more rounds make the interval leave out 1, or lie within a share either way of it.

        By this ratio and this scatter; None where not even ten times as many would, or nothing is known of the scatter.
        """
        if self.error is None:
            return None
        centre, margin = abs(math.log(self.ratio)), math.log1p(equivalence_margin)
        scatter = self.error * self.rounds**0.5
        least, level = math.log1p(self.resolution), (1 - self.confidence) / self.family
        for rounds in range(self.rounds + 1, _MOST_TIMES * self.rounds + 1):
            half = max(_quantile(rounds, level) * scatter / math.sqrt(rounds), least) + self.open_log
            if half < centre or half < margin - centre:
                return rounds - self.rounds
        return None

    def inverted(self) -> "Interval":
        """The same with the sides swapped."""
        low, high = (None if bound is None else 1 / bound for bound in (self.high, self.low))
        return self.model_copy(update={"ratio": 1 / self.ratio, "low": low, "high": high})


class Difference(Model):
    """A difference in the unit of what was measured; otherwise as `Interval`."""

    #: Over the rounds.
    mean: float
    #: Lower bound; None with fewer than three rounds.
    low: float | None
    #: Upper bound.
    high: float | None
    #: How many there are.
    rounds: int
    #: Of the bounds.
    confidence: float = CONFIDENCE


def ratio_interval(
    ratios: Sequence[float], confidence: float = CONFIDENCE, *, resolution: float = 0.0
) -> Interval | None:
    """Of one ratio for each round; None without any, or where one is not above 0 and finite.

    `resolution`: two values nearer than this (relative) are one to the measure.
    """
    if not ratios or not all(0 < each < math.inf for each in ratios):
        return None
    logs = np.log(ratios)
    error = _error(logs) if len(logs) >= MIN_ROUNDS else None
    return _made(float(logs.mean()), len(logs), error, confidence, resolution)


def at_confidence(found: Interval, confidence: float) -> Interval:
    """The same ratio at another confidence, not corrected for a family; without bounds if there are too few rounds."""
    changed = found.model_copy(update={"confidence": confidence, "family": 1, "corrected_p": None})
    return changed if found.error is None else _bounded(changed, 1 - confidence)


def apart_interval(
    above: Sequence[float], below: Sequence[float], confidence: float = CONFIDENCE, *, resolution: float
) -> Interval | None:
    """Ratio of the geometric means of two samples that make no rounds, each of positive values; None without any.

    Welch's standard error, with the degrees of freedom of the smaller sample.
    """
    if not above or not below:
        return None
    logs = [np.log(np.array(side)) for side in (above, below)]
    fewest = min(len(side) for side in logs)
    error = math.hypot(*(_error(side) for side in logs)) if fewest >= MIN_ROUNDS else None
    return _made(float(logs[0].mean() - logs[1].mean()), fewest, error, confidence, resolution)


def between_ends(lowest: Interval, highest: Interval) -> Interval:
    """Of figures that lie between two ends: as low as the ratios of the ends that make it least, as high as the others.

    `lowest`, `highest`: over the same rounds.
    """
    logs = math.log(lowest.ratio), math.log(highest.ratio)
    errors = [each.error for each in (lowest, highest) if each.error is not None]
    error, apart = max(errors, default=None), (logs[1] - logs[0]) / 2
    return _made(sum(logs) / 2, lowest.rounds, error, lowest.confidence, lowest.resolution, apart)


def holm_corrected(intervals: Sequence[Interval | None]) -> list[Interval | None]:
    """The comparisons of one table, corrected after Holm (1979): bounds, verdict and `corrected_p` agree.

    Each interval is that at the level which Holm's steps ask of it. Those that are None or have too few rounds stay as
    they are, and do not count.

    Raises:
        ValueError: when the confidences differ.
    """
    if len({found.confidence for found in intervals if found}) > 1:
        raise ValueError("a family of comparisons has one confidence")
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


def difference_interval(
    pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE, *, resolution: float = 0.0
) -> Difference | None:
    """Mean of `a - b` over rounds, with its interval by Student's t; None without a round.

    `resolution`: least half-width, in the unit of the values.
    """
    if not pairs:
        return None
    differences = np.array([a - b for a, b in pairs])
    mean, count = float(differences.mean()), len(pairs)
    if count < MIN_ROUNDS:
        return Difference(mean=mean, low=None, high=None, rounds=count, confidence=confidence)
    half = max(_quantile(count, 1 - confidence) * _error(differences), resolution)
    return Difference(mean=mean, low=mean - half, high=mean + half, rounds=count, confidence=confidence)


def geometric_interval(values: Sequence[float], resolution: float = 0.0) -> tuple[float, float] | None:
    """The interval of the geometric mean of some values at 99 %, never narrower than `resolution` (a ratio less 1).

    None of fewer than three values, or where one is not above 0.
    """
    found = ratio_interval(values, resolution=resolution)
    return None if found is None or found.low is None or found.high is None else (found.low, found.high)


def _made(
    centre: float, rounds: int, error: float | None, confidence: float, resolution: float, open_log: float = 0.0
) -> Interval:
    found = Interval(
        ratio=math.exp(centre),
        low=None,
        high=None,
        rounds=rounds,
        confidence=confidence,
        error=error,
        resolution=resolution,
        open_log=open_log,
    )
    return found if error is None else _bounded(found.model_copy(update={"p": _p(found)}), 1 - confidence)


def _bounded(found: Interval, alpha: float) -> Interval:
    """With its bounds at that level."""
    assert found.error is not None
    half = max(_quantile(found.rounds, alpha) * found.error, math.log1p(found.resolution))
    half = min(half + found.open_log, _WIDEST)
    return found.model_copy(update={"low": found.ratio * math.exp(-half), "high": found.ratio * math.exp(half)})


def _p(found: Interval) -> float:
    """The level at which the interval just touches 1; 1 within the resolution, and what figures leave open."""
    from scipy.special import stdtr  # takes 0.2 s to import, and scipy.stats 0.7 s

    centre = abs(math.log(found.ratio)) - found.open_log
    if centre <= math.log1p(found.resolution):
        return 1.0
    return 2 * float(stdtr(found.rounds - 1, -centre / found.error)) if found.error else 0.0


def _quantile(rounds: int, alpha: float) -> float:
    from scipy.special import stdtrit

    return -float(stdtrit(rounds - 1, alpha / 2))


def _error(data: np.ndarray) -> float:
    return float(data.std(ddof=1)) / math.sqrt(len(data))
