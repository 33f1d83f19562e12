# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them, and cells of tables."""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any


def significant(value: float, digits: int = 3) -> str:
    """`11,300`, `0.0076`, `1.43`: that many significant digits in plain decimals, never an exponent; `∞`."""
    if math.isinf(value):
        return "∞"
    return f"{Decimal(f'{value:.{digits}g}'):,f}"


def percent(ratio: float) -> str:
    """`2.5 %`, `0.012 %`: a ratio in percent, two significant digits below 10 % and three above."""
    return f"{significant(100 * ratio, 2 if abs(ratio) < 0.1 else 3)} %"


def number(value: float | None) -> str:
    """Three significant digits, four from 100 on, or a dash."""
    return "-" if value is None else significant(value, 4 if value >= 100 else 3)


def number_of(count: int, what: str) -> str:
    """`1 thread`, `1,024 threads`."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def loss(ratio: float | None) -> str:
    """A loss ratio in percent: 0 only when it is zero; a dash when it is not known."""
    return "-" if ratio is None else percent(ratio) if ratio else "0"


#: A loss of which the rounds differ by more than this is that of some of them.
_UNLIKE = 2


def loss_over(ratio: float | None, rounds: Sequence[float]) -> str:
    """The same with the range of rounds that differ by more than a factor of two: `4.1 % (0 to 12.4 %)`."""
    low, high = min(rounds, default=0.0), max(rounds, default=0.0)
    if not ratio or high <= _UNLIKE * low or len(rounds) < 2:
        return loss(ratio)
    return f"{loss(ratio)} ({loss(low).removesuffix(' %')} to {loss(high)})"


def duration(seconds: float) -> str:
    """`2 min 05 s`, and from an hour on `5 h 09 min`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


# Cells of tables: as text, and of a CSV file, which a spreadsheet may open: a text of others is no formula there.

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
