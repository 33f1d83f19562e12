# SPDX-License-Identifier: Apache-2.0
"""Columns of where frames were met and what they cost: a table of its own beside that of points, and in CSV."""

from collections.abc import Callable, Sequence
from typing import Any

from xdplab.analysis.met import Met
from xdplab.analysis.point import PointSummary
from xdplab.methods import Column
from xdplab.model.digits import number, percent, significant

#: Said below the table.
TOLD = (
    "By the forwarder's own counters, of all trials that stand for the point, or of a search's steps where none does; "
    "warm-ups counted. Open vSwitch: shares of look-ups in the netdev datapath; a recirculated frame is looked up "
    "again. Cycles: ticks of the time stamp counter in iterations that had frames, which fewer frames share at a light "
    "load, and which go on while the machine has taken the core away; the main thread counts none."
)
TOLD_XDP = " Frames that met a flow in XDP were seen by no thread: the other figures of their rows are of the rest."


def _field(name: str) -> Callable[[PointSummary], Any]:
    return lambda point: getattr(point.met or Met(), name)


def _share(name: str, title: str) -> Column:
    return Column(name, title, _field(name), percent)


MET_COLUMNS = (
    Column("met_frames", "frames", lambda point: (point.met and point.met.frames) or None, lambda value: f"{value:,}"),
    Column("lookups_per_frame", "look-ups per frame", _field("lookups_per_frame"), number),
    _share("hardware_share", "card"),
    _share("simple_share", "simple match"),
    _share("emc_share", "EMC"),
    _share("smc_share", "SMC"),
    _share("megaflow_share", "megaflows"),
    Column("subtables_per_hit", "subtables per hit", _field("subtables_per_hit"), number),
    _share("upcalls_share", "upcalls"),
    _share("lost_share", "unanswered"),
    _share("xdp_share", "in XDP"),
    Column("cycles_per_frame", "cycles per frame", _field("cycles_per_frame"), lambda value: significant(value, 4)),
)


def met_columns(points: Sequence[PointSummary]) -> list[Column]:
    """Those in which a point has more than nothing."""
    return [column for column in MET_COLUMNS if any(column.of(point) for point in points)]


def met_points(points: Sequence[PointSummary]) -> list[PointSummary]:
    """Those that have any of it."""
    return [point for point in points if point.met]


def told_of(points: Sequence[PointSummary]) -> str:
    """What is said below the table."""
    return TOLD + (TOLD_XDP if any(point.met and point.met.xdp_share for point in points) else "")
