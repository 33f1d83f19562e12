# SPDX-License-Identifier: Apache-2.0
"""Trials and times in words, for both front ends."""

from xdplab.measure.distribution import carried, distribution
from xdplab.model import TrialRecord


def describe(record: TrialRecord) -> str:
    """A trial in one phrase."""
    if record.result is None:
        return f"{record.status}: {record.reason}"
    if "told" in record.figures:
        text = str(record.figures["told"])
        return f"{text}  (disturbed: {record.reason})" if record.status == "disturbed" else text
    latencies = distribution([record])
    p50, p99 = latencies.percentile_us(50), carried([record], 99, latencies.percentile_us(99))
    lost = sum(stream.lost for stream in record.result.streams)
    text = f"lost {lost} of {record.result.sent}"
    told = {"p50": p50, "p99": p99}
    text = ", ".join([*(f"{name} {value:.2f} us" for name, value in told.items() if value is not None), text])
    return f"{text}  (disturbed: {record.reason})" if record.status == "disturbed" else text


def duration(seconds: float) -> str:
    """`2 min 05 s`."""
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
