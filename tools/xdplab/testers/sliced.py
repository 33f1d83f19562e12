# SPDX-License-Identifier: Apache-2.0
"""A simulated trial in slices of time: who stalls sends nothing meanwhile, and the clocks of its CPU say so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xdplab.model import SliceClock, Slices, StreamSpec, TrialSpec
from xdplab.model.slices import BUCKETS, bucket_of, slice_ns_of

if TYPE_CHECKING:
    from xdplab.model.slices import Counts, Floats, Marks

#: Of the simulated sender's CPU.
CLOCKS = (SliceClock(clock="ticks", cpu=0), SliceClock(clock="forwarder"))


class SlicedTrial:
    """What its streams add up to, slice by slice."""

    def __init__(self, trial: TrialSpec, away_s: Sequence[tuple[float, float]], slows: float) -> None:
        self._trial, self._slows = trial, slows
        self._slice_ns = slice_ns_of(round(trial.duration_s * 1e9))
        count = max(1, -(-round(trial.duration_s * 1e9) // self._slice_ns))
        self._edges_s = np.arange(count + 1) * self._slice_ns / 1e9
        self._away_s = sum((self._overlap(*each) for each in away_s), np.zeros(count))
        self._sent = np.zeros(count, np.int64)
        self._counts = np.zeros((count, BUCKETS), np.int64)
        self._any = False

    def add(self, stream: StreamSpec, sent: int, values: "Counts", counts: "Counts") -> tuple["Counts", "Counts"]:
        """Divide what a stream sent, and `counts` frames that took `values` ns; what they took in the end."""
        if stream.new_flows:
            return values, counts
        self._any = True
        sent_by = _shares(self._sending_s(stream), sent)
        received = int(counts.sum())
        received_by = _shares(sent_by, received)
        disturbed = self._marked()
        slow = _shares(counts, int(received_by[disturbed].sum()))
        slow_values = np.clip(values * self._slows, 1, 10e9).astype(np.int64)
        self._sent += sent_by
        for chosen, took, frames in ((~disturbed, values, counts - slow), (disturbed, slow_values, slow)):
            self._divide(chosen, received_by, np.bincount(bucket_of(took), frames, BUCKETS).astype(np.int64))
        if self._slows == 1.0:
            return values, counts
        both, frames = np.concatenate([values, slow_values]), np.concatenate([counts - slow, slow])
        return both[frames > 0], frames[frames > 0]

    def slices(self) -> Slices | None:
        """None of a trial without latencies."""
        if not self._any:
            return None
        away_ns = np.zeros((len(CLOCKS), len(self._sent)), np.int64)
        away_ns[0] = np.round(self._away_s * 1e9)
        return Slices.of(self._slice_ns, self._sent, self._counts, CLOCKS, away_ns)

    def _overlap(self, begin_s: float, end_s: float) -> "Floats":
        lengths = np.minimum(self._edges_s[1:], end_s) - np.maximum(self._edges_s[:-1], begin_s)
        overlap: Floats = np.maximum(lengths, 0.0)
        return overlap

    def _sending_s(self, stream: StreamSpec) -> "Floats":
        """For how long of each slice it sends."""
        begin = stream.start_ns / 1e9
        end = self._trial.duration_s
        if stream.count and stream.pps:
            end = min(end, begin + stream.count / stream.pps)
        sending: Floats = np.maximum(self._overlap(begin, end) - self._away_s, 0.0)
        return sending

    def _marked(self) -> "Marks":
        touched = np.round(self._away_s * 1e9) > 0
        touched[1:] |= touched[:-1].copy()
        return touched

    def _divide(self, chosen: "Marks", frames_by: "Counts", by_bucket: "Counts") -> None:
        """Latencies do not depend on the time: each slice has its share of each bucket, whole frames of it."""
        left = by_bucket.copy()
        numbers = np.flatnonzero(chosen & (frames_by > 0))
        for number in numbers:
            share = _shares(left, int(frames_by[number]))
            self._counts[number] += share
            left -= share


def _shares(weights: "Counts | Floats", total: int) -> "Counts":
    """Whole numbers in proportion to the weights whose sum is `total`; never above a weight when `total` is not."""
    sums = np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])
    if not sums[-1]:
        return np.zeros(len(weights), np.int64)
    shares: Counts = np.diff(np.floor(sums / sums[-1] * total + 0.5)).astype(np.int64)
    return shares
