# SPDX-License-Identifier: Apache-2.0
"""Measuring the measurement: what each way of following a frame through the forwarder costs that frame.

At each rate rounds of trials: one without tracing and one for each way, in turns of which end of the row comes first.
The tester's time stamps travel in the frames and are there in all of them: they tell what tracing costs, and what the
traced stages should add up to.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar

from xdplab.forwarders.base import Stamping, probes_of
from xdplab.measure.comparison import Answer
from xdplab.measure.figure import TrialFigures
from xdplab.measure.method import Part, Session
from xdplab.measure.page import Page, Section
from xdplab.measure.point import PointSummary
from xdplab.methods.shared.batches import STAGES, ProbeRecords, traced_times
from xdplab.methods.shared.probes import attached, recorded_by_perf
from xdplab.methods.shared.traced import TracedMethod
from xdplab.methods.tracing.figures import (
    CLAUSE,
    TracedRecord,
    TraceWay,
    TracingFigures,
    TracingSpec,
    UntracedRecord,
    tracing_answer,
    tracing_figures,
    tracing_part,
)
from xdplab.model import (
    MethodSpec,
    Point,
    PointFailed,
    RunRecord,
    StudySpec,
    TrafficSpec,
    TrialRecord,
    Unsupported,
    XdplabError,
)
from xdplab.model.published import Published, published

#: How a frame may be followed.
WAYS: dict[TraceWay, str] = {
    "in-band": "time stamps that the forwarder itself takes, next to the departure in the frame",
    "bpf": "static probes (USDT), recorded by a BPF program",
    "perf": "static probes (USDT), recorded by perf",
}


class Tracing(TracedMethod[TracingSpec]):
    """Rounds of trials at each rate of the spec."""

    name: ClassVar[str] = "tracing"
    spec_model: ClassVar[type[MethodSpec]] = TracingSpec
    records: ClassVar[tuple[type[TrialFigures], ...]] = (TracedRecord, UntracedRecord)

    def check(self, study: StudySpec) -> None:
        self._by_others()

    @property
    def ways(self) -> Sequence[TraceWay]:
        return self.spec.ways

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Each rate in turn. A way that this machine or forwarder has not is left out, and the record says why.

        Raises:
            Unsupported: it has none of them.
        """
        for one in self.rounds(session, traffic, self._possible(session)):
            with traced(session, one.way, one.every) as end:
                session.trial(one.spec, purpose="search", clause=one.clause)
                found = traced_times(end())
            record = TracedRecord(rate_pps=one.rate_pps, way=one.way, **dict(found))
            session.record_figures(f"{one.clause} stages {one.round}", record)

    def _possible(self, session: Session) -> list[TraceWay]:
        ways: list[TraceWay] = []
        reasons: dict[str, str] = {}
        for way in self.spec.ways:
            try:
                with traced(session, way, 1) as end:
                    end()
                ways.append(way)
            except (Unsupported, PointFailed) as exc:
                reasons[way] = str(exc)
                session.record_figures(f"{CLAUSE} {way} unsupported", UntracedRecord(way=way, reason=str(exc)))
        if not ways:
            raise Unsupported("; ".join(dict.fromkeys(reasons.values())))
        return ways

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> TracingFigures:
        return tracing_figures(self.spec, trials, int(str(point.forwarder.options.get("trace_every", 1))))

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer:
        """What each way costs, and whether that is below the goal."""
        return tracing_answer(summaries, self.spec.goal_us)

    def part(self, run: RunRecord, summaries: Sequence[PointSummary], *name: str) -> Part:
        """What a way costs; with `below its goal` behind it, whether an interval lies above the goal."""
        return tracing_part(summaries, *name)

    def sections(self, page: Page) -> list[Section]:
        """Costs, and whether the traced stages agree with the time stamps in the frames."""
        traced = [summary for summary in page.measured if TracingFigures.of(summary).tracing]
        found = {"tracing": traced, "way_words": WAYS, "stage_words": STAGES, "traced_by_others": self._by_others()}
        return [page.section(self, "report.html.j2", **found)] if traced else []

    def _by_others(self) -> Published | None:
        name = self.spec.published
        return None if name is None else published(name, f"method.published: {name!r}")


@contextmanager
def traced(session: Session, way: str, every: int) -> Iterator[Callable[[], ProbeRecords]]:
    """The forwarder of a session traced in one way; yields what ends it and gives the records.

    Raises:
        Unsupported: it cannot be.
    """
    if way == "in-band":
        forwarder = session.forwarder
        if not isinstance(forwarder, Stamping):
            raise Unsupported(f"{forwarder.name}: it does not stamp batches itself")
        forwarder.start_recording()
        ended: list[ProbeRecords] = []

        def end() -> ProbeRecords:
            ended.append(ProbeRecords.of(forwarder.end_recording()))
            return ended[-1]

        try:
            yield end
        finally:
            if not ended:
                with suppress(XdplabError):  # what ended the trial is reported, not what followed from it
                    end()
        return
    recorder = attached if way == "bpf" else recorded_by_perf
    with recorder(session.dut, probes_of(session.forwarder, session.dut), every) as probes:
        yield probes.end
