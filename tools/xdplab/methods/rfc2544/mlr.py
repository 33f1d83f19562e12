# SPDX-License-Identifier: Apache-2.0
"""MLRsearch 1.2.1 behind our own types.

Facts about MLRsearch 1.2.1 that shape this module: trial durations may be fractional; unsent frames count as loss when
`intended_count` is given, so it is not; its conditional throughput is a share of the intended load, so ours is computed
from what was offered; without a lower bound it raises unless `fail_fast` is off; a box faster than the top load gets no
upper bound; when it is ended from inside, its database still holds what was measured.
"""

from collections.abc import Sequence
from typing import Any

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from xdplab.methods.rfc2544.bounds import Bound, BudgetSpent, Preset, Recorder, Step, bound_of


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
        bounds = {ratio: (_load(found[goal].relevant_lower_bound), _load(found[goal].relevant_upper_bound))
                  for ratio, goal in goals.items()}  # fmt: skip
        spent = False
    except BudgetSpent:
        bounds = {ratio: _partial(controller, ratio, goal, recorder.steps) for ratio, goal in goals.items()}
        spent = True
    return [
        bound_of(ratio, lower, upper, recorder, high, settings.exceed_ratio, spent=spent)
        for ratio, (lower, upper) in bounds.items()
    ]


def _partial(
    controller: Any, ratio: float, goal: SearchGoal, steps: Sequence[Step]
) -> tuple[float | None, float | None]:
    """What the library's database knows when the budget was spent; for a bound it lacks, what the trials suggest."""
    target = controller.scaling.goal_to_final_target[goal]
    bounds = controller.database.get_relevant_bounds(target)
    lower, upper = _load(bounds.clo), _load(bounds.chi)
    good, bad = so_far(ratio, goal.exceed_ratio, steps, above=lower or 0.0)
    return good if lower is None else lower, bad if upper is None else upper


def so_far(
    ratio: float, exceed_ratio: float, steps: Sequence[Step], above: float = 0.0
) -> tuple[float | None, float | None]:
    """The highest load of which, as of all measured below it, no more of the trial time than tolerated went badly.

    And the next higher one, which did; None for one that was not measured. Loads up to `above` are known to be good.
    """
    found = None
    for load in sorted({step.load_pps for step in steps if step.load_pps > above}):
        here = [step for step in steps if step.load_pps == load]
        bad = sum(step.duration_s for step in here if step.loss_ratio > ratio)
        if bad > exceed_ratio * sum(step.duration_s for step in here):
            return found, load
        found = load
    return found, None


def _load(value: Any) -> float | None:
    return None if value is None else float(value)
