# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev false-alarms --simulated`: how often equal things are called different, and real differences found.

A study has five points. In a round each is started once and measured for some turns of 0.14 s, one turn after another
or side by side: then the points take their turns in a random order, again and again. How slow a point is in a turn is
the sum, as logarithms, of what the machine does at that time, of what this start came to, and of noise of the turn. A
trial that stands alone is as long as all turns of a point in a round, and its figure is their median, as a percentile
over its time is.

Two points are *equal* when the median of their slowness over turns, in the mean over starts, is the same (to half a
per cent). A comparison is of the first point, on which one-sided noise is, with the second. A table compares the point
that came out fastest with the four others; it is false when any is called different.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import stdtr, stdtrit

from xdplab.model import Model
from xdplab.model.digits import columns
from xdplab.stats import CONFIDENCE

POINTS = 5
RATIOS = (1.05, 1.1, 1.25, 2.0, 10.0)
#: Of equal tables, that may be false.
ALLOWED = 0.05
TURN_S, START_S = 0.14, 3.0
_ALPHA = 1 - CONFIDENCE
#: A wait in the median, over the fixed time.
_WAIT = 0.3

#: Log slowness of each turn, or what can be added to it, from the times of turns as shares of the run; all arrays are
#: (studies, rounds, points, turns).
_Draw = Callable[[Generator, np.ndarray], np.ndarray]


class Plain(NamedTuple):
    """Logarithms of a ratio and of its bounds, and the level at which the interval would just touch 1."""

    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray


def plain_interval(logs: np.ndarray, resolution: float = 0.0, alpha: float | np.ndarray = _ALPHA) -> Plain:
    """What `ratio_interval` gives, of many studies at once: rounds are the last axis."""
    rounds = logs.shape[-1]
    centre, least = logs.mean(axis=-1), math.log1p(resolution)
    error = np.maximum(logs.std(axis=-1, ddof=1) / math.sqrt(rounds), 1e-12)
    half = np.maximum(-stdtrit(rounds - 1, np.asarray(alpha) / 2) * error, least)
    p = np.where(np.abs(centre) <= least, 1.0, 2 * stdtr(rounds - 1, -np.abs(centre) / error))
    return Plain(centre, centre - half, centre + half, p)


def holm_levels(p: np.ndarray) -> np.ndarray:
    """The level at which `holm_corrected` judges each of a family, the last axis."""
    family = p.shape[-1]
    order = np.argsort(p, axis=-1)
    levels = np.broadcast_to(_ALPHA / (family - np.arange(family)), p.shape)
    failed = np.logical_or.accumulate(np.take_along_axis(p, order, axis=-1) >= levels, axis=-1)
    first = np.where(failed.any(axis=-1), failed.argmax(axis=-1), family - 1)[..., None]
    levels = np.where(failed, np.take_along_axis(levels, first, axis=-1), levels)
    return np.take_along_axis(levels, np.argsort(order, axis=-1), axis=-1)


#: Log slowness of two sides, (studies, comparisons, rounds, turns), and the resolution -> 1 where the first is called
#: slower, -1 where the second is, else 0; the comparisons of a study are one family.
_Rule = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def in_turns(ours: np.ndarray, theirs: np.ndarray, resolution: float) -> np.ndarray:
    """A round's ratio is the median over turns of that within a turn."""
    return _plain(np.median(ours - theirs, axis=-1), resolution)


def alone(ours: np.ndarray, theirs: np.ndarray, resolution: float) -> np.ndarray:
    """A round's ratio is that of two trials."""
    return _plain(np.median(ours, axis=-1) - np.median(theirs, axis=-1), resolution)


def _plain(logs: np.ndarray, resolution: float) -> np.ndarray:
    found = plain_interval(logs, resolution, holm_levels(plain_interval(logs, resolution).p))
    return np.where(found.low > 0, 1, 0) - np.where(found.high < 0, 1, 0)


@dataclass(frozen=True)
class Design:
    """How a study spends its time, and how it is judged; all designs measure a point for about six seconds."""

    name: str
    rounds: int
    #: Of each point in a round; of a trial alone, its length in turns.
    turns: int
    rule: _Rule
    side_by_side: bool = False

    def times(self, rng: Generator, studies: int) -> np.ndarray:
        """When each turn begins, as a share of the run."""
        turns, rounds = np.arange(self.turns), np.arange(self.rounds)[:, None, None]
        orders = self.turns if self.side_by_side else 1
        order = np.broadcast_to(np.arange(POINTS)[:, None], (studies, self.rounds, POINTS, orders))
        order = rng.permuted(order, axis=2)
        measured_s = self.turns * TURN_S
        if self.side_by_side:
            begun, round_s = START_S + (turns * POINTS + order) * TURN_S, START_S + POINTS * measured_s
        else:
            begun = order * (START_S + measured_s) + START_S + turns * TURN_S
            round_s = POINTS * (START_S + measured_s)
        return np.asarray((rounds + begun / round_s) / self.rounds)


DESIGNS = (
    Design("turns, 13 x 4", 13, 4, in_turns, side_by_side=True),
    Design("turns, 7 x 6", 7, 6, in_turns, side_by_side=True),
    Design("turns, 5 x 3", 5, 3, in_turns, side_by_side=True),
    Design("alone, 5 x 8", 5, 8, alone),
)


@dataclass(frozen=True)
class Shape:
    """Noise of a machine; figures are rounded to the resolution (relative), and the comparison knows it."""

    name: str
    draw: _Draw
    resolution: float = 0.0
    #: As the module says; else only in most starts, so that a comparison of means may truly call them different.
    equal: bool = True


def _noise(start: float, turn: float) -> _Draw:
    """Standard deviations: what a start comes to, and what a turn adds."""
    return lambda rng, times: rng.normal(0, start, (*times.shape[:3], 1)) + rng.normal(0, turn, times.shape)


def _quiet(part: _Draw) -> _Draw:
    """Next to less noise than was ever measured: what t believes most."""
    noise = _noise(0.01, 0.02)
    return lambda rng, times: noise(rng, times) + part(rng, times)


def _usual(part: _Draw) -> _Draw:
    """Next to the least noise that was measured."""
    noise = _noise(0.03, 0.06)
    return lambda rng, times: noise(rng, times) + part(rng, times)


def _on_one(part: _Draw) -> _Draw:
    return lambda rng, times: part(rng, times) * (np.arange(POINTS) == 0)[:, None]


def _speeds(level: float, share: float, *, by_turn: bool = False, centred: bool = False) -> _Draw:
    """A share of the starts, or turns, runs at another speed; centred: the others are faster for it."""

    def draw(rng: Generator, times: np.ndarray) -> np.ndarray:
        slow = rng.random(times.shape if by_turn else (*times.shape[:3], 1)) < share
        return -math.log(level) * (slow - share * centred)

    return draw


def _drift(rng: Generator, times: np.ndarray) -> np.ndarray:
    return math.log(1.3) * times


def _step(rng: Generator, times: np.ndarray) -> np.ndarray:
    return -math.log(0.75) * (times > rng.random((len(times), 1, 1, 1)))


def _spells(rng: Generator, times: np.ndarray) -> np.ndarray:
    """Of a fiftieth of the run each, a fifth of the time."""
    slow = rng.random((len(times), 50)) < 0.2
    at = (times * 50).astype(int).reshape(len(times), -1)
    return -math.log(0.75) * np.take_along_axis(slow, at, axis=1).reshape(times.shape)


def _burner_of_rounds(rng: Generator, times: np.ndarray) -> np.ndarray:
    return _burnt(rng, times, rng.random((*times.shape[:2], 1, 1)) < 0.3)


def _burner_of_a_stretch(rng: Generator, times: np.ndarray) -> np.ndarray:
    since = times - rng.uniform(0, 0.6, (len(times), 1, 1, 1))
    return _burnt(rng, times, (since > 0) & (since < 0.4))


def _burnt(rng: Generator, times: np.ndarray, burning: np.ndarray) -> np.ndarray:
    """Slower by a factor of two, and the noise of starts and turns three times the least that was measured."""
    return _noise(0.03, 0.06)(rng, times) * np.where(burning, 3, 1) + math.log(2) * burning


def _waits(rng: Generator, times: np.ndarray) -> np.ndarray:
    """In each turn a fixed time and a lognormal wait, 30 % in the median, five times that in one of twenty."""
    return np.log1p(_WAIT * np.exp(rng.normal(0, 1, times.shape))) - math.log1p(_WAIT)


def _waits_of_starts(rng: Generator, times: np.ndarray) -> np.ndarray:
    """The same of a start, less the mean."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    expected = float((weights * np.log1p(_WAIT * np.exp(nodes))).sum() / weights.sum())
    return np.log1p(_WAIT * np.exp(rng.normal(0, 1, (*times.shape[:3], 1)))) - expected


def _stalls(rng: Generator, times: np.ndarray) -> np.ndarray:
    """One turn of ten is ten times slower."""
    return math.log(10) * (rng.random(times.shape) < 0.1)


def _stall(rng: Generator, times: np.ndarray) -> np.ndarray:
    """Four turns in a row are ten times slower, in one round."""
    studies, rounds, _, turns = times.shape
    hit = rng.integers(rounds, size=(studies, 1, 1, 1)) == np.arange(rounds)[:, None, None]
    since = np.arange(turns) - rng.integers(max(turns - 3, 1), size=(studies, 1, 1, 1))
    return np.asarray(math.log(10) * (hit & (since >= 0) & (since < 4)))


SHAPES = (
    Shape("noise of 1 %, turns 2 %", _noise(0.01, 0.02)),
    Shape("noise of 3 %, turns 6 %", _noise(0.03, 0.06)),
    Shape("noise of 10 %, turns 20 %", _noise(0.10, 0.20)),
    Shape("noise of 10 %, turns 35 %", _noise(0.10, 0.35)),
    Shape("noise of 2 times, turns of 4", _noise(math.log(2), math.log(4))),
    Shape("1 side slow 1/5 of starts *", _quiet(_on_one(_speeds(0.75, 0.2, centred=True)))),
    Shape("the same, 3 %, turns 6 % *", _usual(_on_one(_speeds(0.75, 0.2, centred=True)))),
    Shape("1 side slow 1/5 of starts **", _quiet(_on_one(_speeds(0.75, 0.2))), equal=False),
    Shape("drift of 30 % over the run", _quiet(_drift)),
    Shape("step of 25 % within the run", _quiet(_step)),
    Shape("machine slow 1/5 of the time", _quiet(_spells)),
    Shape("waits in turns, 1 side", _quiet(_on_one(_waits))),
    Shape("waits in turns, all", _quiet(_waits)),
    Shape("waits of starts, 1 side", _quiet(_on_one(_waits_of_starts))),
    Shape("waits of starts, all", _quiet(_waits_of_starts)),
    Shape("ties: 0.5 % read to 3 %", _noise(0.005, 0.005), resolution=0.03),
    Shape("speeds of 0.72, 1/2 of turns", _quiet(_speeds(0.72, 0.5, by_turn=True))),
    Shape("speeds of 0.75, 1/2 of starts", _quiet(_speeds(0.75, 0.5))),
    Shape("speeds of 0.75, 1/5 of starts", _quiet(_speeds(0.75, 0.2))),
    Shape("CPU burner in 3/10 of rounds", _burner_of_rounds),
    Shape("CPU burner for 2/5 of the run", _burner_of_a_stretch),
    Shape("1 side stalls in 1/10 of turns", _quiet(_on_one(_stalls))),
    Shape("1 side stalls 4 turns, once", _quiet(_on_one(_stall))),
)


class Row(Model):
    """One shape and design; shares of the studies."""

    shape: str
    equal: bool
    design: str
    studies: int
    #: Equal sides called different in one comparison, and in a table of five points.
    false_comparisons: float
    false_tables: float
    #: Called different in the right direction, at each of `RATIOS`.
    found: tuple[float, ...]


def bench_turns(
    studies: int,
    shapes: Sequence[Shape] = SHAPES,
    designs: Sequence[Design] = DESIGNS,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """So many studies of each shape by each design; the same figures each time."""
    rows = []
    for number, shape in enumerate(shapes):
        progress(shape.name)
        for design in designs:
            rng = np.random.default_rng([number, design.rounds, design.turns, design.side_by_side])
            logs = shape.draw(rng, design.times(rng, studies))
            grid = rng.random((studies, 1, 1, 1))
            rows.append(_judged(shape, design, logs, grid))
    return rows


def _judged(shape: Shape, design: Design, logs: np.ndarray, grid: np.ndarray) -> Row:
    def called(ratio: float) -> np.ndarray:
        ours, theirs = (_read(logs[:, None, :, at] + math.log(by), grid, shape) for at, by in ((0, ratio), (1, 1.0)))
        return design.rule(ours, theirs, shape.resolution)[:, 0]

    leader, others = _ranked(_read(logs, grid, shape))
    return Row(
        shape=shape.name,
        equal=shape.equal,
        design=design.name,
        studies=len(logs),
        false_comparisons=float((called(1.0) != 0).mean()),
        false_tables=float((design.rule(leader, others, shape.resolution) != 0).any(axis=1).mean()),
        found=tuple(float((called(ratio) > 0).mean()) for ratio in RATIOS),
    )


def _ranked(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point with the best median over rounds, as often as there are others, and the others."""
    points = np.moveaxis(logs, 2, 1)
    own = np.median(np.median(points, axis=-1), axis=-1)
    ranked = np.take_along_axis(points, np.argsort(own, axis=1)[:, :, None, None], axis=1)
    return np.broadcast_to(ranked[:, :1], ranked[:, 1:].shape), ranked[:, 1:]


def _read(logs: np.ndarray, grid: np.ndarray, shape: Shape) -> np.ndarray:
    """As the measure gives it: in steps of its resolution, which lie anywhere (`grid`)."""
    if not shape.resolution:
        return logs
    step = math.log1p(shape.resolution)
    return np.asarray((np.round(logs / step + grid) - grid) * step)


def bench_text(rows: Sequence[Row]) -> str:
    """What is called different among equals, and what is found."""
    names = list(dict.fromkeys(row.design for row in rows))
    shown = RATIOS[1:]
    false = [["false comparisons / tables, %", *names]]
    found = [[f"found at {' '.join(f'{ratio:g}' for ratio in shown)}, %", *names]]
    for shape in dict.fromkeys(row.shape for row in rows):
        plain = [row for row in rows if row.shape == shape]
        false.append([shape, *(f"{_percent(row.false_comparisons)} / {_percent(row.false_tables)}" for row in plain)])
        found.append([shape, *(" ".join(f"{100 * share:.0f}" for share in row.found[1:]) for row in plain)])
    return "\n\n".join((columns(false), columns(found), columns(_of_designs(rows)), _NOTES))


_NOTES = """\
rounds x turns of a point; alone: trials as long as so many turns, one after another
*  faster in its other starts, so that the mean over starts is that of the others
** equal in four starts of five, so 5.9 % slower in the mean; not counted among equal shapes"""


def _of_designs(rows: Sequence[Row]) -> list[list[str]]:
    ratios = [f"at {ratio:g}" for ratio in RATIOS[:3]]
    table = [["over equal shapes, %", f"above {ALLOWED:.0%}", "worst", "of shape", *ratios]]
    for design in dict.fromkeys(row.design for row in rows):
        own = [row for row in rows if row.design == design and row.equal]
        if own:
            worst = max(own, key=lambda row: row.false_tables)
            wrong = sum(row.false_tables > ALLOWED for row in own)
            means = (_percent(float(np.mean([row.found[at] for row in own]))) for at in range(len(ratios)))
            false = _percent(worst.false_tables)
            table.append([design, f"{wrong} of {len(own)}", false, worst.shape, *means])
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
