# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.5, recovery from overload, and §26.6, the gap in forwarding that a restart makes."""

from xdplab.measure.method import Session
from xdplab.measure.streams import load_streams
from xdplab.methods.rfc2544.scale import scale_of, top_load, trial_of
from xdplab.methods.rfc2544.spec import Rfc2544Spec
from xdplab.model import TrafficSpec

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
    trial = trial_of(spec, (*overload, *relieved), 2 * duration)
    result = session.trial(trial, purpose="search", clause=RECOVERY)
    head, tail = result.streams[: len(overload)], result.streams[len(overload) :]
    # the departure of the last frame lost after the change, at the rate at which its stream was sent
    times = [(stream.last_lost + 1) * duration / stream.sent for stream in tail if stream.last_lost is not None]
    lost = sum(stream.lost for stream in head)
    sent_pps = sum(stream.achieved_pps for stream in head) / len(traffic.directions)
    session.found(
        RECOVERY,
        {
            "overload_pps": sent_pps,
            "relief_pps": relief,
            "overload_s": duration,
            "lost_in_overload": lost,
            "lost_after": sum(stream.lost for stream in tail),
            "recovery_us": max(times, default=0.0) * 1e6 if lost else None,
            "resolution_us": result.senders * 1e6 / relief,  # a gap is of one sender's frames
            "overloaded": lost > 0,
            "reason": "" if lost else f"was not overloaded: no frame was lost at {sent_pps:.0f} pps",
        },
    )


def reset(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, ndr_pps: float) -> None:
    """Stop and start the forwarder under load: the longest time between two frames that arrive.

    What the suite itself puts between stop and start (it waits for queues to be free, lists links, makes folders, over
    SSH with a round trip each) lies within that time and is taken out; both are journaled.
    """
    scale = scale_of(spec)
    load = min(_RESET_PPS, 0.5 * ndr_pps) if ndr_pps else 10_000.0
    for duration in (scale.reset_s, 4 * scale.reset_s):
        trial = trial_of(spec, load_streams(traffic, load), duration)
        result = session.trial(trial, purpose="search", clause=RESET, restart_after_s=0.2 * scale.reset_s)
        gap_ns = result.gap_ns
        if gap_ns is not None:  # it came back before the trial ended
            break
    own_ns = result.restart_own_ns or 0
    back = gap_ns is not None
    if not result.gaps_known:
        gap_ns = None
    session.found(
        RESET,
        {
            "load_pps": result.achieved_pps / len(traffic.directions),
            "gap_us": gap_ns / 1e3 if gap_ns is not None else None,
            "own_us": own_ns / 1e3,
            "reset_us": (gap_ns - own_ns) / 1e3 if gap_ns is not None and gap_ns >= own_ns else None,
            "reason": _no_reset(back, gap_ns, own_ns),
            "lost": result.lost,
            # a frame that the sender could not send was not lost, and looks like one in its gaps
            "resolution_us": max(result.senders * 1e6 / load, result.longest_gap_ns / 1e3),
            "came_back": back,
            "trial_s": duration,
        },
    )


def _no_reset(back: bool, gap_ns: int | None, own_ns: int) -> str:
    """Why there is no time of reset; "" where there is."""
    if not back:
        return "did not come back before the trial ended"
    if gap_ns is None:
        return "frames arrived on several CPUs at a time, so the gap between them is not known: use one receive queue"
    return (
        "" if gap_ns >= own_ns else "frames came through while it was stopped, so our own part of the gap is not known"
    )
