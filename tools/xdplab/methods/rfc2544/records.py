# SPDX-License-Identifier: Apache-2.0
"""What each clause journals of a repetition (`TrialRecord.figures`), and how it is read again."""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeVar

from xdplab.measure.figure import LimitedBy
from xdplab.model import Model, TrialRecord, validated
from xdplab.model.trial import LOAD_TOLERANCE

RecordT = TypeVar("RecordT", bound="ClauseRecord")


class ClauseRecord(Model):
    """Of one repetition."""

    #: The clause that it is journaled under.
    clause: ClassVar[str]

    def journaled(self) -> dict[str, Any]:
        """For the journal."""
        return self.model_dump(mode="json")


def records_of(trials: Iterable[TrialRecord], kind: type[RecordT]) -> list[tuple[TrialRecord, RecordT]]:
    """Those of a clause, each with its line of the journal; none of repetitions in which it is unsupported.

    Raises:
        InputError: the journal has something else.
    """
    return [
        (trial, validated(kind, trial.figures, f"trials.jsonl, point {trial.point_id}, {kind.clause}"))
        for trial in trials
        if trial.purpose == "figures" and trial.clause == kind.clause and "unsupported" not in trial.figures
    ]


class Step(Model):
    """A trial of a search. Loads are per direction, frames over all of them."""

    #: Intended load.
    load_pps: float
    duration_s: float
    #: What of it left, over the time that took.
    offered_pps: float
    sent: int
    lost: int
    #: Share of the trial in which the sender stood still. What it skipped then is missing in `offered_pps`; what it
    #: caught up with afterwards left in bursts above the intended load.
    stalled_ratio: float = 0.0
    #: The machine disturbed it: it took the sender's core or the forwarder's for longer than the study's rule allows.
    disturbed: bool = False

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
        """What was lost is the forwarder's own: the intended load throughout, and its core was not taken away."""
        return not self.short and self.stalled_ratio <= LOAD_TOLERANCE and not self.disturbed


class Bound(Model):
    """What a search found for one tolerated loss ratio; loads in pps, per direction."""

    loss_ratio: float
    #: Highest load that was offered and found good.
    lower_pps: float | None
    #: Lowest load at which the forwarder lost too much; None where none is known to be too high for it.
    upper_pps: float | None
    #: Forwarding rate at the lower bound: offered load x (1 - loss).
    throughput_pps: float | None
    #: `forwarder`: both bounds are its own. `tester`: the next higher load was not offered as asked, the forwarder may
    #: carry it. `machine`: it was lost while the machine took a core away. `below-minimum`: it lost too much at the
    #: lowest load. `budget`: traffic time ran out first.
    limited_by: LimitedBy


class SearchResult(Model):
    """All bounds and all trials of a search."""

    preset: str
    bounds: tuple[Bound, ...]
    steps: tuple[Step, ...]
    traffic_s: float


class SearchRecord(ClauseRecord, SearchResult):
    """§26.1."""

    clause: ClassVar[str] = "RFC 2544 26.1"

    directions: int
    #: Highest load of the search, per direction.
    top_load_pps: float
    #: Speed of the medium; None: the tester's top rate was the top load.
    line_rate_bps: float | None


class LoadShare(Model):
    """A load of §26.2: its share of the throughput, and what was asked for per direction."""

    share: float
    load_pps: float


class LatencyRecord(ClauseRecord):
    """§26.2; the latencies are in its trials."""

    clause: ClassVar[str] = "RFC 2544 26.2"

    throughput_pps: float
    probe_pps: float
    loads: tuple[LoadShare, ...]

    @classmethod
    def clause_at(cls, share: float) -> str:
        """The clause of the trials at a share of the throughput."""
        return f"{cls.clause} at {share:.2f}"


class LossStep(Model):
    """A step of §26.3; loads per direction, frames and `achieved_pps` over all of them."""

    load_pps: float
    sent: int
    lost: int
    unsent: int
    loss_ratio: float
    achieved_pps: float


class LossCurveRecord(ClauseRecord):
    """§26.3, the highest load first."""

    clause: ClassVar[str] = "RFC 2544 26.3"

    points: tuple[LossStep, ...]
    two_without_loss: bool
    directions: int


class BurstsRecord(ClauseRecord):
    """§26.4: the longest burst without loss of each search, and the buffer that they imply, or `reason`."""

    clause: ClassVar[str] = "RFC 2544 26.4"

    frames: tuple[int, ...]
    average_frames: float
    standard_deviation_frames: float
    longest_burst_frames: int
    limited_by: Literal["forwarder", "tester"]
    burst_rate_pps: float | None = None
    implied_buffer_us: float | None = None
    corrected_buffer_us: float | None = None
    corrected_buffer_frames: float | None = None
    #: What the searches for length and throughput leave open.
    buffer_resolution_frames: float | None = None
    reason: str = ""


class RecoveryRecord(ClauseRecord):
    """§26.5; loads per direction."""

    clause: ClassVar[str] = "RFC 2544 26.5"

    overload_pps: float
    relief_pps: float
    overload_s: float
    lost_in_overload: int
    lost_after: int
    recovery_us: float | None
    resolution_us: float
    overloaded: bool
    reason: str


class ResetRecord(ClauseRecord):
    """§26.6; `reset_us` is the gap less what the suite itself put between stop and start."""

    clause: ClassVar[str] = "RFC 2544 26.6"

    load_pps: float
    gap_us: float | None
    own_us: float
    reset_us: float | None
    reason: str
    lost: int
    resolution_us: float
    came_back: bool
    trial_s: float


class OverloadRecord(ClauseRecord):
    """The forwarding rate of RFC 2285, over all directions."""

    clause: ClassVar[str] = "RFC 2285 3.6.1"

    intended_pps: float
    offered_pps: float
    forwarding_rate_pps: float
    #: Of each trial.
    rates_pps: tuple[float, ...]
    overloaded: bool
