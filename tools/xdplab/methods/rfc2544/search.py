# SPDX-License-Identifier: Apache-2.0
"""The throughput (RFC 2544 §26.1): MLRsearch (draft-ietf-bmwg-mlrsearch) with presets, and plain binary search.

Both work on a function that measures one trial, so that they run on real forwarders, on simulated boxes and on the
journal of a killed run alike. Time is traffic time, never wall time: a replayed search takes the same decisions.

What is credited is what was sent over the time it took: a trial without loss shows that the forwarder carries the load
that was really offered, whatever the machine did meanwhile. A trial with loss bounds it at that load, of a tester that
does not make good a pause by bursts (`Step.on_load`). Where frames that were asked for did not leave, and none was
lost, the tester is the limit; but on one machine it may be the forwarder's own work on the sender's CPU that left no
time to send more (`Step.sender_full`): then the forwarder is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from xdplab.measure.figure import LimitedBy
from xdplab.measure.method import Trials
from xdplab.measure.streams import load_streams
from xdplab.methods.rfc2544.records import Bound, SearchRecord, SearchResult, Step
from xdplab.methods.rfc2544.spec import PresetName, Rfc2544Spec, line_rate, top_load, trial_of
from xdplab.model import TrafficSpec

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


Measure = Callable[[float, float], Step]
"""(intended load in pps, duration in s) -> the trial."""


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
    #: Of the load that was carried best no trial was whole, for one reason.
    full = bool(best) and all(step.short and step.sender_full for step in best)
    limited_by: LimitedBy
    if full and not lossy:
        limited_by = "forwarder"
    elif upper is None:
        limited_by = "budget" if spent and (lower is None or lower < 0.999 * high) else "tester"
    elif not lossy:
        limited_by = "tester"
    elif spent:
        limited_by = "budget"
    elif lower is None:
        limited_by = "below-minimum"
    else:
        unsteady = bool(best) and all(step.short and not step.stalls_known for step in best)
        limited_by = "tester" if unsteady else "forwarder"
    return Bound(
        loss_ratio=ratio,
        lower_pps=_mean(best, [step.offered_pps for step in best]) if best else None,
        upper_pps=_mean(lossy, [step.offered_pps for step in lossy]) if lossy else None,
        throughput_pps=_forwarded_pps(best) if best else None,
        limited_by=limited_by,
        sender_full=full and not lossy,
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


PRESETS: dict[str, Preset] = {
    "rfc2544": Preset(1.0, 60.0, 60.0, 0.0, 0.005, 3600, "zero loss in one 60 s trial (RFC 2544 §26.1)"),
    "tst009": Preset(1.0, 60.0, 120.0, 0.5, 0.005, 7200, "loss verification: two of three 60 s trials (TST009)"),
    "csit": Preset(1.0, 1.0, 21.0, 0.5, 0.005, 1200, "1 s trials, 21 s in all, half of them may fail (FD.io CSIT)"),
    "quick": Preset(0.2, 0.5, 2.5, 0.5, 0.01, 60, "0.5 s trials, 2.5 s in all, half of them may fail"),
    "binary": Preset(60.0, 60.0, 60.0, 0.0, 0.005, 7200, "plain bisection, one 60 s trial a step"),
}


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
    recorder = Recorder(measure, budget_s or settings.budget_s, progress)
    if preset == "binary":
        bounds = [_bisect(settings, ratio, low_pps, high_pps, recorder) for ratio in loss_ratios]
    else:
        bounds = _mlrsearch(settings, loss_ratios, low_pps, high_pps, recorder)
    return SearchResult(
        preset=preset, bounds=tuple(bounds), steps=tuple(recorder.steps), traffic_s=round(recorder.traffic_s, 3)
    )


def _bisect(settings: Preset, ratio: float, low: float, high: float, recorder: Recorder) -> Bound:
    """RFC 2544 §26.1 as it is usually read: halve the interval on one trial a step; the top load first."""
    lower: float | None = None
    upper: float | None = None
    load, spent = high, False
    while True:
        try:
            step = recorder.take(load, settings.final_trial_s)
        except BudgetSpent:
            spent = True
            break
        if step.loss_ratio <= ratio:
            lower = load
        else:
            upper = load
        if upper is None or (lower is None and upper <= low):
            break
        if lower is not None and (upper - lower) / upper <= settings.relative_width:
            break
        load = ((lower or 0.0) + upper) / 2 if (lower or 0.0) + upper > 2 * low else low
    return bound_of(ratio, lower, upper, recorder, high, settings.exceed_ratio, spent=spent)


def _mlrsearch(settings: Preset, ratios: Sequence[float], low: float, high: float, recorder: Recorder) -> list[Bound]:
    """One search for all tolerated loss ratios, by MLRsearch 1.2.1.

    Facts that shape this: trial durations may be fractional; unsent frames count as loss when `intended_count` is
    given, so it is not; its conditional throughput is a share of the intended load, so ours is computed from what was
    offered; without a lower bound it raises unless `fail_fast` is off; a box faster than the top load gets no upper
    bound; when it is ended from inside, its database still holds what was measured.
    """
    # the library takes 0.4 s to import
    from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

    class Measurer(AbstractMeasurer):  # type: ignore[misc] # the library has no type information
        """What the library calls for a trial."""

        def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
            """Called by keyword; the names are MLRsearch's."""
            duration, load = float(intended_duration), float(intended_load)
            step = recorder.take(load, duration)
            return MeasurementResult(
                intended_duration=duration, intended_load=load, offered_count=step.sent, loss_count=max(0, step.lost)
            )

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
        found = controller.search(measurer=Measurer(), debug=lambda line: None)
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


def _partial(controller: Any, ratio: float, goal: Any, steps: Sequence[Step]) -> tuple[float | None, float | None]:
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


def throughput(session: Trials, spec: Rfc2544Spec, traffic: TrafficSpec) -> SearchResult:
    """Search and journal the bounds. Loads are per direction, counts over all of them."""
    directions, tolerated = len(traffic.directions), min(spec.loss_ratios)

    def measure(load_pps: float, duration_s: float) -> Step:
        trial = trial_of(spec, load_streams(traffic, load_pps), duration_s)
        result = session.trial(trial, purpose="search", clause=SearchRecord.clause)
        return Step(
            load_pps=load_pps,
            duration_s=duration_s,
            offered_pps=result.achieved_pps / directions,
            sent=result.sent,
            lost=result.lost,
            stalled_ratio=result.stalled_share,
            stalls_known=result.sending_ns is not None,
            sender_full=session.sender_full,
        )

    best = 0.0

    def progress(step: Step) -> None:
        nonlocal best
        if step.loss_ratio <= tolerated:
            best = max(best, step.offered_pps)
        known = f"at least {best / 1e3:.0f} kpps without loss" if best else "no trial without loss yet"
        sent = f" ({step.offered_pps / 1e3:.0f} kpps sent)" if step.short else ""
        session.progress(f"  {step.load_pps / 1e3:.0f} kpps{sent}: loss ratio {step.loss_ratio:.2e}; {known}")

    high = top_load(spec, traffic, session.ceiling_pps)
    found = search(
        spec.preset, sorted(spec.loss_ratios), min(spec.low_pps, high / 2), high, measure,
        budget_s=spec.budget_s, progress=progress,
    )  # fmt: skip
    record = SearchRecord(
        **dict(found), directions=directions, top_load_pps=high, line_rate_bps=line_rate(spec, traffic)
    )
    session.record_figures(record.clause, record)
    return found
