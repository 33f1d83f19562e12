# SPDX-License-Identifier: Apache-2.0
"""Pictures of a sweep: densities of the best configurations by group, and how much each setting matters."""

from collections.abc import Mapping, Sequence

from matplotlib.lines import Line2D

from xdplab.analysis.sweep import Importance
from xdplab.measure.distribution import Distribution
from xdplab.report.plots import finish_latency, line_style, new_plot, plain, to_svg

_OUTLIER = "#9a9a9a"


def densities_plot(found: Sequence[tuple[int | None, Distribution]]) -> str:
    """Kernel density over the logarithm of the latency, one curve per configuration, coloured by its group.

    Args:
        found: group (None: outlier) and latencies of each configuration.
    """
    plot, axes = new_plot(3.6)
    for group, latencies in found:
        values, density = latencies.density(128)
        axes.plot(values, density / density.max(), color=group_colour(group), linewidth=1.0, alpha=0.65)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.08)
    axes.set_ylabel("density (peak = 1)")
    counts: dict[int | None, int] = {}
    for group, _ in found:
        counts[group] = counts.get(group, 0) + 1
    for group in sorted(counts, key=lambda g: (g is None, g)):
        name = "outliers" if group is None else f"group {group}"
        axes.add_line(Line2D([], [], color=group_colour(group), label=f"{name} ({counts[group]})"))
    return finish_latency(plot, axes, "kernel density of the best configurations by group")


def importance_plot(importances: Sequence[Importance]) -> str:
    """Permutation importance with its interval, the most important on top."""
    shown = [each for each in importances if each.permutation is not None]
    plot, axes = new_plot(0.9 + 0.3 * len(shown))
    for row, each in enumerate(reversed(shown)):
        colour = "#0072B2" if each.matters else _OUTLIER
        middle, low, high = each.permutation or 0.0, each.low or 0.0, each.high or 0.0
        axes.plot([low, high], [row, row], color=colour, linewidth=2)
        axes.plot(middle, row, "o", color=colour, markersize=6)
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [plain(each.factor) for each in reversed(shown)])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel("what the prediction loses when the setting is shuffled (1 = the variance of log latency)")
    return to_svg(plot, axes, "importance of each setting", legend=False)


def group_colour(group: int | None) -> str:
    """The same in pictures and tables."""
    style: Mapping[str, str] = line_style(group or 0)
    return _OUTLIER if group is None else style["color"]
