# SPDX-License-Identifier: Apache-2.0
"""From the time stamps of batches to stages: where a batch spends its time from XDP redirect to the end of the kick.

Percentiles of stages do not add up. What adds up is the mean of each stage over the batches whose whole way took as
long as the median one (or as long as the 99th percentile): that is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

#: Stage -> what happens in it; the last one is not on a frame's way.
STAGES = {
    "wait": "in the receive ring, until the thread polls it (and the rest of the batch arrives)",
    "switch": "in Open vSwitch: lookup, and the copy into the transmit ring",
    "kick": "in the system call: the kernel sends, on veth up to the receiver's program",
}
#: The times between which the stages are.
_WAY = ("begun", "received", "queued", "kicked")
#: Which batches stand for a percentile: those between these percentiles of the whole way.
_BANDS = {"p50": (45.0, 55.0), "p99": (98.5, 99.5)}


@dataclass(frozen=True)
class ProbeRecords:
    """What `bpf/ovsprobe` prints when it ends.

    `columns` names what a record holds (`bpf/common/batch_record.h` says what it is): times in ns when the batch
    `begun` (redirect or departure, 0 where unknown), was `received`, `queued` and `kicked`; ns after which frames were
    `reaped` (0: none were); `frames`.
    """

    columns: Sequence[str]
    records: Sequence[Sequence[int]]
    batches: int
    unmatched: int
    unsent: int
    full: int

    @classmethod
    def of(cls, table: dict[str, Any]) -> "ProbeRecords":
        """From its last line."""
        return cls(
            table["columns"], table["records"], *(int(table[key]) for key in ("batches", "unmatched", "unsent", "full"))
        )

    def table(self) -> dict[str, np.ndarray]:
        """Name of a column -> its values; `begun` and `reaped` are 0 where the recorder does not know of them."""
        values = np.array(self.records, dtype=np.int64).reshape(-1, len(self.columns))
        unknown = np.zeros(len(values), dtype=np.int64)
        return {"begun": unknown, "reaped": unknown, **dict(zip(self.columns, values.T, strict=True))}


def stage_figures(found: ProbeRecords) -> dict[str, Any]:
    """Means of the stages in us for a median batch and a 99th-percentile one, percentiles of each stage, and counts.

    `batches` is 0 when none was seen from end to end; the rest is then absent.
    """
    table = found.table()
    known = {name: values[table["begun"] > 0] for name, values in table.items()}
    counts = {
        "seen": found.batches,
        "batches": len(known["begun"]),
        "unmatched": found.unmatched,
        "unsent": found.unsent,
        "full": found.full,
    }
    if not len(known["begun"]):
        return counts
    stages = np.diff(np.column_stack([known[name] for name in _WAY]), axis=1) / 1000
    whole = stages.sum(axis=1)
    reaped = known["reaped"][known["reaped"] > 0] / 1000
    return {
        **counts,
        "frames_per_batch": float(known["frames"].mean()),
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
    table = found.table()
    counts = {
        "seen": found.batches,
        "recorded": len(found.records),
        "unmatched": found.unmatched,
        "unsent": found.unsent,
        "full": found.full,
    }
    if not found.records:
        return counts
    since = {
        **dict(zip(STAGES, pairwise(_WAY), strict=True)),
        **{name: ("begun", name) for name in ("queued", "kicked")},
    }
    spans = {name: ((table[last] - table[first])[table[first] > 0]) / 1000 for name, (first, last) in since.items()}
    return {
        **counts,
        "frames_per_batch": float(table["frames"].mean()),
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
