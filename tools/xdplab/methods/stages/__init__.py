# SPDX-License-Identifier: Apache-2.0
"""When a frame is where on its way from the wire to the application: driver, stack, complete."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from xdplab.analysis.tables.columns import figure_column
from xdplab.forwarders import Forwarder, make_forwarder
from xdplab.forwarders.base import in_role
from xdplab.forwarders.xsk.forwarder import XskRole
from xdplab.measure.distribution import Distribution
from xdplab.measure.figure import CountedFigures, Figure, TrialFigures
from xdplab.measure.method import MethodResult, Session
from xdplab.measure.page import Column, Page, Section
from xdplab.measure.point import PointSummary
from xdplab.methods.shared.counting import DRAIN_S, CountingMethod, counting_trials
from xdplab.methods.stages.figures import (
    STAGES,
    StagesFigures,
    StagesRecord,
    StageSummaries,
    Stamps,
    stage_distribution,
    stage_rows,
)
from xdplab.model import (
    ForwarderSpec,
    MethodSpec,
    Path,
    Point,
    PointFailed,
    RunRecord,
    StreamSpec,
    TrafficSpec,
    TrialRecord,
    TrialSpec,
    Unsupported,
)
from xdplab.model.design import Scalar
from xdplab.model.digits import number
from xdplab.model.published import Published, Stage

P50 = Figure(
    key="complete_p50_us",
    name="p50 of the whole way",
    unit="µs",
    better="less",
    said_unit="µs, p50",
    precision=1e3,
)
MEAN = Figure(key="complete_mean_us", name="mean of the whole way", unit="µs", better="less", precision=1e3)
_NO_CLOCK = (
    "stages begin at the departure by the tester's clock, which is another machine's: they need a card whose driver "
    "stamps arrivals (bpf_xdp_metadata_rx_timestamp)"
)
#: What `bpf/xsk` says once the card's clock, which it looked at in the beginning, does not follow CLOCK_TAI any more.
_ASTRAY = "not to be trusted"


class StagesSpec(MethodSpec):
    """Method `stages`: frames at a rate to a program that receives and drops; every frame is measured."""

    name: Literal["stages"]
    #: Frames per second; each is a point.
    rates_pps: tuple[Annotated[float, Field(ge=0.1, le=1e6)], ...] = Field(default=(1000.0,), min_length=1)
    #: Length of a trial.
    duration_s: float = Field(default=1.0, ge=0.05, le=3600)
    #: What others found, to stand next to ours.
    published: Published | None = None


def _column(stage: Stage, name: str) -> Column:
    def value(point: PointSummary) -> float | None:
        return getattr(StagesFigures.of(point).stages.get(stage), f"{name}_us", None)

    return Column(f"{stage}_{name}_us", f"{stage} {name} µs", value, number, places=("terminal",))


class Stages(CountingMethod[StagesSpec]):
    """One trial at one rate."""

    name: ClassVar[str] = "stages"
    quantity: ClassVar[str] = "wire to application"
    spec_model: ClassVar[type[MethodSpec]] = StagesSpec
    own_rates: ClassVar[bool] = True
    figures: ClassVar[tuple[Figure, ...]] = (P50, MEAN)
    records: ClassVar[tuple[type[TrialFigures], ...]] = (StagesRecord,)
    columns: ClassVar[tuple[Column, ...]] = (
        Column("rate_pps", "pps", lambda point: point.levels.get("rate_pps"), number),
        *(_column(stage, "mean") for stage in STAGES),
        *(_column("complete", name) for name in ("min", "max", "rms")),
        figure_column(P50, "complete p50 µs"),
    )

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """One; without a warm-up, which at 1 pps means little."""
        return [self.spec.duration_s]

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """The highest of its own rates."""
        return max(self.spec.rates_pps)

    def levels(self, forwarder: ForwarderSpec) -> Sequence[dict[str, Scalar]]:
        return [{"rate_pps": rate} for rate in self.spec.rates_pps]

    def frames_return(self, levels: Mapping[str, Scalar]) -> bool:
        return False

    def path(self, levels: Mapping[str, Scalar]) -> Path:
        return Path.HAIRPIN

    def forwarder(self, point: Point) -> Forwarder[Any]:
        """The program as a sink that tells stages."""
        return in_role(make_forwarder(point.forwarder), "stages", point.traffic.smallest)

    def prove(self, session: Session) -> None:
        """Every frame is measured: what is in force is asked when all is over."""

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        stream = StreamSpec(kind="load", pps=float(session.point.levels["rate_pps"]), frame_bytes=traffic.smallest)
        asked = TrialSpec(streams=(stream,), duration_s=self.spec.duration_s, drain_s=DRAIN_S)
        session.measure_by(asked, lambda: self._received(session, asked))

    def _received(self, session: Session, asked: TrialSpec) -> MethodResult:
        program = session.forwarder
        assert isinstance(program, XskRole)
        begin = program.frames_received()
        result = session.send(asked)
        stamped = program.stages()
        received, sent = program.frames_received() - begin, sum(each.sent for each in result.streams)
        if not received or not stamped["complete"]["count"]:
            raise PointFailed(f"no frame with a time arrived: {sent} sent, {received} received by the program")
        if not session.dut.tester_here and not stamped["hardware"]:
            raise Unsupported(_NO_CLOCK)
        if stamped["hardware"] and stamped["stamps"].startswith(_ASTRAY):
            raise PointFailed(f"the card's time stamps are {stamped['stamps']}")
        reason = program.ineffective()
        if reason:
            raise Unsupported(reason)
        stages = StageSummaries(**{name: stamped[name] for name in STAGES})
        words = ", ".join(f"{name} {stage.mean_ns / 1000:.2f} us" for name, stage in stages)
        stamps = Stamps(**{name: stamped[name] for name in Stamps.model_fields})
        return MethodResult(result, StagesRecord(text=words, stages=stages, stamps=stamps))

    def record(self, trial: TrialRecord) -> StagesRecord:
        return StagesRecord.of(trial)

    def values(self, record: CountedFigures) -> dict[str, float | None]:
        assert isinstance(record, StagesRecord)
        complete = record.stages.complete
        return {P50.key: Distribution.merged([complete.hdr]).percentile_us(50), MEAN.key: complete.mean_ns / 1000}

    def resolution(self, figure: Figure, value: float | None) -> float:
        """The width of the histogram's bucket; a mean is exact."""
        return Distribution.resolution(value) if figure is P50 and value else 0.0

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> StagesFigures:
        """Each stage over all repetitions, and whose time stamps they are."""
        counted = counting_trials(trials)
        if not counted:
            return StagesFigures()
        stamps = [self.record(trial).stamps for trial in counted]
        stamped = ", ".join(by for by in ("hardware", "software") if any(getattr(each, by) for each in stamps))
        return StagesFigures(stages=stage_rows(counted), stamps=stamped)

    def where(self, point: PointSummary) -> str:
        return f"stages at {point.levels['rate_pps']:,.10g} frames per second"

    def sections(self, page: Page) -> list[Section]:
        """A row for each stage, their distributions, and what was published."""
        from xdplab.report.chart import distribution_chart

        rows = [point for point in page.measured if StagesFigures.of(point).stages]
        plots = {}
        for stage in STAGES if rows else ():
            curves = {_title(row): stage_distribution(page.trials, row.point_id, stage) for row in rows}
            stamped = f"{stage.capitalize()}: share of frames at or below a latency."
            plots[stage] = page.chart(
                distribution_chart(f"cumulative distribution of latency, {stage}", curves, stamped)
            )
        found = {"rows": [(_title(row), row) for row in rows], "stages": STAGES, "stage_plots": plots}
        return [page.section(self, "report.html.j2", published=self.spec.published, **found)]


def _title(point: PointSummary) -> str:
    return f"{point.forwarder}, {point.levels['rate_pps']:.10g} pps"
