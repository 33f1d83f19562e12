# SPDX-License-Identifier: Apache-2.0
"""A run as a long table for other programs: a row for each point and figure, with stable columns.

Figures are those that methods declare, and the other numbers of their columns; nothing is listed here by name.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from xdplab.analysis.columns import datapath_columns, figure_text, finite, new_flow_columns, own_columns
from xdplab.analysis.doubts import doubts_of_one
from xdplab.measure import Column, Figure, Method, figure, make_method
from xdplab.measure.point import PointSummary
from xdplab.model import InputError, Model, RunRecord
from xdplab.model.digits import number

#: What a key ends with, in small letters -> the unit that it says.
_UNITS = {
    "us": "µs",
    "ns": "ns",
    "s": "s",
    "pps": "frames/s",
    "Mpps": "Mframes/s",
    "bps": "bit/s",
    "bytes": "bytes",
    "ratio": "1",
    "share": "1",
    "frames": "frames",
}
#: What each row says of its point.
_OF_THE_POINT = {"offered_pps", "achieved_pps", "loss_ratio"}


def unit_of(key: str) -> str | None:
    """`p50_us` -> `µs`; None of a key that does not end with a unit, as `requests_per_s` does not."""
    stem, _, end = key.rpartition("_")
    return None if stem.endswith("per") else {name.lower(): unit for name, unit in _UNITS.items()}.get(end)


class ExportRow(Model):
    """A figure of a point; empty, or null, where there is none."""

    #: Name of the run's folder.
    run_id: str
    #: Name of the study.
    study: str
    #: When the run began; UTC, ISO 8601.
    started: str
    #: Name of the testbed.
    testbed: str
    #: Who measured.
    tester: str
    #: Name of the method.
    method: str
    #: Short name that the same point has in every run.
    point_id: str
    #: Label, or name and options.
    forwarder: str
    #: What the method does of several things it can do, a JSON object: a workload, a rate.
    levels: str
    #: What is measured next to in the same repetitions, such as `light load`; empty for the point itself.
    part: str
    #: Mode in use, as the kernel and the program reported it.
    mode: str
    #: Way of the frames.
    path: str
    #: What a latency is on this path: `one-way` or `round trip`.
    quantity: str
    #: What the forwarder does with a frame: `cross` hands it to the other port.
    pipeline: str
    #: Size of a frame with its 4-byte FCS, or `imix`.
    frame_bytes: str
    #: UDP flows that the load has.
    udp_flows: int
    #: What else of its traffic is not the default, a JSON object.
    profile: str
    #: Knob, or option that a label hides -> value that was asked for, a JSON object.
    knobs: str
    #: Load that was asked for, frames per second of all streams.
    offered_pps: float | None
    #: Frames sent over the time that sending took, per second.
    achieved_pps: float | None
    #: Frames lost of those sent, all repetitions that are used together.
    loss_ratio: float | None
    #: Key of the figure, with its unit: `p50_us`, `ndr_pps`.
    figure: str
    #: As people read it.
    name: str
    #: Of `value`, `low`, `high` and `below`.
    unit: str
    #: Empty for a number that nothing is compared by.
    better: Literal["more", "less", ""]
    #: The value with unit and range as people read it: `2.3 µs (2.2 to 2.4, 5 repetitions)`, `at least 1,238 kpps`,
    #: `below 2 kpps`, `not known`; empty where it was not looked for.
    text: str
    #: It was looked for, found or not.
    searched: bool
    #: Median of the repetitions.
    value: float | None
    #: Lowest of these repetitions; a range, no confidence interval (`xdplab compare --json` has those of ratios).
    low: float | None
    #: Highest of these repetitions.
    high: float | None
    #: How many they are.
    n: int
    #: The figure is a lower bound: the tester, or the time, set it.
    at_least: bool
    #: What the true figure is below, where only that is known.
    below: float | None
    #: The figure is this machine's: a forwarding thread's core was gone for longer than what lies above it.
    machine_tail: bool
    #: Why the figure is uncertain and names no winner; several after a semicolon.
    doubts: str
    #: Repetitions that were measured.
    repetitions: int
    #: Of the point: `ok`, `partial`, `failed`, `unsupported`, `not measured`.
    status: str
    #: Of another status than `ok`, in words.
    reason: str
    #: Release of the kernel of the forwarder's machine.
    kernel: str
    #: Its processor.
    cpu_model: str
    #: Frequency governor.
    governor: str
    #: Whose clock a one-way latency is of, or why there is none.
    clock: str
    #: Commit of the checkout.
    git_revision: str
    #: Version of xdplab that measured.
    xdplab: str


def export_rows(run: RunRecord, points: Sequence[PointSummary]) -> list[ExportRow]:
    """All of a run: each figure of its method at each point, measured or not, and other numbers where there are any."""
    method, environment = make_method(run.study.method), run.environment
    of_run = {
        "run_id": run.run_id,
        "study": run.study.name,
        "started": run.started,
        "testbed": run.testbed.name,
        "method": run.study.method.name,
        "kernel": environment.kernel,
        "cpu_model": environment.cpu_model,
        "governor": environment.governor,
        "clock": environment.clock,
        "git_revision": environment.git_revision,
        "xdplab": environment.versions.get("xdplab", ""),
    }
    return [
        ExportRow(**of_run, **_of_point(run, side, point, part), **found)
        for point in points
        for part, side in {"": point, **point.by_clause}.items()
        for found in _figures(method, side, part)
    ]


def _of_point(run: RunRecord, side: PointSummary, point: PointSummary, part: str) -> dict[str, Any]:
    plain = (
        "point_id",
        "forwarder",
        "mode",
        "path",
        "quantity",
        "pipeline",
        "offered_pps",
        "achieved_pps",
        "loss_ratio",
        "udp_flows",
    )
    return {
        **{key: getattr(side, key) for key in (*plain, "repetitions")},
        "tester": point.tester or run.study.tester,
        "levels": json.dumps(point.levels, sort_keys=True),
        "part": part,
        "frame_bytes": str(point.frame_bytes),
        "profile": json.dumps(point.profile, sort_keys=True),
        "knobs": json.dumps(point.swept, sort_keys=True),
        "status": point.status,
        "reason": point.reason,
    }


def _figures(method: Method[Any], side: PointSummary, part: str) -> Iterator[dict[str, Any]]:
    declared = {each.key: each for each in method.figures}
    for each in declared.values():
        if not part or side.searched(each.key):
            yield row_of(side, each)
    ranges = {f"{key}_{end}" for key in declared for end in ("low", "high")}
    for column in () if part else (*own_columns(method), *datapath_columns([side]), *new_flow_columns([side])):
        if column.key in {*declared, *ranges, *_OF_THE_POINT} or column.clause:
            continue
        value = column.of(side)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield _of_column(side, column, float(value), method.figures[0])


def row_of(side: PointSummary, of: Figure) -> dict[str, Any]:
    """What an `ExportRow` says of a figure: its value with lowest and highest repetition, bounds, doubts."""
    searched = [one for one in side.by_repetition if one.was_searched(of.key)]
    known = [value for one in searched if (value := one.value(of.key)) is not None]
    found = side.measured.get(of.key)
    value = side.value(of.key)
    shown = known if value is not None else []
    words = "" if not searched else "not known" if value is None else figure_text(side, of, f" {of.unit}")
    if len(shown) > 1 and found and found.limited_by == "forwarder":
        low, high = (number(each / of.per) for each in (min(shown), max(shown)))
        words = f"{words} ({low} to {high}, {len(shown)} repetitions)"
    return {
        **_named(of.key, of.name, of.better, "" if of.per == 1 else f" / {of.per:g}", of.unit),
        "text": words,
        "searched": bool(searched),
        "value": finite(value),
        "low": finite(min(shown, default=None)),
        "high": finite(max(shown, default=None)),
        "n": len(shown),
        "at_least": bool(found and found.bound == "at least"),
        "below": found.below if found else None,
        "machine_tail": of.key in side.machine_tail,
        "doubts": "; ".join(doubts_of_one(side, of.key)),
    }


def _of_column(side: PointSummary, column: Column, value: float, first: Figure) -> dict[str, Any]:
    """A number that is no figure of the method; where it is one of another's, its doubts are as there."""
    try:
        known = figure(column.key)
    except InputError:
        known = None
    if known is not None:
        return row_of(side, known)
    return {
        **(named := _named(column.key, column.title, "", "", "")),
        "text": f"{number(value)} {named['unit'].removeprefix('1')}".strip(),
        "searched": True,
        "value": value,
        "low": None,
        "high": None,
        "n": side.repetitions,
        "at_least": False,
        "below": None,
        "machine_tail": column.key in side.machine_tail,
        "doubts": "; ".join(doubts_of_one(side, first.key)),
    }


def _named(key: str, name: str, better: str, per: str, unit: str) -> dict[str, Any]:
    text = unit_of(key) or f"{unit}{per}" or (key.replace("_per_", "/") if "_per_" in key else "")
    return {"figure": key, "name": re.sub(r"\s+", " ", name), "better": better, "unit": text}
