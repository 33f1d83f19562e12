# SPDX-License-Identifier: Apache-2.0
"""The tester measured by itself, so that its own part of every figure is known."""

from xdplab.model.base import Model
from xdplab.model.trial import LatencySummary


class Calibration(Model):
    """The tester on a direct link, without a forwarder."""

    #: Its ends, by role.
    link: str
    #: Median latency there, the bias that is in every latency; median over its trials, as are the next four.
    p50_ns: int
    #: 99th percentile.
    p99_ns: int
    #: 99.9th percentile.
    p999_ns: int
    #: `p99_ns` less `p50_ns`.
    jitter_ns: int
    #: Frames per second that arrive when as many are sent as the tester can.
    top_pps: float
    #: Highest rate that arrived whole; None where the tester does not lose frames by itself.
    lossless_pps: float | None = None
    #: Share of departures that kept to the schedule; None where the tester does not say.
    on_schedule_ratio: float | None
    #: How far the rate that left was from `at_pps`, as a share of it.
    achieved_error_ratio: float
    #: Rate of the trials with latencies.
    at_pps: float
    #: Size of their frames with FCS.
    frame_bytes: int
    #: How it received.
    rx_program: str
    #: The latencies behind the percentiles, merged over the trials.
    latency: LatencySummary | None = None
    #: Frames per second that leave when it is asked for more than it can send by a schedule; None: not measured.
    paced_pps: float | None = None
    #: Time that its senders spend on a frame, as `sending_ns` of a trial; None where it does not tell.
    frame_ns: float | None = None
    #: And on each handover of frames to the kernel.
    handover_ns: float = 0.0
    #: Largest relative difference between what a calibrating trial took and what these two give.
    sending_spread: float = 0.0
    #: Largest share of a trial in which the machine had taken a sender's core away.
    stalled_share: float | None = None
    #: When it was measured; UTC, ISO 8601.
    taken: str | None = None
    #: Boot of the tester's machine.
    boot_id: str | None = None
    #: Whether that was for an earlier run.
    reused: bool = False

    @property
    def ceiling_pps(self) -> float:
        """Highest load that a result of this tester may be asked for: one that it sends by a schedule, and whole."""
        return min(rate for rate in (self.top_pps, self.paced_pps, self.lossless_pps) if rate is not None)

    def sending_s(self, frames: int, handovers: int) -> float | None:
        """What sending takes it alone, on a direct link; None where it does not tell."""
        if self.frame_ns is None:
            return None
        return (self.frame_ns * frames + self.handover_ns * handovers) / 1e9
