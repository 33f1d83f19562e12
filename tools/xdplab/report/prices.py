# SPDX-License-Identifier: Apache-2.0
"""Latency against CPU time: what each forwarder pays for its latency."""

from collections.abc import Sequence
from math import inf
from typing import Any

from xdplab.analysis.answers.undercut import undercut
from xdplab.measure import Figure, Method
from xdplab.measure.figure import COMMON
from xdplab.measure.point import PointSummary
from xdplab.report.bars import kind_of
from xdplab.report.chart import Axis, Chart, Series

#: Forwarders that a picture needs.
_FEWEST = 3
#: Settings that have a picture; of more, tables speak.
_MOST = 4


def price_charts(method: Method[Any], measured: Sequence[PointSummary]) -> list[tuple[str, Chart]]:
    """Title and chart of each setting that has a latency and a price: the method's first figure of either."""
    figures = (*method.figures, *COMMON)
    charts = []
    for setting in dict.fromkeys((each.setting, each.tester) for each in measured):
        group = [each for each in measured if (each.setting, each.tester) == setting]
        there = [each for each in figures if any(point.value(each.key) is not None for point in group)]
        latency = next((each for each in there if each.percent is not None), None)
        price = next((each for each in there if each.price), None)
        drawn = price_chart(group, latency, price) if latency and price else None
        if drawn:
            charts.append((", ".join(group[0].settings) or f"{group[0].frames}, path {group[0].path}", drawn))
    return charts[:_MOST]


def price_chart(points: Sequence[PointSummary], latency: Figure, price: Figure) -> Chart | None:
    """A place for each forwarder; names say what is a bound, and of whom comparisons know one that is better in both.

    None where fewer than three have both figures; what was lost has no place.
    """
    found = [point for point in points if all(0 < (point.value(each.key) or 0) < inf for each in (price, latency))]
    if len(found) < _FEWEST:
        return None
    losers = undercut(found, (latency, price))
    series = []
    for point in found:
        kinds = [kind for each in (latency, price) if (kind := kind_of(point, each)) != "median"]
        words = [point.plain_name, *kinds[:1], *(["undercut in both"] if point.point_id in losers else [])]
        x, y = [(point.value(each.key) or 0.0) / each.per for each in (price, latency)]
        series.append(Series(", ".join(words), [x], [y], joined=False))
    note = "Medians. Undercut in both: by the comparisons, another one has less latency and takes less CPU time."
    axes = Axis(price.name, price.unit, log=True), Axis(f"{latency.name} latency", latency.unit, log=True)
    return Chart(f"{latency.name} latency against {price.name}", *axes, series, note)
