# SPDX-License-Identifier: Apache-2.0
"""A tester on the direct link: its bias, its jitter, how well it keeps to the schedule, and its top rate."""

import math
from collections.abc import Callable, Sequence
from statistics import median

from xdplab.model import Calibration, LatencySummary, PointFailed, StreamResult, StreamSpec, TrialResult, TrialSpec
from xdplab.model.histogram import histogram_of
from xdplab.testers.base import Tester, TesterContext, run_trial

DEFAULT_PPS = 100_000.0
#: Steps of the search for the highest rate that arrives whole: its resolution is a sixteenth of the top rate.
_STEPS, _LOWEST_PPS = 6, 1000.0
#: Share of the top rate at which it is measured what sending takes, beside `at_pps` and the top rate.
_BETWEEN = 0.5


def calibrate(
    tester: Tester,
    context: TesterContext,
    frame_bytes: int,
    *,
    at_pps: float = DEFAULT_PPS,
    duration_s: float = 0.5,
    repeats: int = 3,
    progress: Callable[[str], None] = lambda text: None,
) -> Calibration:
    """Measure the tester itself; medians over `repeats` short trials, so that one stall does not set the bias.

    Latencies are those at `at_pps`: testers that are compared with each other are so at the rate of the comparison.
    `progress` is called before each step.

    Raises:
        PointFailed: the direct link carries nothing.
    """
    paced, top, most, stalled = [], [], [], []
    alone: list[tuple[TrialResult, ...]] = []
    tester.find_top_rate(lambda pps: _paced(tester, context, frame_bytes, pps, duration_s / 2))
    for number in range(1, repeats + 1):
        progress(f"calibrating {tester.name}: trial {number} of {repeats}, paced and at its top rate")
        stream = StreamSpec(kind="latency", pps=at_pps, frame_bytes=frame_bytes)
        result = run_trial(
            tester, context, TrialSpec(streams=(stream,), duration_s=duration_s, warmup_s=0.1, drain_s=0.1)
        )
        if not result.received:
            raise PointFailed(f"{tester.name}: the direct link {context.ports.first.ifname} carried no frame")
        paced.append(result.streams[0])
        stream = StreamSpec(kind="load", pps=None, frame_bytes=frame_bytes)
        fast = run_trial(tester, context, TrialSpec(streams=(stream,), duration_s=duration_s / 2, drain_s=0.1))
        top.append(fast.streams[0])
        loads = [fast.streams[0].rx_pps * share for share in (1.0, _BETWEEN)]
        full, half = (_paced(tester, context, frame_bytes, load, duration_s / 2) for load in loads)
        most.append(full.streams[0])
        alone.append((result, fast, half))
        stalled += [each.stalled_share for each in (result, fast, full, half)]
    frame_ns, handover_ns, spread = _sending(alone)
    latencies = merged([stream.latency for stream in paced if stream.latency])
    top_pps = median(stream.rx_pps for stream in top)
    return Calibration(
        link=f"{context.ports.first.role}-{context.ports.last.role}",
        p50_ns=_percentile(paced, 50),
        p99_ns=_percentile(paced, 99),
        p999_ns=_percentile(paced, 99.9),
        jitter_ns=_percentile(paced, 99) - _percentile(paced, 50),
        top_pps=top_pps,
        paced_pps=median(stream.rx_pps for stream in most),
        frame_ns=frame_ns,
        handover_ns=handover_ns,
        sending_spread=spread,
        lossless_pps=_lossless(tester, context, frame_bytes, top_pps, duration_s, progress)
        if tester.loses_by_itself
        else None,
        on_schedule_ratio=_on_schedule(paced),
        achieved_error_ratio=median(abs(stream.achieved_pps - at_pps) / at_pps for stream in paced),
        at_pps=at_pps,
        frame_bytes=frame_bytes,
        rx_program=context.rx_program,
        latency=latencies,
        stalled_share=max(stalled),
    )


def _paced(tester: Tester, context: TesterContext, frame_bytes: int, pps: float, duration_s: float) -> TrialResult:
    stream = StreamSpec(kind="load", pps=pps, frame_bytes=frame_bytes)
    return run_trial(tester, context, TrialSpec(streams=(stream,), duration_s=duration_s, warmup_s=0.1, drain_s=0.1))


def _sending(alone: Sequence[Sequence[TrialResult]]) -> tuple[float | None, float, float]:
    """What a frame takes the tester, what a handover does, and how far a trial is from that.

    `alone`: repeats of the same few trials. Least squares of the relative errors of their medians: at a low rate each
    frame pays for a handover, at the top rate a batch does.
    """
    import numpy as np

    if not all(each.sending_ns and each.handovers and each.sent for trials in alone for each in trials):
        return None, 0.0, 0.0
    found = [
        [(_frame_ns(each), (each.handovers or 0) / each.sent) for each in same] for same in zip(*alone, strict=True)
    ]
    middle = [(median(ns for ns, _ in same), median(share for _, share in same)) for same in found]
    rows = np.array([[1 / ns, share / ns] for ns, share in middle])
    frame_ns, handover_ns = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    errors = [abs(frame_ns + handover_ns * share - ns) / ns for same in found for ns, share in same]
    return float(frame_ns), float(handover_ns), float(max(errors))


def _frame_ns(result: TrialResult) -> float:
    return ((result.sending_ns or 0) - result.sending_stalled_ns) / result.sent


def _lossless(
    tester: Tester,
    context: TesterContext,
    frame_bytes: int,
    top_pps: float,
    duration_s: float,
    progress: Callable[[str], None],
) -> float:
    """Highest rate that arrives whole on the direct link, by bisection of its logarithm.

    Raises:
        PointFailed: it loses frames at any rate.
    """
    good, bad = 0.0, top_pps
    load = top_pps
    for step in range(1, _STEPS + 1):
        progress(f"calibrating {tester.name}: {load / 1000:.0f} kpps without loss? (step {step} of at most {_STEPS})")
        stream = StreamSpec(kind="load", pps=load, frame_bytes=frame_bytes)
        found = run_trial(tester, context, TrialSpec(streams=(stream,), duration_s=duration_s, drain_s=0.1)).streams[0]
        if found.lost or found.skipped:
            bad = load
        else:
            good = load
        if good == top_pps:
            break
        load = math.sqrt(max(good, _LOWEST_PPS) * bad)
    if not good:
        raise PointFailed(f"{tester.name}: loses frames at every rate on the direct link, down to {load:.0f} pps")
    return good


def _on_schedule(streams: Sequence[StreamResult]) -> float | None:
    shares = [stream.on_schedule / max(stream.sent, 1) for stream in streams if stream.on_schedule is not None]
    return median(shares) if shares else None


def merged(parts: Sequence[LatencySummary]) -> LatencySummary | None:
    """Several distributions as one; None of none."""
    if not parts:
        return None
    count = sum(part.count for part in parts)
    return LatencySummary(
        count=count,
        min_ns=min(part.min_ns for part in parts),
        max_ns=max(part.max_ns for part in parts),
        mean_ns=sum(part.mean_ns * part.count for part in parts) / count,
        hdr=histogram_of(*(part.hdr for part in parts)).encode().decode(),
    )


def _percentile(streams: list[StreamResult], percent: float) -> int:
    """Median over trials of a latency percentile, in ns."""
    return int(median(stream.latency.percentile_ns(percent) for stream in streams if stream.latency))
