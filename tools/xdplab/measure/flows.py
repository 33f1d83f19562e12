# SPDX-License-Identifier: Apache-2.0
"""Figures by flow: those that fared worst, where the tester was asked, and new flows next to the traffic."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from xdplab.measure.distribution import Distribution, Sample, carried_by
from xdplab.measure.measured import Extended
from xdplab.model import Model, StreamResult, TrialRecord
from xdplab.model.digits import percent, significant

#: Flows that are shown, however many there are.
SHOWN = 5


class FlowSummary(Model):
    """One flow over the repetitions of a point: sums, the extremes, and the mean over its frames."""

    #: Number of the stream within the trial.
    stream: int
    #: Of the stream.
    kind: Literal["latency", "load"]
    #: Number of the flow within the stream.
    flow: int
    #: Frames that left.
    sent: int
    #: Frames that arrived.
    received: int
    #: Frames that did not.
    lost: int
    #: Shortest latency; None of load streams and where nothing arrived.
    min_us: float | None
    #: Mean over its frames.
    mean_us: float | None
    #: Longest.
    max_us: float | None

    @property
    def loss_ratio(self) -> float:
        """Share of its frames that did not come back."""
        return self.lost / self.sent if self.sent else 0.0

    def text(self) -> str:
        """`flow 3 (latency): lost 40 of 40`, with its latencies when it has some."""
        lost = f"flow {self.flow} ({self.kind}): lost {self.lost} of {self.sent}"
        lost += f" ({percent(self.loss_ratio)})" if self.lost else ""
        if self.min_us is None or self.mean_us is None or self.max_us is None:
            return lost
        times = " / ".join(significant(value) for value in (self.min_us, self.mean_us, self.max_us))
        return f"{lost}, {times} us (minimum / mean / maximum)"


class Flows(NamedTuple):
    """How many flows have figures, and the worst of them."""

    number: int
    worst: tuple[FlowSummary, ...]


def flows_of(trials: Sequence[TrialRecord]) -> Flows:
    """Most loss first, then the longest latency; of the trials that stand for a point, and none without figures."""
    results = [trial.result for trial in trials if trial.result]
    by_stream = zip(*(result.streams for result in results), strict=False)
    found = [flow for index, same in enumerate(by_stream) for flow in _of_stream(index, same)]
    found.sort(key=lambda flow: (-flow.loss_ratio, -(flow.max_us or 0.0)))
    return Flows(len(found), tuple(found[:SHOWN]))


def _of_stream(index: int, repetitions: Iterable[StreamResult]) -> Iterator[FlowSummary]:
    measured = [stream for stream in repetitions if stream.flow_figures]
    figures = [stream.flow_figures for stream in measured if stream.flow_figures]
    for flow in range(min((len(each.sent) for each in figures), default=0)):
        timed = [
            (low, mean * each.received[flow], high)
            for each in figures
            if (low := each.min_ns[flow]) is not None
            and (mean := each.mean_ns[flow]) is not None
            and (high := each.max_ns[flow]) is not None
        ]
        received = sum(each.received[flow] for each in figures)
        yield FlowSummary(
            stream=index,
            kind=measured[0].kind,
            flow=flow,
            sent=sum(each.sent[flow] for each in figures),
            received=received,
            lost=sum(each.lost[flow] for each in figures),
            min_us=min(low for low, _, _ in timed) / 1000 if timed else None,
            mean_us=sum(total for _, total, _ in timed) / received / 1000 if timed else None,
            max_us=max(high for _, _, high in timed) / 1000 if timed else None,
        )


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
    #: Median latency of first frames, of all that were sent; infinite (`null`): that frame was lost.
    p50_us: Extended | None
    #: 99th percentile; None where fewer than ten independent samples lie above it.
    p99_us: Extended | None


def new_flows_of(trials: Sequence[TrialRecord]) -> NewFlows | None:
    """None of traffic that has none."""
    by_trial = [[one for one in trial.result.streams if one.new_flows] for trial in trials if trial.result]
    streams = [one for each in by_trial for one in each]
    if not streams:
        return None
    parts = [(_latencies(each), _sum(each, "achieved_pps")) for each in by_trial]
    merged = Sample(_latencies(streams), round(_sum(streams, "lost")))
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
