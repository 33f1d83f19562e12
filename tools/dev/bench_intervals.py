# SPDX-License-Identifier: Apache-2.0
"""`dev false-alarms --simulated`: how often equal things are called different, and different ones are found.

Each study is a number of pairs of two sides whose figures have the same geometric mean, under noise of some shape. A
false alarm is a ratio that is called different; power is the same studies with the first side 10 % or twice above.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from xdplab.analysis.compare import compare_points
from xdplab.cli.tables import columns
from xdplab.measure.comparison import Comparison
from xdplab.measure.point import PointSummary
from xdplab.model import Model
from xdplab.stats.interval import ratio_interval

PAIRS = (3, 5, 8, 12, 14, 20)
_TENTH, _DOUBLE = 1.1, 2.0
#: A wait in the median, over the fixed time.
_WAIT = 0.3

#: Logarithms of the two sides' figures, each (studies, pairs), with equal expectations.
_Sides = tuple[np.ndarray, np.ndarray]
_Draw = Callable[[Generator, tuple[int, int]], _Sides]


@dataclass(frozen=True)
class Shape:
    """Noise of a machine; figures are rounded to the resolution (relative), which the comparison is told."""

    name: str
    draw: _Draw
    resolution: float = 0.0


def _noise(spread: float) -> _Draw:
    def draw(rng: Generator, size: tuple[int, int]) -> _Sides:
        return rng.normal(0, spread, size), rng.normal(0, spread, size)

    return draw


def _slow_side(rng: Generator, size: tuple[int, int], share: float = 0.2, level: float = 0.75) -> _Sides:
    """One side alone meets a speed a quarter lower in a fifth of its repetitions, and is faster in the others."""
    ours, theirs = _noise(0.01)(rng, size)
    return ours + math.log(level) * ((rng.random(size) < share) - share), theirs


def _drift(course: Callable[[np.ndarray, Generator], np.ndarray]) -> _Draw:
    """Both follow the machine; a round has five points in random order, two of which are compared."""

    def draw(rng: Generator, size: tuple[int, int]) -> _Sides:
        places = rng.permuted(np.broadcast_to(np.arange(5), (*size, 5)), axis=2)[:, :, :2]
        time = (np.arange(size[1])[None, :, None] + places / 5) / size[1]
        moved = course(time, rng)
        ours, theirs = _noise(0.01)(rng, size)
        return ours + moved[:, :, 0], theirs + moved[:, :, 1]

    return draw


def _step(time: np.ndarray, rng: Generator) -> np.ndarray:
    return math.log(0.75) * (time > rng.random((len(time), 1, 1)))


def _waits(rng: Generator, size: tuple[int, int]) -> np.ndarray:
    """A fixed time and a lognormal wait next to it, 30 % in the median, five times that in one of twenty."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    expected = float((weights * np.log1p(_WAIT * np.exp(nodes))).sum() / weights.sum())
    return np.log1p(_WAIT * np.exp(rng.normal(0, 1, size))) - expected


def _tail_on_one(rng: Generator, size: tuple[int, int]) -> _Sides:
    return _waits(rng, size), rng.normal(0, 0.01, size)


def _tail_on_both(rng: Generator, size: tuple[int, int]) -> _Sides:
    return _waits(rng, size), _waits(rng, size)


def _bimodal(rng: Generator, size: tuple[int, int]) -> _Sides:
    ours, theirs = _noise(0.01)(rng, size)
    return ours + math.log(0.72) * (rng.random(size) < 0.5), theirs + math.log(0.72) * (rng.random(size) < 0.5)


SHAPES = (
    Shape("noise of 1 %", _noise(0.01)),
    Shape("noise of 3 %", _noise(0.03)),
    Shape("noise of 10 %", _noise(0.10)),
    Shape("noise of a factor of 2", _noise(math.log(2))),
    Shape("one side a quarter slower in a fifth of its repetitions", _slow_side),
    Shape("drift of 30 % over the run", _drift(lambda time, rng: math.log(1.3) * time)),
    Shape("step of 25 % within the run", _drift(_step)),
    Shape("lognormal waits on one side", _tail_on_one),
    Shape("lognormal waits on both sides", _tail_on_both),
    Shape("ties: noise of 0.5 % read to 3 %", _noise(0.005), resolution=0.03),
    Shape("bimodal, 0.72 apart, each half of the time", _bimodal),
)


class Row(Model):
    """One shape at one number of pairs; shares of the studies."""

    shape: str
    pairs: int
    studies: int
    #: Called different although equal.
    alarms: float
    #: Called different, and in the right direction, at a true 10 % and at a true factor of two.
    found_tenth: float
    found_double: float


def bench_intervals(
    studies: int,
    shapes: Sequence[Shape] = SHAPES,
    pairs: Sequence[int] = PAIRS,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Judge the interval of a ratio on each shape and number of pairs; the same figures each time."""
    rows = []
    for shape in shapes:
        progress(shape.name)
        for count in pairs:
            rng = np.random.default_rng(count)
            ours, theirs = shape.draw(rng, (studies, count))
            grid = rng.random((studies, 1))  # where the steps of the measure lie in a study
            rows.append(
                Row(
                    shape=shape.name,
                    pairs=count,
                    studies=studies,
                    alarms=_called(ours, theirs, grid, shape.resolution, 1.0),
                    found_tenth=_called(ours, theirs, grid, shape.resolution, _TENTH),
                    found_double=_called(ours, theirs, grid, shape.resolution, _DOUBLE),
                )
            )
    return rows


def bench_table(rows: Sequence[Row]) -> str:
    """One line for each shape: false alarms, power at 10 % and at a factor of two, in percent."""
    counts = list(dict.fromkeys(row.pairs for row in rows))
    table = [["false alarms / found at 10 % / at twice, %", *(f"{count} pairs" for count in counts)]]
    for name in dict.fromkeys(row.shape for row in rows):
        found = {row.pairs: row for row in rows if row.shape == name}
        cells = [(each.alarms, each.found_tenth, each.found_double) for each in map(found.__getitem__, counts)]
        table.append([name, *(f"{100 * a:.1f} / {100 * t:.0f} / {100 * d:.0f}" for a, t, d in cells)])
    return columns(table)


def _called(ours: np.ndarray, theirs: np.ndarray, grid: np.ndarray, resolution: float, ratio: float) -> float:
    """Share of the studies that are called different; with a true ratio above 1, in its direction."""
    sides = [_read(logs, grid, resolution) for logs in (ours + math.log(ratio), theirs)]
    called = 0
    for first, second in zip(*sides, strict=True):
        found = ratio_interval(list(zip(first, second, strict=True)), resolution=resolution)
        called += found is not None and found.differs and (ratio == 1 or found.ratio > 1)
    return called / len(ours)


def _read(logs: np.ndarray, grid: np.ndarray, resolution: float) -> list[list[float]]:
    """The figures as the measure gives them: in steps of its resolution."""
    if resolution:
        step = math.log1p(resolution)
        logs = (np.round(logs / step + grid) - grid) * step
    figures: list[list[float]] = np.exp(logs).tolist()
    return figures


def self_comparisons(point: PointSummary, twin: PointSummary, group: int, metric: str = "p50_us") -> list[Comparison]:
    """Comparisons of a point with itself under another label, each over `group` consecutive repetitions."""
    found = []
    count = min(len(point.by_repetition), len(twin.by_repetition)) // group
    for start in range(0, count * group, group):
        part = {"by_repetition": point.by_repetition[start : start + group]}
        other = {"by_repetition": twin.by_repetition[start : start + group]}
        comparison = compare_points(point.model_copy(update=part), twin.model_copy(update=other), metric)
        if comparison is not None:
            found.append(comparison)
    return found
