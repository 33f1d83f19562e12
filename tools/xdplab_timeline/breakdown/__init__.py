# SPDX-License-Identifier: Apache-2.0
"""Where a frame's latency goes, by the forwarder's own probes; and what the probes themselves cost.

At each rate pairs of trials, one without and one with the probes attached, in turns of which comes first. The tester's
latency of the two tells what tracing costs; the stages are those of the traced ones and hold that cost.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import ClassVar, Literal

from xdplab.api import (
    MIN_ROUNDS,
    Answer,
    Axis,
    Chart,
    InRow,
    Interval,
    MethodSpec,
    Page,
    Point,
    PointFigures,
    PointSummary,
    RunRecord,
    Section,
    Session,
    TrialFigures,
    TrialRecord,
    known_median,
    ratio_interval,
    row_chart,
    significant,
)
from xdplab_timeline.batches import STAGES, ProbeRecords, StageTimes, medians, stage_times
from xdplab_timeline.recorders import Recorder, recording
from xdplab_timeline.traced import (
    ALONE,
    PROBES_ON_THE_WAY,
    WITHOUT,
    PairsAtRate,
    TracedMethod,
    TracedSpec,
    TracedTrial,
    at_rate,
    journaled,
    paired_trials,
    percentiles,
)

# Breakdown of a point: at each rate the stages of a median frame and the latency with and without the probes.

CLAUSE = "breakdown"
#: In the clause of a trial with the probes.
WITH = "with"

#: Stage -> how many probes' time is in it: a probe takes its stamp about half-way through its trap.
_PROBES_IN = {"wait": 0.5, "switch": 1.0, "kick": 1.0}


class BreakdownRecord(TrialFigures, StageTimes):
    """Of a trial with the probes attached: the stages of its batches."""

    #: Probes per second.
    rate_pps: float
    #: The recorder kept one batch in so many.
    recorded_one_in: int


class AtRate(PairsAtRate):
    """Medians over the pairs, in us; stages as in `batches.STAGES`."""

    #: Ratio of the two at p50.
    cost: Interval | None
    #: Percentile -> stage -> its mean over the batches that stand for the percentile.
    typical_us: dict[str, dict[str, float]]
    #: Stage -> the median frame's mean less the cost of its probes, an estimate; None where that cost is not known.
    typical_less_us: dict[str, float] | None
    #: What one probe costs; None where frames share a batch or it is below the noise.
    probe_cost_us: float | None
    #: Stage -> percentile -> its time.
    stage_us: dict[str, dict[str, float]]
    #: Percentile -> from redirect to the end of the kick.
    whole_us: dict[str, float]
    #: Time until the transmit ring has given the frames back; None where none was seen.
    reaped_us: float | None
    #: Mean.
    frames_per_batch: float
    #: Batches known from end to end.
    batches: int

    @property
    def decided(self) -> bool:
        """Whether there are enough pairs for what the probes cost."""
        return self.pairs >= MIN_ROUNDS


class BreakdownFigures(PointFigures):
    """One entry per rate, in its order."""

    #: Each.
    breakdown: tuple[AtRate, ...] = ()


def breakdown_figures(trials: Sequence[TrialRecord]) -> BreakdownFigures:
    found: dict[float, list[BreakdownRecord]] = {}
    for record in journaled(BreakdownRecord, trials, f"{CLAUSE} *"):
        found.setdefault(record.rate_pps, []).append(record)
    return BreakdownFigures(breakdown=tuple(_at_rate(trials, rate, stages) for rate, stages in sorted(found.items())))


def _at_rate(trials: Sequence[TrialRecord], rate: float, stages: list[BreakdownRecord]) -> AtRate:
    clauses = (f"{CLAUSE} {rate:.0f} {how}" for how in (WITHOUT, WITH))
    paired = paired_trials(trials, *clauses)
    without, traced = sides = [percentiles(pair[side] for pair in paired) for side in (0, 1)]
    pairs = list(zip(traced["p50_us"], without["p50_us"], strict=True))
    interval = ratio_interval([slow / fast for slow, fast in pairs])
    typical = {name: medians([getattr(one.typical_us, name) for one in stages]) for name in ("p50", "p99")}
    frames = median(one.frames_per_batch for one in stages)
    cost = median(slow - fast for slow, fast in pairs) / PROBES_ON_THE_WAY if pairs else None
    measurable = cost is not None and cost > 0 and frames <= ALONE
    return AtRate(
        **dict(at_rate(rate, paired, sides, stages)),
        cost=interval,
        typical_us=typical,
        probe_cost_us=cost if measurable else None,
        typical_less_us=_less(typical["p50"], cost or 0.0) if measurable else None,
        stage_us={stage: medians([getattr(one.stage_us, stage) for one in stages]) for stage in STAGES},
        whole_us=medians([one.whole_us for one in stages]),
        reaped_us=known_median(one.reaped_us for one in stages),
        frames_per_batch=frames,
        batches=sum(one.batches for one in stages),
    )


def _less(typical: dict[str, float], cost_us: float) -> dict[str, float]:
    """The stages without what the probes at their two ends cost: an estimate."""
    return {stage: max(0.0, value - _PROBES_IN[stage] * cost_us) for stage, value in typical.items()}


def breakdown_answer(summaries: Sequence[PointSummary]) -> Answer:
    """Of the first forwarder, at the highest rate at which its frames are alone."""
    every = [(s.forwarder, one, one.typical_less_us) for s in summaries for one in BreakdownFigures.of(s).breakdown]
    found = [(name, one, less) for name, one, less in every if less]
    if not found:
        first, *rest = _why_no_breakdown(summaries)
        return Answer(sentence=f"No answer: {first}.", details=tuple(rest))
    name = found[0][0]
    last, less = [(one, less) for forwarder, one, less in found if forwarder == name][-1]
    words = ", ".join(f"{stage} {value:.2f} µs" for stage, value in less.items())
    pairs = f"{last.pairs} pairs of trials"
    figures = f"{name}, median frame at {significant(last.rate_pps / 1000)} kpps: {words}."
    estimate = "What the probes cost has been taken off, an estimate."
    if last.decided:
        return Answer(sentence=figures, details=(estimate, f"{pairs}."), decided=True)
    return Answer(sentence=f"No answer: {pairs}, {MIN_ROUNDS} are needed.", details=(figures, estimate))


def _why_no_breakdown(summaries: Sequence[PointSummary]) -> list[str]:
    """What is missing for a stage without the cost of its probes, and what to do: sentences."""
    at_rates = [one for summary in summaries for one in BreakdownFigures.of(summary).breakdown]
    if not at_rates:
        return ["nothing was traced", *(f"{s.forwarder}: {s.reason or 'no batch was traced'}." for s in summaries)]
    fewest = min(at_rates, key=lambda one: one.frames_per_batch)
    if fewest.frames_per_batch > ALONE:
        return [
            "at no rate was a frame alone in its batch, so the probes' cost is unknown",
            f"At {significant(fewest.rate_pps / 1000)} kpps a batch held {significant(fewest.frames_per_batch)} "
            "frames: lower rates_pps, or a faster machine.",
        ]
    return [
        "the machine's noise hides what the probes cost",
        "Frames that were alone in their batch took no longer with the probes than without: more pairs, or a quieter "
        "machine.",
    ]


class BreakdownSpec(TracedSpec):
    """Method `breakdown`: where a frame's latency goes, by the forwarder's own probes; with and without them."""

    name: Literal["breakdown"]


class Breakdown(TracedMethod[BreakdownSpec]):
    """Pairs of trials at each rate of the spec."""

    name: ClassVar[str] = "breakdown"
    spec_model: ClassVar[type[MethodSpec]] = BreakdownSpec
    records: ClassVar[tuple[type[TrialFigures], ...]] = (BreakdownRecord,)

    @property
    def ways(self) -> Mapping[str, Recorder]:
        return {WITH: "bpf"}

    def possible(self, session: Session) -> Sequence[str]:
        """The one; a build without probes is reported before anything is measured."""
        with recording(session, "bpf", 1):
            return (WITH,)

    def keep(self, session: Session, traced: TracedTrial, found: ProbeRecords) -> None:
        if times := stage_times(found):
            record = BreakdownRecord(rate_pps=traced.rate_pps, recorded_one_in=traced.every, **dict(times))
            session.record_figures(f"{CLAUSE} {traced.rate_pps:.0f} stages {traced.round}", record)

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> BreakdownFigures:
        return breakdown_figures(trials)

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer:
        return breakdown_answer(summaries)

    def sections(self, page: Page) -> list[Section]:
        """Bars of the stages, their table, and the latencies of the untraced trials."""
        broken = [summary for summary in page.measured if BreakdownFigures.of(summary).breakdown]
        if not broken:
            return []
        charts = {name: page.chart(breakdown_chart(broken, name)) for name in ("p50", "p99")}
        return [page.section(self, "report.html.j2", broken=broken, charts=charts, stage_words=STAGES)]


# The breakdown as stacked bars: what a median frame (or one at p99) spends where.

_NOTE = (
    "Stages of a median batch, measured with the probes attached; below them an estimate without what the probes cost. "
    "Dots: p50 of the tester without and with the probes; the tester's clock starts before the redirect, and its "
    "receiver sees the frame before the kick is over."
)


def breakdown_chart(summaries: Sequence[PointSummary], percentile: str) -> Chart:
    """One row per forwarder and rate; dots: the tester's latency without the probes and with them."""
    rows: list[str] = []
    places: dict[str, list[InRow]] = {}
    for name, found in ((each.forwarder, one) for each in summaries for one in BreakdownFigures.of(each).breakdown):
        rows.append(f"{name}, {found.rate_pps / 1e3:g} kpps")
        _stack(places, len(rows) - 1, found.typical_us[percentile])
        for how in ("without", "with"):
            seen = getattr(found, f"{how}_us").get(f"{percentile}_us")
            if seen is not None:
                places.setdefault(f"tester, {how} probes", []).append(InRow(len(rows) - 1, seen))
        if percentile == "p50" and found.typical_less_us:
            rows.append("less the probes (estimate)")
            _stack(places, len(rows) - 1, found.typical_less_us)
    note = _NOTE if percentile == "p50" else "The same for batches at p99 of the whole way."
    title = f"where the time of a frame goes, {percentile}"
    return row_chart(title, rows, Axis(f"time at {percentile}", "µs"), places, note, bars=STAGES)


def _stack(places: dict[str, list[InRow]], row: int, stages: Mapping[str, float]) -> None:
    """Each stage begins where the one before it ends; what is read of it is its own time."""
    left = 0.0
    for stage, value in stages.items():
        places.setdefault(stage, []).append(InRow(row, value, left, left + value))
        left += value
