# SPDX-License-Identifier: Apache-2.0
"""A trial in slices of departure time: what was sent and how long it took in each, and where the machine was away.

Which slices are marked is decided by clocks, never by latencies: leaving out what was slow would measure hopes.
"""

import base64
import math
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from xdplab.model.base import Count, Model, Shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Marks = NDArray[np.bool_]
    Floats = NDArray[np.float64]

#: Slices of a trial at the most, and how long one is at the least.
MAX_SLICES, SHORTEST_NS = 400, 10_000_000
#: Buckets: 8 for each power of two from 64 ns on, of 4 ns below, up to 10 s (`bpf/common/slices.h`).
BUCKETS, _SUB, _UNIT_NS, _HIGHEST_NS = 234, 8, 4, 10_000_000_000
#: What one bucket cannot tell apart, as a share of the latency: the resolution of a quantile of slices.
RESOLUTION = 1 / _SUB
#: Time away is kept in steps of this, rounded up: none is 0.
AWAY_STEP_NS = 100_000
#: Clocks that a record may have.
_MAX_CLOCKS = 600
_LARGEST_BYTES = 10 * MAX_SLICES * (1 + BUCKETS + _MAX_CLOCKS)


def slice_ns_of(duration_ns: int) -> int:
    """Length of a slice of a trial: 10 ms, or a 400th of the trial."""
    return max(SHORTEST_NS, -(-duration_ns // MAX_SLICES))


def bucket_of(ns: "Counts") -> "Counts":
    """The bucket of each latency."""
    import numpy as np

    units = np.minimum(ns, _HIGHEST_NS) // _UNIT_NS
    # below 2 * _SUB a bucket is one unit; frexp: 2**(e-1) <= units < 2**e
    shift = np.maximum(np.frexp(np.maximum(units, 1))[1] - 4, 0)
    found: Counts = (shift * _SUB + (units >> shift)).astype(np.int64)
    return found


@lru_cache(1)
def lower_ns() -> "Counts":
    """Lowest latency of each bucket; the lowest of the next one bounds it from above."""
    import numpy as np

    index = np.arange(BUCKETS, dtype=np.int64)
    shift = np.maximum(index // _SUB - 1, 0)
    edges = np.where(index < 2 * _SUB, index, (index % _SUB + _SUB) << shift) * _UNIT_NS
    edges.flags.writeable = False
    return edges


@lru_cache(1)
def upper_ns() -> "Counts":
    """The end of each bucket (excluded): shape (234,)."""
    import numpy as np

    edges = np.append(lower_ns()[1:], _HIGHEST_NS + 1)
    edges.flags.writeable = False
    return edges


def quantile_ns(counts: "Counts", sent: int, percent: float) -> float | None:
    """Latency of rank `percent` of what was sent, interpolated within its bucket; infinite where that rank is lost.

    None where nothing was sent. `counts`: frames by bucket, shape (234,).
    """
    import numpy as np

    if not sent:
        return None
    rank = max(1, math.ceil(percent / 100 * sent))
    below = np.cumsum(counts)
    if rank > below[-1]:
        return math.inf
    bucket = int(np.searchsorted(below, rank))
    inside = (rank - (below[bucket] - counts[bucket]) - 0.5) / counts[bucket]
    low, high = float(lower_ns()[bucket]), float(upper_ns()[bucket])
    return float(low + inside * (high - low))


class SliceClock(Model):
    """A clock that may mark slices, and whether it was looked at.

    `ticks`: 250 ticks a second of a CPU of the path, and one came late. `steal`: what the hypervisor says that it took
    from the CPU, as the scheduler knows it, read at each tick. `sender`, `forwarder`: one of their threads was put out
    of its CPU though it could run, and threads ran that are nothing of the path. `stalls`: the sender did not look at
    its schedule, its thread did not wait, its CPU was not away by the other clocks, and ticks did not find it in
    softirqs. `missing`: there was more than is recorded.
    """

    #: Which one.
    clock: Literal["ticks", "steal", "sender", "forwarder", "stalls", "missing"]
    #: Of `ticks` and `steal`.
    cpu: Count | None = None
    #: None, or why nothing is known by it.
    unwatched: Shown | None = None

    @property
    def name(self) -> str:
        """`steal of CPU 1`, `forwarder`."""
        return self.clock if self.cpu is None else f"{self.clock} of CPU {self.cpu}"


def _varints(data: bytes) -> "Counts":
    """Zig-zag LEB128 numbers."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not len(raw):
        return np.zeros(0, np.int64)
    if raw[-1] >= 0x80:
        raise ValueError("slices: cannot be read: cut off")
    starts = np.concatenate(([0], ends[:-1] + 1))
    place = np.arange(len(raw)) - np.repeat(starts, ends - starts + 1)
    if place.max() > 8:
        raise ValueError("slices: cannot be read: a number of more than 63 bits")
    parts = (raw & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    values = np.add.reduceat(parts, starts)
    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)


def _unpacked(text: str, length: int) -> "Counts":
    """`length` counts of a text; a run of n zeroes is -n there, and those at the end are left out.

    Raises:
        ValueError: in one line, what is wrong with it.
    """
    import numpy as np

    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(text, validate=True), _LARGEST_BYTES + 1)
    except (ValueError, zlib.error) as exc:
        raise ValueError(f"slices: cannot be read: {exc}") from None
    if not stream.eof or len(data) > _LARGEST_BYTES:
        raise ValueError("slices: cannot be read: cut off, or more than there can be")
    numbers = _varints(data)
    widths = np.where(numbers < 0, -numbers, 1)
    if (widths > length).any() or widths.sum() > length:
        raise ValueError(f"slices: more than {length} counts")
    values = np.zeros(length, np.int64)
    at = np.cumsum(widths) - widths
    values[at[numbers > 0]] = numbers[numbers > 0]
    return values


def _packed(values: Sequence[int]) -> str:
    """What `_unpacked` reads; the same as `pack_counts()` of `bpf/common/pack.c`."""
    out, zeroes = bytearray(), 0
    for value in values:
        if not value:
            zeroes += 1
            continue
        if zeroes:
            _put(out, 0 if zeroes == 1 else 2 * zeroes - 1)
        zeroes = 0
        _put(out, 2 * value)
    return base64.b64encode(zlib.compress(bytes(out), 9)).decode()


def _put(out: bytearray, rest: int) -> None:
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


@lru_cache(64)
def _table(text: str, count: int, clocks: int) -> "Counts":
    table = _unpacked(text, count * (1 + BUCKETS + clocks)).reshape(1 + BUCKETS + clocks, count)
    table.flags.writeable = False
    return table


def _not_huge(text: str) -> str:
    if len(text) > 2 * _LARGEST_BYTES:
        raise ValueError(f"slices: {len(text)} characters are more than there can be")
    return text


class Slices(Model):
    """Latency frames of a trial by slice of their departure, warm-up left out; no first frames of new flows.

    The rule: a slice is marked when a clock says that for more than 100 us at a stretch a CPU of the path was away, or
    that one of its threads was kept from running by what is nothing of the path; and so is the slice after it. What
    ticks tell (250 a second) lies within the tick before; what the hypervisor took is known one tick later still, so
    the two ticks before are marked, and the sum over them counts as one stretch. Not marked: how long a thread that
    sleeps takes to wake up, which is part of a forwarder; time that other threads of the forwarder's own processes or
    the kernel's threads that carry frames (ksoftirqd, napi, irq) take; and a sender that is late because on veth the
    forwarder's receive half runs on its core: its stalls, as far as neither its CPU was away nor its thread waited,
    count only where ticks (each stands for 4 ms) found that core in softirqs for less than half of them.
    """

    #: Length of a slice; the last one may be shorter.
    slice_ns: int = Field(ge=1)
    #: How many there are.
    count: int = Field(ge=1, le=MAX_SLICES)
    #: What may have marked them.
    clocks: Annotated[tuple[SliceClock, ...], Field(max_length=_MAX_CLOCKS)]
    #: base64 of deflated ZigZag LEB128 numbers, where -n is a run of n zeroes (HdrHistogram V2): for each slice what
    #: was sent; for each of 234 buckets what arrived, by slice; for each clock the time away, in steps of 100 us.
    packed: Annotated[str, AfterValidator(_not_huge)]

    @model_validator(mode="after")
    def _can_be_read(self) -> "Slices":
        if (self.counts().sum(axis=1) > self.sent()).any():
            raise ValueError("slices: more arrived than was sent")
        return self

    @classmethod
    def of(
        cls, slice_ns: int, sent: "Counts", counts: "Counts", clocks: Sequence[SliceClock], away_ns: "Counts"
    ) -> "Slices":
        """From arrays of the shapes (slices,), (slices, 234) and (clocks, slices)."""
        import numpy as np

        steps = -(-np.asarray(away_ns, np.int64) // AWAY_STEP_NS)
        values = np.concatenate([sent, counts.T.ravel(), steps.ravel()]).tolist()
        return cls(slice_ns=slice_ns, count=len(sent), clocks=tuple(clocks), packed=_packed(values))

    def _rows(self) -> "Counts":
        return _table(self.packed, self.count, len(self.clocks))

    def sent(self) -> "Counts":
        """Frames that left in each slice, with what a card then dropped: shape (slices,)."""
        sent: Counts = self._rows()[0]
        return sent

    def counts(self) -> "Counts":
        """Frames that left in each slice and arrived, by latency: shape (slices, 234); see `upper_ns`."""
        return self._rows()[1 : 1 + BUCKETS].T

    def lost(self) -> "Counts":
        """Frames that left in each slice and did not arrive: shape (slices,)."""
        lost: Counts = self.sent() - self.counts().sum(axis=1)
        return lost

    def away_ns(self) -> "Counts":
        """Time away in each slice by each clock, rounded up to 0.1 ms: shape (clocks, slices)."""
        away: Counts = self._rows()[1 + BUCKETS :] * AWAY_STEP_NS
        return away

    def marked_by(self) -> "dict[str, Marks]":
        """Name of each clock -> the slices that it marks."""
        found = {}
        for clock, away in zip(self.clocks, self.away_ns(), strict=True):
            touched = away > 0
            touched[1:] |= touched[:-1].copy()
            found[clock.name] = touched
        return found

    def marked(self) -> "Marks":
        """Slices that some clock marks: shape (slices,)."""
        import numpy as np

        marked: Marks = np.logical_or.reduce([np.zeros(self.count, bool), *self.marked_by().values()])
        return marked

    def reasons(self, number: int) -> tuple[str, ...]:
        """Names of the clocks that mark a slice."""
        return tuple(name for name, marked in self.marked_by().items() if marked[number])

    @property
    def unwatched(self) -> dict[str, str]:
        """Name of each clock that nobody looked at -> why."""
        return {clock.name: clock.unwatched for clock in self.clocks if clock.unwatched is not None}

    @property
    def complete(self) -> bool:
        """True when every clock of the path was watched: only then is an unmarked slice known to be undisturbed."""
        return bool(self.clocks) and not self.unwatched

    @property
    def unmarked_share(self) -> float:
        """Share of the slices in which something was sent that no clock marks."""
        used = self.sent() > 0
        return float((used & ~self.marked()).sum() / max(1, used.sum()))

    def unmarked_sent(self) -> int:
        """Frames that left in unmarked slices."""
        return int(self.sent()[~self.marked()].sum())

    def unmarked_counts(self) -> "Counts":
        """Those of them that arrived, by latency: shape (234,)."""
        merged: Counts = self.counts()[~self.marked()].sum(axis=0)
        return merged

    def unmarked_quantile_us(self, percent: float) -> float | None:
        """Latency of rank `percent` of what was sent in unmarked slices; infinite beyond what arrived.

        Interpolated within a bucket, which is at most `RESOLUTION` of the value wide. None where all are marked.
        """
        return _us(quantile_ns(self.unmarked_counts(), self.unmarked_sent(), percent))

    def unmarked_bounds_us(self, percent: float, values_ns: "Counts", frames: "Counts") -> tuple[float, float] | None:
        """Between which latencies `unmarked_quantile_us` is, by the whole trial's histogram.

        `values_ns`, in order, and `frames`: what it has of the streams that are in slices. Of the bucket's frames those
        of unmarked slices are some: which ones is not known, but how many come before and behind (Horowitz and Manski).
        None where all slices are marked; infinite where the rank is lost.
        """
        import numpy as np

        ours, sent = self.unmarked_counts(), self.unmarked_sent()
        if not sent:
            return None
        rank = max(1, math.ceil(percent / 100 * sent))
        below = np.cumsum(ours)
        if rank > below[-1]:
            return math.inf, math.inf
        bucket = int(np.searchsorted(below, rank))
        inside = bucket_of(values_ns) == bucket
        order, there = np.cumsum(frames[inside]), values_ns[inside]
        first = rank - int(below[bucket] - ours[bucket])
        last = first + int(order[-1] - ours[bucket])
        low, high = there[np.searchsorted(order, [first, last])] / 1000
        return float(low), float(high)

    def medians_us(self) -> "Floats":
        """Median of each slice by what was sent in it; infinite where half was lost, NaN where nothing was sent."""
        import numpy as np

        each = zip(self.counts(), self.sent().tolist(), strict=True)
        found = [_us(quantile_ns(counts, sent, 50)) for counts, sent in each]
        return np.array([math.nan if median is None else median for median in found])


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1000


def slices_of(report: dict[str, Any], unwatched: Sequence[SliceClock] = ()) -> Slices:
    """What xdpgen printed; `unwatched` takes the place of clocks of the same name."""
    instead = {clock.name: clock for clock in unwatched}
    clocks = [SliceClock(**each) for each in report["clocks"]]
    clocks = [instead.get(clock.name, clock) for clock in clocks]
    return Slices(slice_ns=report["slice_ns"], count=report["count"], clocks=tuple(clocks), packed=report["packed"])
