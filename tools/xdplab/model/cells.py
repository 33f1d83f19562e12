# SPDX-License-Identifier: Apache-2.0
"""Cells of tables: as text, and of a CSV file, which a spreadsheet may open: a text of others is no formula there."""

from collections.abc import Iterable, Sequence
from typing import Any

#: What a formula begins with, also behind what a spreadsheet strips.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def spreadsheet_row(row: Iterable[Any]) -> list[Any]:
    """A row in which texts that begin as formulas do have an apostrophe in front, but for numbers."""
    return [f"'{each}" if isinstance(each, str) and _is_formula(each) else each for each in row]


def _is_formula(text: str) -> bool:
    if not text.startswith(_FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned first column, right-aligned others, two spaces between."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
