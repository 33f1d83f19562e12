# SPDX-License-Identifier: Apache-2.0
"""A throughput that the loss curve of the same repetition contradicts: frames lost below what was found good."""

from collections.abc import Iterable, Sequence
from typing import Any

from xdplab.methods.rfc2544.search import PRESETS
from xdplab.model import Model, TrialRecord
from xdplab.model.digits import percent, significant

_LOSS_CURVE = "RFC 2544 26.3"


class Contradiction(Model):
    """The trial of the loss curve that lost most."""

    #: Over all directions.
    load_pps: float
    #: Frames lost of those sent.
    loss_ratio: float
    #: All trials that contradict were disturbed.
    disturbed: bool

    def text(self) -> str:
        """In words."""
        noise = ", on a disturbed machine" if self.disturbed else ""
        where = f"{significant(self.load_pps / 1e3, 4)} kpps{noise}"
        return f"the loss curve of the same repetition lost {percent(self.loss_ratio)} at {where}"


def contradiction(
    trials: Iterable[TrialRecord], repetition: int, figures: dict[str, Any], bound: dict[str, Any]
) -> Contradiction | None:
    """What contradicts a bound of the throughput `figures`; None when nothing does, or there is no loss curve.

    It is loss above the tolerated ratio at a load that is lower by more than the search resolves. One disturbed trial
    contradicts nothing: the rule lays its loss on the machine, as the search does with a load that was not offered as
    asked. Two of them do: whatever took frames at both loads was not there during the search, or was not seen by it.
    """
    if not bound["throughput_pps"]:
        return None
    below_pps = bound["throughput_pps"] * figures["directions"] * (1 - PRESETS[figures["preset"]].relative_width)
    lossy = []
    for trial in last_attempts(trials, repetition, _LOSS_CURVE):
        result, load_pps = trial.result, trial.offered_pps
        if not result or load_pps is None or load_pps >= below_pps or not result.sent:
            continue
        if result.lost / result.sent > bound["loss_ratio"]:
            lossy.append((result.lost / result.sent, load_pps, trial.status == "disturbed"))
    disturbed = all(noisy for _, _, noisy in lossy)
    if not lossy or (disturbed and len(lossy) == 1):
        return None
    ratio, load_pps, _ = max(each for each in lossy if disturbed or not each[2])
    return Contradiction(load_pps=load_pps, loss_ratio=ratio, disturbed=disturbed)


def worst(found: Sequence[Contradiction | None]) -> Contradiction | None:
    """Of several repetitions the one with most loss."""
    return max((each for each in found if each), key=lambda each: each.loss_ratio, default=None)


def last_attempts(trials: Iterable[TrialRecord], repetition: int, clause: str) -> list[TrialRecord]:
    """The attempt that a method was given, of each trial of a clause in one repetition."""
    last: dict[int, TrialRecord] = {}
    for trial in trials:
        if trial.purpose == "search" and trial.clause == clause and trial.repetition == repetition:
            last[trial.trial] = trial
    return list(last.values())
