# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.1 to §26.6 at a point: the throughput that is found first serves the other clauses."""

from collections.abc import Sequence
from typing import ClassVar

from xdplab.analysis.columns import LOAD_COLUMNS, figure_column, kpps
from xdplab.analysis.doubts import of_pause
from xdplab.measure.figure import CPU, P50, P99, Figure, LimitedBy, TrialFigures
from xdplab.measure.measured import RepetitionFigures
from xdplab.measure.method import Method, Part, Session
from xdplab.measure.page import Column, Page, Section
from xdplab.measure.point import PointSummary
from xdplab.methods.rfc2544.clauses import (
    WARMUP_S,
    at_equal_load,
    back_to_back,
    durations,
    latency_at_load,
    loss_curve,
    recovery,
    reset,
)
from xdplab.methods.rfc2544.figures import (
    CLAUSE_NAMES,
    FORWARDING_RATE,
    NDR,
    PDR,
    PER_CORE,
    Rfc2544Figures,
    rfc2544_figures,
    throughput_repetitions,
    unsupported_clauses,
)
from xdplab.methods.rfc2544.records import (
    Bound,
    BurstsRecord,
    ClauseRecord,
    LatencyRecord,
    LossCurveRecord,
    OverloadRecord,
    RecoveryRecord,
    ResetRecord,
    SearchRecord,
    UnsupportedClause,
)
from xdplab.methods.rfc2544.report import ablation, curves, deviations, lines, rfc2544_section
from xdplab.methods.rfc2544.search import PRESETS, throughput
from xdplab.methods.rfc2544.spec import Clause, Rfc2544Spec, scale_of
from xdplab.model import InputError, MethodSpec, Point, RunRecord, StudySpec, TrafficSpec, TrialRecord

__all__ = ["Rfc2544", "Rfc2544Spec"]


class Rfc2544(Method[Rfc2544Spec]):
    """The clauses of a spec, in the order of the RFC."""

    name: ClassVar[str] = "rfc2544"
    spec_model: ClassVar[type[MethodSpec]] = Rfc2544Spec
    own_rates: ClassVar[bool] = True
    sends_new_flows: ClassVar[bool] = True
    sends_requests: ClassVar[bool] = True
    figures: ClassVar[tuple[Figure, ...]] = (NDR, PDR, PER_CORE, FORWARDING_RATE, P50, P99, CPU)
    records: ClassVar[tuple[type[TrialFigures], ...]] = (
        SearchRecord,
        LatencyRecord,
        LossCurveRecord,
        BurstsRecord,
        RecoveryRecord,
        ResetRecord,
        OverloadRecord,
        UnsupportedClause,
    )
    columns: ClassVar[tuple[Column, ...]] = (
        figure_column(NDR, "NDR kpps"),
        Column(PER_CORE.key, "kpps a core", lambda point: point.value(PER_CORE.key), kpps),
        figure_column(FORWARDING_RATE, "kpps at overload"),
        *LOAD_COLUMNS,
    )

    @property
    def clause(self) -> str:
        return "" if self.spec.name == "rfc2544" else self.spec.name

    @property
    def one_way(self) -> bool:
        """Counters have no clock: only the latency at a load needs it."""
        return "latency" in self.spec.wanted or self.spec.equal_load.latency_pps is not None

    def sends_load(self, traffic: TrafficSpec) -> bool:
        return True

    def check(self, study: StudySpec) -> None:
        """New flows are part of every load."""
        loads = {"low_pps": self.spec.low_pps, **{f"equal_load.{k}": v for k, v in self.spec.equal_load}}
        new_pps = max(each or 0.0 for each in study.in_loads("new_flows_pps"))
        full = [f"{name}, {pps:,.10g}" for name, pps in loads.items() if pps and pps <= new_pps]
        if full:
            raise InputError(
                f"study {study.name}: traffic.new_flows_pps: {new_pps:,.10g} are part of each load, and leave nothing "
                f"of method.{full[0]}"
            )

    def loads_at_once(self) -> int:
        """A recovery has the overload and the load behind it."""
        return 2 if "recovery" in self.spec.wanted else 1

    def new_flows(self, point: Point) -> float:
        """A reset takes four times as long where the forwarder was not back; some clauses have a warm-up."""
        reset = 4 * scale_of(self.spec).reset_s if "reset" in self.spec.wanted else 0.0
        longest = max([reset, *self.trial_seconds(point.traffic)]) + WARMUP_S
        return (point.traffic.new_flows_pps or 0.0) * longest

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """A guess: a search takes some 20 trials, of which half lose frames and drain in full."""
        scale = scale_of(self.spec)
        preset = PRESETS[self.spec.preset]
        drain_s = scale.drain_idle_s or self.spec.drain_s
        per_clause = {
            "throughput": [preset.final_trial_s + drain_s / 2] * 20,
            "latency": [scale.at_load_s] * (5 * scale.at_load_repeats),
            "loss-curve": [scale.loss_trial_s] * 8,
            "back-to-back": [0.1 + drain_s / 2] * (16 * scale.burst_repeats),
            "recovery": [scale.recovery_s * 2],
            "reset": [scale.reset_s],
        }
        return [*durations(self.spec), *(seconds for clause in self.spec.wanted for seconds in per_clause[clause])]

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """The latency at a load that is the same for all; searches end at the tester's top rate."""
        return (self.spec.equal_load.latency_pps or 0.0) * len(traffic.directions)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Carry the clauses out; one that needs what is not there is journaled with the reason, the others go on."""
        at_equal_load(session, self.spec, traffic)
        best: Bound | None = None
        for clause in self.spec.wanted:
            session.progress(f"RFC 2544 {clause}")
            reason = session.cannot.get(clause) or _lacking(clause, best)
            if reason:
                session.record_figures(_RECORDS[clause].clause, UnsupportedClause(unsupported=reason))
                continue
            ndr = (best and best.throughput_pps) or 0.0
            match clause:
                case "throughput":
                    best = throughput(session, self.spec, traffic).bounds[0]
                case "latency":
                    latency_at_load(session, self.spec, traffic, ndr)
                case "loss-curve":
                    loss_curve(session, self.spec, traffic)
                case "back-to-back" if best:
                    back_to_back(session, self.spec, traffic, best)
                case "recovery":
                    recovery(session, self.spec, traffic, ndr)
                case "reset":
                    reset(session, self.spec, traffic, ndr)

    def repetition_figures(self, trials: Sequence[TrialRecord]) -> Sequence[RepetitionFigures]:
        return throughput_repetitions(trials)

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> Rfc2544Figures:
        return rfc2544_figures(trials)

    def unsupported_clauses(self, trials: Sequence[TrialRecord]) -> dict[str, str]:
        return unsupported_clauses(trials)

    def findings(self, run: RunRecord, summaries: Sequence[PointSummary]) -> list[str]:
        """How the throughput grows with threads, where their number varies."""
        return [*lines(curves(run, summaries))]

    def notes(self, point: PointSummary) -> list[str]:
        ndr = point.measured.get(NDR.key)
        return [f"{point.forwarder}, {point.frame_bytes} bytes: NDR ?: {ndr.doubt}"] if ndr and ndr.doubt else []

    def part(self, run: RunRecord, summaries: Sequence[PointSummary], *name: str) -> Part:
        """A clause under its name in `point_figures`, or what a variant contributes against the study's reference."""
        (title,) = name
        if title not in CLAUSE_NAMES:
            steps = ablation(run, summaries)
            lines = [
                variant.verdict() for variant in (steps.variants if steps else ()) if variant.summary.forwarder == title
            ]
            return Part(lines, "" if lines else "the study's reference was not measured with it")
        points = [point for point in summaries if point.status != "unsupported"]
        reasons = {point.unsupported_clauses[title] for point in points if title in point.unsupported_clauses}
        found = {point.point_id: Rfc2544Figures.of(point).clause_text(title) for point in points}
        having = [point for point in points if found[point.point_id]]
        doubts = filter(None, dict.fromkeys(of_pause(point.pausing) for point in having))
        lacking = [f"{point.forwarder} ({point.reason or point.status})" for point in points if point not in having]
        return Part(
            [*(f"{each.forwarder}, {each.frame_bytes} bytes: {found[each.point_id]}" for each in having), *doubts],
            "; ".join(sorted(reasons)) or ("" if having else "not requested, or no point reached it"),
            f"not measured for {', '.join(lacking)}" if lacking else "",
        )

    def sections(self, page: Page) -> list[Section]:
        """What each variant contributes, then clause by clause; distributions where latency was measured as well."""
        steps = ablation(page.run, page.summaries, page.trials)
        ablated = [page.section(self, "ablation.html.j2", steps=steps)] if steps else []
        return [*ablated, *rfc2544_section(self, page), page.pictures()]

    def remarks(self, run: RunRecord) -> list[str]:
        return [f"Deviates from RFC 2544 {each}." for each in deviations(self.spec, run.study)]


#: What each clause journals.
_RECORDS: dict[Clause, type[ClauseRecord]] = {
    "throughput": SearchRecord,
    "latency": LatencyRecord,
    "loss-curve": LossCurveRecord,
    "back-to-back": BurstsRecord,
    "recovery": RecoveryRecord,
    "reset": ResetRecord,
}
#: Clauses that are at shares of the throughput, or are read with it.
_BUILT_UPON_THROUGHPUT: tuple[Clause, ...] = ("latency", "back-to-back", "recovery")


def _lacking(clause: Clause, best: Bound | None) -> str:
    """Why a clause cannot be measured without the throughput; "" where it can."""
    if clause not in _BUILT_UPON_THROUGHPUT or (best and best.throughput_pps):
        return ""
    if best is None:
        return "it needs the throughput, which was not measured"
    return f"it needs a throughput above zero; {_NONE_FOUND[best.limited_by]}"


_NONE_FOUND: dict[LimitedBy, str] = {
    "below-minimum": "the forwarder lost frames at the lowest load",
    "tester": "the tester offered no load as it was asked to",
    "budget": "the search's time ran out before one was found",
    "forwarder": "none was found",
}
