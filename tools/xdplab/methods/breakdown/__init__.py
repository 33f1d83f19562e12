# SPDX-License-Identifier: Apache-2.0
"""Where a frame's latency goes, by the forwarder's own probes; and what the probes themselves cost.

At each rate pairs of trials, one without and one with the probes attached, in turns of which comes first. The tester's
latency of the two tells what tracing costs; the stages are those of the traced ones and hold that cost.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from xdplab.forwarders.base import probes_of
from xdplab.measure.comparison import Answer
from xdplab.measure.figure import TrialFigures
from xdplab.measure.method import Session
from xdplab.measure.page import Page, Section
from xdplab.measure.point import PointSummary
from xdplab.methods.breakdown.figures import (
    CLAUSE,
    WITH,
    BreakdownFigures,
    BreakdownRecord,
    breakdown_answer,
    breakdown_figures,
)
from xdplab.methods.shared.batches import STAGES, stage_times
from xdplab.methods.shared.probes import attached
from xdplab.methods.shared.traced import TracedMethod, TracedSpec
from xdplab.model import MethodSpec, Point, RunRecord, TrafficSpec, TrialRecord


class BreakdownSpec(TracedSpec):
    """Method `breakdown`: where a frame's latency goes, by the forwarder's own probes; with and without them."""

    name: Literal["breakdown"]


class Breakdown(TracedMethod[BreakdownSpec]):
    """Pairs of trials at each rate of the spec."""

    name: ClassVar[str] = "breakdown"
    spec_model: ClassVar[type[MethodSpec]] = BreakdownSpec
    records: ClassVar[tuple[type[TrialFigures], ...]] = (BreakdownRecord,)

    @property
    def ways(self) -> Sequence[str]:
        return (WITH,)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Each rate in turn; a forwarder without probes is unsupported."""
        target = probes_of(session.forwarder, session.dut)
        with attached(session.dut, target, 1):
            pass  # a build without probes is reported before anything is measured
        for one in self.rounds(session, traffic, self.ways):
            with attached(session.dut, target, one.every) as probes:
                session.trial(one.spec, purpose="search", clause=one.clause)
                found = stage_times(probes.end())
            if found:  # none when the trial was answered from the journal of a resumed run
                record = BreakdownRecord(rate_pps=one.rate_pps, recorded_one_in=one.every, **dict(found))
                session.record_figures(f"{CLAUSE} {one.rate_pps:.0f} stages {one.round}", record)

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> BreakdownFigures:
        return breakdown_figures(trials)

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer:
        return breakdown_answer(summaries)

    def sections(self, page: Page) -> list[Section]:
        """Bars of the stages, their table, and the latencies of the untraced trials."""
        broken = [summary for summary in page.measured if BreakdownFigures.of(summary).breakdown]
        if not broken:
            return []
        from xdplab.methods.breakdown.chart import breakdown_chart  # a run is shown without the report

        charts = {name: page.chart(breakdown_chart(broken, name)) for name in ("p50", "p99")}
        return [page.section(self, "report.html.j2", broken=broken, charts=charts, stage_words=STAGES)]
