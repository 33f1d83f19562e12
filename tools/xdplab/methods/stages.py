# SPDX-License-Identifier: Apache-2.0
"""From the time stamps of batches to stages: where a batch spends its time from XDP redirect to the end of the kick.

Percentiles of stages do not add up. What adds up is the mean of each stage over the batches whose whole way took as
long as the median one (or as long as the 99th percentile): that is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Stage -> what happens in it; the last one is not on a frame's way.
STAGES = {
    "wait": "in the receive ring, until the thread polls it (and the rest of the batch arrives)",
    "switch": "in Open vSwitch: lookup, and the copy into the transmit ring",
    "kick": "in the system call: the kernel sends, on veth up to the receiver's program",
}
#: Which batches stand for a percentile: those between these percentiles of the whole way.
_BANDS = {"p50": (45.0, 55.0), "p99": (98.5, 99.5)}


@dataclass(frozen=True)
class ProbeRecords:
    """What `bpf/ovsprobe` prints when it ends.

    A record: times in ns of redirect, receive, queued and kicked; ns after which frames were reaped; frames; sent.
    """

    records: Sequence[Sequence[int]]
    batches: int
    unmatched: int
    unsent: int
    full: int

    @classmethod
    def of(cls, told: dict[str, Any]) -> "ProbeRecords":
        """From its last line."""
        return cls(told["records"], *(int(told[key]) for key in ("batches", "unmatched", "unsent", "full")))


def stage_figures(found: ProbeRecords) -> dict[str, Any]:
    """Means of the stages in us for a median batch and a 99th-percentile one, percentiles of each stage, and counts.

    `batches` is 0 when none was seen from end to end; the rest is then absent.
    """
    times = np.array([record for record in found.records if record[0]], dtype=np.int64).reshape(-1, 7)
    counts = {
        "seen": found.batches,
        "batches": len(times),
        "unmatched": found.unmatched,
        "unsent": found.unsent,
        "full": found.full,
    }
    if not len(times):
        return counts
    stages = np.diff(times[:, :4], axis=1) / 1000
    whole = stages.sum(axis=1)
    reaped = times[:, 4][times[:, 4] > 0] / 1000
    return {
        **counts,
        "frames_per_batch": float(times[:, 5].mean()),
        "whole_us": {name: float(np.percentile(whole, float(name[1:]))) for name in _BANDS},
        "typical_us": {name: _means(stages, whole, *band) for name, band in _BANDS.items()},
        "stage_us": {
            stage: {name: float(np.percentile(stages[:, index], float(name[1:]))) for name in _BANDS}
            for index, stage in enumerate(STAGES)
        },
        "reaped_us": float(np.median(reaped)) if len(reaped) else None,
    }


def traced_figures(found: ProbeRecords) -> dict[str, Any]:
    """Percentiles in us of each stage, and since the first time known (departure or redirect) until queued and kicked.

    Where no batch was recorded from end to end the counts are all there is. Without a first time what begins there is
    None.
    """
    times = np.array([tuple(record) for record in found.records], dtype=np.int64).reshape(-1, 7)
    counts = {
        "seen": found.batches,
        "recorded": len(times),
        "unmatched": found.unmatched,
        "unsent": found.unsent,
        "full": found.full,
    }
    if not len(times):
        return counts
    known = times[times[:, 0] > 0]
    since = {"wait": (known, 0, 1), "switch": (times, 1, 2), "kick": (times, 2, 3)}
    since |= {"queued": (known, 0, 2), "kicked": (known, 0, 3)}
    spans = {name: (rows[:, last] - rows[:, first]) / 1000 for name, (rows, first, last) in since.items()}
    return {
        **counts,
        "frames_per_batch": float(times[:, 5].mean()),
        "us": {
            name: {of: float(np.percentile(span, float(of[1:]))) for of in _BANDS} if len(span) else None
            for name, span in spans.items()
        },
    }


def _means(stages: np.ndarray, whole: np.ndarray, low: float, high: float) -> dict[str, float]:
    """Over the batches between two percentiles by rank, at least one, however few there are."""
    first = min(int(len(whole) * low / 100), len(whole) - 1)
    last = max(first + 1, int(len(whole) * high / 100))
    inside = stages[np.argsort(whole, kind="stable")[first:last]]
    return dict(zip(STAGES, (float(mean) for mean in inside.mean(axis=0)), strict=True))
