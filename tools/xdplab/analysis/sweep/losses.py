# SPDX-License-Identifier: Apache-2.0
"""Configurations that lost frames: a setting that loses the slow ones is no faster for it."""

from xdplab.analysis.sweep.table import Configuration, Table
from xdplab.model.digits import percent
from xdplab.model.trial import REPORTED_LOSS

#: Of all configurations together: one that lost more frames than the default by chance is one of them.
_CHANCE = 0.01


def lossy(table: Table) -> dict[str, str]:
    """Point id -> why: it lost more than one frame of a thousand, or more than the default by more than chance."""
    defaults = {factor.name: factor.default for factor in table.factors}
    default = next((row for row in table.rows if row.levels == defaults), None)
    found = {}
    for row in table.rows:
        if row.loss_ratio > REPORTED_LOSS:
            found[row.point_id] = f"lost more than {percent(REPORTED_LOSS)} of the frames"
        elif default and _loses_more(row, default, _CHANCE / len(table.rows)):
            found[row.point_id] = "lost more frames than the default configuration"
    return found


def _loses_more(row: Configuration, default: Configuration, chance: float) -> bool:
    """Whether the frames that both lost are shared out more unevenly than those that they sent."""
    from scipy.special import bdtrc

    lost, others = (round(each.loss_ratio * each.sent) for each in (row, default))
    if row is default or not lost:
        return False
    return float(bdtrc(lost - 1, lost + others, row.sent / (row.sent + default.sent))) < chance
