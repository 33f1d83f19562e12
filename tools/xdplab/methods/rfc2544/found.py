# SPDX-License-Identifier: Apache-2.0
"""What RFC 2544 says of a point beside what it is compared by: a model for each clause, medians over repetitions."""

from xdplab.analysis.figures import Spread
from xdplab.methods.figure import PointFigures
from xdplab.methods.rfc2544.contradiction import Contradiction
from xdplab.model import Model


class BoundFound(Model):
    """What the searches found for one tolerated loss ratio, over all directions."""

    loss_ratio: float
    limited_by: tuple[str, ...]
    contradicted_by: Contradiction | None
    #: The same in words.
    contradiction: str
    throughput_pps: Spread | None
    lower_pps: Spread | None
    upper_pps: Spread | None


class ThroughputFound(Model):
    """§26.1."""

    bounds: tuple[BoundFound, ...]
    preset: str
    #: Of each repetition.
    trials: tuple[int, ...]
    traffic_s: tuple[float, ...]
    top_load_pps: float
    line_rate_bps: float | None


class LatencyFound(Model):
    """§26.2, at one share of the throughput."""

    share: float
    load_pps: float
    achieved_pps: float | None
    trials: int
    disturbed: int
    samples: int
    loss_ratio: float | None
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None


class LossFound(Model):
    """§26.3, one step."""

    load_pps: float
    loss_ratio: float
    unsent: float
    achieved_pps: float
    repetitions: int


class BackToBackFound(Model):
    """§26.4."""

    average_frames: Spread | None
    burst_rate_pps: Spread | None
    implied_buffer_us: Spread | None
    corrected_buffer_us: Spread | None
    corrected_buffer_frames: Spread | None
    buffer_resolution_frames: Spread | None
    #: Of each search.
    frames: tuple[int, ...]
    limited_by: tuple[str, ...]
    #: Why there is no figure, of the repetitions that have none.
    reasons: tuple[str, ...]


class RecoveryFound(Model):
    """§26.5."""

    recovery_us: Spread | None
    overload_pps: Spread | None
    relief_pps: Spread | None
    lost_in_overload: Spread | None
    resolution_us: Spread | None
    overloaded: bool
    reasons: tuple[str, ...]


class ResetFound(Model):
    """§26.6. Runs of before the suite's own part was measured have the gap alone."""

    gap_us: Spread | None
    own_us: Spread | None
    reset_us: Spread | None
    lost: Spread | None
    load_pps: Spread | None
    resolution_us: Spread | None
    came_back: bool
    reasons: tuple[str, ...]


class ForwardingRateFound(Model):
    """RFC 2285 §3.6.1."""

    forwarding_rate_pps: Spread | None
    offered_pps: Spread | None
    intended_pps: Spread | None
    overloaded: bool
    #: In words, where the repetitions fall into two groups.
    bimodal_kpps: str


class Rfc2544Figures(PointFigures):
    """Each clause that was carried out."""

    throughput: ThroughputFound | None = None
    latency: tuple[LatencyFound, ...] = ()
    loss_curve: tuple[LossFound, ...] = ()
    back_to_back: BackToBackFound | None = None
    recovery: RecoveryFound | None = None
    reset: ResetFound | None = None
    forwarding_rate: ForwardingRateFound | None = None
