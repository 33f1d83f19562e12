# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev false-alarms --tables`: how often a whole table says something that is not so, and what it finds.

A table has five places (workloads) with eight rows each. At each place the row with the best median is compared with
the seven others, and all 35 comparisons are corrected together, as `analysis.answers.ranking` does. A false table is
one that calls any two rows different although all are equal; power is the share of differences found where half of the
rows of a place are slower than the others, 1.5 times or twice.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from xdplab.cli.tables import columns
from xdplab.model import Model
from xdplab.stats.interval import holm_corrected, ratio_interval

PAIRS = (3, 5, 8)
PLACES, ROWS = 5, 8
_SIZE = (PLACES, ROWS)

#: Logarithms of a table's figures, (places, rows, repetitions), with equal expectations.
_Draw = Callable[[Generator, int], np.ndarray]


def _spread(of_rows: Sequence[float]) -> _Draw:
    """Normal, of each row of a place its own."""
    return lambda rng, pairs: rng.normal(0, 1, (*_SIZE, pairs)) * np.array(of_rows)[None, :, None]


def _speeds(level: float, often: float, rows: int) -> _Draw:
    """So many rows of a place run at another speed in a share of their repetitions; next to noise of 2 %."""

    def draw(rng: Generator, pairs: int) -> np.ndarray:
        logs = rng.normal(0, 0.02, (*_SIZE, pairs))
        slow = rng.random((PLACES, rows, pairs)) < often
        logs[:, :rows] += math.log(level) * (slow - often)
        return logs

    return draw


def _unlike(rng: Generator, pairs: int) -> np.ndarray:
    return rng.normal(0, 0.1, (*_SIZE, pairs)) * np.exp(rng.normal(0, 0.7, (*_SIZE, 1)))


def _long_tails(rng: Generator, pairs: int) -> np.ndarray:
    return 0.1 * rng.standard_t(3, (*_SIZE, pairs))


def _drift(rng: Generator, pairs: int) -> np.ndarray:
    return rng.normal(0, 0.03, (*_SIZE, pairs)) + rng.normal(0, 0.15, (PLACES, 1, pairs))


NOISE: dict[str, _Draw] = {
    "noise of 3 %": _spread([0.03] * ROWS),
    "noise of 10 %": _spread([0.1] * ROWS),
    "noise of 20 %": _spread([0.2] * ROWS),
    "noise of a factor of 2": _spread([math.log(2)] * ROWS),
    "one row of 30 %, the others of 3 %": _spread([0.3, *[0.03] * (ROWS - 1)]),
    "two rows of 30 %, the others of 10 %": _spread([0.3, 0.3, *[0.1] * (ROWS - 2)]),
    "one row of a factor of 2, the others of 5 %": _spread([math.log(2), *[0.05] * (ROWS - 1)]),
    "each row its own, about 10 %": _unlike,
    "long tails (t with 3 degrees), 10 %": _long_tails,
    "all rows follow the machine by 15 %": _drift,
    "a quarter slower in a fifth, one row": _speeds(0.75, 0.2, 1),
    "a quarter slower in a fifth, all rows": _speeds(0.75, 0.2, ROWS),
    "two speeds 0.72 apart, all rows": _speeds(0.72, 0.5, ROWS),
    "two speeds 0.5 apart, all rows": _speeds(0.5, 0.5, ROWS),
    "two speeds 0.5 apart, one row": _speeds(0.5, 0.5, 1),
}


class Row(Model):
    """One kind of noise at one number of pairs; shares."""

    noise: str
    pairs: int
    tables: int
    #: Tables that call equal rows different.
    false_tables: float
    #: Of the differences between the leader and slower rows, at 1.5 times and at twice.
    found_1_5: float
    found_double: float


class _Said(NamedTuple):
    """Of a comparison of the leader with another row."""

    leader: int
    other: int
    differs: bool


def bench_tables(
    tables: int,
    pairs: Sequence[int] = PAIRS,
    noise: Mapping[str, _Draw] = NOISE,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """So many tables of each kind of noise and number of pairs; the same figures each time."""
    rows = []
    for name, draw in noise.items():
        progress(name)
        for count in pairs:
            rng = np.random.default_rng(count)
            drawn = [draw(rng, count) for _ in range(tables)]
            rows.append(
                Row(
                    noise=name,
                    pairs=count,
                    tables=tables,
                    false_tables=sum(any(each.differs for each in _compared(logs)) for logs in drawn) / tables,
                    found_1_5=_found(drawn, 1.5),
                    found_double=_found(drawn, 2.0),
                )
            )
    return rows


def table_of(rows: Sequence[Row]) -> str:
    """One line for each kind of noise, in per cent."""
    counts = list(dict.fromkeys(row.pairs for row in rows))
    lines = [["false tables / found at 1.5 / at 2 times, %", *(f"{count} pairs" for count in counts)]]
    for name, own in itertools.groupby(rows, key=lambda row: row.noise):
        cells = [(row.false_tables, row.found_1_5, row.found_double) for row in own]
        lines.append(
            [name, *(f"{100 * wrong:.1f} / {100 * less:.0f} / {100 * twice:.0f}" for wrong, less, twice in cells)]
        )
    return columns(lines)


def _found(drawn: Sequence[np.ndarray], ratio: float) -> float:
    """The second half of the rows is so many times slower."""
    slower = np.where(np.arange(ROWS) < ROWS // 2, 0.0, math.log(ratio))[None, :, None]
    said = [each for logs in drawn for each in _compared(logs - slower)]
    real = [each.differs for each in said if each.leader < ROWS // 2 <= each.other]
    return sum(real) / len(real) if real else 0.0


def _compared(logs: np.ndarray) -> list[_Said]:
    sides, intervals = [], []
    for place in logs:
        leader = int(np.argmax(np.median(place, axis=1)))
        figures = np.exp(place)
        for other in range(ROWS):
            if other != leader:
                sides.append((leader, other))
                intervals.append(ratio_interval(list(zip(figures[leader], figures[other], strict=True))))
    found = holm_corrected(intervals)
    return [_Said(*pair, each is not None and each.differs) for pair, each in zip(sides, found, strict=True)]
