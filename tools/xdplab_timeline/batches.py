# SPDX-License-Identifier: Apache-2.0
"""From the time stamps of batches to stages: where a batch spends its time from XDP redirect to the end of the kick.

Percentiles of stages do not add up. What adds up is the mean of each stage over the batches whose whole way took as
long as the median one (or as long as the 99th percentile): that is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from xdplab.api import Count, Model

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


class Percentiles(Model):
    """Percentiles of a time, in us."""

    #: Median.
    p50: float
    #: 99th percentile.
    p99: float


class StageMeans(Model):
    """Means over the batches that stand for a percentile, in us."""

    #: In the receive ring, until the thread polls it.
    wait: float
    #: In Open vSwitch.
    switch: float
    #: In the system call that sends.
    kick: float


class TypicalStages(Model):
    """Where a batch spends its time."""

    #: A median batch.
    p50: StageMeans
    #: One at the 99th percentile.
    p99: StageMeans


class StagePercentiles(Model):
    """Each stage by itself."""

    #: As in `StageMeans`.
    wait: Percentiles
    #: As in `StageMeans`.
    switch: Percentiles
    #: As in `StageMeans`.
    kick: Percentiles


class Spans(Model):
    """Each stage by itself, and times since the first that is known; None where a way does not know the beginning."""

    #: As in `StageMeans`.
    wait: Percentiles | None
    #: As in `StageMeans`.
    switch: Percentiles | None
    #: As in `StageMeans`.
    kick: Percentiles | None
    #: From the departure or the redirect until it is queued.
    queued: Percentiles | None
    #: From there until the system call is over.
    kicked: Percentiles | None


class BatchCounts(Model):
    """Batches that passed the probes."""

    #: Batches that passed the probes.
    seen: Count
    #: Of these, batches that no redirect was found for.
    unmatched: Count
    #: Batches that were not sent.
    unsent: Count
    #: Batches that the recorder lost.
    full: Count


class StageTimes(BatchCounts):
    """Stages of the batches that are known from end to end."""

    #: Batches known from end to end.
    batches: int = Field(ge=1)
    #: Mean number of frames in a batch.
    frames_per_batch: float
    #: From redirect to the end of the kick.
    whole_us: Percentiles
    #: Stages of the batches that stand for a percentile of the whole way.
    typical_us: TypicalStages
    #: Each stage by itself.
    stage_us: StagePercentiles
    #: Median time until the transmit ring has given the frames back; None where none was seen.
    reaped_us: float | None


class TracedTimes(BatchCounts):
    """Times of the batches that one way of tracing recorded."""

    #: Batches that were recorded.
    recorded: Count
    #: Mean number of frames in a batch; None where none was recorded.
    frames_per_batch: float | None = None
    #: Stages, and times since the first that is known; None where none was recorded.
    us: Spans | None = None

    @model_validator(mode="after")
    def _times_if_recorded(self) -> "TracedTimes":
        if self.recorded and (self.us is None or self.frames_per_batch is None):
            raise ValueError(f"{self.recorded} batches were recorded: us and frames_per_batch must be given")
        return self


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
        return cls(
            table["columns"], table["records"], *(int(table[key]) for key in ("batches", "unmatched", "unsent", "full"))
        )

    @property
    def counts(self) -> dict[str, int]:
        return {"seen": self.batches, "unmatched": self.unmatched, "unsent": self.unsent, "full": self.full}

    def table(self) -> dict[str, np.ndarray]:
        """Name of a column -> its values; `begun` and `reaped` are 0 where the recorder does not know of them."""
        values = np.array(self.records, dtype=np.int64).reshape(-1, len(self.columns))
        unknown = np.zeros(len(values), dtype=np.int64)
        return {"begun": unknown, "reaped": unknown, **dict(zip(self.columns, values.T, strict=True))}


def stage_times(found: ProbeRecords) -> StageTimes | None:
    """Stages of the batches that were seen from end to end; None without any."""
    table = found.table()
    known = {name: values[table["begun"] > 0] for name, values in table.items()}
    if not len(known["begun"]):
        return None
    stages = np.diff(np.column_stack([known[name] for name in _WAY]), axis=1) / 1000
    whole = stages.sum(axis=1)
    reaped = known["reaped"][known["reaped"] > 0] / 1000
    return StageTimes(
        **found.counts,
        batches=len(whole),
        frames_per_batch=float(known["frames"].mean()),
        whole_us=_percentiles(whole),
        typical_us=TypicalStages(**{name: _means(stages, whole, *band) for name, band in _BANDS.items()}),
        stage_us=StagePercentiles(**dict(zip(STAGES, map(_percentiles, stages.T), strict=True))),
        reaped_us=float(np.median(reaped)) if len(reaped) else None,
    )


def traced_times(found: ProbeRecords) -> TracedTimes:
    """Each stage, and since the first time known (departure or redirect) until queued and kicked.

    Where no batch was recorded from end to end the counts are all there is. Without a first time what begins there is
    None.
    """
    table = found.table()
    if not found.records:
        return TracedTimes(**found.counts, recorded=0)
    since = {
        **dict(zip(STAGES, pairwise(_WAY), strict=True)),
        **{name: ("begun", name) for name in ("queued", "kicked")},
    }
    spans = {name: ((table[last] - table[first])[table[first] > 0]) / 1000 for name, (first, last) in since.items()}
    return TracedTimes(
        **found.counts,
        recorded=len(found.records),
        frames_per_batch=float(table["frames"].mean()),
        us=Spans(**{name: _percentiles(span) if len(span) else None for name, span in spans.items()}),
    )


def medians(times: Sequence[Percentiles | StageMeans]) -> dict[str, float]:
    """Field -> the median over several of one kind."""
    return {name: median(getattr(one, name) for one in times) for name in type(times[0]).model_fields}


def _percentiles(values: np.ndarray) -> Percentiles:
    return Percentiles(**{name: float(np.percentile(values, float(name[1:]))) for name in Percentiles.model_fields})


def _means(stages: np.ndarray, whole: np.ndarray, low: float, high: float) -> StageMeans:
    """Over the batches between two percentiles by rank, at least one, however few there are."""
    first = min(int(len(whole) * low / 100), len(whole) - 1)
    last = max(first + 1, int(len(whole) * high / 100))
    inside = stages[np.argsort(whole, kind="stable")[first:last]]
    return StageMeans(**dict(zip(STAGES, (float(mean) for mean in inside.mean(axis=0)), strict=True)))
