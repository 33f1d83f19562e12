# SPDX-License-Identifier: Apache-2.0
"""What RFC 2544 says of a point beside what it is compared by: a model for each clause, medians over repetitions."""

from xdplab.measure.figure import PointFigures
from xdplab.measure.measured import Extended, Spread
from xdplab.methods.rfc2544.contradiction import Contradiction
from xdplab.model import Model
from xdplab.model.digits import percent, significant


def _said(figure: Spread | None, unit: str, per: float = 1.0) -> str:
    """The median, in `unit` of `per` of what it is in; "" where there is none."""
    return f"{significant(figure.median / per)} {unit}" if figure else ""


def _us(value: float | None) -> str:
    return "-" if value is None else f"{significant(value)} µs"


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


class BoundFound(Model):
    """What the searches found for one tolerated loss ratio, over all directions."""

    #: Loss that was tolerated.
    loss_ratio: float
    #: Who set it, of all repetitions.
    limited_by: tuple[str, ...]
    #: The worst trial of a loss curve that says otherwise; None: there is none.
    contradicted_by: Contradiction | None
    #: The same in words.
    contradiction: str
    #: Forwarding rate at the lower bound; None: no load was found good.
    throughput_pps: Spread | None
    #: Highest load that was offered and found good.
    lower_pps: Spread | None
    #: Lowest load at which the forwarder lost more than tolerated; None: it is not known.
    upper_pps: Spread | None

    def text(self) -> str:
        """`NDR at least 1,050 kpps (limited by tester)`."""
        name = f"PDR at {percent(self.loss_ratio)} loss" if self.loss_ratio else "NDR"
        least = "" if set(self.limited_by) <= {"forwarder"} else "at least "
        rate = _said(self.throughput_pps, "kpps", 1e3)
        return f"{name} {least}{rate} (limited by {', '.join(self.limited_by)})" if rate else f"{name}: none was found"


class ThroughputFound(Model):
    """§26.1."""

    #: One for each tolerated loss, the lowest first.
    bounds: tuple[BoundFound, ...]
    #: Of the search.
    preset: str
    #: Of the search, in each repetition.
    trials: tuple[int, ...]
    #: Seconds of traffic of the search, in each repetition.
    traffic_s: tuple[float, ...]
    #: Highest load of the search, over all directions.
    top_load_pps: float
    #: Speed of the medium; None: the tester's top rate was the top load.
    line_rate_bps: float | None

    def text(self) -> str:
        """One after another."""
        return _joined(*(bound.text() for bound in self.bounds))


class LatencyFound(Model):
    """§26.2, at one share of the throughput."""

    #: Of the throughput; 0: probes alone.
    share: float
    #: That was asked for, per direction.
    load_pps: float
    #: That was sent, all directions.
    achieved_pps: float | None
    #: Trials that it is of.
    trials: int
    #: Trials at this load that the machine disturbed.
    disturbed: int
    #: Time-stamped frames.
    samples: int
    #: Frames lost of those sent.
    loss_ratio: float | None
    #: Median of all samples, by rank of what was sent; infinite (`null`) where that frame was lost, as those below.
    p50_us: Extended | None
    #: 99th percentile; None where too few independent samples lie above it.
    p99_us: Extended | None
    #: 99.9th percentile, likewise.
    p999_us: Extended | None

    def text(self) -> str:
        """`p50 2.8 µs, p99 5.3 µs at 10 % of the throughput`."""
        load = f"at {percent(self.share)} of the throughput" if self.share else "unloaded"
        return f"p50 {_us(self.p50_us)}, p99 {_us(self.p99_us)} {load}"


class LossFound(Model):
    """§26.3, one step."""

    #: That was asked for, per direction.
    load_pps: float
    #: Frames lost of those sent.
    loss_ratio: float
    #: Frames that the tester did not send.
    unsent: float
    #: That was sent, all directions.
    achieved_pps: float
    #: That came to this step.
    repetitions: int

    def text(self) -> str:
        """`39 % of 1,680 kpps`."""
        return f"{percent(self.loss_ratio)} of {significant(self.load_pps / 1e3)} kpps"


class BackToBackFound(Model):
    """§26.4."""

    #: Longest burst without loss, mean over the searches of a repetition.
    average_frames: Spread | None
    #: Frames of a burst over the time in which they left, per direction.
    burst_rate_pps: Spread | None
    #: Length of the burst in time.
    implied_buffer_us: Spread | None
    #: Less what was forwarded meanwhile (RFC 9004 section 5.4).
    corrected_buffer_us: Spread | None
    #: The same in frames.
    corrected_buffer_frames: Spread | None
    #: What the searches for length and throughput leave open.
    buffer_resolution_frames: Spread | None
    #: Longest burst without loss of each search.
    frames: tuple[int, ...]
    #: Who set the length, of all repetitions.
    limited_by: tuple[str, ...]
    #: Why there is no figure, of the repetitions that have none.
    reasons: tuple[str, ...]

    def text(self) -> str:
        """`3,330 frames at 1,640 kpps, a buffer of 1,990 frames`."""
        burst = f"{_said(self.average_frames, 'frames')} at {_said(self.burst_rate_pps, 'kpps', 1e3)}"
        buffer = _said(self.corrected_buffer_frames, "frames of buffer")
        return _joined(burst if self.burst_rate_pps else "", buffer, *self.reasons)


class RecoveryFound(Model):
    """§26.5."""

    #: From the change to half of the load until the departure of the last frame lost.
    recovery_us: Spread | None
    #: That was sent before the change, per direction.
    overload_pps: Spread | None
    #: That was asked for after it.
    relief_pps: Spread | None
    #: Frames lost before the change.
    lost_in_overload: Spread | None
    #: Time between two frames after it.
    resolution_us: Spread | None
    #: Whether frames were lost before the change, in all repetitions.
    overloaded: bool
    #: Why there is no time, of the repetitions that have none.
    reasons: tuple[str, ...]

    def text(self) -> str:
        """`after 910 ms of 576 kpps, which followed 1,130 kpps`."""
        loads = f"of {_said(self.relief_pps, 'kpps', 1e3)}, which followed {_said(self.overload_pps, 'kpps', 1e3)}"
        return _joined(f"after {_said(self.recovery_us, 'ms', 1e3)} {loads}" if self.recovery_us else "", *self.reasons)


class ResetFound(Model):
    """§26.6. Runs of before the suite's own part was measured have the gap alone."""

    #: Longest time between the departures of two frames that arrived.
    gap_us: Spread | None
    #: What the suite itself put between stop and start.
    own_us: Spread | None
    #: `gap_us` less `own_us`.
    reset_us: Spread | None
    #: Frames lost.
    lost: Spread | None
    #: That was sent, per direction.
    load_pps: Spread | None
    #: Time between two frames, or the sender's own longest gap.
    resolution_us: Spread | None
    #: Whether frames came through again, in all repetitions.
    came_back: bool
    #: Why there is no time, of the repetitions that have none.
    reasons: tuple[str, ...]

    def text(self) -> str:
        """`819 ms at 188 kpps`."""
        load = _said(self.load_pps, "kpps", 1e3)
        return _joined(f"{_said(self.reset_us, 'ms', 1e3)} at {load}" if self.reset_us else "", *self.reasons)


class ForwardingRateFound(Model):
    """RFC 2285 §3.6.1."""

    #: Frames per second that arrive, over all directions.
    forwarding_rate_pps: Spread | None
    #: That were sent.
    offered_pps: Spread | None
    #: That were asked for.
    intended_pps: Spread | None
    #: Whether frames were lost in every trial of all repetitions.
    overloaded: bool
    #: In words, where the repetitions fall into two groups.
    bimodal_kpps: str


class Rfc2544Figures(PointFigures):
    """Each clause that was carried out."""

    #: Clause 26.1.
    throughput: ThroughputFound | None = None
    #: Clause 26.2, one entry for each share of the throughput.
    latency: tuple[LatencyFound, ...] = ()
    #: Clause 26.3, one entry for each step, the highest load first.
    loss_curve: tuple[LossFound, ...] = ()
    #: Clause 26.4.
    back_to_back: BackToBackFound | None = None
    #: Clause 26.5.
    recovery: RecoveryFound | None = None
    #: Clause 26.6.
    reset: ResetFound | None = None
    #: RFC 2285 section 3.6.1, at the study's overload.
    forwarding_rate: ForwardingRateFound | None = None

    def clause_text(self, name: str) -> str:
        """What was found of the clause in that field, in a line; "" where it was not measured."""
        found = getattr(self, name)
        return _joined(*(each.text() for each in (found if isinstance(found, tuple) else filter(None, [found]))))
