# SPDX-License-Identifier: Apache-2.0
"""What is repeated where the machine disturbed it: a step of a search at once, a repetition for all points later.

A forwarder whose threads spin can be seen to be late; one in softirq context cannot. So what is compared between
forwarders is never repeated for one of them: a repetition in which any was disturbed is repeated for all. Where there
are enough repetitions to compare by bounds (`xdplab.stats.contamination`), none is: a disturbed one says enough.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from xdplab.measure.measured import disturbed_share
from xdplab.model import StudySpec, TrialRecord
from xdplab.runner.plan import Plan, Repetition
from xdplab.stats.contamination import MIN_BOUNDED

#: Shares of sums of decimal fractions: 0.4 of 5 rounds of 2.1 s are 2 rounds.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Round:
    """A repetition behind the planned ones, and the one that it repeats."""

    repetitions: tuple[Repetition, ...]
    number: int
    repeats: int
    reason: str

    @property
    def text(self) -> str:
        """One line; repetitions are counted from 1."""
        points = "1 point" if len(self.repetitions) == 1 else f"all {len(self.repetitions)} points"
        return f"repetition {self.repeats + 1} is repeated for {points}, as repetition {self.number + 1}: {self.reason}"


class Repeats:
    """Decides by the journal alone, so that a resumed run goes on as the first part would have.

    `repetitions`: the planned ones of the points that can be measured here.
    """

    def __init__(self, study: StudySpec, plan: Plan, repetitions: Iterable[Repetition]) -> None:
        self._rule = study.disturbance
        self._plan = plan
        self._planned = study.repetitions
        self._next = study.repetitions
        self._budget_s = self._rule.max_repeats_share * plan.traffic_seconds(repetitions) * (1 + _ROUNDING)
        self._spent_s = 0.0
        self._taken_s = 0.0
        self._measured: set[str] = set()
        self._begun: set[int] = set()
        #: Repetition -> the first trial in it that was disturbed.
        self._disturbed: dict[int, TrialRecord] = {}

    def seen(self, trial: TrialRecord) -> None:
        """Take note of a journaled trial, of this part of the run or of an earlier one."""
        self._begun.add(trial.repetition)
        if trial.result is None or trial.asked is None:
            return
        seconds = trial.asked.warmup_s + trial.asked.duration_s
        if trial.attempt:
            self._spent_s += seconds
        else:
            self._taken_s += seconds
        if trial.purpose == "measure":
            self._measured.add(trial.point_id)
            if trial.status == "disturbed":
                self._disturbed.setdefault(trial.repetition, trial)

    def may_repeat(self, seconds: float) -> bool:
        """Whether a step of a search may be repeated, with so much traffic: within a share of what was taken so far.

        A plan knows only how long a search may take; of one that is short, a share of that would be many times as long.
        """
        taken_s = self._rule.max_repeats_share * self._taken_s * (1 + _ROUNDING)
        return self._spent_s + seconds <= min(taken_s, self._budget_s)

    def next_round(self) -> Round | None:
        """One more repetition of the points that were measured, after all before it are over; None: no more.

        It is made while fewer repetitions than the study asks for are clean for every point, bounds do not decide
        without it, and the rule's budget holds it whole. A failed repetition is no reason for one: the forwarder fails
        again.
        """
        if self._bounded:
            return None
        disturbed = sorted(self._disturbed)
        added = self._next - self._planned
        if not self._plan.method.repeats_whole or len(disturbed) <= added:
            return None
        again = tuple(each for each in self._plan.round(self._next) if each.point.id in self._measured)
        cost_s = self._plan.traffic_seconds(again)
        begun = self._next in self._begun  # a run that was cut off within it goes on there
        over = self._spent_s + cost_s > self._budget_s
        if not begun and (added >= self._rule.max_repeats * self._planned or over):
            return None
        self._spent_s += cost_s
        repeated = disturbed[added]
        trial = self._disturbed[repeated]
        title = next(point.title for point in self._plan.points if point.id == trial.point_id)
        found = Round(again, self._next, repeated, f"{title}: {trial.reason}")
        self._next += 1
        return found

    @property
    def _bounded(self) -> bool:
        """Whether disturbed repetitions count as bounds: there are enough, and it is known how disturbed each was."""
        known = all(disturbed_share(trial) is not None for trial in self._disturbed.values())
        return self._planned >= MIN_BOUNDED and known

    def left(self) -> str | None:
        """What stays disturbed at the end, in a line; None where enough repetitions are clean."""
        lacking = len(self._disturbed) - (self._next - self._planned)
        if lacking <= 0 or not self._plan.method.repeats_whole:
            return None
        clean = self._next - len(self._disturbed)
        if self._bounded:
            return f"{clean} of {self._planned} repetitions are clean for every point; the others count as bounds"
        return (
            f"{clean} of {self._planned} repetitions are clean for every point; no more are repeated "
            f"(disturbance: max_repeats {self._rule.max_repeats}, max_repeats_share {self._rule.max_repeats_share:g})"
        )
