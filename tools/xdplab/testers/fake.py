# SPDX-License-Identifier: Apache-2.0
"""A tester that computes what a simulated box would do; it never sends a frame and takes no time."""

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xdplab.forwarders.fake import KNEE_LOSS, Box, FakeForwarder
from xdplab.model import LatencySummary, PointFailed, StreamResult, StreamSpec, TrafficSpec, TrialResult, TrialSpec
from xdplab.model.histogram import histogram_of
from xdplab.testbed import TesterPorts
from xdplab.testers.base import Tester, TesterContext

# A trial against a box with a finite buffer, as fluid: rates that are constant between events, not single frames.
#
# The box serves `capacity` frames per second and holds `buffer` more; what arrives above that is lost. So a burst of
# rate r > capacity c loses its first frame after buffer / (1 - c/r) frames, and a sender that catches up after a stall
# may overrun a box that carries the load which was asked for.


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


_SAMPLES = 4000
_WIRE = Box(capacity_pps=1e9, base_latency_us=0.3, jitter_ratio=0.0, latency_jitter_ratio=0.05)


class FakeTester(Tester):
    """Knows the fake forwarder's box and plays a trial against it, from a seed and the number of trials so far."""

    name: ClassVar[str] = "fake"
    rx_programs: ClassVar[tuple[str, ...]] = ("none",)
    knows_tunnelled: ClassVar[bool] = True
    simulated: ClassVar[bool] = True

    def __init__(self) -> None:
        self._trials = 0

    def supports_traffic(self, traffic: TrafficSpec, ports: TesterPorts) -> str | None:
        """A fluid has no frames that could be closer to each other."""
        if traffic.departures != "paced":
            return f"departures: {traffic.departures}: it simulates rates, not the gaps between frames"
        return None

    def run(self, context: TesterContext, trial: TrialSpec) -> TrialResult:
        forwarder = context.forwarder
        if forwarder is not None and not isinstance(forwarder, FakeForwarder):
            raise PointFailed(f"tester fake: forwarder {forwarder.name!r} is real; only the fake one can be simulated")
        box = forwarder.box if forwarder is not None else _WIRE
        self._trials += 1
        if forwarder is not None and box.crash_at_trial == self._trials:
            forwarder.crash()
            raise PointFailed(f"{forwarder.name}: crashed, as its option crash_at_trial asked for")
        rng = np.random.default_rng(_seed(box, context.trial_key or str(self._trials)))
        capacity = box.capacity_pps * rng.normal(1.0, box.jitter_ratio)
        sender = Sender(box.tester_top_pps, box.sender_stall_ratio, box.sender_stall_s, box.sender_catch_up_frames)
        fluid = flow(trial.streams, trial.duration_s, sender, capacity, box.buffer_frames)
        stalled = bool(rng.random() < trial.duration_s / box.stall_every_s) if box.stall_every_s else False
        # a trial of bursts is over with their last frame, as with the real testers
        elapsed_s = max(fluid.last_sent_s) if all(stream.count for stream in trial.streams) else trial.duration_s
        changed = False
        if forwarder is not None and forwarder.changed:
            changed, forwarder.changed = True, False
            box = box.model_copy(update={"base_latency_us": box.base_latency_us * box.change_slows})
        share = 1 - box.loss_floor
        if box.knee_ratio:
            load = sum(fluid.sent) / elapsed_s / capacity
            share *= 1 - KNEE_LOSS * min(1.0, math.exp((load - 1) / box.knee_ratio))
        frames = box.stall_frames if stalled else 0
        streams = tuple(
            _stream(trial, index, fluid, share, 0 if index else frames, box, rng, changed)
            for index in range(len(trial.streams))
        )
        if forwarder is not None:
            forwarder.tally(sum(stream.received for stream in streams))
        return TrialResult(
            tester="fake",
            sender="fake",
            elapsed_s=elapsed_s,
            streams=streams,
            stalled_ns=round(box.sender_stall_ratio * elapsed_s * 1e9),
        )


def _stream(
    trial: TrialSpec,
    index: int,
    fluid: Fluid,
    share: float,
    stall_frames: int,
    box: Box,
    rng: np.random.Generator,
    changed: bool,
) -> StreamResult:
    """Of what came through the buffer, `share` leaves it, and `stall_frames` less, and what a change blocks."""
    stream = trial.streams[index]
    start_s = stream.start_ns / 1e9
    sent = round(fluid.sent[index])
    intended = sent
    if stream.pps is not None:
        intended = round(stream.pps * (trial.duration_s - start_s))
    if stream.count:
        intended = stream.count
    received = max(0, round((sent - round(fluid.lost[index])) * share) - stall_frames)
    full = received < sent
    # a stream with a count is over with its last frame, the others with the trial
    sending_s = (fluid.last_sent_s[index] if stream.count else trial.duration_s) - start_s
    blocked = min(received, round(box.change_blocks_s * sent / sending_s)) if changed else 0
    received -= blocked
    return StreamResult(
        kind=stream.kind,
        direction=stream.direction,
        new_flows=stream.new_flows,
        frame_bytes=stream.frame_bytes,
        offered_pps=stream.pps,
        intended=intended,
        sent=sent,
        skipped=max(0, intended - sent),
        received=received,
        lost=sent - received,
        achieved_pps=sent / sending_s,
        rx_pps=received / sending_s,
        latency=_latency(received, full, box, rng) if stream.kind == "latency" else None,
        on_schedule=sent,
        longest_gap_ns=round((blocked + 1) * 1e9 * sending_s / sent) if changed and sent else None,
    )


def _latency(received: int, full: bool, box: Box, rng: np.random.Generator) -> LatencySummary | None:
    """Lognormal around the base, longer when the box is full; each sample stands for an equal share of the frames."""
    if not received:
        return None
    base = box.base_latency_us * 1000 * (50 if full else 1)
    run_effect = rng.normal(0.0, box.latency_jitter_ratio)
    samples = base * np.exp(run_effect + rng.normal(0.0, 0.2, size=min(received, _SAMPLES)))
    values, counts = np.unique(np.clip(samples, 1, 10e9).astype(np.int64), return_counts=True)
    counts *= received // len(samples)
    counts[0] += received - counts.sum()
    histogram = histogram_of()
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        histogram.record_value(value, count)
    return LatencySummary(
        count=received,
        min_ns=int(values.min()),
        max_ns=int(values.max()),
        mean_ns=float(np.average(values, weights=counts)),
        hdr=histogram.encode().decode(),
    )


#: What a change does to it is no part of its chance.
_OF_CHANGES = {name for name in Box.model_fields if name.startswith("change_")}


def _seed(box: Box, trial: str) -> int:
    dumped = box.model_dump_json(exclude=_OF_CHANGES)
    return int.from_bytes(hashlib.sha256(f"{dumped}:{trial}".encode()).digest()[:8], "big")
