# SPDX-License-Identifier: Apache-2.0
"""The figures of one repetition, which comparisons pair."""

from xdplab.model import Model


class RepetitionFigures(Model):
    """What one repetition of a point gave."""

    repetition: int
    disturbed: bool
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    loss_ratio: float
    achieved_pps: float
    forwarded_pps: float
    #: Throughput without loss (RFC 2544 §26.1), where the method searched it.
    ndr_pps: float | None = None
    #: Forwarding rate at the study's overload (RFC 2285 §3.6.1), where the method measured it.
    forwarding_rate_pps: float | None = None
