# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG: no script, no network, readable on a phone and on paper."""

import hashlib
import io
import re
import warnings
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure as Plot
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

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


def still(chart: Chart) -> str:
    """What assets/chart.js draws of it, for readers without scripts and for paper: an <svg>."""
    rows, legend = chart.y.names, len(chart.numbers) * _LEGEND_ROW / 2
    plot = Plot(figsize=(7.6, (0.9 + 0.3 * len(rows) if rows else 3.4) + legend))
    axes = plot.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    labelled: set[str] = set()
    for series in map(chart.thinned, chart.series):
        number = chart.numbers[series.name]
        colour = _COLOURS[number % len(_COLOURS)]
        label = "_" if series.name in labelled else _plain(series.name)
        labelled.add(series.name)
        dash = _STYLES[number // len(_COLOURS) % len(_STYLES)] if series.joined else "none"
        marker = "o" if not series.joined or (len(series.x) <= _FEW and not series.steps) else ""
        x, y = _placed(chart.x, series.x), _placed(chart.y, series.y)
        low, high = (
            None if ends is None else _placed(chart.x if rows else chart.y, ends) for ends in (series.low, series.high)
        )
        if series.bars and low is not None and high is not None:
            axes.barh(y, high - low, 0.5, left=low, color=colour, label=label)
            continue
        drawn = "steps-post" if series.steps else "default"
        axes.plot(
            x, y, label=label, marker=marker, markersize=4 if rows else 3, color=colour, linestyle=dash, drawstyle=drawn
        )
        if low is not None and high is not None and rows:
            axes.hlines(y, low, high, color=colour, linewidth=1.2)
        elif low is not None and high is not None:
            axes.fill_between(x, low, high, alpha=0.15, color=colour, linewidth=0)
    for axis, of, scale in ((chart.x, axes.xaxis, axes.set_xscale), (chart.y, axes.yaxis, axes.set_yscale)):
        of.set_label_text(_plain(axis.title))
        if axis.percentile:
            of.set_major_locator(FixedLocator([-np.log10(1 - p / 100) for p in _PERCENTILES]))
            of.set_major_formatter(FuncFormatter(lambda _, at: "min" if not at else f"p{_PERCENTILES[at]:g}"))
        elif axis.log:
            scale("log")
            _plain_decades(of)
    if rows:
        axes.set_yticks(range(len(rows)), [_plain(name) for name in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
    return _svg(plot, axes, chart.title)


def _placed(axis: Axis, values: Sequence[float | None]) -> np.ndarray:
    """As matplotlib is to draw them: it makes a logarithm by itself."""
    drawn = axis.drawn(values)
    return -drawn if axis.percentile else 10**drawn if axis.log else drawn


def _plain(text: str) -> str:
    """A label as matplotlib shall draw it: no TeX between dollar signs, and a leading underscore does not hide it."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


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


def _svg(plot: Plot, axes: Axes, title: str) -> str:
    if axes.get_legend_handles_labels()[0]:
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
