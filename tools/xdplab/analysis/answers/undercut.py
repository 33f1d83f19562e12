# SPDX-License-Identifier: Apache-2.0
"""Which forwarders another one undercuts in two figures at once, such as latency and CPU time (Pareto dominance)."""

from collections.abc import Sequence
from itertools import combinations

from xdplab.analysis.compare import compare_points, corrected
from xdplab.measure.figure import Figure
from xdplab.measure.point import PointSummary


def undercut(points: Sequence[PointSummary], figures: tuple[Figure, Figure]) -> set[str]:
    """Ids of points of which another forwarder is known to be better in both; all comparisons are one family."""
    points = [point for point in points if point.forwards]
    found = {
        (one.point_id, other.point_id, each.key): compare_points(one, other, each.key)
        for one, other in combinations(points, 2)
        for each in figures
    }
    adjusted = corrected(found)
    losers: set[str] = set()
    for one, other in combinations(points, 2):
        compared_by = [adjusted.get((one.point_id, other.point_id, each.key)) for each in figures]
        ahead = [None if each is None else each.better for each in compared_by]
        if ahead == [True, True]:
            losers.add(other.point_id)
        elif ahead == [False, False]:
            losers.add(one.point_id)
    return losers
