# SPDX-License-Identifier: Apache-2.0
"""Charts of latencies: distributions and densities of several points in one."""

from collections.abc import Mapping

import numpy as np

from xdplab.measure.distribution import Distribution
from xdplab.report.chart import Axis, Chart, Series

#: Shares above it are drawn: p99.999.
_LEAST = 1e-5
_SINGLE = "Where fewer than ten independent samples lie above, it shows single frames and no percentile."
LATENCY = Axis("latency", "µs", log=True)


def distribution_chart(title: str, points: Mapping[str, Distribution], note: str) -> Chart:
    """Cumulative distribution: latency against the percentile, on an axis on which each nine takes the same room.

    The last step goes to the highest value, at the share that one sample is, and to p99.999 at the most.
    """
    series = []
    for name, found in points.items():
        latency, above = found.exceedance()
        if not len(latency):
            continue
        shown = above >= _LEAST
        end = int(np.count_nonzero(shown))  # the first value above which less is left than is drawn
        x = np.concatenate([latency[:1], latency[shown], np.unique(latency[[min(end, len(latency) - 1), -1]])])
        least = max(_LEAST, 1 / found.count)
        y = np.concatenate([[1.0], above[shown], [least] * (len(x) - 1 - end)])
        series.append(Series(name, x.tolist(), y.tolist(), steps=True))
    return Chart(title, LATENCY, Axis("percentile (log axis)", "", percentile=True), series, f"{note} {_SINGLE}")


def density_chart(title: str, points: Mapping[str, Distribution], note: str) -> Chart:
    """Kernel density over the logarithm of the latency, each curve scaled to its own peak."""
    series = []
    for name, found in points.items():
        if found.count:
            latency, density = found.density()
            series.append(Series(name, latency.tolist(), (density / density.max()).tolist()))
    return Chart(title, LATENCY, Axis("density (peak = 1)", ""), series, note)
