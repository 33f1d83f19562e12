# SPDX-License-Identifier: Apache-2.0
"""The table of two runs: cells as text, for the console and for the page."""

from collections.abc import Iterable, Mapping

from xdplab.analysis.answers.ranking import conditions
from xdplab.analysis.tables.columns import figure_text
from xdplab.analysis.words import ratio_text, verdict
from xdplab.measure import figure
from xdplab.measure.comparison import Comparison
from xdplab.measure.point import PointSummary


def comparison_rows(
    shared: Iterable[tuple[PointSummary, PointSummary, Mapping[str, Comparison | None]]],
) -> list[list[str]]:
    """The heading, and a row for each figure of each point that two runs share (`compare_runs`)."""
    shared = list(shared)
    where = conditions([after for _, after, _ in shared])
    rows = [["forwarder", "figure", "before", "after", "ratio (interval)", "verdict"]]
    for before, after, metrics in shared:
        for metric, found in metrics.items():
            if found is not None:
                named = figure(metric)
                sides = [figure_text(side, named) for side in (before, after)]
                said = "; ".join([verdict(found), *found.remarks])
                rows.append([f"{after.forwarder}{where[after.point_id]}", named.title, *sides, ratio_text(found), said])
    return rows
