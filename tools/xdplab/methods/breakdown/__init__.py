# SPDX-License-Identifier: Apache-2.0
"""Where a frame's latency goes, by the forwarder's own probes; and what the probes themselves cost.

At each rate pairs of trials, one without and one with the probes attached, in turns of which comes first. The tester's
latency of the two tells what tracing costs; the stages are those of the traced ones and hold that cost.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from xdplab.analysis.answer import Answer
from xdplab.analysis.summary import PointSummary
from xdplab.forwarders.base import ProbeTarget
from xdplab.methods.base import Method, Session
from xdplab.methods.batches import STAGES, stage_figures
from xdplab.methods.breakdown.figures import CLAUSE, BreakdownFigures, breakdown_answer, breakdown_figures
from xdplab.methods.probes import attached, one_in
from xdplab.methods.streams import probe_streams
from xdplab.methods.traced import TracedSpec
from xdplab.model import MethodSpec, Point, RunRecord, TrafficSpec, TrialRecord, TrialSpec

if TYPE_CHECKING:
    from xdplab.report.page import Page, Section


class BreakdownSpec(TracedSpec):
    """Method `breakdown`: where a frame's latency goes, by the forwarder's own probes; with and without them."""

    name: Literal["breakdown"]


class Breakdown(Method[BreakdownSpec]):
    """Pairs of trials at each rate of the spec."""

    name: ClassVar[str] = "breakdown"
    spec_model: ClassVar[type[MethodSpec]] = BreakdownSpec

    def trials(self, traffic: TrafficSpec) -> list[float]:
        """Two for each pair."""
        once = self.spec.warmup_s + self.spec.duration_s + self.spec.drain_s
        return [once] * (2 * self.spec.pairs * len(self.spec.rates_pps))

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """The highest of its own rates."""
        return max(self.spec.rates_pps) * len(traffic.directions)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Each rate in turn; a forwarder without probes is unsupported."""
        target = session.forwarder.probes(session.dut)
        with attached(session.dut, target, 1):
            pass  # so that a build without probes is told before anything is measured
        for rate in self.spec.rates_pps:
            for pair in range(self.spec.pairs):
                session.progress(f"  breakdown at {rate / 1e3:g} kpps, pair {pair + 1} of {self.spec.pairs}")
                for traced in (False, True) if pair % 2 == 0 else (True, False):
                    self._trial(session, target, traffic, rate, pair, traced)

    def _trial(
        self, session: Session, target: ProbeTarget, traffic: TrafficSpec, rate: float, pair: int, traced: bool
    ) -> None:
        spec = self.spec
        trial = TrialSpec(
            streams=probe_streams(traffic, rate),
            duration_s=spec.duration_s,
            warmup_s=spec.warmup_s,
            drain_s=spec.drain_s,
        )
        if not traced:
            first = (rate, pair) == (spec.rates_pps[0], 0)
            session.trial(trial, purpose="measure" if first else "search", clause=f"{CLAUSE} {rate:.0f} without")
            return
        every = one_in(rate, spec.warmup_s + spec.duration_s)
        with attached(session.dut, target, every) as probes:
            session.trial(trial, purpose="search", clause=f"{CLAUSE} {rate:.0f} with")
            found = stage_figures(probes.end())
        if found["batches"]:  # none when the trial was answered from the journal of a resumed run
            session.found(f"{CLAUSE} {rate:.0f} stages {pair}", {"rate_pps": rate, "recorded_one_in": every, **found})

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> BreakdownFigures:
        """The stages at each rate."""
        return breakdown_figures(trials)

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer:
        """Where the time goes."""
        return breakdown_answer(summaries)

    def sections(self, page: "Page") -> "list[Section]":
        """Bars of the stages, their table, and the latencies of the untraced trials."""
        broken = [summary for summary in page.measured if BreakdownFigures.of(summary).breakdown]
        if not broken:
            return []
        from xdplab.methods.breakdown.plots import breakdown_plot  # matplotlib takes 0.3 s to import

        plots = {name: page.svg(breakdown_plot(broken, name)) for name in ("p50", "p99")}
        return [page.section(self, "report.html.j2", broken=broken, breakdown_plots=plots, stage_words=STAGES)]
