# SPDX-License-Identifier: Apache-2.0
"""What a run spends its time on beside traffic: starting and proving a program, reading back, stopping, draining."""

from collections.abc import Iterable, Sequence
from statistics import median, quantiles

from xdplab.model import Model, TrialRecord


class Overhead(Model):
    """Dead time of the repetitions that were completed, in s: wall time less the traffic asked for, warm-up counted."""

    repetitions: int
    median_s: float
    p90_s: float
    #: All dead time over all trials: a search takes many in one repetition.
    per_trial_s: float
    #: Of the repetitions' wall time, what was traffic.
    traffic_share: float


def overhead(trials: Iterable[TrialRecord]) -> Overhead | None:
    """Over all repetitions of a run; None when none was completed with traffic in it, and of simulated ones.

    A simulated trial takes less time than the traffic that it stands for.
    """
    trials = list(trials)
    ends = [t for t in trials if t.purpose == "end" and t.status == "ok"]
    taken = sum(trial.result is not None for trial in trials)
    if any(end.repetition_s < end.traffic_s for end in ends):
        return None
    return _overhead([(end.repetition_s, end.traffic_s) for end in ends if end.traffic_s > 0], taken)


def _overhead(repetitions: Sequence[tuple[float, float]], trials: int) -> Overhead | None:
    """Of repetitions given by their wall time and their traffic, in s."""
    if not repetitions:
        return None
    dead = [wall_s - traffic_s for wall_s, traffic_s in repetitions]
    return Overhead(
        repetitions=len(repetitions),
        median_s=median(dead),
        p90_s=quantiles(dead, n=10, method="inclusive")[-1] if len(dead) > 1 else dead[0],
        per_trial_s=sum(dead) / max(1, trials),
        traffic_share=sum(traffic_s for _, traffic_s in repetitions) / sum(wall_s for wall_s, _ in repetitions),
    )
