# SPDX-License-Identifier: Apache-2.0
"""Configurations that are left out of the groups: by the study's two rules, and those that lost frames.

"Latency close to the inter-batch interval, or above the kernel ping RTT" (section on outliers).
"""

from collections.abc import Mapping
from statistics import median

from xdplab.api import Configuration, Model, Table, significant

#: From this share of the interval between probes on, a median latency counts as close to it.
NEAR_INTERVAL = 0.5


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


def _reason(row: Configuration, table: Table, limit_us: float | None) -> str:
    if row.statistics.median_us >= NEAR_INTERVAL * table.interval_us:
        interval = f"{significant(table.interval_us)} µs"
        return f"median close to the interval between probes ({interval}): frames wait for the next one"
    if limit_us is not None and table.value_us(row) > limit_us:
        return f"{table.statistic} above the kernel's own path ({significant(limit_us)} µs)"
    return ""
