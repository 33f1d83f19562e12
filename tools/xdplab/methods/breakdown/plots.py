# SPDX-License-Identifier: Apache-2.0
"""The breakdown as stacked bars: what a median frame (or one at p99) spends where."""

from collections.abc import Sequence

from xdplab.measure.point import PointSummary
from xdplab.methods.breakdown.figures import BreakdownFigures
from xdplab.report.plots import line_style, new_plot, plain, to_svg


def breakdown_plot(summaries: Sequence[PointSummary], percentile: str) -> str:
    """One bar per forwarder and rate; marks: the tester's latency without the probes and with them."""
    rows = [(summary.forwarder, found) for summary in summaries for found in BreakdownFigures.of(summary).breakdown]
    plot, axes = new_plot(1.6 + 0.36 * len(rows))
    axes.set_axisbelow(True)
    for row, (_, found) in enumerate(reversed(rows)):
        left = 0.0
        for index, (stage, value) in enumerate(found.typical_us[percentile].items()):
            label = stage if row == 0 else None
            axes.barh(row + 0.08, value, 0.44, left=left, color=line_style(index)["color"], label=label)
            left += value
        left = 0.0
        for index, value in enumerate((found.typical_less_us or {}).values() if percentile == "p50" else ()):
            axes.barh(row - 0.28, value, 0.2, left=left, color=line_style(index)["color"], alpha=0.6)
            left += value
        for mark, face, how in (("D", "white", "without"), ("o", "black", "with")):
            seen = getattr(found, f"{how}_us").get(f"{percentile}_us")
            if seen is not None:
                told = f"tester, {how} probes" if row == 0 else None
                axes.plot([seen], [row + 0.08], mark, color="black", markerfacecolor=face, linestyle="none", label=told)
    names = [plain(f"{forwarder}, {found.rate_pps / 1e3:g} kpps") for forwarder, found in reversed(rows)]
    axes.set_yticks(range(len(rows)), names)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"µs, at {percentile}")
    plot.legend(loc="outside lower center", ncols=5, fontsize="small", frameon=False)
    return to_svg(plot, axes, f"where the time of a frame goes, {percentile}", legend=False)
