# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.4 as updated by RFC 9004: the longest burst at the top rate without loss, and the buffer it implies."""

import math
from statistics import fmean, stdev

from xdplab.methods.base import Session
from xdplab.methods.rfc2544.scale import scale_of
from xdplab.methods.streams import burst_streams
from xdplab.model import Rfc2544Spec, TrafficSpec, TrialSpec

CLAUSE = "RFC 2544 26.4"
_SHORTEST_FRAMES = 64
_WIDTH = 0.02


def back_to_back(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """Repeat the search for the burst length; RFC 9004 §5 asks for the average and its spread over the tests."""
    scale = scale_of(spec)
    ceiling = session.ceiling_pps / len(traffic.directions)
    longest = round(ceiling * scale.longest_burst_s)
    lengths, rates = [], []
    for repeat in range(scale.burst_repeats):
        length, rate = _longest_burst(session, spec, traffic, longest, ceiling)
        lengths.append(length)
        rates.append(rate)
        session.progress(f"  burst {repeat + 1} of {scale.burst_repeats}: {length} frames without loss")
    average, burst_rate = fmean(lengths), fmean(rates)
    implied_s = average / burst_rate
    # RFC 9004 §5.4: while the burst arrives the DUT also forwards, so less than the burst has to be stored
    corrected_s = implied_s - implied_s * min(ndr_pps, burst_rate) / burst_rate
    session.found(
        CLAUSE,
        {
            "frames": lengths,
            "average_frames": average,
            "standard_deviation_frames": stdev(lengths) if len(lengths) > 1 else 0.0,
            "burst_rate_pps": burst_rate,
            "implied_buffer_us": implied_s * 1e6,
            "corrected_buffer_us": corrected_s * 1e6,
            "corrected_buffer_frames": corrected_s * burst_rate,
            "longest_burst_frames": longest,
            "limited_by": "tester" if min(lengths) >= longest else "forwarder",
        },
    )


def _longest_burst(
    session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, longest: int, ceiling: float
) -> tuple[int, float]:
    """Bisect the logarithm of the length, the longest burst first; returns frames and the rate they were sent at."""
    good, bad, rate = 0, 0, ceiling
    length = longest
    while True:
        duration = max(0.02, 3 * length / ceiling)
        trial = TrialSpec(streams=burst_streams(traffic, length), duration_s=duration, drain_s=spec.drain_s)
        result = session.trial(trial, purpose="search", clause=CLAUSE)
        if sum(stream.lost for stream in result.streams):
            bad = length
        else:
            good = length
        if good == longest or bad <= _SHORTEST_FRAMES:
            return good, rate
        if good and (bad - good) / bad <= _WIDTH:
            return good, rate
        length = round(math.sqrt(max(good, _SHORTEST_FRAMES) * bad)) if good else max(_SHORTEST_FRAMES, bad // 4)
