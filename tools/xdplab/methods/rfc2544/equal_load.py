# SPDX-License-Identifier: Apache-2.0
"""Latency and forwarding rate at loads that are the same for all forwarders, so that they can be compared in pairs.

Neither is a clause of RFC 2544, which asks for latency at the throughput and has no rate above it.
"""

from statistics import median

from xdplab.measure.method import Session
from xdplab.measure.streams import load_streams, probe_streams
from xdplab.methods.rfc2544.at_load import PROBE_MAX_PPS
from xdplab.methods.rfc2544.scale import scale_of, top_load, trial_of
from xdplab.methods.rfc2544.spec import Rfc2544Spec
from xdplab.model import TrafficSpec, TrialSpec

CLAUSE = "RFC 2285 3.6.1"
#: The median of a few short trials stands for a repetition: a stall of the machine falls into one of them.
_TRIALS, _TRIAL_S, WARMUP_S = 3, 0.4, 0.1
#: In overload frames are lost at any rate; to wait for late ones would only count more of the queue as forwarded.
_DRAIN_S = 0.1


def durations(spec: Rfc2544Spec) -> list[float]:
    """Traffic seconds of each trial."""
    beside = spec.equal_load
    latency = [scale_of(spec).at_load_s] if beside.latency_pps is not None else []
    return latency + [WARMUP_S + _TRIAL_S] * (_TRIALS if beside.overload_pps is not None else 0)


def at_equal_load(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec) -> None:
    """Measure what the spec asks for."""
    if spec.equal_load.latency_pps is not None:
        _latency(session, spec, traffic, spec.equal_load.latency_pps)
    if spec.equal_load.overload_pps is not None:
        _forwarding_rate(session, spec, traffic, spec.equal_load.overload_pps)


def _latency(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, load_pps: float) -> None:
    """Probes and load together make `load_pps` per direction."""
    probe = min(PROBE_MAX_PPS, load_pps - (traffic.new_flows_pps or 0.0))
    streams = (*probe_streams(traffic, probe), *load_streams(traffic, max(0.0, load_pps - probe)))
    session.progress(f"  latency at {load_pps / 1e3:.0f} kpps")
    session.trial(trial_of(spec, streams, scale_of(spec).at_load_s, 0.1))


def _forwarding_rate(session: Session, spec: Rfc2544Spec, traffic: TrafficSpec, overload_pps: float) -> None:
    """Frames per second over all directions that arrive while `overload_pps` per direction is offered."""
    load = min(overload_pps, top_load(spec, traffic, session.ceiling_pps))
    trial = TrialSpec(streams=load_streams(traffic, load), duration_s=_TRIAL_S, warmup_s=WARMUP_S, drain_s=_DRAIN_S)
    session.progress(f"  forwarding rate at {load / 1e3:.0f} kpps offered")
    results = [session.trial(trial, purpose="search", clause=CLAUSE) for _ in range(_TRIALS)]
    rates = [sum(stream.rx_pps for stream in result.streams) for result in results]
    session.found(
        CLAUSE,
        {
            "intended_pps": load * len(traffic.directions),
            "offered_pps": median(result.achieved_pps for result in results),
            "forwarding_rate_pps": median(rates),
            "rates_pps": rates,
            "overloaded": all(result.lost > 0 for result in results),
        },
    )
