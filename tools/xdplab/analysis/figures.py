# SPDX-License-Identifier: Apache-2.0
"""The figures of one repetition, which comparisons pair."""

from xdplab.methods.search import LimitedBy
from xdplab.model import Model

#: Metrics of which more is better; of all others, latencies, less is.
MORE_IS_BETTER = ("ndr_pps", "pdr_pps", "forwarding_rate_pps")


class RepetitionFigures(Model):
    """What one repetition of a point gave. The dictionaries are by metric, as `ndr_pps`."""

    repetition: int
    disturbed: bool
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    loss_ratio: float
    achieved_pps: float
    forwarded_pps: float
    #: Load that the study asked for, over all streams; None where it did not state one.
    offered_pps: float | None = None
    #: Throughput without loss (RFC 2544 §26.1), where the method searched it; 0: it lost frames at the lowest load.
    ndr_pps: float | None = None
    #: Throughput with a tolerated loss, where only such were searched, and the loss ratio that was tolerated.
    pdr_pps: float | None = None
    pdr_loss_ratio: float | None = None
    #: Forwarding rate at the study's overload (RFC 2285 §3.6.1), where the method measured it.
    forwarding_rate_pps: float | None = None
    #: Who set the figure; a metric that is not here is exact. With `tester` or `budget` the forwarder may do better, up
    #: to `at_most` where that is known.
    limited_by: dict[str, LimitedBy] = {}
    #: What the true figure is below, for one that is `below-minimum` or was ended by the budget.
    at_most: dict[str, float] = {}
    #: Smallest relative difference that the measure tells apart (width of a histogram's bucket, of a search).
    resolution: dict[str, float] = {}
    #: Why a figure is not to be taken for a fact.
    doubts: dict[str, str] = {}
