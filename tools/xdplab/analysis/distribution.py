# SPDX-License-Identifier: Apache-2.0
"""A latency distribution: HdrHistograms merged exactly, and what plots and tables need of it."""

from collections.abc import Iterable

import numpy as np
from hdrh.histogram import HdrHistogram

from xdplab.model import TrialRecord

#: Layout of every histogram that xdplab writes: 1 ns to 10 s, three significant digits.
LOWEST_NS, HIGHEST_NS, DIGITS = 1, 10_000_000_000, 3


class Distribution:
    """Values in ns, ascending, and how often each was seen."""

    def __init__(self, values_ns: np.ndarray, counts: np.ndarray) -> None:
        self.values_ns = values_ns
        self.counts = counts
        self._cumulative = np.cumsum(counts)

    @classmethod
    def merged(cls, encoded: Iterable[str]) -> "Distribution":
        """From base64 HdrHistograms."""
        total = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
        for text in encoded:
            total.add(HdrHistogram.decode(text))
        items = [(item.value_iterated_to, item.count_added_in_this_iter_step) for item in total.get_recorded_iterator()]
        array = np.array(items, dtype=np.int64).reshape(-1, 2)
        return cls(array[:, 0], array[:, 1])

    @property
    def count(self) -> int:
        """Number of samples."""
        return int(self._cumulative[-1]) if len(self._cumulative) else 0

    def percentile_us(self, percent: float) -> float | None:
        """The value below or at which `percent` of the samples lie, in us; None without samples."""
        if not self.count:
            return None
        rank = max(1, int(np.ceil(percent / 100 * self.count)))
        return float(self.values_ns[np.searchsorted(self._cumulative, rank)]) / 1000

    def exceedance(self) -> tuple[np.ndarray, np.ndarray]:
        """Latency in us against the share of samples above it, for a distribution plot on a log axis."""
        above = 1 - self._cumulative / max(self.count, 1)
        return self.values_ns / 1000, above

    def density(self, points: int = 256) -> tuple[np.ndarray, np.ndarray]:
        """Gaussian kernel density over the logarithm of the latency (Silverman's rule), between p0.1 and p99.9.

        Returns:
            Latencies in us and density per decade.
        """
        logs = np.log10(np.maximum(self.values_ns, 1) / 1000)
        weights = self.counts / self.count
        mean = float(np.sum(weights * logs))
        quartiles = [np.log10(self.percentile_us(p) or 1) for p in (25, 75)]
        deviation = float(np.sqrt(np.sum(weights * (logs - mean) ** 2)))
        scale = min(deviation, (quartiles[1] - quartiles[0]) / 1.34) or deviation or 0.01
        bandwidth = max(0.9 * scale * self.count**-0.2, 0.004)
        low, high = (np.log10(self.percentile_us(p) or 1) for p in (0.1, 99.9))
        grid = np.linspace(low - 3 * bandwidth, high + 3 * bandwidth, points)
        near = np.abs(grid[:, None] - logs[None, :]) / bandwidth
        kernel = np.exp(-0.5 * near**2) @ weights / (bandwidth * np.sqrt(2 * np.pi))
        return 10**grid, kernel


def distribution(trials: Iterable[TrialRecord]) -> Distribution:
    """All latencies of some trials, merged."""
    return Distribution.merged(
        stream.latency.hdr for trial in trials if trial.result for stream in trial.result.streams if stream.latency
    )
