# SPDX-License-Identifier: Apache-2.0
"""Plots as inline SVG: no script, no network, readable on a phone and on paper."""

import hashlib
import io
import re
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure as Plot
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from xdplab.measure.point import PointSummary
from xdplab.report.chart import Axis, Chart

#: Okabe and Ito's palette, which colour-blind readers can tell apart, with line styles for more than eight lines.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#444444", "#8B4513")
_VARIABLES = {colour: f"c{index}" for index, colour in enumerate(_COLOURS)} | {
    "#ffffff": "paper", "#000000": "ink", "#1d2430": "ink", "#dddddd": "line",
}  # fmt: skip
_STYLES = ("-", "--", "-.", ":")
_PERCENTILES = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
#: Points of a curve up to which each has a mark.
_FEW = 60
#: Height of a row of a legend, in inches.
_LEGEND_ROW = 0.2


def repetition_plot(summaries: Sequence[PointSummary]) -> str:
    """Each repetition's p50 (dot) and p99 (tick, where it is a figure) by point: what intervals rest on."""
    plot, axes = new_plot(0.9 + 0.36 * len(summaries))
    for row, summary in enumerate(reversed(summaries)):
        style = line_style(len(summaries) - 1 - row)
        for figures in summary.by_repetition:
            face = "none" if figures.was_disturbed("p50_us") else style["color"]
            for key, mark, size in (("p50_us", "o", 5), ("p99_us", "|", 9)):
                value = figures.value(key)
                if value is not None and summary.value(key) is not None:
                    axes.plot(value, row, mark, markersize=size, color=style["color"], markerfacecolor=face)
    axes.set_xscale("log")
    axes.set_yticks(range(len(summaries)), [plain(summary.forwarder) for summary in reversed(summaries)])
    axes.set_ylim(-0.6, len(summaries) - 0.4)
    return finish_latency(plot, axes, "p50 and p99 of each repetition", legend=False)


def still(chart: Chart) -> str:
    """What assets/chart.js draws of it, for readers without scripts and for paper."""
    plot, axes = new_plot(3.4 + _LEGEND_ROW * len(chart.series) / 2)
    for index, series in enumerate(map(chart.thinned, chart.series)):
        marker = "o" if not series.joined or (len(series.x) <= _FEW and not series.steps) else ""
        style = line_style(index) | ({} if series.joined else {"linestyle": "none"})
        style["drawstyle"] = "steps-post" if series.steps else "default"
        x, y = _placed(chart.x, series.x), _placed(chart.y, series.y)
        axes.plot(x, y, label=plain(series.name), marker=marker, markersize=3, **style)
        if series.low is not None and series.high is not None:
            band = _placed(chart.y, series.low), _placed(chart.y, series.high)
            axes.fill_between(x, *band, alpha=0.15, color=line_style(index)["color"], linewidth=0)
    for axis, of, scale in ((chart.x, axes.xaxis, axes.set_xscale), (chart.y, axes.yaxis, axes.set_yscale)):
        of.set_label_text(plain(axis.title))
        if axis.percentile:
            of.set_major_locator(FixedLocator([-np.log10(1 - p / 100) for p in _PERCENTILES]))
            of.set_major_formatter(FuncFormatter(lambda _, at: "min" if not at else f"p{_PERCENTILES[at]:g}"))
        elif axis.log:
            scale("log")
            _plain_decades(of)
    return to_svg(plot, axes, chart.title)


def _placed(axis: Axis, values: Sequence[float | None]) -> np.ndarray:
    """As matplotlib is to draw them: it makes a logarithm by itself."""
    drawn = axis.drawn(values)
    return -drawn if axis.percentile else 10**drawn if axis.log else drawn


def plain(text: str) -> str:
    """A label as matplotlib shall draw it: no TeX between dollar signs, and a leading underscore does not hide it."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def new_plot(height: float) -> tuple[Plot, Axes]:
    """A plot of that height in inches, with light axes."""
    plot = Plot(figsize=(7.6, height))
    axes = plot.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    return plot, axes


def line_style(index: int) -> dict[str, Any]:
    """Colour and dash of curve number `index`."""
    return {"color": _COLOURS[index % len(_COLOURS)], "linestyle": _STYLES[index // len(_COLOURS) % len(_STYLES)]}


def finish_latency(plot: Plot, axes: Axes, title: str, *, legend: bool = True) -> str:
    """Latency axis, legend, SVG."""
    _plain_decades(axes.xaxis)
    axes.set_xlabel("latency (µs, log axis)")
    return to_svg(plot, axes, title, legend=legend)


def _plain_decades(axis: XAxis | YAxis) -> None:
    """Ticks of a logarithmic axis: numbers as people write them, 1, 2 and 5 of a decade where few are seen."""
    low, high = axis.get_view_interval()
    if low <= 0:
        return  # nothing is drawn
    decades = [base * 10.0**power for power in range(-12, 13) for base in (1, 2, 5)]
    few = np.log10(high / low) < 3.2
    axis.set_major_locator(FixedLocator([t for t in decades if few or np.isclose(np.log10(t) % 1, 0)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _of_the_page(svg: str) -> str:
    """With the colours of the page, light or dark, and ids that no other picture in it has."""
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour.lower(), f"var(--{name}, {colour.lower()})")
    svg = re.sub(r'(<g)( id="[^"]*")', r"\1", svg)  # matplotlib's names of groups: nothing refers to them
    own = hashlib.sha256(svg.encode()).hexdigest()[:8]
    return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{own}-", svg)


def to_svg(plot: Plot, axes: Axes, title: str, *, legend: bool = True) -> str:
    """The plot as an <svg> element that scales with the page."""
    if legend and axes.get_legend_handles_labels()[0]:
        plot.legend(fontsize="small", frameon=False, ncols=2, loc="outside lower center")
    out = io.StringIO()
    with (
        warnings.catch_warnings(),
        mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "xdplab"}),
    ):
        warnings.simplefilter("ignore", UserWarning)  # a glyph that matplotlib's font lacks; the browser's has it
        ConstrainedLayoutEngine().execute(plot)  # by itself it would draw everything once more
        plot.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    svg = _of_the_page(svg[svg.index("<svg") :])
    found = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', svg)
    assert found
    svg = f'<svg viewBox="{found[1]}" role="img" aria-label="{escape(title)}">' + svg[found.end() :]
    return re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
