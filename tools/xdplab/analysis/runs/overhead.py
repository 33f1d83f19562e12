# SPDX-License-Identifier: Apache-2.0
"""What a run spends its time on next to traffic: starting and proving a program, reading back, stopping, draining."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from statistics import median, quantiles
from typing import NamedTuple

from xdplab.model import Model, TrialRecord


class Overhead(Model):
    """Dead time of the repetitions that were completed, in s: wall time less the traffic asked for, warm-up counted."""

    repetitions: int
    median_s: float
    #: Without the forwarders' own start and stop: what the suite and its tester take.
    own_median_s: float
    p90_s: float
    #: All dead time over all trials: a search takes many in one repetition.
    per_trial_s: float
    #: Of the repetitions' wall time, what was traffic.
    traffic_share: float
    #: Of a trial in turns: from the end of the one before, of whichever point, to its own, less its traffic, warm-up
    #: counted; None without turns.
    turn_median_s: float | None = None
    turn_p90_s: float | None = None


def overhead(trials: Iterable[TrialRecord]) -> Overhead | None:
    """Over all repetitions of a run; None when none was completed with traffic in it, and of simulated ones.

    A simulated trial takes less time than the traffic that it stands for.
    """
    ends, taken, turns = list[_End](), 0, _Turns()
    for trial in trials:  # of a long run, which would not fit into memory
        taken += trial.result is not None
        turns.add(trial)
        if trial.purpose == "end" and trial.status == "ok":
            ends.append(_End(trial.repetition_s, trial.traffic_s, trial.forwarder_s))
    if any(end.repetition_s < end.traffic_s for end in ends):
        return None
    ends = [end for end in ends if end.traffic_s > 0]
    if not ends:
        return None
    dead = [end.repetition_s - end.traffic_s for end in ends]
    return Overhead(
        repetitions=len(ends),
        median_s=median(dead),
        own_median_s=median(d - end.forwarder_s for d, end in zip(dead, ends, strict=True)),
        p90_s=_p90(dead),
        per_trial_s=sum(dead) / max(1, taken),
        traffic_share=sum(end.traffic_s for end in ends) / sum(end.repetition_s for end in ends),
        turn_median_s=median(turns.dead_s) if turns.dead_s else None,
        turn_p90_s=_p90(turns.dead_s) if turns.dead_s else None,
    )


def _p90(values: Sequence[float]) -> float:
    return quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]


class _End(NamedTuple):
    repetition_s: float
    traffic_s: float
    forwarder_s: float


class _Turns:
    """A trial is recorded at its end; of those that follow one another in a round."""

    def __init__(self) -> None:
        self.dead_s: list[float] = []
        self._ended_s = 0.0
        self._of: int | None = None

    def add(self, trial: TrialRecord) -> None:
        now_s = datetime.fromisoformat(trial.started).timestamp()
        if trial.purpose != "measure" or trial.turn is None or trial.asked is None:
            self._of = None
            return
        if self._of == trial.repetition:
            self.dead_s.append(now_s - self._ended_s - trial.asked.warmup_s - trial.asked.duration_s)
        self._ended_s, self._of = now_s, trial.repetition
