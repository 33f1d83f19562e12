# SPDX-License-Identifier: Apache-2.0
"""A latency distribution: HdrHistograms merged exactly, and what plots and tables need of it.

A lost frame has infinite latency: the percentiles of a trial are ranks of what was sent (`Sample`), so that a forwarder
which drops its slowest frames wins nothing by it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram

from xdplab.model import InputError, StreamResult, TrialRecord
from xdplab.model.histogram import COUNTERS, HALF_MAGNITUDE, checked_histogram

#: Independent samples above a percentile that make it a figure; below p99 a trial always has them.
MIN_ABOVE = 10
#: Relative width of four buckets.
_BUCKETS = 2.0 ** (2 - HALF_MAGNITUDE)


class Distribution:
    """Values in ns, ascending, and how often each was seen."""

    def __init__(self, values_ns: np.ndarray, counts: np.ndarray) -> None:
        self.values_ns = values_ns
        self.counts = counts
        self._cumulative = np.cumsum(counts)

    @classmethod
    def merged(cls, encoded: Iterable[str]) -> "Distribution":
        parts = [_recorded(text) for text in encoded]
        if not parts:
            return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        if len(parts) == 1:
            seen, counts = parts[0]
        else:
            seen, where = np.unique(np.concatenate([index for index, _ in parts]), return_inverse=True)
            counts = np.zeros(len(seen), dtype=np.int64)
            np.add.at(counts, where, np.concatenate([count for _, count in parts]))
        return cls(_highest_values()[seen], counts)

    @property
    def count(self) -> int:
        return int(self._cumulative[-1]) if len(self._cumulative) else 0

    def percentile_us(self, percent: float) -> float | None:
        """The value below or at which `percent` of the samples lie, in us; None without samples."""
        if not self.count:
            return None
        return self.rank_us(rank_of(self.count, percent))

    def independent_above(self, value_us: float, pps: float) -> float:
        """How many independent samples lie above a value, of frames that were sent at `pps`.

        A stall of length L holds up the L x pps frames that are sent while it lasts, and they read between 0 and L, an
        interval between departures apart. So each stall that is longer than the value has one frame in the interval
        behind it, and a frame that was late by itself is there as well unless it was later by more than that.
        """
        low_ns, interval_ns = value_us * 1000, 1e9 / pps if pps else math.inf
        window_ns = max(interval_ns, _BUCKETS * low_ns)  # some buckets of the histogram
        inside = (self.values_ns > low_ns) & (self.values_ns <= low_ns + window_ns)
        return float(np.sum(self.counts[inside])) * min(1.0, interval_ns / window_ns)

    def rank_us(self, rank: int) -> float:
        """The value of a rank, from 1 on; infinite behind the last."""
        if rank > self.count:
            return math.inf
        return float(self.values_ns[np.searchsorted(self._cumulative, rank)]) / 1000

    @staticmethod
    def resolution(value_us: float) -> float:
        """Width of the bucket in which a value lies, over the value."""
        value_ns = max(1, round(value_us * 1000))
        return float(1 << max(0, value_ns.bit_length() - HALF_MAGNITUDE - 1)) / value_ns

    @property
    def mean_us(self) -> float | None:
        return float(self.values_ns @ self.counts) / self.count / 1000 if self.count else None

    @property
    def std_us(self) -> float | None:
        """Standard deviation of the samples (ddof 0); None without samples."""
        if not self.count:
            return None
        mean = float(self.values_ns @ self.counts) / self.count
        return math.sqrt(float((self.values_ns - mean) ** 2 @ self.counts) / self.count) / 1000

    def exceedance(self) -> tuple[np.ndarray, np.ndarray]:
        """Latency in us against the share of samples above it, for a distribution plot on a log axis."""
        above = 1 - self._cumulative / max(self.count, 1)
        return self.values_ns / 1000, above


@dataclass(frozen=True)
class Sample:
    """The latencies of some frames, and how many more were lost: infinitely late."""

    arrived: Distribution
    lost: int

    @property
    def count(self) -> int:
        return self.arrived.count + self.lost

    def percentile_us(self, percent: float) -> float | None:
        """By rank of what was sent; infinite where that frame was lost, None where none was sent."""
        return self.arrived.rank_us(rank_of(self.count, percent)) if self.count else None


def rank_of(count: int, percent: float) -> int:
    """Rank of a percentile, from 1 on, of at least one sample."""
    return max(1, math.ceil(percent / 100 * count - 1e-6))  # 99.9 % of 1000 is 999, not 999.0000000000001


@lru_cache(maxsize=1 << 11)
def _recorded(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the counters that are not zero, and their counts. The library's own iterator takes 0.1 s for this."""
    try:
        histogram = HdrHistogram.decode(checked_histogram(text))
    except (ValueError, IndexError, OverflowError, HdrLengthException, HdrCookieException) as exc:
        raise InputError(f"histogram: cannot be read: {exc or type(exc).__name__}") from None
    if not histogram.total_count:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    first, last = _counter_of(histogram.min_value), _counter_of(histogram.max_value)
    counts = np.ctypeslib.as_array(histogram.counts)[first : last + 1]
    index = np.flatnonzero(counts)
    return (index + first).astype(np.int32), counts[index].astype(np.int64)


def _counter_of(value_ns: int) -> int:
    """Index of the counter of a value."""
    bucket = max(0, int(value_ns).bit_length() - HALF_MAGNITUDE - 1)
    return (bucket << HALF_MAGNITUDE) + (int(value_ns) >> bucket)


@cache
def _highest_values() -> np.ndarray:
    """Counter -> the highest value that it counts, in ns."""
    index = np.arange(COUNTERS)
    half = 1 << HALF_MAGNITUDE
    bucket = np.maximum((index >> HALF_MAGNITUDE) - 1, 0)
    sub = np.where(index < half, index, (index & (half - 1)) + half)
    return np.asarray(((sub + 1) << bucket) - 1, dtype=np.int64)


def timed(trial: TrialRecord) -> list[StreamResult]:
    """Streams whose latencies stand for a trial: first frames of new flows only where there are no others."""
    streams = [stream for stream in trial.result.streams if stream.kind == "latency"] if trial.result else []
    return [stream for stream in streams if not stream.new_flows] or streams


def distribution(trials: Iterable[TrialRecord]) -> Distribution:
    """The latencies of some trials, merged."""
    return Distribution.merged(stream.latency.hdr for trial in trials for stream in timed(trial) if stream.latency)


def sample_of(trials: Iterable[TrialRecord]) -> Sample:
    """The latencies of some trials, merged, with the time-stamped frames that were lost."""
    trials = list(trials)
    return Sample(distribution(trials), max(0, sum(stream.lost for trial in trials for stream in timed(trial))))


def if_enough_samples(trials: Iterable[TrialRecord], percent: float, value_us: float | None) -> float | None:
    """The percentile, where the trials hold enough independent samples above their own; else None."""
    return carried_by(((distribution([trial]), _probe_pps(trial)) for trial in trials), percent, value_us)


def carried_by(parts: Iterable[tuple[Distribution, float]], percent: float, value_us: float | None) -> float | None:
    """The same of distributions, each with the frames per second that it is of."""
    if percent < 99 or value_us is None:
        return value_us
    above = sum(found.independent_above(found.percentile_us(percent) or 0.0, pps) for found, pps in parts)
    return value_us if above >= MIN_ABOVE else None


def _probe_pps(trial: TrialRecord) -> float:
    return sum(stream.achieved_pps for stream in timed(trial))
