# SPDX-License-Identifier: Apache-2.0
"""A ratio of paired measurements with a bootstrap confidence interval.

Studentised bootstrap (Efron and Tibshirani 1993, ch. 12.5) of the mean of log ratios: on five to ten pairs the plain
percentile bootstrap covers too little (`tools/tests/test_stats.py` measures both). Few pairs are enumerated, so the
interval depends on nothing but the data; many are drawn with a fixed seed.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from xdplab.model import Model

#: One comparison in a hundred may be called different by chance: a report holds many of them.
CONFIDENCE = 0.99
MIN_PAIRS = 5
_DRAWS = 20_000
_ENUMERATE_UP_TO = 6


class Interval(Model):
    """A ratio, and where it lies at the stated confidence; bounds are None with fewer than five pairs."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int
    confidence: float = CONFIDENCE

    @property
    def differs(self) -> bool:
        """True when the interval leaves out 1."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high

    def text(self) -> str:
        """`10.8 (10.1 to 11.5)`."""
        if self.low is None or self.high is None:
            return f"{self.ratio:.3g} (no interval: {self.pairs} pairs, {MIN_PAIRS} are needed)"
        return f"{self.ratio:.3g} ({self.low:.3g} to {self.high:.3g})"


def ratio_interval(pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Interval | None:
    """Geometric mean of `a / b` over paired measurements, with its interval; None without a usable pair."""
    logs = np.array([math.log(a / b) for a, b in pairs if a > 0 and b > 0])
    if not len(logs):
        return None
    centre = float(logs.mean())
    spread = float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    low: float | None = None
    high: float | None = None
    if len(logs) >= MIN_PAIRS:
        tail = (1 - confidence) / 2
        t_low, t_high = np.quantile(_studentised(logs), [tail, 1 - tail]) if spread > 0 else (0.0, 0.0)
        low, high = math.exp(centre - t_high * spread), math.exp(centre - t_low * spread)
    return Interval(ratio=math.exp(centre), low=low, high=high, pairs=len(logs), confidence=confidence)


def _studentised(data: np.ndarray) -> np.ndarray:
    """T statistics of the resamples of `data`; resamples without spread say nothing and are left out."""
    n = len(data)
    if n <= _ENUMERATE_UP_TO:
        index = np.array(list(itertools.product(range(n), repeat=n)))
    else:
        index = np.random.default_rng(n).integers(0, n, size=(_DRAWS, n))
    resampled = data[index]
    spreads = resampled.std(axis=1, ddof=1) / math.sqrt(n)
    usable = spreads > 1e-9 * np.abs(data).max()
    return np.asarray((resampled.mean(axis=1)[usable] - data.mean()) / spreads[usable])
