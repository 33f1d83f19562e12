# SPDX-License-Identifier: Apache-2.0
"""A sheet to sign: what was tested, where, how and with what result, on one to three pages of PDF."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from xdplab.analysis.answers.order import in_order
from xdplab.analysis.run import Run
from xdplab.measure.figure import Figure
from xdplab.measure.point import PointSummary
from xdplab.model import InputError, Path as Way, RunRecord, XdplabError
from xdplab.model.digits import significant
from xdplab.model.plugins import need
from xdplab.model.study import unusual
from xdplab.report.page import Place, templates
from xdplab.stats import geometric_interval

#: Rows of the table of results: with more the sheet would have more than three pages.
_MOST_ROWS = 45
#: Figures of the table, the first of the method.
_MOST_FIGURES = 4
#: What the journal is, of which the checksum is.
_JOURNAL = ("run.json", "trials.jsonl")


class Box(NamedTuple):
    """A machine of the drawing, with its ports to the left and to the right."""

    name: str
    what: str
    left: str = ""
    right: str = ""


def write_sheet(run: Run, operator: str = "") -> Path:
    """`sheet.pdf` in the run's folder.

    Args:
        run: with at least one point measured.
        operator: who is responsible; empty: to be filled in.

    Raises:
        Missing: weasyprint is not installed.
        InputError: nothing was measured.
        XdplabError: it cannot be written.
    """
    need("sheet", "report --sheet")
    import weasyprint

    path = run.folder / "sheet.pdf"
    page = weasyprint.HTML(string=sheet(run, operator), url_fetcher=_nothing)
    partial = path.with_suffix(".partial")
    try:
        page.write_pdf(partial)
        partial.replace(path)
    except OSError as exc:
        raise XdplabError(f"{path}: {exc.strerror}") from None
    return path


def sheet(run: Run, operator: str = "") -> str:
    """The same as HTML.

    Raises:
        InputError: nothing was measured.
    """
    record = run.record
    measured = in_order(run.method, [point for point in run.points if _has_figures(point)])
    if not measured:
        raise InputError(f"{run.name}: nothing was measured, so there is nothing to sign")
    figures = [each for each in run.method.figures if any(each.key in point.measured for point in measured)]
    return (
        templates()
        .get_template("sheet.html.j2")
        .render(
            run=record,
            place=Place(record),
            answer=run.answer,
            rows=[_row(point, figures[:_MOST_FIGURES]) for point in measured[:_MOST_ROWS]],
            figures=figures[:_MOST_FIGURES],
            left_out=max(0, len(measured) - _MOST_ROWS),
            clauses=[(point, line) for point in measured[:_MOST_ROWS] if (line := "; ".join(_clauses(point)))],
            unmeasured=[point for point in run.points if not _has_figures(point)],
            remarks=run.method.remarks(record),
            about={title: record.forwarders.get(title, "") for title in _titles(measured)},
            boxes=drawing(record),
            ports=[(role, _port(facts)) for role, facts in sorted(record.environment.ports.items())],
            settings=_settings(record),
            checksums={name: checksum(run.folder / name) for name in _JOURNAL},
            operator=operator,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        )
    )


def _has_figures(point: PointSummary) -> bool:
    """Clauses such as `reset` have figures without `repetitions`, which count those of throughput and latency."""
    return point.status in ("ok", "partial")


def _clauses(point: PointSummary) -> Iterator[str]:
    """Clauses of a method that tell what they found in a line (`Method.point_figures`)."""
    for name in type(point.figures).model_fields:
        found = getattr(point.figures, name)
        if callable(text := getattr(found, "text", None)) and (line := text()):
            yield f"{name.replace('_', ' ')}: {line}"


def checksum(path: Path) -> str:
    """SHA-256, as `sha256sum` prints it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def drawing(record: RunRecord) -> list[Box]:
    """What stands between the tester's ports, from A on; a path that comes back ends at its far port."""
    ports = {role: str(facts.get("ifname", role)) for role, facts in record.environment.ports.items()}
    hosts = {role: str(port.host) for role, port in record.testbed.ports.items()}
    name = {role: f"{role}: {ports.get(role, role)}" for role in ("a0", "b0", "b1", "c0")}
    ways = {point.path for point in record.points.values()}
    first = Box(f"A {hosts.get('a0', '')}".strip(), "tester", right=name["a0"])
    if record.testbed.external:
        device = next(iter(record.plain_names.values()), "device")
        middle = Box("B", device)
    else:
        count = len({point.forwarder.title for point in record.points.values()})
        what = next(iter(_named(record).values())) if count == 1 else f"{count} forwarders"
        middle = Box(f"B {hosts.get('b0', '')}".strip(), what, name["b0"], "" if ways == {Way.HAIRPIN} else name["b1"])
    if ways == {Way.HAIRPIN}:
        return [first, middle]
    far = "tester, sends back" if ways == {Way.REFLECT} else "tester"
    return [first, middle, Box(f"C {hosts.get('c0', '')}".strip(), far, name["c0"])]


def _named(record: RunRecord) -> dict[str, str]:
    titles = dict.fromkeys(point.forwarder.title for point in record.points.values())
    return {title: record.plain_names.get(title, title) for title in titles}


def _titles(points: Sequence[PointSummary]) -> dict[str, str]:
    return {point.forwarder: point.plain_name for point in points}


def _row(point: PointSummary, figures: Sequence[Figure]) -> dict[str, Any]:
    return {
        "name": point.plain_name,
        "title": point.forwarder if point.forwarder != point.plain_name else "",
        "mode": point.mode,
        "size": point.size,
        "settings": ", ".join(point.settings),
        "cells": [_cell(point, each) for each in figures],
        "loss": point.loss_text,
        "repetitions": point.repetitions or point.begun - point.failed,
        "status": point.status,
    }


def _cell(point: PointSummary, figure: Figure) -> tuple[str, str]:
    """The figure, and where it lies at 99 % (Student's t over repetitions); with fewer than three their range."""
    found = point.measured.get(figure.key)
    if found is None:
        return "–", ""
    values = [one.value(figure.key) for one in point.by_repetition]
    known = [each for each in values if each is not None and math.isfinite(each) and each > 0]
    text = found.text(figure.per)
    if len(known) < len(values) or len(known) < 2:
        return text, ""
    lies = geometric_interval(known, found.resolution) if len(known) > 2 else (min(known), max(known))
    if lies is None:
        return text, ""
    low, high = (significant(each / figure.per) for each in lies)
    return text, f"{low} to {high}{' (range)' if len(known) == 2 else ''}"


def _port(facts: Mapping[str, Any]) -> dict[str, str]:
    """Interface, driver, version of its firmware and bus address, as ethtool has them."""
    found = dict(re.findall(r"^([\w-]+): *(.*)$", str(facts.get("ethtool -i", "")), re.MULTILINE))
    given = {
        "interface": facts.get("ifname"),
        "host": facts.get("host"),
        "driver": found.get("driver"),
        "firmware": found.get("firmware-version"),
        "bus": found.get("bus-info"),
        "MTU": facts.get("mtu"),
    }
    return {name: str(value) for name, value in given.items() if value}


def _settings(record: RunRecord) -> dict[str, str]:
    """What was asked for, in the words of the study."""
    study, traffic = record.study, record.study.traffic
    sizes = study.frame_bytes or (traffic.frame_bytes,)
    spec = study.method.model_dump(mode="json", exclude_defaults=True)
    return {
        "study": f"{study.name}{f' ({study.title})' if study.title else ''}",
        "method": ", ".join([study.method.name, *_words(spec)]),
        "frames": f"{', '.join(map(str, sizes))} bytes with FCS, {traffic.flows} flow{'s' * (traffic.flows > 1)}, "
        f"{'both directions' if traffic.bidirectional else 'one direction'}"
        f"{f', request of {request}' if (request := unusual(traffic).get('request')) else ''}",
        "path": ", ".join(dict.fromkeys(str(point.path) for point in record.points.values())),
        "tester": f"{', '.join(study.all_testers)}, receives by {record.rx_program}",
        "testbed": f"{record.testbed.name}, MTU {record.testbed.mtu}, queues {record.testbed.queues}",
        "CPUs": record.layout.describe(),
        "knobs": ", ".join(f"{knob}: {', '.join(map(str, values))}" for knob, values in study.knobs.items()) or "none",
        "repetitions": f"{study.repetitions}, seed {study.seed}",
    }


def _words(spec: Mapping[str, Any], above: str = "") -> list[str]:
    """`duration_s 0.2`; keys of a mapping behind its own, and lists without brackets."""
    found = []
    for key, value in spec.items():
        if isinstance(value, dict):
            found += _words(value, f"{above}{key}.")
        elif (above, key) != ("", "name") and value is not None:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            found.append(f"{above}{key} {shown}")
    return found


def _nothing(url: str, *_: Any, **__: Any) -> Any:
    """A page is one file: nothing is fetched for it."""
    raise ValueError(f"{url} is not fetched")
