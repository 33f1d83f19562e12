# SPDX-License-Identifier: Apache-2.0
"""Configurations that are left out of the groups, and those whose latency is that of survivors.

The rules of the delay study ("Understanding Delays in AF_XDP-based Applications", section on outliers: "latency close
to the inter-batch interval, or above the kernel ping RTT"), and frames that were lost: a setting that loses the slow
ones is no faster for it.
"""

from collections.abc import Mapping
from statistics import median

from xdplab.analysis.doubts import REPORTED_LOSS
from xdplab.analysis.sweep.table import Configuration, Table
from xdplab.model import Model
from xdplab.model.digits import percent, significant

#: From this share of the interval between probes on, a median latency counts as close to it.
NEAR_INTERVAL = 0.5
#: Of all configurations together: one that lost more frames than the default by chance is left out.
_CHANCE = 0.01


class Outlier(Model):
    """A configuration that is left out of the groups, and why."""

    point_id: str
    title: str
    value_us: float
    reason: str


def reference_us(table: Table, forwarder: str) -> float | None:
    """Latency of the forwarder that stands for the kernel's own path, in us; None when it was not measured."""
    values = [table.value_us(row) for row in table.rows if row.title.split(" ")[0] == forwarder]
    return median(values) if values else None


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


def split(table: Table, limit_us: float | None, lost: Mapping[str, str]) -> tuple[Table, list[Outlier]]:
    """The table without its outliers, and the outliers.

    Args:
        table: all configurations.
        limit_us: latency of the kernel's path; None when the study names none, then that rule does not apply.
        lost: what `lossy` says.
    """
    reasons = [lost.get(row.point_id) or _reason(row, table, limit_us) for row in table.rows]
    found = [
        Outlier(point_id=row.point_id, title=row.title, value_us=table.value_us(row), reason=reason)
        for row, reason in zip(table.rows, reasons, strict=True)
        if reason
    ]
    return table.only([not reason for reason in reasons]), found


def _loses_more(row: Configuration, default: Configuration, chance: float) -> bool:
    """Whether the frames that both lost are shared out more unevenly than those that they sent."""
    from scipy.special import bdtrc

    lost, others = (round(each.loss_ratio * each.sent) for each in (row, default))
    if row is default or not lost:
        return False
    return float(bdtrc(lost - 1, lost + others, row.sent / (row.sent + default.sent))) < chance


def _reason(row: Configuration, table: Table, limit_us: float | None) -> str:
    if row.statistics.median_us >= NEAR_INTERVAL * table.interval_us:
        interval = f"{significant(table.interval_us)} µs"
        return f"median close to the interval between probes ({interval}): frames wait for the next one"
    if limit_us is not None and table.value_us(row) > limit_us:
        return f"{table.statistic} above the kernel's own path ({significant(limit_us)} µs)"
    return ""
