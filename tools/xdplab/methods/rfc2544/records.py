# SPDX-License-Identifier: Apache-2.0
"""What each clause journals of a repetition (`TrialRecord.figures`), and how it is read again."""

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeVar

from xdplab.measure.figure import LimitedBy, TrialFigures
from xdplab.methods.rfc2544.spec import PresetName
from xdplab.model import Model, TrialRecord
from xdplab.model.base import Shown
from xdplab.model.trial import LOAD_TOLERANCE

#: What a search that ran out of time may leave open, for its result to be a figure: of less resolution, then.
MOST_LEFT_OPEN = 0.1

RecordT = TypeVar("RecordT", bound="ClauseRecord")


class ClauseRecord(TrialFigures):
    """What one repetition found for one clause of RFC 2544; base of all clauses."""

    #: The clause that it is journaled under.
    clause: ClassVar[str]


class UnsupportedClause(TrialFigures):
    """In place of a clause that the tester cannot measure, or that needs a throughput which was not found."""

    #: Why.
    unsupported: Shown


def records_of(trials: Iterable[TrialRecord], kind: type[RecordT]) -> list[tuple[TrialRecord, RecordT]]:
    """Those of a clause, each with its line of the journal; none of repetitions in which it is unsupported.

    Raises:
        InputError: the journal has something else.
    """
    return [
        (trial, kind.of(trial))
        for trial in trials
        if trial.purpose == "figures" and trial.clause == kind.clause and "unsupported" not in trial.figures
    ]


class Step(Model):
    """A trial of a search. Loads are per direction, frames over all of them."""

    #: Intended load.
    load_pps: float
    #: Its length.
    duration_s: float
    #: What of it left, over the time that took.
    offered_pps: float
    #: Frames that left the tester.
    sent: int
    #: Of these, frames that did not come back.
    lost: int
    #: Share of the trial in which the sender stood still. What it skipped then is missing in `offered_pps`; what it
    #: caught up with afterwards left in bursts above the intended load.
    stalled_ratio: float = 0.0
    #: Whether the tester says when it stood still.
    stalls_known: bool = False
    #: The forwarder's own work filled the sender's CPU: no more could be offered to it.
    sender_full: bool = False

    @property
    def loss_ratio(self) -> float:
        """Frames that the forwarder lost, of those sent."""
        return self.lost / self.sent if self.sent else 0.0

    @property
    def forwarded_pps(self) -> float:
        """Frames that came through, over the time that sending took."""
        return self.offered_pps * (1 - self.loss_ratio)

    @property
    def short(self) -> bool:
        """The tester sent less than it was asked for."""
        return self.offered_pps < (1 - LOAD_TOLERANCE) * self.load_pps

    @property
    def on_load(self) -> bool:
        """What was lost bounds the forwarder at the load that was offered.

        A sender that cannot keep up sends less, as steadily, and ours makes good no more than 0.3 ms after it stood
        still (`max_burst`): what the machine did meanwhile is recorded and decides nothing, repetitions show it. A
        tester that does not say so may have sent all of it in bursts: of its trials only those count whose load left
        whole.
        """
        whole = not self.short and self.stalled_ratio <= LOAD_TOLERANCE
        return self.stalls_known or whole


class Bound(Model):
    """What a search found for one tolerated loss ratio; loads in pps, per direction."""

    #: The tolerated share of lost frames.
    loss_ratio: float
    #: Highest load that was offered and found good.
    lower_pps: float | None
    #: Lowest load at which the forwarder lost too much; None where none is known to be too high for it.
    upper_pps: float | None
    #: Forwarding rate at the lower bound: offered load x (1 - loss).
    throughput_pps: float | None
    #: `forwarder`: both bounds are its own, or see `sender_full`. `tester`: no more could be sent, the forwarder may
    #: carry it. `below-minimum`: it lost too much at the lowest load. `budget`: traffic time ran out first.
    limited_by: LimitedBy
    #: Nothing was lost: the forwarder's own work on the sender's CPU left no time to offer it more.
    sender_full: bool = False

    @property
    def left_open(self) -> float | None:
        """How far its two sides are apart, as a ratio less 1; None where one is not known."""
        return self.upper_pps / self.lower_pps - 1 if self.lower_pps and self.upper_pps else None

    @property
    def from_below(self) -> bool:
        """Only known from below: somebody else was the limit. Time is none where both sides are within a tenth."""
        near = self.left_open is not None and self.left_open <= MOST_LEFT_OPEN
        return self.limited_by == "tester" or (self.limited_by == "budget" and not near)


class SearchResult(Model):
    """All bounds and all trials of a search."""

    #: How it searched.
    preset: PresetName
    #: For each tolerated loss ratio.
    bounds: tuple[Bound, ...]
    #: In the order in which they were taken.
    steps: tuple[Step, ...]
    #: Of all trials, warm-ups included.
    traffic_s: float


class SearchRecord(ClauseRecord, SearchResult):
    """What a search for the throughput (RFC 2544 §26.1) found."""

    clause: ClassVar[str] = "RFC 2544 26.1"

    #: 1, or 2: frames were sent both ways.
    directions: int
    #: Highest load of the search, per direction.
    top_load_pps: float
    #: Speed of the medium; None: the tester's top rate was the top load.
    line_rate_bps: float | None


class LoadShare(Model):
    """A load of §26.2."""

    #: Of the throughput.
    share: float
    #: What was asked for, per direction.
    load_pps: float


class LatencyRecord(ClauseRecord):
    """§26.2; the latencies are in its trials."""

    clause: ClassVar[str] = "RFC 2544 26.2"

    #: That the loads are shares of, per direction.
    throughput_pps: float
    #: Frames per second that are measured, which are part of the load.
    probe_pps: float
    #: Each.
    loads: tuple[LoadShare, ...]

    @classmethod
    def clause_at(cls, share: float) -> str:
        """The clause of the trials at a share of the throughput."""
        return f"{cls.clause} at {share:.2f}"


class LossStep(Model):
    """A step of §26.3; loads per direction, frames and `achieved_pps` over all of them."""

    #: Intended load.
    load_pps: float
    #: Frames that left the tester.
    sent: int
    #: Of these, frames that did not come back.
    lost: int
    #: Frames that the tester should have sent and did not.
    unsent: int
    #: Frames lost over frames sent.
    loss_ratio: float
    #: Frames sent over the time that sending took.
    achieved_pps: float


class LossCurveRecord(ClauseRecord):
    """§26.3, the highest load first."""

    clause: ClassVar[str] = "RFC 2544 26.3"

    #: Each load.
    points: tuple[LossStep, ...]
    #: The last two loads lost nothing, which ends the clause.
    two_without_loss: bool
    #: 1, or 2: frames were sent both ways.
    directions: int


class BurstsRecord(ClauseRecord):
    """§26.4: the longest burst without loss of each search, and the buffer that they imply, or `reason`."""

    clause: ClassVar[str] = "RFC 2544 26.4"

    #: Longest burst without loss of each search.
    frames: tuple[int, ...]
    #: Their mean.
    average_frames: float
    #: Of these.
    standard_deviation_frames: float
    #: That was tried.
    longest_burst_frames: int
    #: `tester`: the longest burst that was tried lost nothing.
    limited_by: Literal["forwarder", "tester"]
    #: Frames over the time in which a burst was sent, mean over the searches; None where each burst lost frames.
    burst_rate_pps: float | None = None
    #: The average burst over its rate.
    implied_buffer_us: float | None = None
    #: The same without what is forwarded while the burst arrives (RFC 9004 §5.4).
    corrected_buffer_us: float | None = None
    #: That in frames.
    corrected_buffer_frames: float | None = None
    #: What the searches for length and throughput leave open.
    buffer_resolution_frames: float | None = None
    #: Why there is no buffer; empty where there is one.
    reason: str = ""


class RecoveryRecord(ClauseRecord):
    """§26.5; loads per direction."""

    clause: ClassVar[str] = "RFC 2544 26.5"

    #: What was sent; asked for was 110 % of the throughput, or the top load if that is lower.
    overload_pps: float
    #: What was asked for after it: half of the overload.
    relief_pps: float
    #: How long the overload was offered.
    overload_s: float
    #: Frames lost meanwhile.
    lost_in_overload: int
    #: Frames lost at the lower load.
    lost_after: int
    #: From the end of the overload to the departure of the last frame that was lost; None: it was not overloaded.
    recovery_us: float | None
    #: Shorter times cannot be seen.
    resolution_us: float
    #: `tester`: frames that it did not send, or that its card dropped, look like lost ones: it was that at the most.
    limited_by: Literal["forwarder", "tester"] = "forwarder"
    #: Frames were lost in the overload.
    overloaded: bool
    #: Why there is no time; empty where there is one.
    reason: str


class ResetRecord(ClauseRecord):
    """§26.6; loads per direction."""

    clause: ClassVar[str] = "RFC 2544 26.6"

    #: What was sent.
    load_pps: float
    #: Longest time between the departures of two frames that came through; None: none came behind the restart.
    gap_us: float | None
    #: What the suite itself put between stop and start.
    own_us: float
    #: The gap less that; None where it is not known.
    reset_us: float | None
    #: Why there is no time; empty where there is one.
    reason: str
    #: Frames that did not come back.
    lost: int
    #: Shorter times cannot be seen.
    resolution_us: float
    #: `tester`: frames that did not leave it make the gap longer: the reset took that at the most.
    limited_by: Literal["forwarder", "tester"] = "forwarder"
    #: Frames came through again before the trial was over.
    came_back: bool
    #: Its length.
    trial_s: float


class OverloadRecord(ClauseRecord):
    """The forwarding rate of RFC 2285, over all directions."""

    clause: ClassVar[str] = "RFC 2285 3.6.1"

    #: What was asked for.
    intended_pps: float
    #: What was sent, median over the trials.
    offered_pps: float
    #: Frames that came through over the time that sending took, median over the trials.
    forwarding_rate_pps: float
    #: Of each trial.
    rates_pps: tuple[float, ...]
    #: Each trial lost frames, so that the rate is the forwarder's own.
    overloaded: bool
