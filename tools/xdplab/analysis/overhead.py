# SPDX-License-Identifier: Apache-2.0
"""What a run spends its time on beside traffic: starting and proving a forwarder, reading back, stopping, draining."""

from collections.abc import Iterable
from statistics import median, quantiles

from xdplab.model import Model, TrialRecord


class Overhead(Model):
    """Dead time of the visits that were completed, in s: wall time less the traffic asked for, warm-up counted."""

    visits: int
    median_s: float
    p90_s: float
    #: All dead time over all trials: a search takes many in one visit.
    per_trial_s: float
    #: Of the visits' wall time, what was traffic.
    traffic_share: float


def overhead(trials: Iterable[TrialRecord]) -> Overhead | None:
    """Over all visits of a run; None when none was completed with traffic in it."""
    trials = list(trials)
    visits = [t for t in trials if t.purpose == "end" and t.status == "ok" and t.traffic_s > 0]
    if not visits:
        return None
    taken = sum(trial.result is not None for trial in trials)
    dead = [visit.visit_s - visit.traffic_s for visit in visits]
    return Overhead(
        visits=len(visits),
        median_s=median(dead),
        p90_s=quantiles(dead, n=10, method="inclusive")[-1] if len(dead) > 1 else dead[0],
        per_trial_s=sum(dead) / max(1, taken),
        traffic_share=sum(visit.traffic_s for visit in visits) / sum(visit.visit_s for visit in visits),
    )
