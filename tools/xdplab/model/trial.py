# SPDX-License-Identifier: Apache-2.0
"""A trial: what is asked of a tester, what it answers, and what is journaled."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from xdplab.model.base import SCHEMA_VERSION, Amount, Count, Model, Moment, Shown
from xdplab.model.histogram import Histogram, histogram_of
from xdplab.model.traffic import Departures, FlowSpec

# What became of each flow of a stream: columns with an entry for each flow, so that a record stays small.

#: Flows that a stream may have; a record of as many takes some 0.4 MB for each stream.
MAX_FLOWS = 10_000

_Column = Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_FLOWS)]
_Times = Annotated[tuple[Count | None, ...], Field(min_length=1, max_length=MAX_FLOWS)]


class FlowFigures(Model):
    """Frames and latencies (ns) by flow; no latency of a flow of which nothing arrived, nor of a load stream's.

    Flow n has the stream's first UDP source port + n, and of each `flows` frames the one with number n. What the
    tester's own card dropped (`tx_drops` of the stream) is in `sent` and in `lost`: it is not known by flow.
    """

    #: Frames that left.
    sent: _Column
    #: Frames that arrived.
    received: _Column
    #: The difference of the two.
    lost: Annotated[tuple[int, ...], Field(min_length=1, max_length=MAX_FLOWS)]
    #: Shortest latency.
    min_ns: _Times
    #: Mean latency.
    mean_ns: _Times
    #: Longest latency.
    max_ns: _Times

    @model_validator(mode="after")
    def _one_entry_each(self) -> "FlowFigures":
        if len({len(column) for column in self.__dict__.values()}) > 1:
            raise ValueError("flow figures: columns of different lengths")
        return self


# CPU time that the frames of a trial took: the forwarder's, and what the kernel did for it; not the tester's own.

#: Above this share of a figure, what its clocks do not resolve makes it unknown.
_MAX_UNRESOLVED = 0.2


class CpuTime(Model):
    """Of a trial, from before its warm-up until after it (docs/methods.md, CPU time)."""

    #: Between the two looks at the clocks; the time of a CPU over this is the share of a core.
    elapsed_s: float
    #: Frames that arrived in that time; those of the warm-up are taken to have arrived at the trial's rate.
    frames: float
    #: All threads of the forwarder's processes; of those that polled without a pause, the time of the traffic.
    forwarder_s: float
    #: Part of it that is of threads which polled without a pause.
    polling_s: float
    #: Threads of the kernel that carry frames: ksoftirqd, napi, irq.
    kernel_s: float
    #: Softirqs that are in no time above: on the tester's senders, beyond what these take on a direct link; with a
    #: tester on another machine all that its CPUs did and no thread has. None: not known.
    softirq_s: float | None
    #: Why not.
    unknown: Shown = ""
    #: What the clocks do not resolve, of all of it.
    resolution_s: float

    @property
    def total_s(self) -> float | None:
        """All of it; None where a part is not known."""
        return None if self.softirq_s is None else self.forwarder_s + self.kernel_s + self.softirq_s

    @property
    def s_per_mframes(self) -> float | None:
        """For a million frames; None where it is not known, or below what the clocks resolve."""
        return None if self.doubt or self.total_s is None else self.total_s / self.frames * 1e6

    @property
    def resolution(self) -> float:
        """Smallest relative difference."""
        return self.resolution_s / self.total_s if self.total_s else 0.0

    @property
    def doubt(self) -> str:
        """Why it is not known; empty where it is."""
        if self.total_s is None:
            return f"CPU time is not known: {self.unknown}"
        if not self.frames:
            return "CPU time is not known: no frame arrived"
        if self.resolution_s > _MAX_UNRESOLVED * self.total_s:
            return f"CPU time is not known: the trial is too short for clocks that resolve {self.resolution_s:.2g} s"
        return ""


# What a machine took away from a trial (docs/architecture.md, rule 9), and what its threads used.


class ThreadUse(Model):
    """What a thread of the forwarder used during a trial (from /proc/PID/task/TID)."""

    #: As the kernel has it (comm).
    name: str
    #: Where it was seen last.
    cpu: int
    #: CPUs that it may run on.
    allowed: tuple[int, ...]
    #: Time on a CPU.
    ran_ns: int
    #: Time in which it could have run and waited for a CPU.
    run_delay_ns: int
    #: How often another thread was put in its place.
    nonvoluntary_switches: int
    #: Time in user space, in steps of 10 ms; where the kernel takes it with its timer it is sampled.
    user_ns: int | None = None
    #: Time in the kernel, likewise.
    system_ns: int | None = None


class Disturbance(Model):
    """What the machine took away during a trial."""

    #: The machine's part of the sender's stalls.
    stalled_share: float
    #: The forwarder's part: its receive half, which on veth runs on the sender's core.
    receive_half_share: float = 0.0
    #: CPU of the path -> share of the time that the hypervisor took from it.
    steal_share: dict[int, float]
    #: Share of the time that a busy forwarding thread waited for its CPU.
    run_delay_share: float

    @property
    def taken_share(self) -> float:
        """The largest of what was taken from sender, a CPU and a thread."""
        return max(self.stalled_share, self.run_delay_share, *self.steal_share.values())


Purpose = Literal["measure", "search", "figures", "end"]
#: Share of the frames from which on a loss is said next to a latency, and where they were lost is asked.
REPORTED_LOSS = 0.001


class StreamSpec(FlowSpec):
    """One stream of a trial. `pps=None` means as fast as the tester can."""

    #: `latency`: every frame carries the time of its departure; `load`: frames are counted only.
    kind: Literal["latency", "load"]
    #: Frames per second; None: as fast as the tester can.
    pps: float | None
    #: Size of a frame with its 4-byte FCS.
    frame_bytes: int
    #: `forward`: from the path's first tester port; `backward`: from its last.
    direction: Literal["forward", "backward"] = "forward"
    #: When its first frame leaves, after the beginning of the trial.
    start_ns: int = 0
    #: `paced`: evenly spaced; `poisson`: with exponential gaps; `burst:N`: N together, N intervals apart.
    departures: Departures = "paced"
    #: Frames after which the stream ends; 0: with the trial.
    count: int = 0
    #: Which address pair.
    pair: int = 0
    #: Each frame is the first and only one of a flow behind `flows`, which its headers have, too.
    new_flows: bool = False


class TrialSpec(Model):
    """One measurement at one offered load for one duration."""

    #: What is sent; without any, nothing is.
    streams: tuple[StreamSpec, ...]
    #: Time in which frames are sent that count.
    duration_s: float
    #: Traffic before that, which is not counted.
    warmup_s: float = 0.0
    #: How long late frames are waited for at the most, after the last one has left.
    drain_s: float = 0.2
    #: The wait ends before that where no frame has arrived for so long; None: never (a tester may not know this).
    drain_idle_s: float | None = None
    #: The forwarder is stopped or changed meanwhile, which may take the links of the tester's ports down. Else a port
    #: that loses its carrier ends the trial: what was lost then is nobody's.
    link_changes: bool = False

    @property
    def offered_pps(self) -> float | None:
        """Sum over all streams; None when one of them is unpaced."""
        rates = [stream.pps for stream in self.streams]
        return None if None in rates else sum(rate for rate in rates if rate is not None)


#: Sender of a trial whose frames the kernel sends, and receives, for applications.
BY_APPLICATIONS = "socket"


class LatencySummary(Model):
    """A latency distribution."""

    #: Frames.
    count: Count
    #: Shortest, exact.
    min_ns: Count
    #: Longest, exact.
    max_ns: Count
    #: Arithmetic mean, exact.
    mean_ns: float
    #: All of them, as a base64 HdrHistogram V2 in ns: 1 ns to 10 s, three digits.
    hdr: Histogram

    def percentile_ns(self, percent: float) -> int:
        """The value at or below which `percent` of the frames lie."""
        return int(histogram_of(self.hdr).get_value_at_percentile(percent))


class StreamResult(Model):
    """What became of one stream, exact to the frame."""

    #: As in `StreamSpec`.
    kind: Literal["latency", "load"]
    #: As in `StreamSpec`.
    direction: Literal["forward", "backward"] = "forward"
    #: As in `StreamSpec`.
    new_flows: bool = False
    #: Size of a frame with its FCS.
    frame_bytes: Count
    #: Frames per second that were asked for; None: as many as the tester can.
    offered_pps: float | None
    #: Frames that the schedule asked for.
    intended: Count
    #: Frames that left the tester.
    sent: Count
    #: Frames that the tester left out, being late.
    skipped: Count = 0
    #: Frames that the tester's own card dropped: neither sent nor lost. None where that is not known, and on veth: its
    #: ring belongs to the receiver.
    tx_drops: Count | None = None
    #: Distinct frames that arrived.
    received: Count
    #: Frames sent that did not arrive.
    lost: int
    #: Frames that arrived once more.
    duplicated: Count = 0
    #: Frames that arrived otherwise than they were sent, which are among the lost; None: this tester cannot see it, or
    #: not of a load.
    damaged: Count | None = None
    #: Frames that arrived behind a later one of their flow (RFC 4737).
    out_of_order: Count = 0
    #: Frames that arrived so late that nobody knows whether they had been there before; they are among the lost.
    beyond_window: Count = 0
    #: Frames sent over the time that sending took.
    achieved_pps: Amount
    #: Frames received over that time.
    rx_pps: Amount
    #: From departure to arrival; None of load streams, and where nothing arrived.
    latency: LatencySummary | None = None
    #: How far behind the schedule frames left; None where the tester does not tell.
    lateness: LatencySummary | None = None
    #: Departures within `late_ns` of the schedule.
    on_schedule: Count | None = None
    #: Sequence number of the last frame that was lost with a later one arriving; None: there was none.
    last_lost: Count | None = None
    #: Longest time between the departures of two consecutive frames that arrived; None: not known (`gaps_known`).
    longest_gap_ns: Count | None = None
    #: Frames sent after the last one that arrived.
    trailing_lost: Count = 0
    #: On request (`xdpgen:flow_figures=true`).
    flow_figures: FlowFigures | None = None

    @property
    def numbered(self) -> int:
        """Frames that have a sequence number: those that left, and those that the tester's own card then dropped."""
        return self.sent + (self.tx_drops or 0)

    @property
    def unnumbered(self) -> int:
        """Frames of the schedule without a sequence number: skipped, or refused by the kernel."""
        return max(0, self.intended - self.numbered)

    @model_validator(mode="after")
    def _every_frame_is_somewhere(self) -> "StreamResult":
        if self.lost != self.sent - self.received:
            raise ValueError(f"lost: {self.lost} is not sent ({self.sent}) without received ({self.received})")
        return self


#: Share of a load that a tester may leave out, or of a trial in which its sender may stand still, for the load to
#: count as offered. It is no more than the finest width that a search resolves (0.5 %), so that a bound stays on its
#: side of the truth within that width.
LOAD_TOLERANCE = 0.005


class TrialResult(Model):
    """A tester's answer to a TrialSpec."""

    #: Name of the tester; `none`: the method counted by itself.
    tester: str
    #: How it sends, as it says: of xdpgen `live` (in the kernel) or `xsk`; `socket`: applications do.
    sender: str
    #: Why in this way, where there was a choice.
    sender_reason: str | None = None
    #: How long sending took.
    elapsed_s: Amount
    #: A signal ended the trial before its time.
    interrupted: bool = False
    #: In the order in which they were asked for.
    streams: tuple[StreamResult, ...]
    #: Frames that arrived and that the tester then lost itself; they are counted as lost in the streams.
    tester_lost: Count = 0
    #: Frames that arrived although they were sent before this trial.
    earlier: Count = 0
    #: How long before it the oldest of these was sent.
    earlier_ns: Count = 0
    #: CPU -> frames that the tester's receive program saw there.
    rx_cpus: dict[int, Count] = {}
    #: How it received.
    rx_program: str = ""
    #: How often the sender's core was taken away.
    stalls: Count = 0
    #: For how long in all.
    stalled_ns: Count = 0
    #: Threads that sent; stalls are summed over them.
    senders: int = Field(default=1, ge=1)
    #: The longest single gap.
    longest_gap_ns: Count = 0
    #: Time that its senders waited for a CPU.
    run_delay_ns: Count = 0
    #: How often another thread was put in a sender's place.
    nonvoluntary_switches: Count = 0
    #: Time from each departure until its sender looked at the schedule again, of all senders: what sending took, and
    #: what the kernel did with the frames on that CPU, which on veth is the receive half of whoever is next. None: this
    #: tester does not tell.
    sending_ns: Count | None = None
    #: What of that lies in stalls, which may be the machine's.
    sending_stalled_ns: Count = 0
    #: How often its senders handed frames to the kernel, one or several at a time. None: this tester does not tell.
    handovers: Count | None = None
    #: How often a port lost its carrier, where the trial allowed it.
    link_changes: Count = 0
    #: Of a trial in which the forwarder was restarted: what the suite itself put between its stop and its start.
    restart_own_ns: Count | None = None
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
    def steady(self) -> tuple[StreamResult, ...]:
        """Streams that tell from their gaps how long nothing came: first frames of new flows are far apart."""
        return tuple(stream for stream in self.streams if not stream.new_flows)

    @property
    def gaps_known(self) -> bool:
        """False where frames were lost of a stream that arrived on several CPUs at a time, or of a tester without."""
        return all(stream.longest_gap_ns is not None or not stream.lost for stream in self.steady)

    @property
    def came_back(self) -> bool | None:
        """Whether the last frame of each stream that left arrived; None: those missing may all be the card's drops."""
        missing = [stream for stream in self.steady if stream.trailing_lost or not stream.received]
        if all(0 < stream.trailing_lost <= (stream.tx_drops or 0) and stream.received for stream in missing):
            return None if any(stream.lost for stream in missing) else True
        return False

    @property
    def gap_ns(self) -> int | None:
        """Longest time between the departures of two frames of a stream that arrived; None: the last did not."""
        gaps = (stream.longest_gap_ns or 0 for stream in self.steady)
        return max(gaps, default=0) if self.came_back else None

    @property
    def stalled_share(self) -> float:
        """Share of the trial in which the machine had taken a sender's core away, mean over the senders."""
        return min(1.0, self.stalled_ns / (self.elapsed_s * 1e9 * self.senders)) if self.elapsed_s else 0.0


class TrialRecord(Model):
    """One line of trials.jsonl."""

    #: Of this line; one with another is refused.
    schema_version: int = SCHEMA_VERSION
    #: Key of `points` in run.json.
    point_id: str
    #: From 0 on.
    repetition: Count
    #: `measure`: its latencies and losses are used; `search`: a step of a method's search;
    #: `figures`: what a method found; `end`: the repetition is over and is not made again on resume.
    purpose: Purpose = "measure"
    #: Number of the trial within its repetition, from 0 on.
    trial: Count = 0
    #: Number of the turn, from 0 on, in a repetition whose points take turns; None: it has none.
    turn: int | None = None
    #: Number, in the run, of the group of points that stood side by side; None: the point stood alone.
    group: int | None = None
    #: `ok`, `failed`, or `unsupported`: it cannot be measured as it was asked for.
    status: Literal["ok", "failed", "unsupported"]
    #: Of a status other than `ok`, in words.
    reason: Shown = ""
    #: When the record was written; UTC, ISO 8601.
    started: Moment
    #: From the beginning of the repetition until the path was proven.
    setup_s: float = 0.0
    #: Of the record that ends a repetition: its wall time.
    repetition_s: float = 0.0
    #: Likewise: how much of that the traffic asked for took, warm-ups included.
    traffic_s: float = 0.0
    #: Likewise: how much of it the forwarder's own start and stop took, but for a restart within a trial.
    forwarder_s: float = 0.0
    #: Likewise: what the forwarder had left changed on its ports, a sentence each; it was put back.
    put_back: tuple[Shown, ...] = ()
    #: What the tester was asked for; None of records that are no trial.
    asked: TrialSpec | None = None
    #: Load that was asked for, all streams; None: as much as the tester can.
    offered_pps: float | None = None
    #: What it answered; None of records that are no trial.
    result: TrialResult | None = None
    #: Of the first trial of a repetition that lost more than 0.1 %: where frames ended in a short one like it.
    where_lost: Shown = ""
    #: Part of the method that it belongs to: the clause of an RFC ("RFC 2544 26.1"), a rate, a way.
    clause: str = ""
    #: What a method counted or found (docs/methods.md).
    figures: dict[str, Any] = {}
    #: What the machine took away, which excludes nothing; None of records that are no trial.
    disturbance: Disturbance | None = None
    #: What the kernel and the forwarder say is in use: XDP attach mode, zero-copy, NAPI id, counters.
    mode: dict[str, Any] = {}
    #: The forwarder's.
    threads: tuple[ThreadUse, ...] = ()
    #: The forwarder's work on the sender's CPU filled that CPU, on a machine that both share: a load that did not leave
    #: whole is the forwarder's limit, not the tester's.
    sender_full: bool = False
    #: CPU time that its frames took, without the tester's own; None of records that are no trial, of trials in which
    #: the forwarder was restarted, and where all is simulated.
    cpu: CpuTime | None = None
    #: One of the result's `earlier` frames was sent before the forwarder was started.
    from_before_start: bool = False
    #: CPU -> NET_RX softirqs during the trial.
    softirq_cpus: dict[int, int] = {}
    #: The forwarder's own, as of after the trial.
    counters: dict[str, Any] = {}
    #: Free buffers of the forwarder's pools before and after it; None: not reported.
    free_buffers: tuple[int, int] | None = None
    #: What this trial added to the counters, of forwarders whose counters only grow; empty where it was restarted.
    increments: dict[str, Any] = {}
    #: Name -> value as it was read back after the trial.
    knobs: dict[str, Any] = {}
    #: Last lines of the forwarder's log, where it failed.
    log_tail: tuple[Shown, ...] = ()
