# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them."""

from decimal import Decimal


def significant(value: float, digits: int = 3) -> str:
    """`11,300`, `0.0076`, `1.43`: that many significant digits in plain decimals, never an exponent."""
    return f"{Decimal(f'{value:.{digits}g}'):,f}"
