# SPDX-License-Identifier: Apache-2.0
"""The picture of a report: forwarders in order, each with its interval; those that are not separated are joined."""

import math
from collections.abc import Container, Sequence
from itertools import takewhile
from typing import Any

from xdplab.analysis.answers.order import Order, Placed
from xdplab.analysis.tables.columns import figure_text

#: Where the axis begins and ends in a picture, the height of a row, and of a name the letters that have room.
_LEFT, _RIGHT, _ROW, _LETTERS = 220.0, 500.0, 20, 31
#: An interval goes so many times beyond the values at the most.
_BEYOND = 3.0


def panels(orders: Sequence[Order], marked: Container[str]) -> list[dict[str, Any]]:
    """What order.html.j2 draws, on one axis; `marked`: the forwarders of the answer."""
    ends = _ends([one for order in orders for one in order.rows])
    return [_panel(order, marked, *ends) for order in orders]


def _panel(order: Order, marked: Container[str], low: float, high: float) -> dict[str, Any]:

    def at(value: float) -> float:
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    rows = [
        {
            "name": one.point.plain_name + one.point.variant,
            "y": (number + 1) * _ROW + 12,
            "at": at(one.value),
            "ends": [at(end) for end in one.interval] if one.interval else None,
            "text": _text(one, order),
            "marked": one.point.forwarder in marked,
        }
        for number, one in enumerate(order.rows)
    ]
    ticks = {f"{tick / order.figure.per:g}": at(tick) for tick in _ticks(low, high, order.figure.per)}
    title = f"{order.figure.title}{order.where}"
    bars = [(number, len(joined)) for number, joined in _joined(order.rows)]
    return {"title": title, "rows": rows, "ticks": ticks, "bars": bars, "letters": _LETTERS, "row": _ROW}


def _text(one: Placed, order: Order) -> str:
    text = figure_text(one.point, order.figure)
    if one.interval is None:
        return text
    return f"{text} ({' to '.join(order.figure.format(end) for end in one.interval)})"


def _ends(rows: Sequence[Placed]) -> tuple[float, float]:
    values = [one.value for one in rows if math.isfinite(one.value)] or [1.0]
    low, high = min(values), max(values)
    ends = [end for one in rows for end in one.interval or ()]
    return max(min([low, *ends]), low / _BEYOND) / 1.1, min(max([high, *ends]), high * _BEYOND) * 1.1


def _ticks(low: float, high: float, per: float) -> list[float]:
    steps = (1, 2, 5) if high / low < 50 else (1,) if high / low > 2000 else (1, 3)
    powers = range(math.floor(math.log10(low / per)), math.ceil(math.log10(high / per)) + 1)
    return [tick for power in powers for step in steps if low <= (tick := step * 10.0**power * per) <= high]


def _joined(rows: Sequence[Placed]) -> list[tuple[int, list[Placed]]]:
    """Where a bar begins, and the rows that it joins."""
    found, begin = list[tuple[int, list[Placed]]](), 0
    while begin < len(rows):
        tied = [*takewhile(lambda one: not one.separated, rows[begin:])]
        if tied:
            found.append((begin, [*rows[begin : begin + len(tied) + 1]]))
        begin += len(tied) + 1
    return found
