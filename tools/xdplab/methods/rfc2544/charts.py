# SPDX-License-Identifier: Apache-2.0
"""The graphs that RFC 2544 asks for: throughput by frame size, frame loss rate by load, latency by load."""

import math
from collections.abc import Sequence

from xdplab.measure.point import PointSummary
from xdplab.methods.rfc2544.found import Rfc2544Figures
from xdplab.report.chart import Axis, Chart, Series


def throughput_chart(summaries: Sequence[PointSummary]) -> Chart:
    """§26.1: frame size against frame rate, with the theoretical rate of the medium where one is given."""
    found = [(s, Rfc2544Figures.of(s).throughput) for s in summaries if isinstance(s.frame_bytes, int)]
    sized = [(s, throughput) for s, throughput in found if throughput]
    series = []
    for name in dict.fromkeys(summary.forwarder for summary, _ in sized):
        bounds = {int(s.frame_bytes): throughput.bounds[0] for s, throughput in sized if s.forwarder == name}
        known = {
            size: bound for size, bound in sorted(bounds.items()) if bound.throughput_pps and not bound.contradicted_by
        }
        own = {size: bound.throughput_pps for size, bound in known.items() if bound.limited_by == ("forwarder",)}
        rates = [[each / 1e6 for each in (rate.median, rate.low, rate.high)] for rate in own.values() if rate]
        middle, low, high = ([rate[at] for rate in rates] for at in range(3))
        series += [Series(name, [*own], middle, low, high)] if own else []
        # who else set it sets no throughput: the forwarder carries that much at least
        least = {
            size: bound.throughput_pps.median / 1e6
            for size, bound in known.items()
            if size not in own and bound.throughput_pps
        }
        series += [Series(f"{name}, at least", [*least], [*least.values()], joined=False)] if least else []
    tops = {int(s.frame_bytes): throughput for s, throughput in sized}
    speed = next((each.line_rate_bps for each in tops.values() if each.line_rate_bps), None)
    limits = {size: speed / ((size + 20) * 8) if speed else each.top_load_pps for size, each in sorted(tops.items())}
    label = "theoretical (line rate)" if speed else "tester's top rate"
    series.append(Series(label, list(limits), [limit / 1e6 for limit in limits.values()]))
    x = Axis("frame size, FCS counted", "bytes")
    caption = "Band: all repeats. Points without a line: lower bounds, set by the tester, the time or the machine."
    return Chart("throughput by frame size", x, Axis("without loss", "Mpps"), series, caption)


def loss_chart(summaries: Sequence[PointSummary]) -> Chart:
    """§26.3: achieved load against the share of frames lost."""
    series = []
    for summary in summaries:
        if points := Rfc2544Figures.of(summary).loss_curve:
            loads = [point.achieved_pps / 1e6 for point in points]
            series.append(Series(_name(summary), loads, [100 * point.loss_ratio for point in points]))
    return Chart("frame loss rate by load", Axis("achieved load", "Mpps"), Axis("frames lost", "%"), series)


def latency_at_load_chart(summaries: Sequence[PointSummary]) -> Chart:
    """§26.2: share of the throughput against p50 and p99."""
    series = []
    for summary in summaries:
        rows = [row for row in Rfc2544Figures.of(summary).latency or () if row.p50_us]
        shares = [100 * row.share for row in rows]
        for word, values in (("p50", [row.p50_us for row in rows]), ("p99", [row.p99_us for row in rows])):
            drawn = [value if value is not None and math.isfinite(value) else None for value in values]
            if any(drawn):
                series.append(Series(f"{_name(summary)}, {word}", shares, drawn))
    y = Axis(f"{summaries[0].quantity} latency" if summaries else "latency", "µs", log=True)
    return Chart("latency by load", Axis("load, share of the throughput", "%"), y, series)


def _name(summary: PointSummary) -> str:
    return f"{summary.forwarder}, {summary.frame_bytes} bytes"
