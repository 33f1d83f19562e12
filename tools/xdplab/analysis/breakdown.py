# SPDX-License-Identifier: Apache-2.0
"""Breakdown of a point: at each rate the stages of a median frame and the latency with and without the probes."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from xdplab.analysis.distribution import distribution
from xdplab.analysis.stats import MIN_PAIRS, ratio_interval
from xdplab.methods.breakdown import CLAUSE
from xdplab.model import TrialRecord

#: Probes that a frame waits for until it is sent: rx_batch and tx_batch.
_PROBES_ON_THE_WAY = 2
#: Stage -> how many probes' time is in it: a probe takes its stamp about half-way through its trap.
_PROBES_IN = {"wait": 0.5, "switch": 1.0, "kick": 1.0}
#: Frames per batch up to which a frame is alone: above, the probes' cost is shared and makes others wait.
ALONE = 1.1


def breakdown_figures(trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """One entry per rate, in its order; [] when the method was another one. Medians over the pairs."""
    found: dict[float, list[dict[str, Any]]] = {}
    for trial in trials:
        if trial.purpose == "figures" and trial.clause.startswith(f"{CLAUSE} "):
            found.setdefault(trial.figures["rate_pps"], []).append(trial.figures)
    return [_at_rate(trials, rate, stages) for rate, stages in sorted(found.items())]


def _at_rate(trials: Sequence[TrialRecord], rate: float, stages: list[dict[str, Any]]) -> dict[str, Any]:
    clauses = (f"{CLAUSE} {rate:.0f} without", f"{CLAUSE} {rate:.0f} with")
    paired = paired_trials(trials, *clauses)
    without, traced = (percentiles(pair[side] for pair in paired) for side in (0, 1))
    pairs = list(zip(traced["p50_us"], without["p50_us"], strict=False))
    interval = ratio_interval(pairs, depth=None)  # one process in turns: a level of the machine meets both sides alike
    typical = {
        name: {stage: median(one["typical_us"][name][stage] for one in stages) for stage in known}
        for name, known in stages[0]["typical_us"].items()
    }
    frames = median(one["frames_per_batch"] for one in stages)
    cost = median(slow - fast for slow, fast in pairs) / _PROBES_ON_THE_WAY if pairs else None
    told = cost is not None and cost > 0 and frames <= ALONE
    return {
        "rate_pps": rate,
        "pairs": len(pairs),
        "clean": clean_pairs(paired),
        "without_us": {name: median(values) for name, values in without.items() if values},
        "with_us": {name: median(values) for name, values in traced.items() if values},
        "cost": interval.model_dump() if interval else None,
        "typical_us": typical,
        "probe_cost_us": cost if told else None,
        "typical_less_us": _less(typical["p50"], cost or 0.0) if told else None,
        "stage_us": {
            stage: {name: median(one["stage_us"][stage][name] for one in stages) for name in known}
            for stage, known in stages[0]["stage_us"].items()
        },
        "whole_us": {name: median(one["whole_us"][name] for one in stages) for name in stages[0]["whole_us"]},
        "reaped_us": _median(one["reaped_us"] for one in stages),
        "frames_per_batch": frames,
        **{name: sum(one[name] for one in stages) for name in ("seen", "batches", "unmatched", "unsent", "full")},
    }


def _less(typical: dict[str, float], cost_us: float) -> dict[str, float]:
    """The stages without what the probes at their two ends cost: an estimate."""
    return {stage: max(0.0, value - _PROBES_IN[stage] * cost_us) for stage, value in typical.items()}


def paired_trials(trials: Iterable[TrialRecord], *clauses: str) -> list[tuple[TrialRecord, ...]]:
    """Last attempts of each clause, paired in their order; undisturbed pairs alone if there are enough of them."""
    chosen = []
    for clause in clauses:
        last: dict[tuple[int, int], TrialRecord] = {}
        for trial in trials:
            if trial.clause == clause and trial.result is not None:
                last[(trial.repetition, trial.trial)] = trial
        chosen.append([trial for _, trial in sorted(last.items(), key=lambda item: item[0])])
    pairs = list(zip(*chosen, strict=False))
    undisturbed = [pair for pair in pairs if _undisturbed(pair)]
    return undisturbed if len(undisturbed) >= MIN_PAIRS else pairs


def clean_pairs(pairs: Iterable[tuple[TrialRecord, ...]]) -> int:
    """How many of them the machine disturbed on neither side."""
    return sum(_undisturbed(pair) for pair in pairs)


def _undisturbed(pair: tuple[TrialRecord, ...]) -> bool:
    return all(trial.status == "ok" for trial in pair)


def percentiles(trials: Iterable[TrialRecord]) -> dict[str, list[float]]:
    """p50 and p99 of each trial in us."""
    merged = [distribution([trial]) for trial in trials]
    found = {name: [one.percentile_us(float(name[1:-3])) for one in merged] for name in ("p50_us", "p99_us")}
    return {name: [value for value in values if value is not None] for name, values in found.items()}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
