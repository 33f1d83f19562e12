# SPDX-License-Identifier: Apache-2.0
"""The ledger: a table of costs as files that are kept, for readers and for programs that follow benchmarks."""

import json
from pathlib import Path

from xdplab.cost import table
from xdplab.cost.gate import METRIC
from xdplab.cost.run import CostTable
from xdplab.report.exports.followers import append_row, metric


def bencher(found: CostTable) -> dict[str, dict[str, dict[str, float]]]:
    """Bencher's metric format: the least and the greatest of a seed bound a cell."""
    return {
        f"xdplab cost {cell.kernel} {cell.driver} {cell.forwarder}": {
            METRIC: metric(cell.instructions, cell.low, cell.high)
        }
        for cell in found.cells
        if cell.instructions is not None
    }


def otava(found: CostTable, time: str, commit: str) -> tuple[list[str], list[str]]:
    """Head and row of a CSV file that Apache Otava reads, one row for each table; `time` in ISO 8601."""
    cells = [(f"{each.kernel} {each.driver} {each.forwarder}", each.instructions) for each in found.cells]
    pairs = [
        ("time", time),
        ("commit", commit),
        *((name, "" if value is None else str(value)) for name, value in cells),
    ]
    return [name for name, _ in pairs], [value for _, value in pairs]


def write(found: CostTable, stem: Path, time: str, commit: str) -> None:
    """Write STEM.md, .json, .csv and .bencher.json, and append a row to STEM.otava.csv; in a folder the stem is `cost`.

    Raises:
        InputError: STEM.otava.csv has other columns.
    """
    stem = stem / "cost" if stem.is_dir() else stem
    texts = {
        ".md": table.markdown(found),
        ".json": found.model_dump_json(indent=1) + "\n",
        ".csv": table.comma_separated(found),
        ".bencher.json": json.dumps(bencher(found), indent=1, allow_nan=False) + "\n",
    }
    for suffix, text in texts.items():
        stem.with_name(stem.name + suffix).write_text(text, encoding="utf-8")
    append_row(stem.with_name(f"{stem.name}.otava.csv"), *otava(found, time, commit))
