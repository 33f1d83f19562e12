# SPDX-License-Identifier: Apache-2.0
"""Searching the throughput: MLRsearch (draft-ietf-bmwg-mlrsearch) with presets, and plain binary search beside it.

Both work on a function that measures one trial, so that they run on real forwarders, on simulated boxes and on the
journal of a killed run alike. Time is traffic time, never wall time: a replayed search takes the same decisions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from xdplab.model import Model, PresetName


@dataclass(frozen=True)
class Preset:
    """Parameters of a search; durations in s, ratios as ratios."""

    initial_trial_s: float
    final_trial_s: float
    duration_sum_s: float
    exceed_ratio: float
    relative_width: float
    #: Traffic seconds after which a search ends with what it has.
    budget_s: float
    summary: str


PRESETS: dict[str, Preset] = {
    "rfc2544": Preset(1.0, 60.0, 60.0, 0.0, 0.005, 3600, "zero loss in one 60 s trial (RFC 2544 §26.1)"),
    "tst009": Preset(1.0, 60.0, 120.0, 0.5, 0.005, 7200, "loss verification: two of three 60 s trials (TST009)"),
    "csit": Preset(1.0, 1.0, 21.0, 0.5, 0.005, 1200, "1 s trials, 21 s in all, half of them may fail (FD.io CSIT)"),
    "quick": Preset(0.2, 0.5, 2.5, 0.5, 0.01, 60, "0.5 s trials, 2.5 s in all, half of them may fail"),
    "binary": Preset(60.0, 60.0, 60.0, 0.0, 0.005, 7200, "plain bisection, one 60 s trial a step"),
}


@dataclass(frozen=True)
class Counts:
    """Frames of one trial.

    `due`: those scheduled while the sender had its core; `sent`: what the tester managed; `lost`: sent, not received.
    """

    due: int
    sent: int
    lost: int


Measure = Callable[[float, float], Counts]
"""(offered load in pps, duration in s) -> counts of the trial."""


class Step(Model):
    """A trial of a search."""

    load_pps: float
    duration_s: float
    due: int
    sent: int
    lost: int

    @property
    def loss_ratio(self) -> float:
        """Frames that the forwarder lost, of those sent."""
        return self.lost / self.sent if self.sent else 0.0

    @property
    def unsent_ratio(self) -> float:
        """Frames that the tester was too slow to send, of those due."""
        return max(0, self.due - self.sent) / self.due if self.due else 0.0


class Bound(Model):
    """What a search found for one tolerated loss ratio; loads in pps, summed over directions."""

    loss_ratio: float
    lower_pps: float | None
    upper_pps: float | None
    #: Forwarding rate at the lower bound (MLRsearch's conditional throughput).
    throughput_pps: float | None
    #: `forwarder`: both bounds are its own. `tester`: it lost no more than tolerated at the highest load that the
    #: tester could send. `below-minimum`: it lost too much at the lowest load. `budget`: traffic time ran out first.
    limited_by: Literal["forwarder", "tester", "below-minimum", "budget"]


class SearchResult(Model):
    """All bounds and all trials of a search."""

    preset: str
    bounds: tuple[Bound, ...]
    steps: tuple[Step, ...]
    traffic_s: float


class BudgetSpent(Exception):
    """Traffic time is used up."""


class Recorder:
    """Takes the trials of a search, keeps every one and the traffic time."""

    def __init__(self, measure: Measure, budget_s: float, tolerance: float, progress: Callable[[Step], None]) -> None:
        self.steps: list[Step] = []
        self.traffic_s = 0.0
        #: Unsent frames up to this share change the load by less than the search resolves; more count as loss.
        self.tolerance = tolerance
        self._measure = measure
        self._budget_s = budget_s
        self._progress = progress

    def take(self, load_pps: float, duration_s: float) -> Step:
        """One trial.

        Raises:
            BudgetSpent: it would take more traffic time than the search has.
        """
        if self.traffic_s + duration_s > self._budget_s:
            raise BudgetSpent
        counts = self._measure(load_pps, duration_s)
        self.traffic_s += duration_s
        step = Step(load_pps=load_pps, duration_s=duration_s, due=counts.due, sent=counts.sent, lost=counts.lost)
        self.steps.append(step)
        self._progress(step)
        return step


def search(
    preset: PresetName,
    loss_ratios: Sequence[float],
    low_pps: float,
    high_pps: float,
    measure: Measure,
    *,
    budget_s: float | None = None,
    progress: Callable[[Step], None] = lambda step: None,
) -> SearchResult:
    """Search the highest load for each tolerated loss ratio between `low_pps` and `high_pps`."""
    settings = PRESETS[preset]
    recorder = Recorder(measure, budget_s or settings.budget_s, settings.relative_width, progress)
    if preset == "binary":
        bounds = [_bisect(settings, ratio, low_pps, high_pps, recorder) for ratio in loss_ratios]
    else:
        from xdplab.methods.mlr import mlrsearch  # the library takes 0.4 s to import

        bounds = mlrsearch(settings, loss_ratios, low_pps, high_pps, recorder)
    return SearchResult(
        preset=preset, bounds=tuple(bounds), steps=tuple(recorder.steps), traffic_s=round(recorder.traffic_s, 3)
    )


def limit(
    ratio: float,
    lower: float | None,
    upper: float | None,
    steps: Sequence[Step],
    high: float,
    tolerance: float,
    *,
    spent: bool,
) -> Literal["forwarder", "tester", "below-minimum", "budget"]:
    """Who set the bounds, read from the trials at the upper one."""
    if lower is None and upper is not None and not spent:
        return "below-minimum"
    if upper is None:
        return "budget" if spent and (lower is None or lower < 0.999 * high) else "tester"
    at_upper = [step for step in steps if math.isclose(step.load_pps, upper, rel_tol=1e-6)]
    blameless = [step for step in at_upper if step.loss_ratio <= ratio]
    if at_upper and len(blameless) * 2 > len(at_upper) and any(step.unsent_ratio > tolerance for step in blameless):
        return "tester"
    return "budget" if spent else "forwarder"


def _bisect(settings: Preset, ratio: float, low: float, high: float, recorder: Recorder) -> Bound:
    """RFC 2544 §26.1 as it is usually read: halve the interval on one trial a step; the top load first."""
    lower: float | None = None
    upper: float | None = None
    rate: float | None = None
    load, spent = high, False
    while True:
        try:
            step = recorder.take(load, settings.final_trial_s)
        except BudgetSpent:
            spent = True
            break
        if step.loss_ratio <= ratio and step.unsent_ratio <= settings.relative_width:
            lower, rate = load, load * (1 - step.loss_ratio)
        else:
            upper = load
        if upper is None or (lower is None and upper <= low):
            break
        if lower is not None and (upper - lower) / upper <= settings.relative_width:
            break
        load = ((lower or 0.0) + upper) / 2 if (lower or 0.0) + upper > 2 * low else low
    return Bound(
        loss_ratio=ratio,
        lower_pps=lower,
        upper_pps=upper,
        throughput_pps=rate,
        limited_by=limit(ratio, lower, upper, recorder.steps, high, settings.relative_width, spent=spent),
    )
