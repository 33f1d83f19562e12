# SPDX-License-Identifier: Apache-2.0
"""Trials of one repetition in pairs: the same with something and without it, in turns."""

from collections.abc import Iterable

from xdplab.measure.distribution import carried, distribution
from xdplab.model import TrialRecord
from xdplab.stats.interval import MIN_PAIRS


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
    """p50 and p99 of each trial in us; no p99 where the trials together do not carry one."""
    trials = list(trials)
    merged = [distribution([trial]) for trial in trials]
    known = {"p50_us": 50.0, **({"p99_us": 99.0} if carried(trials, 99, 0.0) is not None else {})}
    found = {name: [one.percentile_us(percent) for one in merged] for name, percent in known.items()}
    return {name: [value for value in values if value is not None] for name, values in found.items()}
