# SPDX-License-Identifier: Apache-2.0
"""Breakdown of a point: at each rate the stages of a median frame and the latency with and without the probes."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from xdplab.analysis.distribution import distribution
from xdplab.analysis.stats import ratio_interval
from xdplab.methods.breakdown import CLAUSE
from xdplab.model import TrialRecord


def breakdown_figures(trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """One entry per rate, in its order; [] when the method was another one. Medians over the pairs."""
    found: dict[float, list[dict[str, Any]]] = {}
    for trial in trials:
        if trial.purpose == "figures" and trial.clause.startswith(f"{CLAUSE} "):
            found.setdefault(trial.figures["rate_pps"], []).append(trial.figures)
    return [_at_rate(trials, rate, stages) for rate, stages in sorted(found.items())]


def _at_rate(trials: Sequence[TrialRecord], rate: float, stages: list[dict[str, Any]]) -> dict[str, Any]:
    without, traced = (_latencies(trials, f"{CLAUSE} {rate:.0f} {how}") for how in ("without", "with"))
    pairs = list(zip(traced["p50_us"], without["p50_us"], strict=False))
    interval = ratio_interval(pairs)
    return {
        "rate_pps": rate,
        "pairs": len(pairs),
        "without_us": {name: median(values) for name, values in without.items() if values},
        "with_us": {name: median(values) for name, values in traced.items() if values},
        "cost": interval.model_dump() if interval else None,
        "typical_us": {
            name: {stage: median(one["typical_us"][name][stage] for one in stages) for stage in known}
            for name, known in stages[0]["typical_us"].items()
        },
        "stage_us": {
            stage: {name: median(one["stage_us"][stage][name] for one in stages) for name in known}
            for stage, known in stages[0]["stage_us"].items()
        },
        "whole_us": {name: median(one["whole_us"][name] for one in stages) for name in stages[0]["whole_us"]},
        "reaped_us": _median(one["reaped_us"] for one in stages),
        "frames_per_batch": median(one["frames_per_batch"] for one in stages),
        **{name: sum(one[name] for one in stages) for name in ("seen", "batches", "unmatched", "unsent", "full")},
    }


def _latencies(trials: Iterable[TrialRecord], clause: str) -> dict[str, list[float]]:
    """Percentiles of the last attempt at each trial of a clause, in their order."""
    last: dict[tuple[int, int], TrialRecord] = {}
    for trial in trials:
        if trial.clause == clause and trial.result is not None:
            last[(trial.repetition, trial.trial)] = trial
    merged = [distribution([trial]) for _, trial in sorted(last.items(), key=lambda item: item[0])]
    percentiles = {name: [one.percentile_us(float(name[1:-3])) for one in merged] for name in ("p50_us", "p99_us")}
    return {name: [value for value in values if value is not None] for name, values in percentiles.items()}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
