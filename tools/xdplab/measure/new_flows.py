# SPDX-License-Identifier: Apache-2.0
"""New flows that arrived beside the traffic: their first frames, apart from all others."""

from collections.abc import Sequence

from xdplab.measure.distribution import Distribution, carried_by
from xdplab.model import Model, StreamResult, TrialRecord


class NewFlows(Model):
    """Of the trials that stand for a point, exact to the frame."""

    #: Flows that began.
    sent: int
    #: First frames that arrived.
    received: int
    #: First frames that did not.
    lost: int
    #: Flows that began per second, over both directions.
    sent_pps: float
    #: Median latency of first frames.
    p50_us: float | None
    #: 99th percentile; None where fewer than ten independent samples lie above it.
    p99_us: float | None


def new_flows_of(trials: Sequence[TrialRecord]) -> NewFlows | None:
    """None of traffic that has none."""
    by_trial = [[one for one in trial.result.streams if one.new_flows] for trial in trials if trial.result]
    streams = [one for each in by_trial for one in each]
    if not streams:
        return None
    parts = [(_latencies(each), _sum(each, "achieved_pps")) for each in by_trial]
    merged = _latencies(streams)
    return NewFlows(
        sent=round(_sum(streams, "sent")),
        received=round(_sum(streams, "received")),
        lost=round(_sum(streams, "lost")),
        sent_pps=_sum(streams, "achieved_pps") / len(by_trial),
        p50_us=merged.percentile_us(50.0),
        p99_us=carried_by(parts, 99.0, merged.percentile_us(99.0)),
    )


def _sum(streams: Sequence[StreamResult], name: str) -> float:
    return float(sum(getattr(one, name) for one in streams))


def _latencies(streams: Sequence[StreamResult]) -> Distribution:
    return Distribution.merged(one.latency.hdr for one in streams if one.latency)
