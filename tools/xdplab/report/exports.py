# SPDX-License-Identifier: Apache-2.0
"""Forms that other programs read, of `analysis.export`'s rows: CSV, JUnit."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from xdplab.analysis.doubts import loss_above
from xdplab.analysis.export import ExportRow, export_rows
from xdplab.analysis.gate import BASE, NEW, GateResult
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, plain
from xdplab.model.design import as_written
from xdplab.model.digits import percent, significant, spreadsheet_row

# JUnit XML, for CI systems: a run is a suite, a point a test.
#
# Unsupported points are skipped, with the reason; failed ones, and losses above the study's limit, are failures; a
# point that an ended run did not come to is an error, never a silent pass.

_KINDS = ("failure", "error", "skipped")


def junit_of(run: RunRecord, points: Sequence[PointSummary], rows: Iterable[ExportRow]) -> bytes:
    """One suite; each test's output has the figures of its point."""
    found = [_case(run, point) for point in points]
    counts = {kind: str(sum(case.find(kind) is not None for case in found)) for kind in _KINDS}
    suite = Element("testsuite", name=_xml(run.run_id), tests=str(len(found)), failures=counts["failure"])
    suite.attrib |= {"errors": counts["error"], "skipped": counts["skipped"]}
    suite.attrib |= {"time": f"{run.wall_s or 0:.3f}", "timestamp": run.started[:19]}
    properties = SubElement(suite, "properties")
    environment = run.environment
    facts = {"study": run.study.name, "testbed": run.testbed.name, "kernel": environment.kernel}
    facts |= {"cpu_model": environment.cpu_model, "git_revision": environment.git_revision}
    for name, value in facts.items():
        SubElement(properties, "property", name=name, value=_xml(value))
    lines: dict[str, list[str]] = {}
    for row in rows:
        if row.text:
            lines.setdefault(row.point_id, []).append(_line(row))
    for point, case in zip(points, found, strict=True):
        SubElement(case, "system-out").text = _xml("\n".join(lines.get(point.point_id, ())))
        suite.append(case)
    whole = Element("testsuites")
    whole.append(suite)
    indent(whole)
    text: bytes = tostring(whole, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def one_case(suite: str, name: str, kind: str, sentence: str) -> str:
    """A suite of one test; `kind` is that of what went wrong: `failure`, `error`, `skipped`, or "" of nothing."""
    whole = Element("testsuites")
    made = SubElement(whole, "testsuite", name=_xml(suite), tests="1")
    made.attrib |= {f"{each}s" if each != "skipped" else each: str(int(each == kind)) for each in _KINDS}
    case = SubElement(made, "testcase", name=_xml(name), classname=_xml(suite), time="0")
    if kind:
        _say(case, kind, sentence)
    SubElement(case, "system-out").text = _xml(sentence)
    indent(whole)
    text: str = tostring(whole, encoding="unicode", xml_declaration=True)
    return text + "\n"


def _case(run: RunRecord, point: PointSummary) -> Element:
    settings = "".join(f", {setting}" for setting in point.settings)
    tester = f", {point.tester}" if point.tester else ""
    name = f"{point.forwarder}, {point.path}, {point.size}{settings}{tester}"
    case = Element("testcase", name=_xml(name), classname=_xml(f"{run.study.name}.{run.testbed.name}"), time="0")
    if point.failed or point.status in ("failed", "partial"):
        _say(case, "failure", point.reason or f"failed in {point.failed} repetitions")
    elif point.status == "unsupported":
        _say(case, "skipped", point.reason)
    elif point.status == "not measured":
        _say(case, "error", f"not measured: {point.reason}")
    elif point.faults:
        _say(case, "failure", f"{point.forwarder} {point.fault}")
    elif above := loss_above(point, run.study.max_loss_ratio):
        _say(case, "failure", above)
    return case


def _say(case: Element, kind: str, reason: str) -> None:
    SubElement(case, kind, message=_xml(reason)).text = _xml(reason)


def _line(row: ExportRow) -> str:
    """`p50 2.3 µs (2.2 to 2.4, 5 repetitions)`, with what is wrong with it."""
    named = f"{row.part}: {row.name}" if row.part else row.name
    return "; ".join(
        filter(None, [f"{named} {row.text}", row.doubts, "this machine's tail" if row.machine_tail else ""])
    )


def _xml(text: str) -> str:
    """What XML 1.0 cannot hold is made visible."""
    return re.sub("[\ud800-\udfff\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", plain(text))


def csv_of(rows: Iterable[ExportRow]) -> bytes:
    """RFC 4180 with a head line, UTF-8; nothing for null, `true` and `false`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(ExportRow.model_fields)
    for row in rows:
        shown = spreadsheet_row(row.model_dump().values())
        writer.writerow(None if each is None else as_written(each) for each in shown)
    return out.getvalue().encode()


#: Name of a form -> what makes it.
FORMS: dict[str, Callable[[RunRecord, Sequence[PointSummary]], bytes]] = {
    "csv": lambda run, points: csv_of(export_rows(run, points)),
    "junit": lambda run, points: junit_of(run, points, export_rows(run, points)),
}


# The verdict of a gate, for pull requests and for programs that follow benchmarks.

#: Verdict -> what JUnit calls it.
_JUNIT = {"pass": "", "slower": "failure", "broken": "failure", "undecided": "error", "unsupported": "skipped"}


def junit(found: GateResult) -> str:
    """JUnit XML: a suite of one test."""
    name = f"{found.new.forwarder} against {found.base.forwarder}"
    return one_case("xdplab gate", name, _JUNIT[found.verdict], found.sentence)


def markdown(found: GateResult) -> str:
    """A summary for a pull request."""
    name = f"{found.figure} ({found.metric})"
    shown = _counted if found.seeds else _measured
    rows = "".join(
        f"| {label} | `{side.forwarder}` | {shown(side.value)} | {shown(side.low)} to {shown(side.high)} |\n"
        for label, side in ((BASE, found.base), (NEW, found.new))
    )
    return (
        f"**xdplab gate: {found.sentence}**\n\n"
        f"| | forwarder | {name} | repetitions |\n| --- | --- | --- | --- |\n{rows}\n"
        f"{_basis(found)}\n{_changes(found)}"
    )


def _changes(found: GateResult) -> str:
    """Where a difference of instructions lies; with the rest it is a page of at most 20 lines."""
    if not found.changes:
        return ""
    rows = "".join(
        f"| {each.layer} | {each.change:+,.1f} | {', '.join(_function(*item) for item in each.functions.items())} |\n"
        for each in found.changes
    )
    return f"\n| layer | instructions per frame, {NEW} less {BASE} | most of it |\n| --- | --- | --- |\n{rows}"


def _function(name: str, change: float) -> str:
    return f"`{name}` {change:+,.0f}"


def ktap(found: GateResult) -> str:
    """KTAP (linux/Documentation/dev-tools/ktap.rst), which CI of the kernel reads: one test."""
    name = f"xdplab gate {found.new.forwarder} against {found.base.forwarder}".replace("#", "")
    outcome = {"pass": f"ok 1 {name}", "unsupported": f"ok 1 {name} # SKIP"}.get(found.verdict, f"not ok 1 {name}")
    more = "".join(f"# {each.layer} {each.change:+,.1f}\n" for each in found.changes)
    return f"KTAP version 1\n1..1\n# {found.sentence}\n{more}{outcome}\n"


def _basis(found: GateResult) -> str:
    if found.seeds:
        return f"{found.seeds} emulated guests of each, whose clock counts instructions: no time, and no noise."
    rounds = f"{found.rounds} rounds in turns"
    return f"{rounds}; a wrong verdict by the figure has a chance of at most {percent(found.wrong)}."


def _measured(value: float | None) -> str:
    return "-" if value is None else significant(value)


def _counted(value: float | None) -> str:
    """Not rounded to a change that is found."""
    return "-" if value is None else f"{value:,.1f}"


def bencher(found: GateResult) -> dict[str, dict[str, dict[str, float]]]:
    """Bencher's metric format: benchmark -> measure -> value with its bounds.

    A repetition's least and greatest bound a value; the interval bounds the slowdown, a ratio.
    """
    sides = {
        f"xdplab gate {label}": {found.metric: metric(side.value, side.low, side.high)}
        for label, side in ((BASE, found.base), (NEW, found.new))
        if side.value is not None
    }
    if found.slowdown is not None:
        sides[f"xdplab gate {NEW}"]["slowdown"] = metric(found.slowdown, found.low, found.high)
    return sides


def metric(value: float, low: float | None, high: float | None) -> dict[str, float]:
    """A value with the bounds that are known."""
    ends = {"lower_value": low, "upper_value": high}
    return {"value": value, **{name: end for name, end in ends.items() if end is not None}}
