# SPDX-License-Identifier: Apache-2.0
"""`python tools/dev false-alarms --disturbed`: what each rule of comparison says on a machine that takes cores away.

A study is some pairs of trials of two forwarders whose undisturbed medians differ by a known ratio, or not at all. In
each trial the machine stalls for a share of the time; frames that leave in a stall, and part of those behind it, are
slower or faster for it, and all of the stalls are recorded, half or a fifth of them. The comparison is the real one
(`analysis.compare`), with clean pairs alone and with bounds.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from dev.bench_intervals import SHAPES, Shape
from xdplab.analysis.compare import compare_points
from xdplab.cli.tables import columns
from xdplab.measure.distribution import Distribution, Sample
from xdplab.measure.measured import Measured, RepetitionFigures
from xdplab.measure.point import PointSummary
from xdplab.model import DisturbanceRule, Model
from xdplab.stats.contamination import contaminated_share

Rule = Literal["clean pairs", "bounds"]
RULES: tuple[Rule, ...] = ("clean pairs", "bounds")
RATIOS = (1.0, 1.1, 2.0, 4.0, 10.0)
#: Share of the time of a disturbed trial that the machine takes.
STALLS = (0.01, 0.05, 0.2, 0.6)
#: Part of it that is recorded.
RECORDED = (1.0, 0.5, 0.2)
#: Share of the trials that are disturbed at all.
OFTEN = 0.77
#: Parts of a trial, each stalled or not, and frames that leave in each.
_PARTS, _FRAMES = 100, 10


@dataclass(frozen=True)
class Scene:
    """One way in which a machine disturbs a study."""

    shape: Shape
    stalled: float
    recorded: float
    #: The forwarder that is stalled: both, or the first alone.
    sides: Literal["both", "one"]
    #: What a stall does to the frames that it meets.
    effect: Literal["slower", "faster"]

    @property
    def name(self) -> str:
        """For a table."""
        return f"{self.stalled:.0%} stalled on {self.sides}, {self.recorded:.0%} of it recorded, {self.effect}"


class Row(Model):
    """Of some scenes together: share of studies in which a rule names the right side, or (at a ratio of 1) any."""

    rule: Rule
    scene: str
    ratio: float
    studies: int
    right: float
    wrong: float


def scenes(shapes: Sequence[Shape] = SHAPES) -> Iterator[Scene]:
    """All of them."""
    for shape, stalled, recorded in itertools.product(shapes, STALLS, RECORDED):
        for sides, effect in itertools.product(("both", "one"), ("slower", "faster")):
            yield Scene(shape, stalled, recorded, sides, effect)  # type: ignore[arg-type]


def bench_disturbed(
    studies: int, pairs: int = 5, progress: Callable[[str], None] = lambda text: None, shapes: Sequence[Shape] = SHAPES
) -> list[Row]:
    """So many studies of each scene and ratio; the same figures each time."""
    counts: dict[tuple[Rule, str, float], list[int]] = {}
    for number, scene in enumerate(scenes(shapes)):
        if number % 12 == 0:
            progress(f"{scene.shape.name}")
        rng = np.random.default_rng(number)
        for ratio, _ in itertools.product(RATIOS, range(studies)):
            for rule, better in _study(scene, rng, pairs, ratio).items():
                for name in ("all", f"{scene.recorded:.0%} recorded", f"stalled {scene.stalled:.0%}", scene.effect,
                             f"on {scene.sides}"):  # fmt: skip
                    found = counts.setdefault((rule, name, ratio), [0, 0, 0])
                    found[0] += 1
                    found[1] += better is True and ratio > 1
                    found[2] += better is not None if ratio == 1 else better is False
    return [
        Row(rule=rule, scene=name, ratio=ratio, studies=total, right=right / total, wrong=wrong / total)
        for (rule, name, ratio), (total, right, wrong) in counts.items()
    ]


def disturbed_table(rows: Sequence[Row]) -> str:
    """One line for each rule and kind of scene: false claims among equals, then what is found at each ratio."""
    table = [
        ["rule", "scenes", "false claims, %", *(f"found at {ratio:g}, %" for ratio in RATIOS[1:]), "wrong side, %"]
    ]
    for rule, scene in dict.fromkeys((row.rule, row.scene) for row in rows):
        own = {row.ratio: row for row in rows if (row.rule, row.scene) == (rule, scene)}
        wrong = max(own[ratio].wrong for ratio in RATIOS[1:])
        found = [f"{100 * own[ratio].right:.0f}" for ratio in RATIOS[1:]]
        table.append(
            [f"{rule}: {scene}", str(own[1.0].studies), f"{100 * own[1.0].wrong:.1f}", *found, f"{100 * wrong:.1f}"]
        )
    table[0][0:2] = ["rule: scenes", "studies"]
    return columns(table)


def _study(scene: Scene, rng: Generator, pairs: int, ratio: float) -> dict[Rule, bool | None]:
    """Who is said to be ahead by each rule: the first, whose undisturbed median is so many times shorter."""
    noise = scene.shape.draw(rng, (1, pairs))
    ours, theirs = (
        [_trial(scene, rng, math.exp(logs) * (1.0 if side == 0 else ratio), stalls=side == 0 or scene.sides == "both")
         for logs in noise[side][0]]
        for side in (0, 1)
    )  # fmt: skip
    return {rule: _said(rule, ours, theirs) for rule in RULES}


def _said(rule: Rule, ours: Sequence[Measured], theirs: Sequence[Measured]) -> bool | None:
    sides: tuple[Sequence[Measured], ...] = (ours, theirs)
    if rule == "clean pairs":  # bounds need to know the share
        unknown = {"share": None}
        sides = tuple([each if each.clean else each.model_copy(update=unknown) for each in side] for side in sides)
    found = compare_points(_point("ours", sides[0]), _point("theirs", sides[1]))
    return found.better if found else None


def _point(name: str, parts: Sequence[Measured]) -> PointSummary:
    repetitions = tuple(
        RepetitionFigures(repetition=number, figures={"p50_us": each}, offered_pps=1.0, achieved_pps=1.0)
        for number, each in enumerate(parts)
    )
    nothing = dict.fromkeys(("offered_pps", "achieved_pps", "forwarded_pps", "p99999_us", "min_us", "max_us"))
    counts = dict.fromkeys(("samples", "duplicated", "out_of_order", "clean", "disturbed", "failed"), 0)
    words = dict.fromkeys(("setting", "mode", "path", "cpus", "reason"), "")
    number = dict.fromkeys(("planned", "repetitions", "begun"), len(parts))
    return PointSummary(
        plain_name=name,
        point_id=name,
        forwarder=name,
        quantity="one-way",
        frame_bytes=64,
        knobs={},
        loss_ratio=0.0,
        loss_ratio_all=0.0,
        machine_tail=(),
        tester_limited=False,
        status="ok",
        measured={"p50_us": Measured.over(parts)},
        by_repetition=repetitions,
        **nothing,
        **counts,
        **words,
        **number,
    )


def _trial(scene: Scene, rng: Generator, median_us: float, *, stalls: bool) -> Measured:
    """Frames evenly over its parts; which of these the machine takes, and which of them are recorded."""
    latency_ns = 1e4 * median_us * np.exp(rng.normal(0, 0.15, (_PARTS, _FRAMES)))
    share = scene.stalled if stalls and rng.random() < OFTEN else 0.0
    taken = rng.random(_PARTS) < share
    seen = taken & (rng.random(_PARTS) < scene.recorded)
    hit = taken.copy()
    hit[1:] |= taken[:-1] & (rng.random(_PARTS - 1) < 0.5)  # what had to wait is worked off behind a stall
    factor = rng.uniform(2, 30) if scene.effect == "slower" else 1 / rng.uniform(1.5, 4)
    latency_ns = np.where(hit[:, None], latency_ns * factor, latency_ns)
    away = float(seen.mean())
    disturbed = contaminated_share(away) if away > DisturbanceRule().max_stalled_share else 0.0
    sample = _sample(latency_ns)
    low, high = sample.ends_us(50, disturbed)
    return Measured(
        value=sample.percentile_us(50),
        low=low,
        high=high,
        limited_by="machine" if disturbed else "forwarder",
        share=disturbed,
        resolution=scene.shape.resolution,
    )


def _sample(latency_ns: np.ndarray) -> Sample:
    values = np.sort(latency_ns.ravel()).astype(np.int64)
    return Sample(Distribution(values, np.ones(len(values), dtype=np.int64)), 0)
