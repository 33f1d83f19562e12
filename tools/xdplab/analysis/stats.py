# SPDX-License-Identifier: Apache-2.0
"""A ratio of paired measurements with its confidence interval.

From twelve pairs on: studentised bootstrap (Efron and Tibshirani 1993, ch. 12.5) of the mean of log ratios. With fewer,
resamples run out of spread and its bounds become absurd (at five pairs one in twenty is wider than a factor of 200),
while Student's t on the log ratios covers as well or better and is two to ten times narrower; the plain percentile
bootstrap covers too little at any of these sizes. `tools/tests/test_stats.py` measures all three.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import stdtrit  # the quantile of Student's t; scipy.stats takes 0.7 s to import

from xdplab.model import Model

#: One comparison in a hundred may be called different by chance: a report holds many of them.
CONFIDENCE = 0.99
MIN_PAIRS = 3
BOOTSTRAP_FROM_PAIRS = 12
_DRAWS = 20_000


_Way = Literal["none", "student-t", "bootstrap-t"]


def significant(value: float, digits: int = 3) -> str:
    """A number as a person reads it: `11,300`, `1.20`, `0.0123`; never an exponent."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(places, 0)}f}"


class Interval(Model):
    """A ratio, and where it lies at the stated confidence; bounds are None with fewer than three pairs."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int
    confidence: float = CONFIDENCE
    method: _Way = "none"

    @property
    def differs(self) -> bool:
        """True when the interval leaves out 1."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high

    def text(self) -> str:
        """`10.8 (10.1 to 11.5)`."""
        if self.low is None or self.high is None:
            return f"{self.ratio:.3g} (no interval: {self.pairs} pairs, {MIN_PAIRS} are needed)"
        return f"{self.ratio:.3g} ({self.low:.3g} to {self.high:.3g})"


class Difference(Model):
    """A difference in the unit of what was measured; otherwise as `Interval`."""

    mean: float
    low: float | None
    high: float | None
    pairs: int
    confidence: float = CONFIDENCE
    method: _Way = "none"


def ratio_interval(pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Interval | None:
    """Geometric mean of `a / b` over paired measurements, with its interval; None without a usable pair."""
    logs = np.array([math.log(a / b) for a, b in pairs if a > 0 and b > 0])
    if not len(logs):
        return None
    centre, low, high, method = _mean_interval(logs, confidence)
    return Interval(
        ratio=math.exp(centre),
        low=None if low is None else math.exp(low),
        high=None if high is None else math.exp(high),
        pairs=len(logs),
        confidence=confidence,
        method=method,
    )


def difference_interval(pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Difference | None:
    """Mean of `a - b` over paired measurements, with its interval as that of a ratio; None without a pair."""
    if not pairs:
        return None
    mean, low, high, method = _mean_interval(np.array([a - b for a, b in pairs]), confidence)
    return Difference(mean=mean, low=low, high=high, pairs=len(pairs), confidence=confidence, method=method)


def _mean_interval(data: np.ndarray, confidence: float) -> tuple[float, float | None, float | None, _Way]:
    count, centre = len(data), float(data.mean())
    if count < MIN_PAIRS:
        return centre, None, None, "none"
    error = float(data.std(ddof=1)) / math.sqrt(count)
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    bootstrap = count >= BOOTSTRAP_FROM_PAIRS and error > 1e-9  # below that the spread is rounding
    below, above = np.quantile(_studentised(data), tails) if bootstrap else stdtrit(count - 1, tails)
    return centre, centre - above * error, centre - below * error, "bootstrap-t" if bootstrap else "student-t"


def _studentised(data: np.ndarray) -> np.ndarray:
    """Statistics t of resamples of `data`, drawn with a fixed seed; those without spread say nothing."""
    n = len(data)
    resampled = data[np.random.default_rng(n).integers(0, n, size=(_DRAWS, n))]
    spreads = resampled.std(axis=1, ddof=1) / math.sqrt(n)
    usable = spreads > 1e-9 * np.abs(data).max()
    return np.asarray((resampled.mean(axis=1)[usable] - data.mean()) / spreads[usable])
