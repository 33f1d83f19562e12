# SPDX-License-Identifier: Apache-2.0
"""What micro-benchmarks share: a figure that is counted in each repetition, and what limited it."""

import math
from collections.abc import Sequence
from typing import Any

from xdplab.measure.disturbed import disturbed_share
from xdplab.measure.figure import Figure
from xdplab.measure.measured import Measured
from xdplab.measure.method import Session
from xdplab.model import StreamSpec, TrialRecord, TrialResult, TrialSpec, Unsupported
from xdplab.stats.contamination import rate_ends

#: Frames that a program handles; with the tester as its limit it might have taken more.
MPPS = Figure(key="mpps", name="rate", unit="Mpps", better="more", verb="handles", precision=1e6, main=True)
#: A program that took this share of what the tester sent might have taken more.
TOOK_ALL = 0.99
#: Wait for frames that are under way, in s.
DRAIN_S = 0.1
#: Until a program has met what was sent to it before it is counted; nothing of that comes back.
UNDER_WAY_S = 0.08
#: Of the frames that a program is given before it is asked again what is in force.
_FIRST_S = 0.02


def rate_figures(pps: float, result: TrialResult, *, limited: bool) -> dict[str, Any]:
    """For the journal; `limited`: by what the tester sent."""
    sent_pps = result.sent / result.elapsed_s if result.streams else None
    return {"told": f"{pps / 1e6:.3f} Mpps", "mpps": pps / 1e6, "sent_pps": sent_pps, "limited": limited}


def took_all(figures: dict[str, Any]) -> bool:
    """Whether the tester was the limit."""
    sent = figures.get("sent_pps")
    return bool(figures.get("limited") and sent and 1e6 * figures["mpps"] / sent >= TOOK_ALL)


def counted_figure(value: float | None, trial: TrialRecord, figure: Figure) -> Measured:
    """What a trial counted: a lower bound where the tester was the limit, between two ends where it was disturbed.

    In the disturbed part of a trial a program is taken to have done nothing, or as much as in the rest.
    """
    share = disturbed_share(trial)
    if value is None or share is None:
        return Measured(value=value, share=share)
    low, high = rate_ends(value, share) if figure.more else (value * (1 - share), value)
    if took_all(trial.figures):
        return Measured(value=value, low=low, high=math.inf, limited_by="tester", share=share)
    return Measured(value=value, low=low, high=high, limited_by="machine" if share else "forwarder", share=share)


def counted_trials(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The first of each repetition that has figures."""
    first: dict[int, TrialRecord] = {}
    for trial in trials:
        if trial.purpose == "measure" and trial.result is not None and trial.figures:
            first.setdefault(trial.repetition, trial)
    return [first[repetition] for repetition in sorted(first)]


def first_frames(session: Session) -> None:
    """Give a program some frames where an option waits for them.

    Raises:
        Unsupported: an option is not in force.
    """
    if session.forwarder.ineffective() is None:
        return
    some = StreamSpec(kind="load", pps=1000, frame_bytes=session.point.traffic.smallest)
    session.send(TrialSpec(streams=(some,), duration_s=_FIRST_S, drain_s=0.0))
    reason = session.forwarder.ineffective()
    if reason:
        raise Unsupported(reason)
