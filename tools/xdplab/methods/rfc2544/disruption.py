# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.5, recovery from overload, and §26.6, the gap in forwarding that a restart makes."""

from xdplab.methods.base import Session
from xdplab.methods.rfc2544.scale import scale_of, top_load
from xdplab.methods.streams import load_streams
from xdplab.model import Rfc2544Spec, TrafficSpec, TrialSpec

RECOVERY, RESET = "RFC 2544 26.5", "RFC 2544 26.6"
_OVERLOAD, _RELIEF = 1.1, 0.5
#: Load of a reset: frames 2 to 10 us apart, and well below the throughput.
_RESET_PPS = 200_000.0


def recovery(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """110 % of the throughput (or the top load, if lower), then 50 %: how long frames are lost after the change."""
    duration = scale_of(spec).recovery_s
    over = min(_OVERLOAD * ndr_pps, top_load(spec, traffic, session.ceiling_pps))
    relief = _RELIEF * over
    overload = load_streams(traffic, over, count=round(over * duration))
    relieved = load_streams(traffic, relief, start_ns=round(duration * 1e9))
    trial = TrialSpec(streams=(*overload, *relieved), duration_s=2 * duration, drain_s=spec.drain_s)
    result = session.trial(trial, purpose="search", clause=RECOVERY)
    tail = result.streams[len(overload) :]
    # the departure of the last frame lost after the change, on the schedule of its own stream
    times = [(stream.last_lost + 1) / asked.pps for stream, asked in zip(tail, relieved, strict=True)
             if stream.last_lost is not None and asked.pps]  # fmt: skip
    session.found(
        RECOVERY,
        {
            "overload_pps": over,
            "relief_pps": relief,
            "overload_s": duration,
            "lost_in_overload": sum(stream.lost for stream in result.streams[: len(overload)]),
            "lost_after": sum(stream.lost for stream in tail),
            "recovery_us": max(times, default=0.0) * 1e6,
            "resolution_us": 1e6 / relief,
            "overloaded": over > ndr_pps,
        },
    )


def reset(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """Stop and start the forwarder under load: the longest time between two frames that arrive."""
    scale = scale_of(spec)
    load = min(_RESET_PPS, 0.5 * ndr_pps) if ndr_pps else 10_000.0
    for duration in (scale.reset_s, 4 * scale.reset_s):
        trial = TrialSpec(streams=load_streams(traffic, load), duration_s=duration, drain_s=spec.drain_s)
        result = session.trial(trial, purpose="search", clause=RESET, restart_after_s=0.2 * scale.reset_s)
        gap_ns = max((stream.longest_gap_ns or 0) for stream in result.streams)
        # frames after the gap: it came back before the trial ended
        back = all(stream.received and not stream.trailing_lost for stream in result.streams)
        if back:
            break
    session.found(
        RESET,
        {
            "load_pps": load,
            "gap_us": gap_ns / 1e3 if back else None,
            "lost": sum(stream.lost for stream in result.streams),
            "resolution_us": 1e6 / load,
            "came_back": back,
            "trial_s": duration,
        },
    )
