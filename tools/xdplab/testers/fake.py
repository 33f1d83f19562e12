# SPDX-License-Identifier: Apache-2.0
"""A tester that computes what a simulated box would do; it never sends a frame and takes no time."""

import hashlib
import math
from typing import ClassVar

import numpy as np

from xdplab.forwarders.fake import KNEE_LOSS, Box, FakeForwarder
from xdplab.model import LatencySummary, PointFailed, StreamResult, TrafficSpec, TrialResult, TrialSpec
from xdplab.model.histogram import histogram_of
from xdplab.testbed import TesterPorts
from xdplab.testers.base import Tester, TesterContext
from xdplab.testers.fluid import Fluid, Sender, flow

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
