# SPDX-License-Identifier: Apache-2.0
"""A tester on the direct link: its bias, its jitter, how well it keeps to the schedule, and its top rate."""

from statistics import median

from hdrh.histogram import HdrHistogram

from xdplab.model import Calibration, PointFailed, StreamResult, StreamSpec, TrialSpec
from xdplab.testers.base import Tester, TesterContext

_AT_PPS = 100_000.0


def calibrate(
    tester: Tester, context: TesterContext, frame_bytes: int, *, duration_s: float = 0.5, repeats: int = 3
) -> Calibration:
    """Measure the tester itself; medians over `repeats` short trials, so that one stall does not set the bias.

    Raises:
        PointFailed: the direct link carries nothing.
    """
    paced, top = [], []
    for _ in range(repeats):
        stream = StreamSpec(kind="latency", pps=_AT_PPS, frame_bytes=frame_bytes)
        result = tester.run(context, TrialSpec(streams=(stream,), duration_s=duration_s, warmup_s=0.1, drain_s=0.1))
        if not result.received:
            raise PointFailed(f"{tester.name}: the direct link {context.ports.first.ifname} carried no frame")
        paced.append(result.streams[0])
        stream = StreamSpec(kind="load", pps=None, frame_bytes=frame_bytes)
        top.append(tester.run(context, TrialSpec(streams=(stream,), duration_s=duration_s / 2, drain_s=0.1)).streams[0])
    return Calibration(
        link=f"{context.ports.first.role}-{context.ports.last.role}",
        p50_ns=_percentile(paced, 50),
        p99_ns=_percentile(paced, 99),
        p999_ns=_percentile(paced, 99.9),
        jitter_ns=_percentile(paced, 99) - _percentile(paced, 50),
        top_pps=median(stream.rx_pps for stream in top),
        on_schedule_ratio=median((stream.on_schedule or 0) / max(stream.sent, 1) for stream in paced),
        achieved_error_ratio=median(abs(stream.achieved_pps - _AT_PPS) / _AT_PPS for stream in paced),
        at_pps=_AT_PPS,
        frame_bytes=frame_bytes,
        rx_program=context.rx_program,
    )


def _percentile(streams: list[StreamResult], percent: float) -> int:
    """Median over trials of a latency percentile, in ns."""
    values = [
        HdrHistogram.decode(stream.latency.hdr).get_value_at_percentile(percent) for stream in streams if stream.latency
    ]
    return int(median(values))
