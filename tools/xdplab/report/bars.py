# SPDX-License-Identifier: Apache-2.0
"""Throughput at each setting beside a published range, as grouped bars, and the ratios beside the published ones."""

from collections.abc import Mapping, Sequence

from xdplab.analysis.published import Reproduction
from xdplab.analysis.tables.columns import figure_text
from xdplab.measure import Figure
from xdplab.measure.point import PointSummary
from xdplab.model.published import span
from xdplab.report.plots import line_style, new_plot, plain, to_svg

_WIDTH = 0.8


def throughput_bars(found: Reproduction) -> str:
    """One group per setting, one bar per forwarder; the published ranges stand in a group of their own."""
    plot, axes = new_plot(3.2)
    axes.set_axisbelow(True)
    names = found.published.forwarders
    width = _WIDTH / len(names)
    rows = [row for row in found.rows if row.mpps]
    published = {series.forwarder: series.mpps for series in found.published.series}
    for index, name in enumerate(names):
        colour = line_style(index)["color"]
        places = [group + (index - (len(names) - 1) / 2) * width for group in range(len(rows) + 1)]
        heights = [row.mpps.get(name, 0.0) for row in rows]
        bars = axes.bar(places[:-1], heights, width * 0.92, color=colour, label=plain(name))
        axes.bar_label(bars, [f"{height:.3g}" if height else "" for height in heights], fontsize="x-small", padding=2)
        if name in published:
            low, high = published[name]
            axes.bar(places[-1], high - low, width * 0.92, bottom=low, color="none", edgecolor=colour, hatch="///")
            axes.text(places[-1], high, span(published[name]), ha="center", va="bottom", fontsize="x-small")
    axes.set_xticks(range(len(rows) + 1), [*(plain(row.setting) for row in rows), "published\n(range)"])
    axes.set_ylabel("Mpps without loss")
    axes.set_ylim(bottom=0)
    axes.margins(y=0.15)
    return to_svg(plot, axes, "throughput beside the published figure")


def ratio_plot(found: Reproduction) -> str:
    """The ratio at each setting with its interval; a band shows the published one."""
    plot, axes = new_plot(2.6)
    rows = [row for row in found.rows if any(one.comparison for one in row.ratios)]
    for index, published in enumerate(found.published.ratios):
        colour = line_style(index)["color"]
        low, high = published.ratio
        told = f"published: {span(published.ratio)}"
        axes.axhspan(low * 0.995, high * 1.005, color=colour, alpha=0.2, label=told)
        compared = [(group, row.ratios[index].comparison) for group, row in enumerate(rows)]
        # a bound is no point with an interval, and what may not be said is not drawn
        said = [(at, one) for at, one in compared if one and one.sense == "exact" and not one.hindrances]
        intervals = [(at, one.interval) for at, one in said if one.interval]
        ratios = [interval.ratio for _, interval in intervals]
        below = [interval.ratio - (interval.low or interval.ratio) for _, interval in intervals]
        above = [(interval.high or interval.ratio) - interval.ratio for _, interval in intervals]
        places = [group + 0.1 * (index - (len(found.published.ratios) - 1) / 2) for group, _ in intervals]
        name = plain(f"{published.of} over {published.to}")
        axes.errorbar(places, ratios, yerr=[below, above], fmt="o", color=colour, capsize=4, label=name)
        for place, ratio in zip(places, ratios, strict=True):
            axes.annotate(f"{ratio:.3g}", (place, ratio), xytext=(7, 0), textcoords="offset points", va="center")
    axes.set_xticks(range(len(rows)), [plain(row.setting) for row in rows])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("times as much")
    return to_svg(plot, axes, "ratio beside the published one") if rows else ""


def rate_plot(points: Sequence[PointSummary], rate: Figure, names: Mapping[str, str]) -> str:
    """A bar per point (`names`: by its id) to what the table has, and a line over all repetitions.

    It is hollow where the machine disturbed each of them; what is no fact has its words behind the bar.
    """
    drawn = [(point, values) for point in points if (values := _values(point, rate))]
    plot, axes = new_plot(0.9 + 0.3 * len(drawn))
    colour = line_style(0)["color"]
    for place, (point, values) in enumerate(reversed(drawn)):
        found = point.measured[rate.key]
        length = (point.value(rate.key) or 0.0) / rate.per
        hollow = all(one.was_disturbed(rate.key) for one in point.by_repetition if one.was_searched(rate.key))
        axes.barh(place, length, facecolor="none" if hollow else colour, edgecolor=colour, height=0.6)
        axes.plot((min(values), max(values)), [place, place], color="#1d2430", linewidth=1.2)
        if not found.exact:
            words = f"{figure_text(point, rate)}{' ?' if found.doubt else ''}"
            axes.text(max(*values, length), place, f" {words}", va="center", fontsize="x-small")
    axes.set_yticks(range(len(drawn)), [plain(names[point.point_id]) for point, _ in reversed(drawn)])
    axes.set_xlabel(f"{rate.unit} (bar: median, hollow: disturbed; line: all repetitions)")
    return to_svg(plot, axes, "rates by case", legend=False)


def _values(point: PointSummary, rate: Figure) -> list[float]:
    return [value / rate.per for one in point.by_repetition if (value := one.value(rate.key)) is not None]
