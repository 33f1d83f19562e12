# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev false-alarms RUN`: how often a forwarder of a real run is called different from itself."""

from xdplab.analysis.compare import compare_points
from xdplab.measure.comparison import Comparison
from xdplab.measure.point import PointSummary


def self_comparisons(point: PointSummary, twin: PointSummary, group: int, metric: str = "p50_us") -> list[Comparison]:
    """Comparisons of a point with itself under another label, each over `group` consecutive repetitions."""
    found = []
    count = min(len(point.by_repetition), len(twin.by_repetition)) // group
    for start in range(0, count * group, group):
        part = {"by_repetition": point.by_repetition[start : start + group]}
        other = {"by_repetition": twin.by_repetition[start : start + group]}
        comparison = compare_points(point.model_copy(update=part), twin.model_copy(update=other), metric)
        if comparison is not None:
            found.append(comparison)
    return found
