# SPDX-License-Identifier: Apache-2.0
"""The trials of a search, and the bounds that they make.

What is credited is what was sent over the time it took. Frames that the tester did not send say nothing of the
forwarder: a trial without loss shows that it carries the load that was really offered, whatever the machine did
meanwhile, and a trial with loss bounds the forwarder only where the load was offered as asked and nobody took its core
(`Step.on_load`); else it bounds the tester, or the machine.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from xdplab.measure.figure import LimitedBy
from xdplab.model import Model
from xdplab.model.trial import LOAD_TOLERANCE

#: Loads that differ by less are one: the library rounds them.
_SAME_LOAD = 1e-6


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

    @property
    def deviations(self) -> tuple[str, ...]:
        """What of RFC 2544 §26.1 and §24 a search without tolerated loss does not keep to."""
        short = "trials are shorter than 60 s" if self.final_trial_s < 60 else ""
        share = f"{self.exceed_ratio:.0%} of the time of its trials"
        lenient = f"a load counts as good while trials with loss make up no more than {share} (MLRsearch)"
        return tuple(filter(None, (short, lenient if self.exceed_ratio else "")))

    @property
    def complies(self) -> bool:
        """Whether its result at a loss ratio of 0 is a throughput in the RFC's sense."""
        return not self.deviations


class Step(Model):
    """A trial of a search. Loads are per direction, frames over all of them."""

    #: Intended load.
    load_pps: float
    duration_s: float
    #: What of it left, over the time that took.
    offered_pps: float
    sent: int
    lost: int
    #: Share of the trial in which the sender stood still. What it skipped then is missing in `offered_pps`; what it
    #: caught up with afterwards left in bursts above the intended load.
    stalled_ratio: float = 0.0
    #: The machine disturbed it: it took the sender's core or the forwarder's for longer than the study's rule allows.
    disturbed: bool = False

    @property
    def loss_ratio(self) -> float:
        """Frames that the forwarder lost, of those sent."""
        return self.lost / self.sent if self.sent else 0.0

    @property
    def forwarded_pps(self) -> float:
        """Frames that came through, over the time that sending took."""
        return self.offered_pps * (1 - self.loss_ratio)

    @property
    def short(self) -> bool:
        """The tester sent less than it was asked for."""
        return self.offered_pps < (1 - LOAD_TOLERANCE) * self.load_pps

    @property
    def on_load(self) -> bool:
        """What was lost is the forwarder's own: the intended load throughout, and its core was not taken away."""
        return not self.short and self.stalled_ratio <= LOAD_TOLERANCE and not self.disturbed


Measure = Callable[[float, float], Step]
"""(intended load in pps, duration in s) -> the trial."""


class Bound(Model):
    """What a search found for one tolerated loss ratio; loads in pps, per direction."""

    loss_ratio: float
    #: Highest load that was offered and found good.
    lower_pps: float | None
    #: Lowest load at which the forwarder lost too much; None where none is known to be too high for it.
    upper_pps: float | None
    #: Forwarding rate at the lower bound: offered load x (1 - loss).
    throughput_pps: float | None
    #: `forwarder`: both bounds are its own. `tester`: the next higher load was not offered as asked, the forwarder may
    #: carry it. `machine`: it was lost while the machine took a core away. `below-minimum`: it lost too much at the
    #: lowest load. `budget`: traffic time ran out first.
    limited_by: LimitedBy


class BudgetSpent(Exception):
    """Traffic time is used up."""


class Recorder:
    """Takes the trials of a search, keeps every one and the traffic time."""

    def __init__(self, measure: Measure, budget_s: float, progress: Callable[[Step], None]) -> None:
        self.steps: list[Step] = []
        self.traffic_s = 0.0
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
        step = self._measure(load_pps, duration_s)
        self.traffic_s += duration_s
        self.steps.append(step)
        self._progress(step)
        return step


def bound_of(
    ratio: float,
    lower: float | None,
    upper: float | None,
    recorder: Recorder,
    high: float,
    exceed_ratio: float,
    *,
    spent: bool,
) -> Bound:
    """The bound that a search's intended loads stand for: what was really offered at them, and who set it."""
    good = [s for s in recorder.steps if lower and s.loss_ratio <= ratio and s.load_pps <= lower * (1 + _SAME_LOAD)]
    best = max(_by_load(good), key=_forwarded_pps, default=[])
    lossy = _lossy(ratio, upper, recorder.steps, exceed_ratio)
    limited_by: LimitedBy
    if upper is None:
        limited_by = "budget" if spent and (lower is None or lower < 0.999 * high) else "tester"
    elif not lossy:
        limited_by = (
            "machine" if any(step.disturbed and not step.short for step in _at(upper, recorder.steps)) else "tester"
        )
    elif spent:
        limited_by = "budget"
    elif lower is None:
        limited_by = "below-minimum"
    else:
        limited_by = "tester" if best and all(step.short for step in best) else "forwarder"
    return Bound(
        loss_ratio=ratio,
        lower_pps=_mean(best, [step.offered_pps for step in best]) if best else None,
        upper_pps=_mean(lossy, [step.offered_pps for step in lossy]) if lossy else None,
        throughput_pps=_forwarded_pps(best) if best else None,
        limited_by=limited_by,
    )


def _by_load(good: Sequence[Step]) -> list[list[Step]]:
    """Trials of each load: those with the whole load, or all where there is none."""
    loads = [[step for step in good if step.load_pps == load] for load in sorted({step.load_pps for step in good})]
    return [[step for step in trials if not step.short] or trials for trials in loads]


def _lossy(ratio: float, upper: float | None, steps: Sequence[Step], exceed_ratio: float) -> list[Step]:
    """Trials that make the upper bound the forwarder's own; none when without those off their load it would not be."""
    there = [step for step in _at(upper, steps) if step.on_load]
    lossy = [step for step in there if step.loss_ratio > ratio]
    enough = sum(step.duration_s for step in lossy) > exceed_ratio * sum(step.duration_s for step in there)
    return lossy if enough else []


def _at(load_pps: float | None, steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if load_pps and math.isclose(step.load_pps, load_pps, rel_tol=_SAME_LOAD)]


def _forwarded_pps(trials: Sequence[Step]) -> float:
    return _mean(trials, [step.forwarded_pps for step in trials])


def _mean(trials: Sequence[Step], values: Sequence[float]) -> float:
    """Weighted by the time of each trial."""
    return fmean(values, [step.duration_s for step in trials])
