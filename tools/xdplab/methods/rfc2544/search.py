# SPDX-License-Identifier: Apache-2.0
"""Searching the throughput: MLRsearch (draft-ietf-bmwg-mlrsearch) with presets, and plain binary search beside it.

Both work on a function that measures one trial, so that they run on real forwarders, on simulated boxes and on the
journal of a killed run alike. Time is traffic time, never wall time: a replayed search takes the same decisions.

What its trials are credited with is in `bounds`.
"""

from collections.abc import Callable, Sequence

from xdplab.methods.rfc2544.bounds import Bound, BudgetSpent, Measure, Preset, Recorder, Step, bound_of
from xdplab.methods.rfc2544.spec import PresetName
from xdplab.model import Model

PRESETS: dict[str, Preset] = {
    "rfc2544": Preset(1.0, 60.0, 60.0, 0.0, 0.005, 3600, "zero loss in one 60 s trial (RFC 2544 §26.1)"),
    "tst009": Preset(1.0, 60.0, 120.0, 0.5, 0.005, 7200, "loss verification: two of three 60 s trials (TST009)"),
    "csit": Preset(1.0, 1.0, 21.0, 0.5, 0.005, 1200, "1 s trials, 21 s in all, half of them may fail (FD.io CSIT)"),
    "quick": Preset(0.2, 0.5, 2.5, 0.5, 0.01, 60, "0.5 s trials, 2.5 s in all, half of them may fail"),
    "binary": Preset(60.0, 60.0, 60.0, 0.0, 0.005, 7200, "plain bisection, one 60 s trial a step"),
}


class SearchResult(Model):
    """All bounds and all trials of a search."""

    preset: str
    bounds: tuple[Bound, ...]
    steps: tuple[Step, ...]
    traffic_s: float


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
        from xdplab.methods.rfc2544.mlr import mlrsearch  # the library takes 0.4 s to import

        bounds = mlrsearch(settings, loss_ratios, low_pps, high_pps, recorder)
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
