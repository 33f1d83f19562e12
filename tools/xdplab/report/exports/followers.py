# SPDX-License-Identifier: Apache-2.0
"""Forms of programs that follow benchmarks over time: Bencher's metric format, and the CSV files of Apache Otava."""

import csv
from collections.abc import Sequence
from pathlib import Path

from xdplab.model import InputError
from xdplab.model.cells import spreadsheet_row


def metric(value: float, low: float | None, high: float | None) -> dict[str, float]:
    """A value of Bencher's with the bounds that are known."""
    ends = {"lower_value": low, "upper_value": high}
    return {"value": value, **{name: end for name, end in ends.items() if end is not None}}


def append_row(path: Path, head: Sequence[str], row: Sequence[str]) -> None:
    """To a CSV file whose first line is `head`; it is made when it is not there.

    Raises:
        InputError: its first line is another.
    """
    head, row = spreadsheet_row(head), spreadsheet_row(row)
    fresh = not path.exists()
    if not fresh:
        with path.open(encoding="utf-8", newline="") as file:
            if next(csv.reader(file), None) != head:
                raise InputError(f"{path}: it has other columns than {', '.join(head)}; give another file")
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, row] if fresh else [row])
