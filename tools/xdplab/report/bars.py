# SPDX-License-Identifier: Apache-2.0
"""Rates in rows: by case, and throughputs and ratios at each setting with the published ones below."""

from collections.abc import Mapping, Sequence

from xdplab.analysis.published import Reproduction
from xdplab.analysis.tables.columns import figure_text
from xdplab.measure import Figure
from xdplab.measure.point import PointSummary
from xdplab.report.chart import Axis, Chart, InRow, row_chart

_PUBLISHED = "published"


def throughput_chart(found: Reproduction) -> Chart:
    """One row per setting, one series per forwarder; the published ranges stand in a row of their own."""
    rows = [row for row in found.rows if row.mpps]
    places = {
        name: [InRow(at, row.mpps[name]) for at, row in enumerate(rows) if name in row.mpps]
        for name in found.published.forwarders
    }
    for series in found.published.series:
        low, high = series.mpps
        places.setdefault(series.forwarder, []).append(InRow(len(rows), (low + high) / 2, low, high))
    conditions = found.published.conditions
    note = (
        f"Medians here, {conditions.split(',')[0]}. Last row: the published range ({conditions}). Absolute figures are "
        "of different machines: compare the ratios."
    )
    names = [*(row.setting for row in rows), _PUBLISHED]
    return row_chart("throughput next to the published figure", names, Axis("without loss", "Mpps"), places, note)


def ratio_chart(found: Reproduction) -> Chart | None:
    """The ratio at each setting with its interval, and the published one; None where nothing was compared."""
    rows = [row for row in found.rows if any(one.comparison for one in row.ratios)]
    if not rows:
        return None
    places: dict[str, list[InRow]] = {}
    for index, published in enumerate(found.published.ratios):
        own = places[f"{published.of} over {published.to}"] = []
        for at, row in enumerate(rows):
            one = row.ratios[index].comparison
            # a bound is no point with an interval, and what may not be said is not drawn
            if one and one.interval and one.sense == "exact" and not one.blockers:
                own.append(InRow(at, one.interval.ratio, one.interval.low, one.interval.high))
        low, high = published.ratio
        own.append(InRow(len(rows), (low + high) / 2, low, high))
    note = "Ratio of throughputs with its 99 % interval; last row: published."
    names = [*(row.setting for row in rows), _PUBLISHED]
    return row_chart("ratio next to the published one", names, Axis("times as much", ""), places, note)


def rate_chart(points: Sequence[PointSummary], rate: Figure, names: Mapping[str, str]) -> Chart:
    """A row per point (`names`: by its id) with what the table has, and a line over all repetitions."""
    drawn = [(point, values) for point in points if (values := _values(point, rate))]
    places: dict[str, list[InRow]] = {}
    for row, (point, values) in enumerate(drawn):
        one = InRow(row, (point.value(rate.key) or 0.0) / rate.per, min(values), max(values))
        places.setdefault(kind_of(point, rate), []).append(one)
    rows = [f"{names[point.point_id]}{_words(point, rate)}" for point, _ in drawn]
    return row_chart("rates by case", rows, Axis("rate", rate.unit), places, "Lines: all repetitions.")


def kind_of(point: PointSummary, rate: Figure) -> str:
    """What its figure is: `median` or `a bound`."""
    return "median" if point.measured[rate.key].exact else "a bound"


def _words(point: PointSummary, rate: Figure) -> str:
    """Behind the name of what is no fact by itself."""
    found = point.measured[rate.key]
    return "" if found.exact else f" ({figure_text(point, rate)}{' ?' if found.doubt else ''})"


def _values(point: PointSummary, rate: Figure) -> list[float]:
    return [value / rate.per for one in point.by_repetition if (value := one.value(rate.key)) is not None]
