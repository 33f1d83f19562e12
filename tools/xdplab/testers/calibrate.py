# SPDX-License-Identifier: Apache-2.0
"""A tester on the direct link: its bias, its jitter, how well it keeps to the schedule, and its top rate."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from xdplab.model import Calibration, LatencySummary, PointFailed, StreamResult, StreamSpec, TrialResult, TrialSpec
from xdplab.model.histogram import histogram_of
from xdplab.testers.base import Tester, TesterContext

DEFAULT_PPS = 100_000.0
#: Steps of the search for the highest rate that arrives whole: its resolution is a sixteenth of the top rate.
_STEPS, _LOWEST_PPS = 6, 1000.0
#: Rates beside, as shares of the top rate, at which it is measured what sending takes.
_BETWEEN = (0.4, 0.7)


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
    paced, top, stalled = [], [], []
    alone: list[TrialResult] = []
    for number in range(1, repeats + 1):
        progress(f"calibrating {tester.name}: trial {number} of {repeats}, paced and at its top rate")
        stream = StreamSpec(kind="latency", pps=at_pps, frame_bytes=frame_bytes)
        result = tester.run(context, TrialSpec(streams=(stream,), duration_s=duration_s, warmup_s=0.1, drain_s=0.1))
        if not result.received:
            raise PointFailed(f"{tester.name}: the direct link {context.ports.first.ifname} carried no frame")
        paced.append(result.streams[0])
        stream = StreamSpec(kind="load", pps=None, frame_bytes=frame_bytes)
        fast = tester.run(context, TrialSpec(streams=(stream,), duration_s=duration_s / 2, drain_s=0.1))
        top.append(fast.streams[0])
        alone += [result, fast]
        stalled += [result.stalled_share, fast.stalled_share]
    sending = _sending_ns(tester, context, frame_bytes, median(stream.rx_pps for stream in top), duration_s, alone)
    latencies = merged([stream.latency for stream in paced if stream.latency])
    top_pps = median(stream.rx_pps for stream in top)
    return Calibration(
        link=f"{context.ports.first.role}-{context.ports.last.role}",
        p50_ns=_percentile(paced, 50),
        p99_ns=_percentile(paced, 99),
        p999_ns=_percentile(paced, 99.9),
        jitter_ns=_percentile(paced, 99) - _percentile(paced, 50),
        top_pps=top_pps,
        sending_ns={batch: median(found) for batch, found in sending.items()},
        sending_spread=_spreads(sending),
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


def _sending_ns(
    tester: Tester,
    context: TesterContext,
    frame_bytes: int,
    top_pps: float,
    duration_s: float,
    alone: Sequence[TrialResult],
) -> dict[int, list[float]]:
    """Frames handed to the kernel at a time (0: top rate) -> what sending one took in each trial.

    Between `at_pps` and the top rate the tester hands on several at a time: it is asked at two more rates.
    """
    found: dict[int, list[float]] = {}
    for number, result in enumerate(alone):
        _add_sending(found, result, top=bool(number % 2))
    for share in _BETWEEN if found else ():
        stream = StreamSpec(kind="latency", pps=share * top_pps, frame_bytes=frame_bytes)
        trial = TrialSpec(streams=(stream,), duration_s=duration_s / 2, warmup_s=0.1, drain_s=0.1)
        _add_sending(found, tester.run(context, trial), top=False)
    return found


def _add_sending(found: dict[int, list[float]], result: TrialResult, *, top: bool) -> None:
    if result.sending_ns is None or not result.sent:
        return
    busy_ns = result.sending_ns - (0 if top else result.sending_stalled_ns)
    found.setdefault(0 if top else int(result.detail.get("batch", 0)), []).append(busy_ns / result.sent)


def _spreads(sending: Mapping[int, Sequence[float]]) -> dict[int, float]:
    several = {batch: _spread(values) for batch, values in sending.items() if len(values) > 1}
    return {batch: several.get(batch, max(several.values(), default=1.0)) for batch in sending}


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return max(abs(value - middle) for value in values) / middle


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
        found = tester.run(context, TrialSpec(streams=(stream,), duration_s=duration_s, drain_s=0.1)).streams[0]
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
