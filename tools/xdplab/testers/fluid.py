# SPDX-License-Identifier: Apache-2.0
"""A trial against a box with a finite buffer, as fluid: rates that are constant between events, not single frames.

The box serves `capacity` frames per second and holds `buffer` more; what arrives above that is lost. So a burst of rate
r > capacity c loses its first frame after buffer / (1 - c/r) frames, and a sender that catches up after a stall may
overrun a box that carries the load which was asked for.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdplab.model import StreamSpec


@dataclass(frozen=True)
class Sender:
    """What the sender can do, and how the machine treats it."""

    top_pps: float
    #: Share of the time in which its core is taken away, in stalls of about `stall_s`.
    stall_ratio: float
    stall_s: float
    #: Frames per stream that it sends late, as fast as it can, after a stall; it skips the others.
    catch_up_frames: float


@dataclass(frozen=True)
class Fluid:
    """What became of the streams, in frames, and when the last one of each left."""

    sent: tuple[float, ...]
    lost: tuple[float, ...]
    last_sent_s: tuple[float, ...]


def flow(streams: Sequence[StreamSpec], duration_s: float, sender: Sender, capacity: float, buffer: float) -> Fluid:
    """Send the streams' schedules through the box."""
    sent, lost, last_sent_s = ([0.0] * len(streams) for _ in range(3))
    queued, time_s = 0.0, 0.0
    for length_s, rates in _pieces(streams, duration_s, sender):
        time_s += length_s
        total = sum(rates)
        queued = max(0.0, queued + (total - capacity) * length_s)
        overrun, queued = max(0.0, queued - buffer), min(queued, buffer)
        for index, rate in enumerate(rates):
            if rate:
                last_sent_s[index] = time_s
                sent[index] += rate * length_s
                lost[index] += overrun * rate / total
    return Fluid(tuple(sent), tuple(lost), tuple(last_sent_s))


def _pieces(
    streams: Sequence[StreamSpec], duration_s: float, sender: Sender
) -> Iterator[tuple[float, tuple[float, ...]]]:
    """(length in s, departures per second of each stream), with the sender's stalls and what follows them."""
    owed = [0.0] * len(streams)
    # an unpaced stream has no schedule that it could skip a part of
    most = [math.inf if stream.pps is None else sender.catch_up_frames for stream in streams]
    events = _events(streams, duration_s, sender)
    for begin, end in itertools.pairwise(events):
        length_s = end - begin
        due = _due(streams, (begin + end) / 2, sender.top_pps)
        if _stalled((begin + end) / 2, duration_s, sender):
            owed = [min(late + rate * length_s, limit) for late, rate, limit in zip(owed, due, most, strict=True)]
            yield length_s, (0.0,) * len(streams)
            continue
        spare = sender.top_pps - sum(due)
        late = sum(owed)
        if late > 0 and spare > 0:
            catching_up_s = min(length_s, late / spare)
            burst = tuple(rate + spare * each / late for rate, each in zip(due, owed, strict=True))
            owed = [each * (1 - spare * catching_up_s / late) for each in owed]
            yield catching_up_s, burst
            length_s -= catching_up_s
        if length_s > 0:
            yield length_s, due


def _events(streams: Sequence[StreamSpec], duration_s: float, sender: Sender) -> list[float]:
    """Moments at which a rate changes."""
    found = {0.0, duration_s}
    for stream in streams:
        found |= set(_scheduled(stream, sender.top_pps))
    for begin, end in stalls(duration_s, sender):
        found |= {begin, end}
    return sorted(moment for moment in found if moment <= duration_s)


def stalls(duration_s: float, sender: Sender) -> list[tuple[float, float]]:
    """From when to when the sender's core is away, in s."""
    if not sender.stall_ratio:
        return []
    period = duration_s / _stalls(duration_s, sender)
    return [(n * period, (n + sender.stall_ratio) * period) for n in range(_stalls(duration_s, sender))]


def _stalls(duration_s: float, sender: Sender) -> int:
    """Stalls of a trial, each at the beginning of one of as many periods."""
    return max(1, round(sender.stall_ratio * duration_s / sender.stall_s))


def _stalled(moment: float, duration_s: float, sender: Sender) -> bool:
    return moment / duration_s * _stalls(duration_s, sender) % 1 < sender.stall_ratio


def _scheduled(stream: StreamSpec, top_pps: float) -> tuple[float, float]:
    """From when to when a stream's frames are due, in s."""
    begin = stream.start_ns / 1e9
    return begin, begin + stream.count / (stream.pps or top_pps) if stream.count else math.inf


def _due(streams: Sequence[StreamSpec], moment: float, top_pps: float) -> tuple[float, ...]:
    """Departures per second that the schedules ask for, cut where they are more than the sender can."""
    rates = []
    for stream in streams:
        begin, end = _scheduled(stream, top_pps)
        rates.append((stream.pps or top_pps) if begin <= moment < end else 0.0)
    share = min(1.0, top_pps / sum(rates)) if any(rates) else 1.0
    return tuple(rate * share for rate in rates)
