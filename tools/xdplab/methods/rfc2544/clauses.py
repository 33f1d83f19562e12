# SPDX-License-Identifier: Apache-2.0
"""The clauses that are based on the throughput (RFC 2544 §26.2 to §26.6), and what is measured at equal loads.

Latency and forwarding rate at loads that are the same for all forwarders are no clauses of RFC 2544, which asks for
latency at the throughput and has no rate above it; they can be compared in pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any, Literal, NamedTuple

from xdplab.measure.method import Session, Trials
from xdplab.measure.streams import burst_streams, load_streams, probe_streams
from xdplab.methods.rfc2544.records import (
    Bound,
    BurstsRecord,
    LatencyRecord,
    LoadShare,
    LossCurveRecord,
    LossStep,
    OverloadRecord,
    RecoveryRecord,
    ResetRecord,
)
from xdplab.methods.rfc2544.spec import Rfc2544Spec, scale_of, top_load, trial_of
from xdplab.model import StreamResult, TrafficSpec, TrialSpec
from xdplab.model.trial import LOAD_TOLERANCE

#: RFC 2544 §26.2: latency unloaded and at shares of the throughput.
_SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
#: Probes are a small part of the load, and few enough for one in flight at a time when unloaded.
_PROBE_SHARE, PROBE_MAX_PPS = 0.05, 10_000.0


def latency_at_load(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """§26.2: latency unloaded and at shares of the throughput.

    Probes are part of each share, so that 100 % is the throughput and no more.
    """
    scale = scale_of(spec)
    probe = min(PROBE_MAX_PPS, _PROBE_SHARE * ndr_pps)
    loads = []
    for share in _SHARES:
        streams = (*probe_streams(traffic, probe), *load_streams(traffic, max(0.0, share * ndr_pps - probe)))
        trial = trial_of(spec, streams, scale.at_load_s, 0.1)
        for repeat in range(scale.at_load_repeats):
            session.progress(f"  latency at {share:.0%} of the throughput, {repeat + 1} of {scale.at_load_repeats}")
            session.trial(trial, purpose="search", clause=LatencyRecord.clause_at(share))
        sent_pps = sum(stream.pps or 0.0 for stream in streams) / len(traffic.directions)
        loads.append(LoadShare(share=share, load_pps=sent_pps))
    record = LatencyRecord(throughput_pps=ndr_pps, probe_pps=probe, loads=tuple(loads))
    session.record_figures(record.clause, record)


#: The RFC's coarsest allowed step is 10 % of the maximum rate.
_STEPS = 10


def loss_curve(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec) -> None:
    """§26.3: frame loss rate from 100 % of the top load down until two trials in a row lose nothing.

    What the tester did not send is kept apart from what the forwarder lost.
    """
    top = top_load(spec, traffic, session.ceiling_pps)
    duration = scale_of(spec).loss_trial_s
    points: list[LossStep] = []
    clean = 0
    for step in range(_STEPS, 0, -1):
        load = top * step / _STEPS
        trial = trial_of(spec, load_streams(traffic, load), duration)
        result = session.trial(trial, purpose="search", clause=LossCurveRecord.clause)
        lost = result.lost
        points.append(
            LossStep(
                load_pps=load,
                sent=result.sent,
                lost=lost,
                unsent=max(0, result.intended - result.sent),
                loss_ratio=lost / result.sent if result.sent else 0.0,
                achieved_pps=result.achieved_pps,
            )
        )
        session.progress(f"  {load / 1e3:.0f} kpps: loss ratio {points[-1].loss_ratio:.2e}")
        clean = 0 if lost else clean + 1
        if clean == 2:
            break
    record = LossCurveRecord(points=tuple(points), two_without_loss=clean == 2, directions=len(traffic.directions))
    session.record_figures(record.clause, record)


_SHORTEST_FRAMES = 64
#: Of the search for the length: the buffer is known no better than that.
_WIDTH = 0.01
#: How much longer than at the calibrated rate a burst may take before the trial cuts it off.
_SLACK = 3


@dataclass(frozen=True)
class Burst:
    """The longest burst without loss of one search, per direction."""

    frames: int
    #: Frames over the time in which they were sent; 0 without frames.
    rate_pps: float
    #: `tester`: longer ones did not leave whole, or were not asked for.
    limited_by: Literal["forwarder", "tester"]


def back_to_back(session: Trials, spec: Rfc2544Spec, traffic: TrafficSpec, found: Bound) -> None:
    """§26.4: repeat the search for the burst length; RFC 9004 §5 asks for the average and its spread over the tests."""
    scale = scale_of(spec)
    ceiling = top_load(spec, traffic, session.ceiling_pps)
    longest = round(ceiling * scale.longest_burst_s)
    bursts = []
    for repeat in range(scale.burst_repeats):
        burst = _longest_burst(session, spec, traffic, longest, ceiling)
        bursts.append(burst)
        session.progress(f"  burst {repeat + 1} of {scale.burst_repeats}: {burst.frames} frames without loss")
    lengths = [burst.frames for burst in bursts]
    record = BurstsRecord(
        frames=tuple(lengths),
        average_frames=fmean(lengths),
        standard_deviation_frames=stdev(lengths) if len(lengths) > 1 else 0.0,
        longest_burst_frames=longest,
        limited_by="tester" if any(burst.limited_by == "tester" for burst in bursts) else "forwarder",
        **_buffer(bursts, found),
    )
    session.record_figures(record.clause, record)


def _buffer(bursts: list[Burst], found: Bound) -> dict[str, Any]:
    """The buffer that the bursts imply, or `reason`; `buffer_resolution_frames` is what the two searches leave open.

    While a burst arrives the DUT also forwards, so less than the burst has to be stored (RFC 9004 §5.4). That is only
    seen where bursts arrive faster than it forwards. RFC 9004 takes the measured throughput for the rate of that; it is
    known to lie between two bounds, so their middle is taken: the lower one alone would make each buffer too large.
    """
    rates = [burst.rate_pps for burst in bursts if burst.frames]
    if not rates:
        lost = any(burst.limited_by == "forwarder" for burst in bursts)
        why = "came through whole" if lost else "left the tester whole"
        return {"reason": f"no burst of {_SHORTEST_FRAMES} frames or more {why}"}
    rate, ndr = fmean(rates), found.throughput_pps or 0.0
    if rate <= (found.upper_pps or ndr * (1 + LOAD_TOLERANCE)):
        reason = f"the forwarder forwards bursts of {rate:.0f} pps as they arrive ({ndr:.0f} pps without loss)"
        return {"burst_rate_pps": rate, "reason": f"{reason}, so its buffer is not seen"}
    if found.upper_pps is None:
        reason = f"only known from below ({ndr:.0f} pps, limited by {found.limited_by})"
        return {"burst_rate_pps": rate, "reason": f"what the forwarder forwards while a burst arrives is {reason}"}
    average, forwarded = fmean(burst.frames for burst in bursts), (ndr + found.upper_pps) / 2 / rate
    resolution = _WIDTH * (1 - forwarded) + (found.upper_pps - ndr) / 2 / rate
    implied_us = average / rate * 1e6
    return {
        "burst_rate_pps": rate,
        "implied_buffer_us": implied_us,
        "corrected_buffer_us": implied_us * (1 - forwarded),
        "corrected_buffer_frames": average * (1 - forwarded),
        "buffer_resolution_frames": average * resolution,
    }


def _longest_burst(session: Trials, spec: Rfc2544Spec, traffic: TrafficSpec, longest: int, ceiling: float) -> Burst:
    """Bisect the logarithm of the length, the longest burst first.

    A burst shows what the forwarder holds where all of it was sent, and without a pause in which it could catch up.
    """
    good = Burst(0, 0.0, "forwarder")
    bad, limited_by = longest, good.limited_by
    length = longest
    while True:
        duration = max(0.02, _SLACK * length / ceiling)
        trial = trial_of(spec, burst_streams(traffic, length), duration)
        result = session.trial(trial, purpose="search", clause=BurstsRecord.clause)
        if any(stream.sent < length for stream in result.streams):
            bad, limited_by = length, "tester"
        elif result.lost:
            bad, limited_by = length, "forwarder"
        elif result.stalled_share > LOAD_TOLERANCE:
            bad, limited_by = length, "tester"
        else:
            good = Burst(length, result.achieved_pps / len(result.streams), limited_by)
        if good.frames == longest:
            return Burst(longest, good.rate_pps, "tester")
        if bad <= _SHORTEST_FRAMES or (good.frames and (bad - good.frames) <= max(1, _WIDTH * bad)):
            return Burst(good.frames, good.rate_pps, limited_by)
        length = round(math.sqrt(max(good.frames, _SHORTEST_FRAMES) * bad))
        if not good.frames:
            length = max(_SHORTEST_FRAMES, bad // 4)


class Took(NamedTuple):
    """A time that frames which did not arrive tell of a forwarder: it is between `low_us` and `high_us`.

    A frame that the tester did not send (late, refused, dropped by its own card) did not arrive either. So the gap
    around it is longer, and the last frame that is missing may be its own: what is seen is the most that it can be.
    """

    low_us: float
    high_us: float

    def limited_by(self, resolution_us: float) -> Literal["forwarder", "tester"]:
        """`tester`: its own part may be more than what can be seen at all, and than a load's tolerance of the time."""
        own_us = self.high_us - self.low_us
        return "tester" if own_us > max(resolution_us, LOAD_TOLERANCE * self.high_us) else "forwarder"


def _longest(found: Sequence[Took]) -> Took:
    return Took(max((each.low_us for each in found), default=0.0), max((each.high_us for each in found), default=0.0))


def _recovered(stream: StreamResult, duration_s: float, senders: int) -> Took:
    """How long after its first one the last frame left that the forwarder lost of a stream of `duration_s`.

    A frame's sequence number tells when it left, at the rate at which its stream was sent, give or take what the
    sender left out. The drops of its card have numbers: as many of those missing are not the forwarder's.
    """
    if stream.last_lost is None or not stream.lost:
        return Took(0.0, 0.0)
    frame_us = duration_s * 1e6 / stream.numbered
    left_out_us = stream.unnumbered * senders * frame_us
    seen_us = (stream.last_lost + 1) * frame_us
    least_us = stream.lost * frame_us if stream.tx_drops else seen_us
    return Took(max(0.0, least_us - left_out_us), seen_us + left_out_us)


_OVERLOAD, _RELIEF = 1.1, 0.5
#: Load of a reset: frames 2 to 10 us apart, and well below the throughput.
_RESET_PPS = 200_000.0


def recovery(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """§26.5: 110 % of the throughput (or the top load, if lower), then 50 %; how long frames are lost after that."""
    duration = scale_of(spec).recovery_s
    over = min(_OVERLOAD * ndr_pps, top_load(spec, traffic, session.ceiling_pps))
    relief = _RELIEF * over
    overload = load_streams(traffic, over, count=round(over * duration))
    relieved = load_streams(traffic, relief, start_ns=round(duration * 1e9))
    trial = trial_of(spec, (*overload, *relieved), 2 * duration)
    result = session.trial(trial, purpose="search", clause=RecoveryRecord.clause)
    head, tail = result.streams[: len(overload)], result.streams[len(overload) :]
    took = _longest([_recovered(stream, duration, result.senders) for stream in tail])
    lost = sum(stream.lost for stream in head)
    sent_pps = sum(stream.achieved_pps for stream in head) / len(traffic.directions)
    resolution_us = result.senders * 1e6 / relief  # a gap is of one sender's frames
    record = RecoveryRecord(
        overload_pps=sent_pps,
        relief_pps=relief,
        overload_s=duration,
        lost_in_overload=lost,
        lost_after=sum(stream.lost for stream in tail),
        recovery_us=min(took.high_us, duration * 1e6) if lost else None,
        resolution_us=resolution_us,
        limited_by=took.limited_by(resolution_us) if lost else "forwarder",
        overloaded=lost > 0,
        reason="" if lost else f"was not overloaded: no frame was lost at {sent_pps:.0f} pps",
    )
    session.record_figures(record.clause, record)


def reset(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """§26.6: stop and start the forwarder under load: the longest time between two frames that arrive.

    What the suite itself puts between stop and start (it waits for queues to be free, lists links, makes folders, over
    SSH with a round trip each) lies within that time and is taken out; both are journaled.
    """
    scale = scale_of(spec)
    load = min(_RESET_PPS, 0.5 * ndr_pps) if ndr_pps else 10_000.0
    for duration in (scale.reset_s, 4 * scale.reset_s):
        trial = trial_of(spec, load_streams(traffic, load), duration)
        result = session.trial(trial, purpose="search", clause=ResetRecord.clause, restart_after_s=0.2 * scale.reset_s)
        gap_ns = result.gap_ns
        if gap_ns is not None:  # it came back before the trial ended
            break
    own_ns = result.restart_own_ns or 0
    back = result.came_back
    if not result.gaps_known:
        gap_ns = None
    # a sender that stood still had no frames that could have come through
    resolution_us = max(result.senders * 1e6 / load, result.longest_gap_ns / 1e3)
    took = None
    if gap_ns is not None and gap_ns >= own_ns:
        reset_us = (gap_ns - own_ns) / 1e3
        shares = [1 - stream.sent / stream.intended for stream in result.steady if stream.intended]
        left_out_us = max(shares, default=0.0) * result.senders * duration * 1e6
        took = Took(max(0.0, reset_us - left_out_us), reset_us)
    record = ResetRecord(
        load_pps=result.achieved_pps / len(traffic.directions),
        gap_us=gap_ns / 1e3 if gap_ns is not None else None,
        own_us=own_ns / 1e3,
        reset_us=took.high_us if took else None,
        reason=_no_reset(back, gap_ns, own_ns),
        lost=result.lost,
        resolution_us=resolution_us,
        limited_by=took.limited_by(resolution_us) if took else "forwarder",
        came_back=bool(back),
        trial_s=duration,
    )
    session.record_figures(record.clause, record)


def _no_reset(back: bool | None, gap_ns: int | None, own_ns: int) -> str:
    """Why there is no time of reset; "" where there is."""
    if back is None:
        return "the tester's own card dropped frames at the end of the trial, so whether it came back is not known"
    if not back:
        return "did not come back before the trial ended"
    if gap_ns is None:
        return "frames arrived on several CPUs at a time, so the gap between them is not known: use one receive queue"
    return (
        "" if gap_ns >= own_ns else "frames came through while it was stopped, so our own part of the gap is not known"
    )


#: The median of a few short trials stands for a repetition: a stall of the machine falls into one of them.
_TRIALS, _TRIAL_S, WARMUP_S = 3, 0.4, 0.1
#: Of a trial in turns.
_TURN_WARMUP_S = 0.02
#: In overload frames are lost at any rate; to wait for late ones would only count more of the queue as forwarded.
_DRAIN_S = 0.1


def durations(spec: Rfc2544Spec) -> list[float]:
    loads = spec.equal_load
    duration_s, warmup_s, turns = _at_load(spec)
    latency = [warmup_s + duration_s] * turns if loads.latency_pps is not None else []
    return latency + [WARMUP_S + _TRIAL_S] * (_TRIALS if loads.overload_pps is not None else 0)


def at_equal_load(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec) -> None:
    """Measure what the spec asks for."""
    if spec.equal_load.latency_pps is not None:
        _latency(session, spec, traffic, spec.equal_load.latency_pps)
    if spec.equal_load.overload_pps is not None:
        _forwarding_rate(session, spec, traffic, spec.equal_load.overload_pps)


def _latency(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, load_pps: float) -> None:
    """Probes and load together make `load_pps` per direction."""
    probe = min(PROBE_MAX_PPS, load_pps - (traffic.new_flows_pps or 0.0))
    streams = (*probe_streams(traffic, probe), *load_streams(traffic, max(0.0, load_pps - probe)))
    session.progress(f"  latency at {load_pps / 1e3:.0f} kpps")
    duration_s, warmup_s, turns = _at_load(spec)
    trial = trial_of(spec, streams, duration_s, warmup_s)
    for turn in range(turns):
        session.trial(trial, turn=turn if turns > 1 else None)


def _at_load(spec: Rfc2544Spec) -> tuple[float, float, int]:
    """Duration and warm-up of a trial in s, and how many there are."""
    scale = scale_of(spec)
    warmup_s = WARMUP_S if scale.at_load_turns == 1 else _TURN_WARMUP_S
    return scale.at_load_s / scale.at_load_turns, warmup_s, scale.at_load_turns


def _forwarding_rate(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, overload_pps: float) -> None:
    """Frames per second over all directions that arrive while `overload_pps` per direction is offered."""
    load = min(overload_pps, top_load(spec, traffic, session.ceiling_pps))
    trial = TrialSpec(streams=load_streams(traffic, load), duration_s=_TRIAL_S, warmup_s=WARMUP_S, drain_s=_DRAIN_S)
    session.progress(f"  forwarding rate at {load / 1e3:.0f} kpps offered")
    results = [session.trial(trial, purpose="search", clause=OverloadRecord.clause) for _ in range(_TRIALS)]
    rates = [sum(stream.rx_pps for stream in result.streams) for result in results]
    record = OverloadRecord(
        intended_pps=load * len(traffic.directions),
        offered_pps=median(result.achieved_pps for result in results),
        forwarding_rate_pps=median(rates),
        rates_pps=tuple(rates),
        overloaded=all(result.lost > 0 for result in results),
    )
    session.record_figures(record.clause, record)
