# SPDX-License-Identifier: Apache-2.0
"""JUnit XML, for CI systems: a run is a suite, a point a test.

Unsupported points are skipped, with the reason; failed ones, and losses above the study's limit, are failures; a point
that an ended run did not come to is an error, never a silent pass.
"""

import re
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from xdplab.analysis.doubts import loss_above
from xdplab.analysis.tables.export import ExportRow
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, plain

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
