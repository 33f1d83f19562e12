# SPDX-License-Identifier: Apache-2.0
"""The ratios of a table of points: each over the reference of the answer."""

from collections.abc import Sequence

from xdplab.analysis.compare import compare_all
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.point import PointSummary


def ratios_of(answer: Answer, points: Sequence[PointSummary], beside: str = "") -> dict[str, Comparison]:
    """Point id -> comparison with the answer's reference at the same setting; of what was measured `beside`."""
    compared = (answer.at_rate and answer.comparison) if beside else (answer.at_rate or answer.comparison)
    sides = [each.beside[beside] for each in points if beside in each.beside] if beside else list(points)
    if compared is None or not sides:
        return {}
    reference = next(point for point in sides if point.point_id == compared.reference_id)
    return compare_all(sides, reference, compared.metric)
