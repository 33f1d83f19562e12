# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.4 as updated by RFC 9004: the longest burst at the top rate without loss, and the buffer it implies."""

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal

from xdplab.measure.method import Trials
from xdplab.measure.streams import burst_streams
from xdplab.methods.rfc2544.bounds import Bound
from xdplab.methods.rfc2544.scale import scale_of, top_load, trial_of
from xdplab.methods.rfc2544.spec import Rfc2544Spec
from xdplab.model import TrafficSpec
from xdplab.model.trial import LOAD_TOLERANCE

CLAUSE = "RFC 2544 26.4"
_SHORTEST_FRAMES = 64
#: Of the search for the length: the buffer is known no better than that.
_WIDTH = 0.01
#: How much longer than at the calibrated rate a burst may take before the trial cuts it off.
_SLACK = 3


@dataclass(frozen=True)
class Burst:
    """The longest burst without loss of one search, per direction."""

    frames: int
    #: Frames over the time in which they were sent; 0 without frames.
    rate_pps: float
    #: `tester`: longer ones did not leave whole, or were not asked for.
    limited_by: Literal["forwarder", "tester"]


def back_to_back(session: Trials, spec: Rfc2544Spec, traffic: TrafficSpec, found: Bound) -> None:
    """Repeat the search for the burst length; RFC 9004 §5 asks for the average and its spread over the tests."""
    scale = scale_of(spec)
    ceiling = top_load(spec, traffic, session.ceiling_pps)
    longest = round(ceiling * scale.longest_burst_s)
    bursts = []
    for repeat in range(scale.burst_repeats):
        burst = _longest_burst(session, spec, traffic, longest, ceiling)
        bursts.append(burst)
        session.progress(f"  burst {repeat + 1} of {scale.burst_repeats}: {burst.frames} frames without loss")
    lengths = [burst.frames for burst in bursts]
    session.found(
        CLAUSE,
        {
            "frames": lengths,
            "average_frames": fmean(lengths),
            "standard_deviation_frames": stdev(lengths) if len(lengths) > 1 else 0.0,
            "longest_burst_frames": longest,
            "limited_by": "tester" if any(burst.limited_by == "tester" for burst in bursts) else "forwarder",
            **_buffer(bursts, found),
        },
    )


def _buffer(bursts: list[Burst], found: Bound) -> dict[str, Any]:
    """The buffer that the bursts imply, or `reason`; `buffer_resolution_frames` is what the two searches leave open.

    While a burst arrives the DUT also forwards, so less than the burst has to be stored (RFC 9004 §5.4). That is only
    seen where bursts arrive faster than it forwards. RFC 9004 takes the measured throughput for the rate of that; it is
    known to lie between two bounds, so their middle is taken: the lower one alone would make each buffer too large.
    """
    figures: dict[str, Any] = dict.fromkeys(_BUFFER_FIGURES)
    rates = [burst.rate_pps for burst in bursts if burst.frames]
    if not rates:
        lost = any(burst.limited_by == "forwarder" for burst in bursts)
        why = "came through whole" if lost else "left the tester whole"
        return {**figures, "reason": f"no burst of {_SHORTEST_FRAMES} frames or more {why}"}
    rate, ndr = fmean(rates), found.throughput_pps or 0.0
    figures["burst_rate_pps"] = rate
    if rate <= (found.upper_pps or ndr * (1 + LOAD_TOLERANCE)):
        reason = f"the forwarder forwards bursts of {rate:.0f} pps as they arrive ({ndr:.0f} pps without loss)"
        return {**figures, "reason": f"{reason}, so its buffer is not seen"}
    if found.upper_pps is None:
        reason = f"only known from below ({ndr:.0f} pps, limited by {found.limited_by})"
        return {**figures, "reason": f"what the forwarder forwards while a burst arrives is {reason}"}
    average, forwarded = fmean(burst.frames for burst in bursts), (ndr + found.upper_pps) / 2 / rate
    resolution = _WIDTH * (1 - forwarded) + (found.upper_pps - ndr) / 2 / rate
    implied_us = average / rate * 1e6
    return {
        "burst_rate_pps": rate,
        "implied_buffer_us": implied_us,
        "corrected_buffer_us": implied_us * (1 - forwarded),
        "corrected_buffer_frames": average * (1 - forwarded),
        "buffer_resolution_frames": average * resolution,
    }


_BUFFER_FIGURES = (
    "burst_rate_pps", "implied_buffer_us", "corrected_buffer_us", "corrected_buffer_frames", "buffer_resolution_frames",
)  # fmt: skip


def _longest_burst(session: Trials, spec: Rfc2544Spec, traffic: TrafficSpec, longest: int, ceiling: float) -> Burst:
    """Bisect the logarithm of the length, the longest burst first.

    A burst shows what the forwarder holds where all of it was sent, and without a pause in which it could catch up.
    """
    good = Burst(0, 0.0, "forwarder")
    bad, limited_by = longest, good.limited_by
    length = longest
    while True:
        duration = max(0.02, _SLACK * length / ceiling)
        trial = trial_of(spec, burst_streams(traffic, length), duration)
        result = session.trial(trial, purpose="search", clause=CLAUSE)
        if any(stream.sent < length for stream in result.streams):
            bad, limited_by = length, "tester"
        elif result.lost:
            bad, limited_by = length, "forwarder"
        elif result.stalled_share > LOAD_TOLERANCE:
            bad, limited_by = length, "tester"
        else:
            good = Burst(length, result.achieved_pps / len(result.streams), limited_by)
        if good.frames == longest:
            return Burst(longest, good.rate_pps, "tester")
        if bad <= _SHORTEST_FRAMES or (good.frames and (bad - good.frames) <= max(1, _WIDTH * bad)):
            return Burst(good.frames, good.rate_pps, limited_by)
        length = round(math.sqrt(max(good.frames, _SHORTEST_FRAMES) * bad))
        if not good.frames:
            length = max(_SHORTEST_FRAMES, bad // 4)
