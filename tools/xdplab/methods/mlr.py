# SPDX-License-Identifier: Apache-2.0
"""MLRsearch 1.2.1 behind our own types.

Facts about MLRsearch 1.2.1 that shape this module: trial durations may be fractional; unsent frames count as loss when
`intended_count` is given; without a lower bound it raises unless `fail_fast` is off; a box faster than the top load
gets no upper bound; when it is ended from inside, its database still holds what was measured.
"""

import math
from collections.abc import Sequence
from typing import Any

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from xdplab.methods.search import Bound, BudgetSpent, Preset, Recorder, Step, limit


class _Measurer(AbstractMeasurer):  # type: ignore[misc] # the library has no type information
    """What the library calls for a trial."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Called by keyword; the names are MLRsearch's."""
        duration, load = float(intended_duration), float(intended_load)
        step = self._recorder.take(load, duration)
        return MeasurementResult(
            intended_duration=duration,
            intended_load=load,
            intended_count=step.sent if step.unsent_ratio <= self._recorder.tolerance else step.due,
            offered_count=step.sent,
            loss_count=max(0, step.lost),
        )


def mlrsearch(settings: Preset, ratios: Sequence[float], low: float, high: float, recorder: Recorder) -> list[Bound]:
    """One search for all tolerated loss ratios."""
    goals = {
        ratio: SearchGoal(
            loss_ratio=ratio,
            exceed_ratio=settings.exceed_ratio,
            relative_width=settings.relative_width,
            initial_trial_duration=settings.initial_trial_s,
            final_trial_duration=settings.final_trial_s,
            duration_sum=settings.duration_sum_s,
            fail_fast=False,
        )
        for ratio in ratios
    }
    # the library's own time limit is wall time, which a replay would not reach: ours is in the recorder
    config = Config(goals=goals.values(), min_load=low, max_load=high, search_duration_max=1e9, warmup_duration=0.0)
    controller = MultipleLossRatioSearch(config=config)
    try:
        found = controller.search(measurer=_Measurer(recorder), debug=lambda line: None)
        width = settings.relative_width
        return [_bound(ratio, found[goal], recorder.steps, high, width) for ratio, goal in goals.items()]
    except BudgetSpent:
        return [_partial(controller, ratio, goal, recorder.steps, high) for ratio, goal in goals.items()]


def _bound(ratio: float, goal: Any, steps: Sequence[Step], high: float, width: float) -> Bound:
    """A library result as a Bound: who set the limit is read from the trials at the upper bound."""
    lower = _load(getattr(goal, "relevant_lower_bound", None))
    upper = _load(getattr(goal, "relevant_upper_bound", None))
    throughput = getattr(goal, "conditional_throughput", None)
    return Bound(
        loss_ratio=ratio,
        lower_pps=lower,
        upper_pps=upper,
        throughput_pps=float(throughput) if throughput is not None and lower is not None else None,
        limited_by=limit(ratio, lower, upper, steps, high, width, spent=False),
    )


def _partial(controller: Any, ratio: float, goal: SearchGoal, steps: Sequence[Step], high: float) -> Bound:
    """What the library's database knows when the budget was spent; without a lower bound, what its trials suggest."""
    target = controller.scaling.goal_to_final_target[goal]
    bounds = controller.database.get_relevant_bounds(target)
    lower, upper = _load(bounds.clo), _load(bounds.chi)
    if lower is None:
        lower = highest_good(ratio, goal.relative_width, steps)
    at_lower = [step for step in steps if lower and math.isclose(step.load_pps, lower, rel_tol=1e-6)]
    rate = min((step.load_pps * (1 - step.loss_ratio) for step in at_lower), default=None)
    return Bound(
        loss_ratio=ratio,
        lower_pps=lower,
        upper_pps=upper,
        throughput_pps=rate,
        limited_by=limit(ratio, lower, upper, steps, high, goal.relative_width, spent=True),
    )


def highest_good(ratio: float, tolerance: float, steps: Sequence[Step]) -> float | None:
    """The highest load of which, as of all measured below it, at least half of the trial time went well."""
    found = None
    for load in sorted({step.load_pps for step in steps}):
        here = [step for step in steps if step.load_pps == load]
        good = sum(s.duration_s for s in here if s.loss_ratio <= ratio and s.unsent_ratio <= tolerance)
        if 2 * good < sum(step.duration_s for step in here):
            break
        found = load
    return found


def _load(value: Any) -> float | None:
    return None if value is None else float(value)
