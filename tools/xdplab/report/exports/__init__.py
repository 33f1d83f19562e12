# SPDX-License-Identifier: Apache-2.0
"""Forms that other programs read, all of `analysis.export`'s rows: CSV, Parquet, OpenMetrics, JUnit."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdplab.analysis.tables.export import ExportRow, export_rows
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord
from xdplab.model.cells import spreadsheet_row
from xdplab.model.described import described
from xdplab.model.design import as_written
from xdplab.model.extras import need
from xdplab.report.exports.junit import junit_of
from xdplab.report.exports.openmetrics import openmetrics_of


def csv_of(rows: Iterable[ExportRow]) -> bytes:
    """RFC 4180 with a head line, UTF-8; nothing for null, `true` and `false`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(ExportRow.model_fields)
    for row in rows:
        shown = spreadsheet_row(row.model_dump().values())
        writer.writerow(None if each is None else as_written(each) for each in shown)
    return out.getvalue().encode()


def parquet_of(rows: Iterable[ExportRow]) -> bytes:
    """One table; what a column holds stands in its metadata, under `description`.

    Raises:
        Missing: pyarrow is not installed.
    """
    need("parquet", "export: format parquet")
    import pyarrow as pa
    from pyarrow import parquet

    kinds: dict[Any, Any] = {int: pa.int64(), bool: pa.bool_(), float | None: pa.float64()}
    descriptions = described(ExportRow)
    schema = pa.schema(
        pa.field(name, kinds.get(field.annotation, pa.string()), metadata={"description": descriptions.get(name, "")})
        for name, field in ExportRow.model_fields.items()
    )
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([row.model_dump() for row in rows], schema=schema), out)
    return out.getvalue()


#: Name of a form -> what makes it.
FORMS: dict[str, Callable[[RunRecord, Sequence[PointSummary]], bytes]] = {
    "csv": lambda run, points: csv_of(export_rows(run, points)),
    "parquet": lambda run, points: parquet_of(export_rows(run, points)),
    "openmetrics": lambda run, points: openmetrics_of(run, points, export_rows(run, points)),
    "junit": lambda run, points: junit_of(run, points, export_rows(run, points)),
}
