# SPDX-License-Identifier: Apache-2.0
"""A point in a table: its fields are those of `xdplab show --json`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field, SerializeAsAny
from pydantic.json_schema import SkipJsonSchema

from xdplab.measure.comparison import EQUIVALENCE_MARGIN
from xdplab.measure.datapath import DatapathStats
from xdplab.measure.distribution import Distribution, Sample, carried_by
from xdplab.measure.figure import PointFigures
from xdplab.measure.measured import Extended, Measured, RepetitionFigures
from xdplab.model import Model, Shown, StreamResult, TrialRecord
from xdplab.model.digits import loss_over, percent, significant

# Figures by flow: those that fared worst, where the tester was asked, and new flows next to the traffic.

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
    """Most loss first, then the longest latency; of the trials that a point is judged by, and none without figures."""
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
    """Of the trials that a point is judged by, exact to the frame."""

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


#: `frame_bytes` of a point whose frames are those of programs of the method's.
OWN_FRAMES = "own"


class PointSummary(Model):
    """What `xdplab show --json` prints for a point; None where there is no such figure."""

    #: Short name that the same point has in every run.
    point_id: str
    #: Label, or name and options.
    forwarder: str
    #: What readers call it who do not know our names: `OVS on AF_XDP`.
    plain_name: str
    #: False: A and C were connected directly. Others are read against it, and it wins nothing.
    forwards: bool = True
    #: What the method does of several things it can do: a workload, a rate.
    levels: dict[str, Any] = {}
    #: The same for points that differ in the forwarder only: what may be divided by one another.
    setting: str
    #: Mode in use, as the kernel and the program reported it: `native copy`, `zero-copy`, `recvmmsg` ...
    mode: Shown
    #: Way of the frames: `through`, `hairpin`, `reflect`.
    path: str
    #: What a latency is on this path: `one-way`, `round trip`, or what the method says.
    quantity: str
    #: Size of a frame with its 4-byte FCS, or `imix`; `own` where programs of the method's decide.
    frame_bytes: int | str
    #: UDP flows of the frames: source ports times address pairs.
    udp_flows: int = 1
    #: What else of its traffic profile is not the default.
    profile: dict[str, Any] = {}
    #: What the forwarder did with the frames, as studies write it.
    pipeline: str = "cross"
    #: Options of the forwarder that the study sweeps, where a label hides them.
    options: dict[str, Any] = {}
    #: Knob -> value that was asked for.
    knobs: dict[str, Any]
    #: Where the four consumers of CPU time ran; forwarder and receiver as they were seen.
    cpus: str
    #: Load that was asked for, all streams; median over repetitions, as are the figures below unless they say
    #: otherwise.
    offered_pps: float | None
    #: Frames sent over the time that sending took.
    achieved_pps: float | None
    #: Frames received over that time.
    forwarded_pps: float | None
    #: Frames lost of those sent, all repetitions together; None where the method has none come back.
    loss_ratio: float | None
    #: Where frames were lost, by what each hop counted; of the repetition that lost most.
    where_lost: Shown = ""
    #: Key of a figure -> what is known of it: medians over its repetitions.
    measured: dict[str, Measured]
    #: 99.999th percentile of all repetitions merged; infinite (`null`): its frame was lost.
    p99999_us: Extended | None
    #: Shortest latency of all.
    min_us: float | None
    #: Longest latency of all.
    max_us: float | None
    #: Frames sent in all repetitions that are used.
    sent: int = 0
    #: Time-stamped frames of all repetitions that are used.
    samples: int
    #: Frames that arrived once more, in these.
    duplicated: int
    #: What it did in any of its trials that no forwarder may do with a frame, after its name in a sentence.
    faults: tuple[str, ...] = ()
    #: Frames that arrived so late that nobody knows whether they had been there before; they are counted as lost.
    beyond_window: int = 0
    #: Frames that arrived behind a later one of their flow, in these.
    out_of_order: int
    #: Repetitions that the study asked for.
    planned: int
    #: Repetitions that were measured.
    repetitions: int
    #: Repetitions that were begun.
    begun: int
    #: In how many of them a trial failed.
    failed: int
    #: Percentiles that are this machine's: the core of a forwarding thread was gone for a larger share of the time
    #: than lies above them.
    machine_tail: tuple[str, ...]
    #: The tester left out part of its schedule, or lost frames itself, in half of the trials or more.
    tester_limited: bool
    #: `ok`, `partial` (some failed), `failed`, `unsupported`, `not measured`.
    status: str
    #: Of another status than `ok`, in words.
    reason: str
    #: Further figures of its method (`Method.point_figures`).
    figures: SerializeAsAny[PointFigures] = PointFigures()
    #: Parts of the method that its tester has no figures for, and why.
    unsupported_clauses: dict[str, str] = {}
    #: Who measured it, in a study with several testers.
    tester: str = ""
    #: Within this share either way of 1, an interval of its ratios is no measurable difference (of the study).
    equivalence_margin: float = EQUIVALENCE_MARGIN
    #: Percent -> that percentile of all turns together, in us, by rank of what was sent.
    all_turns: SkipJsonSchema[dict[float, Extended]] = Field(default={}, exclude=True, repr=False)
    #: What each repetition gave; comparisons pair these.
    by_repetition: tuple[RepetitionFigures, ...]
    #: Flows that have figures of their own, all streams.
    flows: int = 0
    #: The worst of them: most loss, then longest latency.
    worst_flows: tuple[FlowSummary, ...] = ()
    #: Frames that the tester's own card dropped; they are not in what was sent.
    tx_drops: int = 0
    #: Ports of its path whose pause frames are on, with their interfaces.
    pausing: tuple[str, ...] = ()
    #: Free buffers of its pools before the first and after the last trial of the repetition in which they fell most;
    #: None where they did not, or are not reported.
    free_buffers: tuple[int, int] | None = None
    #: Where its look-ups hit and what they cost, by the forwarder's own counters; None of one that has none.
    datapath: DatapathStats | None = None
    #: First frames of new flows (`traffic.new_flows_pps`), whose latencies are not in those above; None without any.
    new_flows: NewFlows | None = None
    #: The same of the other clauses that the same repetitions measure (`Method.side_clauses`).
    by_clause: dict[str, "PointSummary"] = {}

    @property
    def size(self) -> str:
        """Of its frames, in names: `64 bytes`."""
        return "own frames" if self.frame_bytes == OWN_FRAMES else f"{self.frame_bytes} bytes"

    @property
    def frames(self) -> str:
        """In sentences: `64-byte frames`."""
        words = {OWN_FRAMES: "frames of the applications' sizes", "imix": "IMIX frames"}
        return words.get(str(self.frame_bytes), f"{self.frame_bytes}-byte frames")

    @property
    def loss_text(self) -> str:
        """Its loss as tables and sentences have it, with the range over repetitions that differ widely."""
        return loss_over(self.loss_ratio, [each.loss_ratio for each in self.by_repetition])

    @property
    def p50_us(self) -> float | None:
        return self.value("p50_us")

    @property
    def p99_us(self) -> float | None:
        """99th percentile; None where fewer than ten independent samples lie above it, as of the next."""
        return self.value("p99_us")

    @property
    def p999_us(self) -> float | None:
        return self.value("p999_us")

    def value(self, metric: str) -> float | None:
        """Of a figure: the median over its repetitions; infinite where its frame was lost, None where nothing is."""
        found = self.measured.get(metric)
        return found.value if found else None

    def searched(self, metric: str) -> bool:
        """Whether a figure was looked for in any repetition."""
        return any(one.was_searched(metric) for one in self.by_repetition)

    @property
    def swept(self) -> dict[str, Any]:
        """Settings that tables show next to its name: options and knobs."""
        return {**self.options, **self.knobs}

    @property
    def variant(self) -> str:
        """Behind its name the options that its label hides: ` (n_rxq=2)`; empty without any."""
        shown = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f" ({shown})" if shown else ""

    @property
    def settings(self) -> list[str]:
        """What tells it from other points of its forwarder, path, frame size and rate, each as `name=value`."""
        pipeline = {"pipeline": self.pipeline} if self.pipeline != "cross" else {}
        flows = {"flows": self.udp_flows} if self.udp_flows > 1 else {}
        shown = {**pipeline, **flows, **self.profile, **self.levels, **self.swept}
        return [f"{key}={value}" for key, value in shown.items() if key != "probe_pps"]

    @property
    def fault(self) -> str:
        """`faults` as one phrase."""
        return " and ".join(self.faults)
