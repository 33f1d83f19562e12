# SPDX-License-Identifier: Apache-2.0
"""What a trial with a change says."""

import math
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from xdplab.api import (
    FIRST_FRAME,
    Amount,
    Answer,
    Count,
    CountedFigures,
    Figure,
    InputError,
    Measured,
    Model,
    PointSummary,
    RepetitionFigures,
    TrialRecord,
    TrialResult,
    answer_by,
    headline,
)

INSTALLED = Figure(key="installed_per_s", name="rules installed", unit="rules/s", better="more", verb="installs")
REMOVED = Figure(key="removed_per_s", name="rules removed", unit="rules/s", better="more", verb="removes")
GAP = Figure(key="gap_us", name="longest gap", unit="ms", per=1e3, said_unit="ms", said_per=1e3, better="less")
FIRST = Figure(
    key="first_frame_us", name="first frame of an added port", unit="ms", per=1e3, said_unit="ms", said_per=1e3,
    better="less",
)  # fmt: skip
FIGURES = (INSTALLED, REMOVED, GAP, FIRST)
#: Values that are compared with nothing, for they may be 0.
LOST, BLOCKED, TOOK, NEW = "lost_frames", "blocked_us", "change_us", "new_flows_per_s"
#: Frames lost in the trial without a change.
LOST_WITHOUT = "lost_without_frames"
#: A gap of which the sender's own stall is this share says more of the machine.
_OWN_SHARE = 0.5
_RATES = ((INSTALLED, "installed"), (REMOVED, "removed"))
#: What has each of them.
_OF_RULES = ("rules", "rule-stream")


class StepDone(Model):
    """What was done in one step of a change."""

    #: Rules, ports, queues, of all rounds.
    count: Count
    #: What that took.
    s: Amount


class ChangeRecord(CountedFigures):
    """Of a trial with a change."""

    #: How often it was made.
    rounds: int = Field(ge=1)
    #: `installed`, `removed`, `replaced`, `added` -> what was done.
    steps: dict[str, StepDone]


class NewFlowsRecord(CountedFigures):
    """Of a trial in which each frame is the first of its flow."""

    #: New flows, by the forwarder's count; None: it does not count them.
    flows_met: Count | None


def repetition_figures(trial: TrialRecord, beside: TrialRecord | None = None, rules: int = 0) -> RepetitionFigures:
    """Times of a restart without what the suite itself put between its stop and its start.

    `beside`: the trial of the same repetition without a change; where that lost frames, too, no change blocked them.
    `rules`: how many were asked for; a forwarder that takes fewer at a time has rates of its own.

    Raises:
        InputError: a record is not one that xdplab wrote.
    """
    result, done = trial.result, _done(trial)
    rounds, steps = (done.rounds, done.steps) if done else (1, {})
    assert result is not None
    values: dict[str, float | None] = {LOST: result.lost}
    also = beside.result.lost if beside and beside.result else None
    if also is not None:
        values[LOST_WITHOUT] = also
    unseen_us, doubts = _unseen_us(result), {}
    ends: dict[str, dict[str, Any]] = {}
    if trial.clause == "new-flows":
        values[NEW] = result.received / result.elapsed_s
    elif result.lost == 0:
        values[GAP.key] = unseen_us
        values[BLOCKED] = 0.0
    else:
        own_us = (result.restart_own_ns or 0) / 1e3
        gap_us, doubt, bounds = _gap(result, own_us, also or 0)
        values[GAP.key] = gap_us
        doubts = {GAP.key: doubt} if doubt else {}
        ends = {GAP.key: bounds} if bounds else {}
        if gap_us is not None:
            values[BLOCKED] = None if also or bounds else _blocked_us(result, rounds, own_us)
    if steps:
        values[TOOK] = 1e6 * sum(each.s for name, each in steps.items() if name != FIRST_FRAME) / rounds
    if FIRST_FRAME in steps:
        values[FIRST.key] = 1e6 * steps[FIRST_FRAME].s
    for figure, name in _RATES if trial.clause in _OF_RULES else ():
        step = steps[name]
        values[figure.key] = step.count / step.s if step.s else None
        if rules and step.count != rules * rounds:
            doubts[figure.key] = f"{step.count / rounds:g} rules at a time, not {rules:,}"
    gap = values.get(GAP.key)
    if gap is not None and not ends:
        # frames that all came show that a gap is shorter than the longest time between two that were sent
        short = bool(gap) and (result.lost == 0 or gap <= unseen_us)
        below = {"low": 0.0, "high": gap, "limited_by": "below-minimum"} if short else {}
        ends[GAP.key] = {**below, "resolution": unseen_us / gap if gap else 0.0}
    return RepetitionFigures(
        repetition=trial.repetition,
        figures={
            key: Measured(value=value, doubt=doubts.get(key, ""), **ends.get(key, {})) for key, value in values.items()
        },
    )


def _done(trial: TrialRecord) -> ChangeRecord | None:
    """None of new flows, and of a restart, which the runner makes and times."""
    if trial.clause == "new-flows" or (trial.clause == "restart" and not trial.figures):
        return None
    done = ChangeRecord.of(trial)
    lacking = [name for _, name in _RATES if name not in done.steps] if trial.clause in _OF_RULES else []
    if lacking:
        where = f"trials.jsonl, point {trial.point_id}, repetition {trial.repetition}, {trial.clause}"
        raise InputError(f"{where}: steps: {lacking[0]} is missing, which change {trial.clause} has")
    return done


def _unseen_us(result: TrialResult) -> float:
    """While the sender stood still, and between two frames, nobody can say what the forwarder did."""
    rates = [stream.achieved_pps for stream in result.steady if stream.achieved_pps]
    return max(1e6 / min(rates, default=float("inf")), result.longest_gap_ns / 1e3)


def _blocked_us(result: TrialResult, rounds: int, own_us: float) -> float:
    return max(0.0, 1e6 * result.lost * result.elapsed_s / result.sent / rounds - own_us)


def _away_us(result: TrialResult, own_us: float) -> float | None:
    """Of a trial that ended before a frame came again: from the last that came to its end, at least; None: of none.

    Without the suite's own part.
    """
    if result.came_back is not False or not any(stream.received for stream in result.steady):
        return None
    rates = [(stream.trailing_lost, stream.achieved_pps) for stream in result.steady if stream.trailing_lost]
    away_us = max((1e6 * lost / pps for lost, pps in rates if pps), default=0.0)
    return away_us - own_us if away_us > own_us else None


def _gap(result: TrialResult, own_us: float, also: int) -> tuple[float | None, str, dict[str, Any]]:
    """The longest without the suite's own part, why it is no fact, and what it is a bound of.

    `also`: frames lost without a change.
    """
    if result.gap_ns is None:
        away_us = _away_us(result, own_us)
        if away_us is None:
            return None, "no frame came through after the change", {}
        return away_us, "", {"low": away_us, "high": math.inf, "limited_by": "budget"}
    if not result.gaps_known:
        return None, "frames arrived on several CPUs at once, so the gaps between them are not known", {}
    gap_us = result.gap_ns / 1e3
    if gap_us < own_us:
        return None, "frames came through meanwhile", {}
    if result.longest_gap_ns / 1e3 > _OWN_SHARE * gap_us:
        return gap_us - own_us, f"the tester itself sent nothing for {result.longest_gap_ns / 1e6:.3g} ms", {}
    return gap_us - own_us, "frames were lost without the change as well" if also else "", {}


def answer_by_change(
    wanted: tuple[str, str] | None, summaries: Sequence[PointSummary], figures: Sequence[Figure]
) -> Answer | None:
    """One sentence; None where the study names no two forwarders.

    It has no `comparison`: the ratios of a table are all of one figure, and changes have several.
    """
    if wanted is None:
        return None
    several = len({one.pipeline for one in summaries}) > 1
    compared, details = answer_by(
        wanted,
        summaries,
        lambda one: f"{one.levels.get('change')}{f', {one.pipeline}' if several else ''}",
        figures,
        _nothing,
        named=True,
    )
    said = any(one.decided for one in compared.values())
    return Answer(sentence=headline(wanted, compared, "changes under load"), details=tuple(details), decided=said)


def _nothing(ours: PointSummary, theirs: PointSummary, metric: str) -> str:
    lost = any(one.value(LOST) for side in (ours, theirs) for one in side.by_repetition)
    return "neither lost a frame" if metric == GAP.key and not lost else ""
