# SPDX-License-Identifier: Apache-2.0
"""Cells of a CSV file, which a spreadsheet may open: a text of somebody else's is no formula there."""

from collections.abc import Iterable
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
