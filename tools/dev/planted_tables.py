# SPDX-License-Identifier: Apache-2.0
"""Tables of sweeps in which nothing matters, or one setting does: designs of all sizes under noise of many shapes."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from xdplab.analysis.sweep import Configuration, Factor, Statistics, Table
from xdplab.runner.turns import MOST_BESIDE

#: Logarithms of the latencies, of the shape of the numbers of groups that stand side by side: (rows, repetitions).
Noise = Callable[[Generator, np.ndarray], np.ndarray]

_US = 10.0


@dataclass(frozen=True)
class Design:
    """The number of levels of each setting, and which combinations are measured: a row of level numbers each."""

    name: str
    sizes: tuple[int, ...]
    rows: np.ndarray
    #: One configuration stands for each level.
    alone: bool = False
    #: Those with one level of `s0` stand side by side, as of a setting of the whole machine.
    split: bool = False


def _full(*sizes: int) -> Design:
    rows = np.array(list(itertools.product(*map(range, sizes))))
    return Design(f"full {len(rows)}", sizes, rows)


def _half(settings: int) -> Design:
    """Of two levels each; the last setting is the parity of the others."""
    rows = np.array(list(itertools.product((0, 1), repeat=settings - 1)))
    rows = np.column_stack([rows, rows.sum(axis=1) % 2])
    return Design(f"half of {2 * len(rows)}", (2,) * settings, rows)


def _drawn(runs: int, *sizes: int) -> Design:
    whole = np.array(list(itertools.product(*map(range, sizes))))
    kept = np.random.default_rng(0).choice(len(whole), runs, replace=False)
    return Design(f"{runs} of {len(whole)}", sizes, whole[sorted(kept)])


def _alone(*sizes: int) -> Design:
    rows = [np.zeros(len(sizes), dtype=int)]
    for at, size in enumerate(sizes):
        rows += [np.eye(len(sizes), dtype=int)[at] * level for level in range(1, size)]
    return Design(f"alone {len(rows)}", sizes, np.array(rows), alone=True)


DESIGNS = (
    _full(2, 2, 2), _full(3, 2, 2), _full(2, 2, 2, 2), _full(3, 2, 2, 2), _full(3, 2, 2, 2, 2), _full(3, 2, 2, 2, 2, 2),
    _half(4), _half(5), _drawn(24, 3, 2, 2, 2, 2, 2), _drawn(48, 3, 3, 2, 2, 2, 2),
    _alone(2, 2, 2, 2, 2, 2, 2), _alone(3, 3, 4, 2, 5),
    replace(_drawn(96, 2, 3, 3, 2, 2, 2, 2), name="split 96 of 288", split=True),
)  # fmt: skip


def _quiet(rng: Generator, groups: np.ndarray) -> np.ndarray:
    rows, repetitions = groups.shape
    return np.asarray(0.02 * rng.normal(size=(rows, 1)) + 0.03 * rng.normal(size=(rows, repetitions)))


def _same(rng: Generator, groups: np.ndarray) -> np.ndarray:
    rows, repetitions = groups.shape
    return np.asarray(0.03 * rng.normal(size=(rows, repetitions)))


def _apart(rng: Generator, groups: np.ndarray) -> np.ndarray:
    rows, repetitions = groups.shape
    return np.asarray(0.1 * rng.normal(size=(rows, 1)) + 0.05 * rng.normal(size=(rows, repetitions)))


def _tails(rng: Generator, groups: np.ndarray) -> np.ndarray:
    rows, repetitions = groups.shape
    waits = np.log1p(0.3 * np.exp(rng.normal(size=(rows, repetitions))))
    return np.asarray(waits + 0.01 * rng.normal(size=(rows, 1)))


def _student(rng: Generator, groups: np.ndarray) -> np.ndarray:
    rows, repetitions = groups.shape
    return np.asarray(0.03 * rng.standard_t(2, size=(rows, repetitions)))


def _two_levels(rng: Generator, groups: np.ndarray) -> np.ndarray:
    rows, repetitions = groups.shape
    return np.asarray(_same(rng, groups) / 3 + math.log(0.72) * (rng.random((rows, repetitions)) < 0.5))


def _two_kinds(rng: Generator, groups: np.ndarray) -> np.ndarray:
    return np.asarray(_same(rng, groups) / 3 + math.log(0.72) * (rng.random((len(groups), 1)) < 0.5))


def _drift(rng: Generator, groups: np.ndarray) -> np.ndarray:
    """30 % over the run."""
    return np.asarray(_quiet(rng, groups) + math.log(1.3) * _time(groups))


def _step(rng: Generator, groups: np.ndarray) -> np.ndarray:
    return np.asarray(_quiet(rng, groups) + math.log(0.75) * (_time(groups) > rng.random()))


def _time(groups: np.ndarray) -> np.ndarray:
    """When each was measured, from 0 to 1: groups one after another, each repetition in an order of its own."""
    return np.asarray(groups / (groups.max() + 1))


def _stalls(rng: Generator, groups: np.ndarray) -> np.ndarray:
    """A fifth of the repetitions is slower, by a factor of e in the mean."""
    rows, repetitions = groups.shape
    hit = rng.random((rows, repetitions)) < 0.2
    return _quiet(rng, groups) + hit * rng.exponential(1.0, (rows, repetitions))


def _minutes(rng: Generator, groups: np.ndarray) -> np.ndarray:
    """What stands side by side is faster or slower together."""
    return np.asarray(_quiet(rng, groups) + rng.normal(0, 0.07, groups.max() + 1)[groups])


#: Where one configuration stands for a level, what it always does is what the level does: this is no noise there.
PERSISTENT = ("two levels, by configuration", "configurations 10 % apart, repetitions 5 %")
SHAPES: Mapping[str, Noise] = {
    "configurations 2 % apart, repetitions 3 %": _quiet,
    "repetitions 3 %": _same,
    "configurations 10 % apart, repetitions 5 %": _apart,
    "lognormal waits": _tails,
    "Student's t, 2 df": _student,
    "two levels, by repetition": _two_levels,
    "two levels, by configuration": _two_kinds,
    "drift of 30 %": _drift,
    "step of 25 %": _step,
    "a fifth stalled": _stalls,
    "groups 7 % apart": _minutes,
}


def planted_table(rng: Generator, design: Design, repetitions: int, noise: Noise, ratio: float = 1.0) -> Table:
    """A table of settings `s0`, `s1`, ... whose default is level 0; that of `s0` is so many times slower."""
    groups = _groups(rng, design, repetitions)
    logs = noise(rng, groups) + math.log(_US)
    logs += math.log(ratio) * (design.rows[:, :1] == 0)
    names = [f"s{number}" for number in range(len(design.sizes))]
    factors = [
        Factor(name=n, levels=tuple(range(size)), default=0) for n, size in zip(names, design.sizes, strict=True)
    ]
    rows = [
        Configuration(
            point_id=str(number),
            title=" ".join(f"{name}={level}" for name, level in zip(names, levels.tolist(), strict=True)),
            levels=dict(zip(names, levels.tolist(), strict=True)),
            statistics=_statistics(float(np.exp(np.median(values)))),
            by_repetition={at: _statistics(float(np.exp(value))) for at, value in enumerate(values)},
            groups=dict(enumerate(own)),
            loss_ratio=0.0,
        )
        for number, (levels, values, own) in enumerate(zip(design.rows, logs, groups.tolist(), strict=True))
    ]
    return Table("planted", "one-way", 1e6, tuple(factors), tuple(rows))


def _groups(rng: Generator, design: Design, repetitions: int) -> np.ndarray:
    """Of `MOST_BESIDE` in the random order of each repetition."""
    rows = len(design.rows)
    plots = design.rows[:, 0] if design.split else np.zeros(rows, dtype=int)
    found, number = np.zeros((rows, repetitions), dtype=int), 0
    for at in range(repetitions):
        for plot in rng.permutation(np.unique(plots)):
            order = rng.permutation(np.flatnonzero(plots == plot))
            for start in range(0, len(order), MOST_BESIDE):
                found[order[start : start + MOST_BESIDE], at] = number
                number += 1
    return found


def _statistics(value_us: float) -> Statistics:
    names = [name for name in Statistics.model_fields if name != "samples"]
    return Statistics(**dict.fromkeys(names, value_us), samples=100)
