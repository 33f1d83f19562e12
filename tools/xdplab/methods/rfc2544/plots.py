# SPDX-License-Identifier: Apache-2.0
"""The graphs that RFC 2544 asks for: throughput by frame size, frame loss rate by load, latency by load."""

import math
from collections.abc import Sequence

from xdplab.analysis import PointSummary
from xdplab.methods.rfc2544.found import Rfc2544Figures
from xdplab.report.plots import line_style, new_plot, plain, to_svg


def throughput_plot(summaries: Sequence[PointSummary]) -> str:
    """§26.1: frame size against frame rate, with the theoretical rate of the medium where one is given."""
    plot, axes = new_plot(3.4)
    found = [(s, Rfc2544Figures.of(s).throughput) for s in summaries if isinstance(s.frame_bytes, int)]
    sized = [(s, throughput) for s, throughput in found if throughput]
    for index, name in enumerate(dict.fromkeys(summary.forwarder for summary, _ in sized)):
        bounds = {s.frame_bytes: throughput.bounds[0] for s, throughput in sized if s.forwarder == name}
        best = {size: bound.throughput_pps for size, bound in bounds.items() if not bound.contradicted_by}
        points = sorted((size, rate.median / 1e6) for size, rate in best.items() if rate)
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=plain(name), **line_style(index))
    rates = {s.frame_bytes: throughput for s, throughput in sized}
    speed = next((each.line_rate_bps for each in rates.values() if each.line_rate_bps), None)
    limits = {size: speed / ((int(size) + 20) * 8) if speed else each.top_load_pps for size, each in rates.items()}
    if limits:
        label = "theoretical (line rate)" if speed else "tester's top rate"
        axes.plot(
            *zip(*sorted((s, r / 1e6) for s, r in limits.items()), strict=True), color="black", lw=0.8, label=label
        )
    axes.set_xlabel("frame size (bytes, FCS counted)")
    axes.set_ylabel("Mpps without loss")
    axes.set_ylim(bottom=0)
    return to_svg(plot, axes, "throughput by frame size") if sized else ""


def loss_plot(summaries: Sequence[PointSummary]) -> str:
    """§26.3: achieved load against the share of frames lost."""
    plot, axes = new_plot(3.4)
    drawn = [(summary, points) for summary in summaries if (points := Rfc2544Figures.of(summary).loss_curve)]
    for index, (summary, points) in enumerate(drawn):
        loads = [point.achieved_pps / 1e6 for point in points]
        lost = [100 * point.loss_ratio for point in points]
        label = plain(f"{summary.forwarder}, {summary.frame_bytes} bytes")
        axes.plot(loads, lost, marker="o", markersize=4, label=label, **line_style(index))
    axes.set_xlabel("achieved load (Mpps)")
    axes.set_ylabel("frames lost (%)")
    axes.set_ylim(bottom=0)
    return to_svg(plot, axes, "frame loss rate by load") if drawn else ""


def latency_at_load_plot(summaries: Sequence[PointSummary]) -> str:
    """§26.2: share of the throughput against p50 (solid) and p99 (dotted)."""
    plot, axes = new_plot(3.4)
    drawn = [(summary, found) for summary in summaries if (found := Rfc2544Figures.of(summary).latency)]
    for index, (summary, found) in enumerate(drawn):
        rows = [row for row in found if row.p50_us]
        colour = line_style(index)["color"]
        shares = [100 * row.share for row in rows]
        label = plain(f"{summary.forwarder}, {summary.frame_bytes} bytes")
        axes.plot(shares, [row.p50_us or math.nan for row in rows], marker="o", label=label, color=colour)
        axes.plot(
            shares, [row.p99_us or math.nan for row in rows], marker=".", linestyle=":", linewidth=1, color=colour
        )
    axes.set_yscale("log")
    axes.set_xlabel("load (% of the throughput)")
    axes.set_ylabel("latency (µs, log axis)")
    return to_svg(plot, axes, "latency by load") if drawn else ""
