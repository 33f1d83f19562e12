# SPDX-License-Identifier: Apache-2.0
"""Measuring the measurement: what each way of following a frame through the forwarder costs that frame.

At each rate rounds of trials: one without tracing and one for each way, in turns of which end of the row comes first.
The tester's time stamps travel in the frames and are there in all of them: they tell what tracing costs, and what the
traced stages should add up to.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from xdplab.api import (
    MAX_WORDS,
    MIN_ROUNDS,
    Answer,
    Difference,
    Distinct,
    Interval,
    MethodSpec,
    Model,
    Page,
    Part,
    Point,
    PointFailed,
    PointFigures,
    PointSummary,
    Published,
    RunRecord,
    Section,
    Session,
    Shown,
    StudySpec,
    TrialFigures,
    TrialRecord,
    Unsupported,
    difference_interval,
    known_median,
    percent,
    published,
    ratio_interval,
    significant,
)
from xdplab_timeline.batches import STAGES, BatchCounts, ProbeRecords, Spans, TracedTimes, medians, traced_times
from xdplab_timeline.recorders import RECORDERS, Recorder, recording
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

# Method `tracing`: its spec, what each way of tracing costs a frame, and whether stages agree with time stamps.

CLAUSE = "tracing"


class TracingSpec(TracedSpec):
    """Method `tracing`: what each way of following a frame costs it, next to trials without any.

    `in-band`: the forwarder stamps batches itself; `bpf`: static probes, recorded by `bpf/ovsprobe`; `perf`: static
    probes, recorded by perf.
    """

    name: Literal["tracing"]
    #: Those that are measured.
    ways: Annotated[tuple[Recorder, ...], Distinct] = Field(default=get_args(Recorder), min_length=1)
    #: What a way may cost at p50.
    goal_us: float = Field(default=0.2, gt=0)
    #: `xdplab/model/published/NAME.yaml`, whose authors tell what their tracing cost.
    published: str | None = None


class TracedRecord(TrialFigures, TracedTimes):
    """Of a trial that was traced."""

    #: Probes per second.
    rate_pps: float
    #: How.
    way: Recorder


class UntracedRecord(TrialFigures):
    """Of a way that is unsupported."""

    #: Which.
    way: Recorder
    #: Why.
    reason: Shown


class Untraced(Model):
    """A way that is unsupported, or recorded nothing at a rate: what was not traced has no cost."""

    #: Which.
    way: Recorder
    #: Why.
    reason: str


class Cost(Model):
    """Traced over untraced, and less it."""

    #: Traced over untraced.
    ratio: Interval
    #: Traced less untraced.
    difference_us: Difference


class Traced(PairsAtRate):
    """One way at one rate; a pair is a round."""

    #: Which.
    way: Recorder
    #: The lowest p50 `without` and `with`: a busy machine only adds.
    lowest_us: dict[str, float]
    #: Percentile -> what the way costs there; without p99 where the trials do not carry it.
    cost: dict[str, Cost]
    #: Why no cost may be said; empty where it may.
    doubt: str
    #: What it may cost at p50.
    goal_us: float
    #: `met`, `missed`, or why neither is said.
    verdict: str
    #: Half of the cost, for two probes trap before a frame is sent; None where frames are not alone.
    probe_us: float | None
    #: Mean; None where it is not known.
    frames_per_batch: float | None
    #: Stage -> percentile -> its time; None where the way does not know the stage.
    stages_us: dict[str, dict[str, float] | None]
    #: Batches that were kept.
    recorded: int


class TracingFigures(PointFigures):
    """One entry for each way and rate."""

    #: Each.
    tracing: tuple[Traced | Untraced, ...] = ()


def tracing_figures(spec: TracingSpec, trials: Sequence[TrialRecord], trace_every: int) -> TracingFigures:
    """From the journal. `trace_every`: of the forwarder's batches, the share that passes its probes."""
    unsupported = journaled(UntracedRecord, trials, f"{CLAUSE} * unsupported")
    missing = {record.way: record.reason for record in unsupported}
    rows: list[Traced | Untraced] = []
    for way in spec.ways:
        if way in missing:
            rows.append(Untraced(way=way, reason=missing[way]))
            continue
        found = [_at_rate(spec, trials, rate, way, trace_every) for rate in spec.rates_pps]
        rows += [row for row in found if row]
    return TracingFigures(tracing=tuple(rows))


def _at_rate(
    spec: TracingSpec, trials: Sequence[TrialRecord], rate: float, way: Recorder, trace_every: int
) -> Traced | Untraced | None:
    clause = f"{CLAUSE} {rate:.0f} "
    pairs = paired_trials(trials, clause + WITHOUT, clause + way)
    stages = journaled(TracedRecord, trials, f"{clause}{way} stages *")
    if not pairs:
        return None
    found = [percentiles(pair[side] for pair in pairs) for side in (0, 1)]
    without, traced = sides = [{name.removesuffix("_us"): each for name, each in side.items()} for side in found]
    common = at_rate(rate, pairs, sides, stages)
    stages = [one for one in stages if one.recorded]  # a round answered from a resumed run's journal has none
    if not stages:
        return Untraced(way=way, reason=f"nothing recorded at {rate / 1e3:g} kpps: {_nothing(common)}")
    costs: dict[str, Cost] = {}
    for of in without.keys() & traced.keys():  # both sides carry it
        both = list(zip(traced[of], without[of], strict=True))
        ratio, difference = ratio_interval([slow / fast for slow, fast in both]), difference_interval(both)
        assert ratio is not None
        assert difference is not None
        costs[of] = Cost(ratio=ratio, difference_us=difference)
    frames = known_median(one.frames_per_batch for one in stages)
    mean = costs["p50"].difference_us.mean
    doubt = _doubt(pairs)
    alone = way != "in-band" and trace_every == 1 and frames is not None and frames <= ALONE
    return Traced(
        way=way,
        **dict(common),
        lowest_us={"without": min(without["p50"]), "with": min(traced["p50"])},
        cost=costs,
        goal_us=spec.goal_us,
        doubt=doubt,
        verdict=doubt or verdict(costs["p50"].difference_us, spec.goal_us),
        probe_us=mean / PROBES_ON_THE_WAY if alone and mean > 0 else None,
        frames_per_batch=frames,
        stages_us=_stages(stages),
        recorded=sum(one.recorded for one in stages),
    )


def _nothing(counts: BatchCounts) -> str:
    words = {"unmatched": "not matched to a redirect", "unsent": "not sent", "full": "lost by the recorder"}
    known = {said: getattr(counts, name) for name, said in words.items()}
    return ", ".join([f"{counts.seen} batches seen", *(f"{count} {said}" for said, count in known.items() if count)])


#: Above this share of lost frames what a way of tracing costs is undecided: the forwarder was overloaded.
_MAX_LOSS = 0.01


def _doubt(pairs: Sequence[tuple[TrialRecord, ...]]) -> str:
    """Why a cost is not held against the goal; empty where it may be."""
    results = [trial.result for pair in pairs for trial in pair if trial.result]
    lost = fmean(result.lost / result.sent for result in results if result.sent)
    return f"undecided: {percent(lost)} of the frames were lost" if lost > _MAX_LOSS else ""


def verdict(difference: Difference, goal_us: float) -> str:
    """Whether a cost is below the goal, by its interval."""
    if difference.low is None or difference.high is None:
        return "no interval"
    if difference.high < goal_us:
        return "met"
    return "missed" if difference.low >= goal_us else "undecided"


def _stages(stages: Sequence[TracedRecord]) -> dict[str, dict[str, float] | None]:
    """Medians over the rounds; None where the way does not know the stage."""
    found: dict[str, dict[str, float] | None] = {}
    for name in Spans.model_fields:
        known = [span for one in stages if (span := getattr(one.us, name)) is not None]
        found[name] = medians(known) if known else None
    return found


def tracing_answer(summaries: Sequence[PointSummary], goal_us: float) -> Answer:
    """Of the first forwarder at its lowest rate, where traced frames hold nobody else up."""
    found = [(s.forwarder, one) for s in summaries for one in TracingFigures.of(s).tracing if isinstance(one, Traced)]
    if not found:
        return Answer(sentence="No answer: nothing was traced.")
    name, rate = found[0][0], min(one.rate_pps for forwarder, one in found if forwarder == found[0][0])
    rows = [one for forwarder, one in found if (forwarder, one.rate_pps) == (name, rate)]
    said = any(one.pairs >= MIN_ROUNDS for one in rows)
    at = f"{significant(rate / 1000)} kpps, goal below {goal_us:g} µs"
    costs = [f"{one.way} {'undecided' if one.doubt else f'{_cost(one)}, {one.verdict}'}" for one in rows]
    whole = f"Tracing {name} costs at p50, {at}: {'; '.join(costs)}."
    first = whole if len(whole.split()) <= MAX_WORDS else f"What tracing costs {name} at p50, {at}, differs by way."
    doubts = [f"{one.way}: {one.doubt}." for one in rows if one.doubt]
    details = [*([] if first == whole else [f"{each}." for each in costs]), *doubts]
    if said:
        return Answer(sentence=first, details=tuple(details), decided=True)
    return Answer(sentence=f"No answer for {name} at {at}: too few rounds.", details=tuple(doubts))


def tracing_part(summaries: Sequence[PointSummary], way: str, question: str = "") -> Part:
    """What a way costs at each rate; with a question, whether it misses its goal."""
    points = [point for point in summaries if point.status != "unsupported"]
    shown = [(point.forwarder, row) for point in points for row in TracingFigures.of(point).tracing]
    rows = [(forwarder, row) for forwarder, row in shown if row.way == way and isinstance(row, Traced)]
    reasons = {row.reason for _, row in shown if row.way == way and isinstance(row, Untraced)}
    if reasons:
        return Part(without=f"unsupported: {'; '.join(sorted(reasons))}")
    if not shown:
        return Part(failed=f"nothing was traced: {'; '.join(point.reason for point in summaries)}")
    if not rows:
        return Part(without="not asked for")
    missed = [f"{name} at {row.rate_pps / 1e3:g} kpps" for name, row in rows if row.verdict == "missed"]
    if question and missed:
        return Part(failed=f"costs more than {rows[0][1].goal_us:g} us at p50: {', '.join(missed)}")
    if question and not any(row.verdict == "met" for _, row in rows):
        return Part(without="undecided whether its cost meets the goal: measure more rounds")
    return Part([f"{name}, {_line(row)}" for name, row in rows])


def _line(row: Traced) -> str:
    shown = row.doubt or f"costs {_cost(row)} at p50: {row.verdict}"
    return f"{significant(row.rate_pps / 1e3)} kpps: {shown}"


def _cost(row: Traced) -> str:
    cost = row.cost["p50"].difference_us
    spread = f" ({significant(cost.low)} to {significant(cost.high)})" if cost.low is not None and cost.high else ""
    return f"{significant(cost.mean)} µs{spread}"


class Tracing(TracedMethod[TracingSpec]):
    """Rounds of trials at each rate of the spec."""

    name: ClassVar[str] = "tracing"
    spec_model: ClassVar[type[MethodSpec]] = TracingSpec
    records: ClassVar[tuple[type[TrialFigures], ...]] = (TracedRecord, UntracedRecord)

    def check(self, study: StudySpec) -> None:
        self._by_others()

    @property
    def ways(self) -> Mapping[str, Recorder]:
        return {way: way for way in self.spec.ways}

    def possible(self, session: Session) -> Sequence[str]:
        """A way that this machine or forwarder has not is left out, and the record says why."""
        ways: list[Recorder] = []
        reasons: dict[str, None] = {}
        for way in self.spec.ways:
            try:
                with recording(session, way, 1) as end:
                    end()
                ways.append(way)
            except (Unsupported, PointFailed) as exc:
                reasons[str(exc)] = None
                session.record_figures(f"{CLAUSE} {way} unsupported", UntracedRecord(way=way, reason=str(exc)))
        if not ways:
            raise Unsupported("; ".join(reasons))
        return ways

    def keep(self, session: Session, traced: TracedTrial, found: ProbeRecords) -> None:
        record = TracedRecord(rate_pps=traced.rate_pps, way=self.ways[traced.way], **dict(traced_times(found)))
        session.record_figures(f"{CLAUSE} {traced.rate_pps:.0f} {traced.way} stages {traced.round}", record)

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
        found = {
            "tracing": traced,
            "way_words": RECORDERS,
            "stage_words": STAGES,
            "traced_by_others": self._by_others(),
        }
        return [page.section(self, "report.html.j2", **found)] if traced else []

    def _by_others(self) -> Published | None:
        name = self.spec.published
        return None if name is None else published(name, f"method.published: {name!r}")
