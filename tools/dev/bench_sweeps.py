# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev bench-sweeps`: how often an idle setting is named or advised, and a planted effect found."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from dev.planted_tables import DESIGNS, PERSISTENT, SHAPES, Design, Noise, planted_table
from xdplab.analysis.sweep import Table, judge_settings
from xdplab.analysis.sweep.changes import advise
from xdplab.analysis.sweep.table import lossy
from xdplab.model import Model
from xdplab.model.digits import columns

REPETITIONS = (1, 2, 3, 5)
RATIOS = (1.1, 1.25, 2.0, 4.0)
#: Shape of the noise under which effects are planted.
_PLANTED = ("configurations 2 % apart, repetitions 3 %", "a fifth stalled")


class Row(Model):
    """Tables of one design; shares of them."""

    design: str
    repetitions: int
    shape: str
    #: How many times slower the default of the first setting is; 1: all are idle.
    ratio: float
    tables: int
    #: An idle setting was said to matter.
    named: float
    #: A change of an idle setting was advised.
    advised: float
    #: The planted one was found, was said to have a smaller effect than it has, and its change alone was advised.
    found: float
    denied: float
    gained: float


def bench_sweeps(
    tables: int,
    designs: Sequence[Design] = DESIGNS,
    shapes: Mapping[str, Noise] = SHAPES,
    repetitions: Iterable[int] = REPETITIONS,
    ratios: Sequence[float] = RATIOS,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """So many tables for each design, shape of the noise and number of repetitions; the same each time."""
    rows = []
    with threadpool_limits(1):
        for design in designs:
            progress(design.name)
            for count in repetitions:
                idle = [shape for shape in shapes if not (design.alone and shape in PERSISTENT)]
                rows += [judge(tables, design, count, shape, shapes[shape]) for shape in idle]
                rows += [
                    judge(tables, design, count, shape, shapes[shape], ratio)
                    for shape in _PLANTED
                    for ratio in ratios
                    if shape in shapes
                ]
    return rows


def judge(tables: int, design: Design, repetitions: int, shape: str, noise: Noise, ratio: float = 1.0) -> Row:
    """So many tables of one kind."""
    rng = np.random.default_rng([len(design.rows), repetitions, len(design.sizes)])
    named = advised = found = denied = gained = 0
    for _ in range(tables):
        table = planted_table(rng, design, repetitions, noise, ratio)
        matters, below, changed = said(table)
        real = {"s0"} if ratio != 1 else set()
        named += bool(matters - real)
        advised += bool(changed - real)
        found += bool(matters & real)
        denied += below.get("s0", ratio) < ratio
        gained += changed == real != set()
    shares = (each / tables for each in (named, advised, found, denied, gained))
    keys = ("named", "advised", "found", "denied", "gained")
    return Row(
        design=design.name,
        repetitions=repetitions,
        shape=shape,
        ratio=ratio,
        tables=tables,
        **dict(zip(keys, shares, strict=True)),
    )


def said(table: Table) -> tuple[set[str], dict[str, float], set[str]]:
    """Settings that matter, those without an effect above a ratio, and those whose change is advised."""
    judged, _ = judge_settings(table)
    matters = {each.factor for each in judged if each.matters}
    below = {each.factor: each.visible or 0.0 for each in judged if each.verdict == "no effect seen"}
    return matters, below, {change.factor for change in advise(table, matters, lossy(table)).changes}


def bench_table(rows: Sequence[Row]) -> str:
    """Of idle tables by shape and by design, then what is found by design and ratio, in percent."""
    counts = sorted({row.repetitions for row in rows})
    null = [["idle settings named / advised, %", *(f"{count} repetitions" for count in counts)]]
    for key in ("shape", "design"):
        for name in dict.fromkeys(getattr(row, key) for row in rows):
            of = [[r for r in rows if getattr(r, key) == name and r.repetitions == c and r.ratio == 1] for c in counts]
            null.append([name, *(f"{_mean(each, 'named')} / {_mean(each, 'advised')}" for each in of)])
    worst = max((row for row in rows if row.ratio == 1), key=lambda row: row.named)
    ratios = sorted({row.ratio for row in rows} - {1.0})
    planted = [["planted: found / denied / advised / an idle one named, %", *(f"{ratio:g} times" for ratio in ratios)]]
    for name in dict.fromkeys(row.design for row in rows):
        for count in counts:
            own = [row for row in rows if row.design == name and row.repetitions == count]
            of = [[row for row in own if row.ratio == ratio] for ratio in ratios]
            keys = ("found", "denied", "gained", "named")
            planted.append([f"{name}, {count} repetitions", *(" / ".join(_mean(r, k) for k in keys) for r in of)])
    return (
        f"{columns(null)}\n"
        f"most often: {100 * worst.named:.1f} % of {worst.tables} tables: {worst.design}, {worst.repetitions} "
        f"repetitions, {worst.shape}\n"
        f"{columns(planted)}"
    )


def _mean(rows: Sequence[Row], key: str) -> str:
    return f"{100 * float(np.mean([getattr(row, key) for row in rows])):.1f}" if rows else "-"
