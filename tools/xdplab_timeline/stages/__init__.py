# SPDX-License-Identifier: Apache-2.0
"""When a frame is where on its way from the wire to the application: driver, stack, complete."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from xdplab.api import (
    DRAIN_S,
    Column,
    Count,
    CountedFigures,
    CountingMethod,
    Distribution,
    Figure,
    Forwarder,
    ForwarderSpec,
    Histogram,
    MethodResult,
    MethodSpec,
    Model,
    Page,
    Point,
    PointFailed,
    PointFigures,
    PointSummary,
    PortsPath,
    Published,
    PublishedStage,
    RunRecord,
    Scalar,
    Section,
    Session,
    StreamSpec,
    TrafficSpec,
    TrialFigures,
    TrialRecord,
    TrialSpec,
    Unsupported,
    XskRole,
    carried_by,
    counting_trials,
    distribution_chart,
    figure_column,
    in_role,
    make_forwarder,
    number,
    trials_by_point,
)

# Stages of a frame's way: of one trial, and over all repetitions, merged exactly.

STAGES: tuple[PublishedStage, ...] = ("driver", "stack", "complete")


class StageSummary(Model):
    """One stage of one trial."""

    #: Frames.
    count: int = Field(ge=1)
    #: The shortest.
    min_ns: int
    #: The longest.
    max_ns: int
    #: Arithmetic mean.
    mean_ns: float
    #: Root mean square of what they differ from it.
    rms_ns: float
    #: All of them, as in `LatencySummary`.
    hdr: Histogram


class StageSummaries(Model):
    """Each stage, from the departure to its end."""

    #: In the driver.
    driver: StageSummary
    #: In the stack, up to the application.
    stack: StageSummary
    #: The whole way.
    complete: StageSummary


class Stamps(Model):
    """How many frames were stamped by whom."""

    #: By the card, at their arrival.
    hardware: Count
    #: By the tester, at their departure.
    software: Count
    #: By nobody: these are not in the stages.
    unstamped: Count


class StagesRecord(CountedFigures):
    """Of a trial: when its frames were where."""

    #: Each.
    stages: StageSummaries
    #: Frames by who took their time.
    stamps: Stamps


class StageRow(Model):
    """Over all repetitions: extremes, and count-weighted mean and RMS about it, in us."""

    #: Frames.
    count: int
    #: The shortest.
    min_us: float
    #: The longest.
    max_us: float
    #: `max_us` less `min_us`.
    peak_to_peak_us: float
    #: Mean over all frames.
    mean_us: float
    #: Root mean square of what they differ from it.
    rms_us: float
    #: Median of all frames; None where there are none.
    p50_us: float | None
    #: 99th percentile of all frames; None where fewer than ten independent ones lie above it.
    p99_us: float | None


class StagesFigures(PointFigures):
    """Each stage, and whose time stamps they are of."""

    #: Stage -> its figures.
    stages: dict[PublishedStage, StageRow] = {}
    #: `hardware` (the card's), `software` (of the departure, in the frame), or both.
    stamps: str = ""


def of_trial(trial: TrialRecord, stage: PublishedStage) -> StageSummary:
    found: StageSummary = getattr(StagesRecord.of(trial).stages, stage)
    return found


def stage_distribution(trials: Sequence[TrialRecord], point_id: str, stage: PublishedStage) -> Distribution:
    own = counting_trials(trials_by_point(trials).get(point_id, ()))
    return Distribution.merged(of_trial(trial, stage).hdr for trial in own)


def stage_rows(trials: Sequence[TrialRecord]) -> dict[PublishedStage, StageRow]:
    """Of the trials of one point."""
    return {stage: _row([(of_trial(trial, stage), _stamped_pps(trial)) for trial in trials]) for stage in STAGES}


def _stamped_pps(trial: TrialRecord) -> float:
    return sum(stream.achieved_pps for stream in trial.result.streams) if trial.result else 0.0


def _row(pairs: Sequence[tuple[StageSummary, float]]) -> StageRow:
    found = [stage for stage, _ in pairs]
    count = sum(stage.count for stage in found)
    mean = sum(stage.mean_ns * stage.count for stage in found) / count
    # the variance about the common mean, from each trial's own mean and RMS
    variance = sum((stage.rms_ns**2 + (stage.mean_ns - mean) ** 2) * stage.count for stage in found) / count
    low, high = min(stage.min_ns for stage in found), max(stage.max_ns for stage in found)
    whole = Distribution.merged(stage.hdr for stage in found)
    parts = [(Distribution.merged([stage.hdr]), pps) for stage, pps in pairs]
    return StageRow(
        count=count,
        min_us=low / 1000,
        max_us=high / 1000,
        peak_to_peak_us=(high - low) / 1000,
        mean_us=mean / 1000,
        rms_us=variance**0.5 / 1000,
        p50_us=whole.percentile_us(50),
        p99_us=carried_by(parts, 99, whole.percentile_us(99)),
    )


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


def _column(stage: PublishedStage, name: str) -> Column:
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

    def path(self, levels: Mapping[str, Scalar]) -> PortsPath:
        return PortsPath.HAIRPIN

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
