# SPDX-License-Identifier: Apache-2.0
"""Whether a point keeps a limit that its study states: what was not shown is not kept."""

from xdplab.measure.point import PointSummary
from xdplab.model.digits import ratio

#: Of N frames of which none was lost, a loss below 3/N is shown at 95 % (rule of three).
_RULE_OF_THREE = 3.0


def loss_above(point: PointSummary, limit: float | None) -> str:
    """Why the loss of a measured point is not shown to be within a limit; empty where it is, or there is none."""
    if limit is None or not point.repetitions:
        return ""
    if point.loss_ratio is None:
        return f"{point.forwarder}: its loss is not known, and the study allows {ratio(limit)}"
    if point.loss_ratio > limit:
        return f"{point.forwarder}: loss ratio {ratio(point.loss_ratio)}, the study allows {ratio(limit)}"
    shown = min(1.0, _RULE_OF_THREE / point.sent) if point.sent else 1.0
    if not point.loss_ratio and 0 < limit < shown:
        return (
            f"{point.forwarder}: none of {point.sent:,} frames was lost, which shows a loss ratio below {ratio(shown)} "
            f"and not {ratio(limit)}: send more"
        )
    return ""
