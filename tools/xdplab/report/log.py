# SPDX-License-Identifier: Apache-2.0
"""What the console and a log of Robot Framework show of a run: trials in a phrase, the answer, the table, a picture."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from xdplab.analysis.tables.columns import cells_of
from xdplab.measure import Method
from xdplab.measure.distribution import distribution, if_enough_samples
from xdplab.measure.point import PointSummary
from xdplab.model import TrialRecord
from xdplab.report.page import templates

#: Rows that a log has room for; the report has all.
_ROWS = 100
_PICTURE = re.compile(r"<svg\b.*?</svg>", re.DOTALL)


def points_in_log(method: Method[Any], points: Sequence[PointSummary], **beside: Any) -> str:
    """Their table as HTML with everything escaped, and why points were not measured."""
    shown_points, more = points[:_ROWS], len(points[_ROWS:])
    reasons = [(point.forwarder, f"{point.status}: {point.reason}") for point in shown_points if point.reason]
    environment = templates()
    shown = {"sentence": "", "picture": "", "report": "", "link": "", **beside}
    table = cells_of(method, shown_points)
    return environment.get_template("log.html.j2").render(table=table, reasons=reasons, more=more, **shown).strip()


def run_in_log(method: Method[Any], points: Sequence[PointSummary], sentence: str, report: Path, link: str) -> str:
    """The same of a whole run, with the answer, the first picture of its report and a link to that."""
    found = _PICTURE.search(report.read_text(encoding="utf-8")) if report.is_file() else None
    picture = Markup(found.group()) if found else ""  # noqa: S704 - as our own report has it
    named = f"{report.parent.name}/{report.name}"
    return points_in_log(method, points, sentence=sentence, picture=picture, report=named, link=link)


def link_from(folder: Path | None, report: Path) -> str:
    """Relative, so that results and log may be moved together."""
    return quote(os.path.relpath(report, folder or report.parent))


def describe(record: TrialRecord) -> str:
    if record.result is None:
        return f"{record.status}: {record.reason}"
    if "text" in record.figures:
        return str(record.figures["text"])
    latencies = distribution([record])
    p50, p99 = latencies.percentile_us(50), if_enough_samples([record], 99, latencies.percentile_us(99))
    text = f"lost {record.result.lost} of {record.result.sent}"
    percentiles = {"p50": p50, "p99": p99}
    return ", ".join([*(f"{name} {value:.2f} us" for name, value in percentiles.items() if value is not None), text])
