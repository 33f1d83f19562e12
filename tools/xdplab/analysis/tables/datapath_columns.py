# SPDX-License-Identifier: Apache-2.0
"""Columns of tables next to that of points, and in CSV: lookup hits and what they cost, new flows."""

from collections.abc import Callable, Sequence
from typing import Any

from xdplab.measure import Column
from xdplab.measure.datapath import DatapathStats
from xdplab.measure.point import PointSummary
from xdplab.model.digits import number, percent, significant

_FRAMES = (
    "By the forwarder's own counters, of all trials that are used, or of a search's steps where none does; "
    "warm-ups counted."
)
_LOOKUPS = "Shares of the rest are of look-ups in the netdev datapath; a recirculated frame is looked up again."
_CYCLES = (
    "Ticks of the time stamp counter, which go on while the machine has taken the core away. Of Open vSwitch those of "
    "iterations that had frames, which fewer frames share at a light load; its main thread counts none. Of VPP those "
    "of all nodes, less about what polling without frames took; none where that was most."
)
_BUSY = "Share of the cycles, polling without frames next to them, from before the traffic until after it."
_KERNEL = (
    "Share of the CPU time of forwarding threads, from before the traffic until after it, polling counted, and "
    "softirqs that ran on top of a thread (docs/pipelines.md)."
)
_XDP = "These met a flow in XDP and were seen by no thread: the other figures of the row are of the rest."


def _field(name: str) -> Callable[[PointSummary], Any]:
    return lambda point: getattr(point.datapath or DatapathStats(), name)


def _share(name: str, title: str, about: str = "") -> Column:
    return Column(name, title, _field(name), percent, about=about)


LOOKUP_COLUMNS = (
    Column(
        "met_frames",
        "frames",
        lambda point: (point.datapath and point.datapath.frames) or None,
        lambda value: f"{value:,}",
        about=_FRAMES,
    ),
    Column("lookups_per_frame", "look-ups per frame", _field("lookups_per_frame"), number, about=_LOOKUPS),
    _share("hardware_share", "card"),
    _share("simple_share", "simple match"),
    _share("emc_share", "EMC"),
    _share("smc_share", "SMC"),
    _share("megaflow_share", "megaflows"),
    Column("subtables_per_hit", "subtables per hit", _field("subtables_per_hit"), number),
    _share("upcalls_share", "upcalls"),
    _share("lost_share", "unanswered"),
    _share("xdp_share", "in XDP", _XDP),
    Column("frames_per_call", "frames per call", _field("frames_per_call"), number),
    Column(
        "cycles_per_frame",
        "cycles per frame",
        _field("cycles_per_frame"),
        lambda value: significant(value, 4),
        about=_CYCLES,
    ),
    _share("busy_share", "busy", _BUSY),
    _share("kernel_share", "in the kernel", _KERNEL),
)


def _first(name: str) -> Callable[[PointSummary], Any]:
    return lambda point: getattr(point.new_flows, name) if point.new_flows else None


NEW_FLOW_COLUMNS = (
    Column("new_flows_sent_pps", "new flows/s", _first("sent_pps"), number),
    Column("new_flows_sent", "first frames", _first("sent"), "{:,}".format),
    Column("new_flows_lost", "lost", _first("lost"), "{:,}".format),
    Column("new_flows_p50_us", "first p50 µs", _first("p50_us"), number),
    Column("new_flows_p99_us", "first p99 µs", _first("p99_us"), number),
)
#: Said below their table.
NEW_FLOWS_NOTE = (
    "Each of these frames is the first and only one of its flow. Latencies of the other tables are without them; rates "
    "and losses there are of all frames."
)


def new_flow_columns(points: Sequence[PointSummary]) -> list[Column]:
    """All, where a point has new flows."""
    return [*NEW_FLOW_COLUMNS] if any(point.new_flows for point in points) else []


def datapath_columns(points: Sequence[PointSummary]) -> list[Column]:
    """Those in which a point has more than nothing; a share of time may be nothing."""
    known = {column.key: [column.of(point) for point in points] for column in LOOKUP_COLUMNS}
    times = ("busy_share", "kernel_share")
    return [
        column
        for column in LOOKUP_COLUMNS
        if any(value or (column.key in times and value is not None) for value in known[column.key])
    ]


def datapath_points(points: Sequence[PointSummary]) -> list[PointSummary]:
    """Those that have any of it."""
    return [point for point in points if point.datapath]


def by_node(points: Sequence[PointSummary]) -> list[str]:
    """A line for each point whose forwarder tells what each node of its graph costs."""
    named = [
        (" ".join((point.forwarder, *point.settings)), text)
        for point in datapath_points(points)
        if (text := (point.datapath or DatapathStats()).nodes_text())
    ]
    return [f"{name}, cycles per frame by node: {text}" for name, text in named]
