# SPDX-License-Identifier: Apache-2.0
"""A trial: what is asked of a tester, what it answers, and what is journaled."""

from typing import Any, Literal

from pydantic import Field

from xdplab.model.base import SCHEMA_VERSION, Model, Shown
from xdplab.model.flow_figures import FlowFigures
from xdplab.model.histogram import Histogram

Purpose = Literal["measure", "search", "figures", "end"]


class StreamSpec(Model):
    """One stream of a trial. `pps=None` means as fast as the tester can."""

    kind: Literal["latency", "load"]
    pps: float | None
    frame_bytes: int
    flows: int = 1
    vlan: int | None = None
    ip: Literal[4, 6] = 4
    #: `forward`: from the path's first tester port; `backward`: from its last.
    direction: Literal["forward", "backward"] = "forward"
    start_ns: int = 0
    #: Frames after which the stream ends; 0: with the trial.
    count: int = 0
    #: Which address pair.
    pair: int = 0


class TrialSpec(Model):
    """One measurement at one offered load for one duration."""

    streams: tuple[StreamSpec, ...]
    duration_s: float
    warmup_s: float = 0.0
    drain_s: float = 0.2

    @property
    def offered_pps(self) -> float | None:
        """Sum over all streams; None when one of them is unpaced."""
        rates = [stream.pps for stream in self.streams]
        return None if None in rates else sum(rate for rate in rates if rate is not None)


class LatencySummary(Model):
    """A latency distribution."""

    count: int
    min_ns: int
    max_ns: int
    mean_ns: float
    hdr: Histogram


class StreamResult(Model):
    """What became of one stream, exact to the frame."""

    kind: Literal["latency", "load"]
    direction: Literal["forward", "backward"] = "forward"
    frame_bytes: int
    offered_pps: float | None
    intended: int
    sent: int
    skipped: int = 0
    #: Frames that the tester's own card dropped: neither sent nor lost. None where that is not known, and on veth: its
    #: ring belongs to whoever receives.
    tx_drops: int | None = None
    received: int
    lost: int
    duplicated: int = 0
    out_of_order: int = 0
    achieved_pps: float
    rx_pps: float
    latency: LatencySummary | None = None
    lateness: LatencySummary | None = None
    #: Departures within `late_ns` of the schedule.
    on_schedule: int | None = None
    #: Sequence number of the last frame that was lost with a later one arriving; None: there was none.
    last_lost: int | None = None
    #: Longest time between the departures of two consecutive frames that arrived.
    longest_gap_ns: int | None = None
    #: Frames sent after the last one that arrived.
    trailing_lost: int = 0
    #: On request (`xdpgen:flow_figures=true`).
    flow_figures: FlowFigures | None = None


#: Share of a load that a tester may leave out, or of a trial in which its sender may stand still, for the load to
#: count as offered. It is no more than the finest width that a search resolves (0.5 %), so that a bound stays on its
#: side of the truth within that width.
LOAD_TOLERANCE = 0.005


class TrialResult(Model):
    """A tester's answer to a TrialSpec."""

    tester: str
    sender: str
    sender_reason: str | None = None
    elapsed_s: float
    interrupted: bool = False
    streams: tuple[StreamResult, ...]
    #: Frames that arrived and that the tester then lost itself; they are counted as lost in the streams.
    tester_lost: int = 0
    #: CPU -> frames that the tester's receive program saw there.
    rx_cpus: dict[int, int] = {}
    rx_program: str = ""
    #: Time in which the sender's core was taken away: sum and longest single gap.
    stalls: int = 0
    stalled_ns: int = 0
    #: Threads that sent; stalls are summed over them.
    senders: int = 1
    longest_gap_ns: int = 0
    run_delay_ns: int = 0
    nonvoluntary_switches: int = 0
    #: Of a trial in which the forwarder was restarted: what the suite itself put between its stop and its start.
    restart_own_ns: int | None = None
    #: Tester specific facts worth keeping (batch, polls, other traffic seen).
    detail: dict[str, Any] = {}

    @property
    def sent(self) -> int:
        """Frames sent, all streams."""
        return sum(stream.sent for stream in self.streams)

    @property
    def received(self) -> int:
        """Distinct frames received, all streams."""
        return sum(stream.received for stream in self.streams)

    @property
    def lost(self) -> int:
        """Frames sent that did not come back, all streams."""
        return sum(stream.lost for stream in self.streams)

    @property
    def tx_drops(self) -> int:
        """Frames that the tester's own card is known to have dropped, all streams."""
        return sum(stream.tx_drops or 0 for stream in self.streams)

    @property
    def achieved_pps(self) -> float:
        """Frames sent over the time that sending took, all streams."""
        return sum(stream.achieved_pps for stream in self.streams)

    @property
    def intended(self) -> int:
        """Frames the schedule asked for, all streams."""
        return sum(stream.intended for stream in self.streams)

    @property
    def stalled_share(self) -> float:
        """Share of the trial in which the machine had taken a sender's core away, mean over the senders."""
        return min(1.0, self.stalled_ns / (self.elapsed_s * 1e9 * self.senders)) if self.elapsed_s else 0.0


class ThreadUse(Model):
    """What a thread of the forwarder used during a trial (from /proc/PID/task/TID)."""

    name: str
    cpu: int
    allowed: tuple[int, ...]
    ran_ns: int
    run_delay_ns: int
    nonvoluntary_switches: int


class DisturbanceRule(Model):
    """When a trial counts as disturbed: the machine, not the forwarder, was late (DESIGN.md rule 9).

    Shares are of the trial's duration.
    """

    max_stalled_share: float = Field(default=0.01, gt=0)
    max_steal_share: float = Field(default=0.01, gt=0)
    max_run_delay_share: float = Field(default=0.01, gt=0)
    #: How often a disturbed step of a search is measured anew within its repetition at most, and how often a disturbed
    #: repetition as a whole, for all points, behind the planned ones (`Method.repeats_whole`).
    max_repeats: int = Field(default=2, ge=0, le=20)
    #: What both may take together, as a share of the traffic time that the study plans: a machine that is never quiet
    #: ends a run in bounded time, with its disturbed trials marked. One of five repetitions made anew is a share of
    #: 0.2, and one that does not fit is not begun.
    max_repeats_share: float = Field(default=0.4, ge=0, le=20)


class Disturbance(Model):
    """What the machine took away during a trial."""

    #: The machine's part of the sender's stalls.
    stalled_share: float
    #: The forwarder's part: its receive half, which on veth runs on the sender's core.
    receive_half_share: float = 0.0
    steal_share: dict[int, float]
    run_delay_share: float
    reasons: tuple[str, ...] = ()

    @property
    def disturbed(self) -> bool:
        """True when the rule found a reason."""
        return bool(self.reasons)


class Calibration(Model):
    """The tester on a direct link, without a forwarder."""

    link: str
    p50_ns: int
    p99_ns: int
    p999_ns: int
    jitter_ns: int
    top_pps: float
    #: Highest rate that arrived whole; None where the tester does not lose frames by itself.
    lossless_pps: float | None = None
    #: None where the tester does not say.
    on_schedule_ratio: float | None
    achieved_error_ratio: float
    at_pps: float
    frame_bytes: int
    rx_program: str
    #: The latencies behind the percentiles, merged over the trials.
    latency: LatencySummary | None = None
    #: Largest share of a trial in which the machine had taken a sender's core away.
    stalled_share: float | None = None
    #: When it was measured, the boot of the tester's machine, and whether that was for an earlier run.
    taken: str | None = None
    boot_id: str | None = None
    reused: bool = False

    @property
    def ceiling_pps(self) -> float:
        """Highest load that a result of this tester may be asked for."""
        return self.top_pps if self.lossless_pps is None else self.lossless_pps


class TrialRecord(Model):
    """One line of trials.jsonl."""

    schema_version: int = SCHEMA_VERSION
    point_id: str
    repetition: int
    #: `measure`: its latencies and losses stand for the point; `search`: a step of a method's search;
    #: `figures`: what a method found; `end`: the repetition is over and is not made again on resume.
    purpose: Purpose = "measure"
    #: Number of the trial within its repetition, and of the attempt at it.
    trial: int = 0
    attempt: int = 0
    status: Literal["ok", "disturbed", "failed", "unsupported"]
    reason: Shown = ""
    started: str
    setup_s: float = 0.0
    #: Of the record that ends a repetition: its wall time, and how much of that the traffic asked for took.
    repetition_s: float = 0.0
    traffic_s: float = 0.0
    asked: TrialSpec | None = None
    offered_pps: float | None = None
    result: TrialResult | None = None
    #: What a method found, under the clause it follows ("RFC 2544 26.1").
    clause: str = ""
    figures: dict[str, Any] = {}
    disturbance: Disturbance | None = None
    #: What the kernel and the forwarder say is in use: XDP attach mode, zero-copy, NAPI id, counters.
    mode: dict[str, Any] = {}
    threads: tuple[ThreadUse, ...] = ()
    softirq_cpus: dict[int, int] = {}
    counters: dict[str, Any] = {}
    #: What this trial added to the counters, of forwarders whose counters only grow.
    counted: dict[str, Any] = {}
    knobs: dict[str, Any] = {}
    log_tail: tuple[Shown, ...] = ()
