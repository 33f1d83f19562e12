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
    #: Frames that the tester hands to the kernel at a time (0: at its top rate) -> time that its senders spend on a
    #: frame, as `sending_ns` of a trial; empty where it does not tell.
    sending_ns: dict[int, float] = {}
    #: The same number -> largest relative difference between the trials of that and their median; of a single one the
    #: largest of the others.
    sending_spread: dict[int, float] = {}
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
        """Highest load that a result of this tester may be asked for."""
        return self.top_pps if self.lossless_pps is None else self.lossless_pps
