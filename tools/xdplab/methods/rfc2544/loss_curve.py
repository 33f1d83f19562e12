# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.3: frame loss rate from 100 % of the top load down until two trials in a row lose nothing."""

from typing import Any

from xdplab.measure.method import Session
from xdplab.measure.streams import load_streams
from xdplab.methods.rfc2544.scale import scale_of, top_load, trial_of
from xdplab.methods.rfc2544.spec import Rfc2544Spec
from xdplab.model import TrafficSpec

CLAUSE = "RFC 2544 26.3"
#: The RFC's coarsest allowed step is 10 % of the maximum rate.
_STEPS = 10


def loss_curve(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec) -> None:
    """One trial a step; what the tester did not send is kept apart from what the forwarder lost."""
    top = top_load(spec, traffic, session.ceiling_pps)
    duration = scale_of(spec).loss_trial_s
    points: list[dict[str, Any]] = []
    clean = 0
    for step in range(_STEPS, 0, -1):
        load = top * step / _STEPS
        trial = trial_of(spec, load_streams(traffic, load), duration)
        result = session.trial(trial, purpose="search", clause=CLAUSE, enough=lambda found: not found.lost)
        lost = result.lost
        points.append(
            {
                "load_pps": load,
                "sent": result.sent,
                "lost": lost,
                "unsent": max(0, result.intended - result.sent),
                "loss_ratio": lost / result.sent if result.sent else 0.0,
                "achieved_pps": result.achieved_pps,
            }
        )
        session.progress(f"  {load / 1e3:.0f} kpps: loss ratio {points[-1]['loss_ratio']:.2e}")
        clean = 0 if lost else clean + 1
        if clean == 2:
            break
    session.found(CLAUSE, {"points": points, "two_without_loss": clean == 2, "directions": len(traffic.directions)})
