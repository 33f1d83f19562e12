# SPDX-License-Identifier: Apache-2.0
"""Forms that other programs read, of `analysis.export`'s rows: CSV, JUnit."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from xdplab.analysis.tables.export import ExportRow, export_rows
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord
from xdplab.model.cells import spreadsheet_row
from xdplab.model.design import as_written
from xdplab.report.exports.junit import junit_of


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
