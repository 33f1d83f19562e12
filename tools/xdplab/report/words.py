# SPDX-License-Identifier: Apache-2.0
"""Trials and times in words, for both front ends."""

from xdplab.analysis.distribution import distribution
from xdplab.model import TrialRecord


def describe(record: TrialRecord) -> str:
    """A trial in one phrase."""
    if record.result is None:
        return f"{record.status}: {record.reason}"
    if "told" in record.figures:
        text = str(record.figures["told"])
        return f"{text}  (disturbed: {record.reason})" if record.status == "disturbed" else text
    latencies = distribution([record])
    p50, p99 = latencies.percentile_us(50), latencies.percentile_us(99)
    lost = sum(stream.lost for stream in record.result.streams)
    text = f"lost {lost} of {record.result.sent}"
    if p50 is not None and p99 is not None:
        text = f"p50 {p50:.2f} us, p99 {p99:.2f} us, {text}"
    return f"{text}  (disturbed: {record.reason})" if record.status == "disturbed" else text


def duration(seconds: float) -> str:
    """`2 min 05 s`."""
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
