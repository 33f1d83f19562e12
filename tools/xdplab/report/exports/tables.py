# SPDX-License-Identifier: Apache-2.0
"""CSV and Parquet: the fields of `ExportRow` are the columns."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from xdplab.analysis.tables.export import ExportRow
from xdplab.model import InputError
from xdplab.model.described import described


def csv_of(rows: Iterable[ExportRow]) -> bytes:
    """RFC 4180 with a head line, UTF-8; nothing for null, `true` and `false`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(ExportRow.model_fields)
    for row in rows:
        writer.writerow(str(each).lower() if isinstance(each, bool) else each for each in row.model_dump().values())
    return out.getvalue().encode()


def parquet_of(rows: Iterable[ExportRow]) -> bytes:
    """One table; what a column holds stands in its metadata, under `description`.

    Raises:
        InputError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError("format parquet needs pyarrow: pip install 'xdplab[parquet]', or choose csv") from None
    kinds: dict[Any, Any] = {int: pa.int64(), bool: pa.bool_(), float | None: pa.float64()}
    told = described(ExportRow)
    schema = pa.schema(
        pa.field(name, kinds.get(field.annotation, pa.string()), metadata={"description": told.get(name, "")})
        for name, field in ExportRow.model_fields.items()
    )
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([row.model_dump() for row in rows], schema=schema), out)
    return out.getvalue()
