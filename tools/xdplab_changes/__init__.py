# SPDX-License-Identifier: Apache-2.0
"""Changes under load: how fast rules come and go, and what the frames suffer that run through meanwhile.

Two trials of the same length in each repetition, one with the change and one without, in turns of which comes first.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import fmean
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from xdplab.api import (
    CHANGE_KINDS,
    LOAD_COLUMNS,
    MOST_RULES,
    P50,
    P99,
    Answer,
    Change,
    ChangeKind,
    Changing,
    Column,
    Comparison,
    Distinct,
    Dut,
    Figure,
    ForwarderSpec,
    InputError,
    LocalHost,
    Method,
    MethodResult,
    MethodSpec,
    Names,
    NewFlows,
    Page,
    Part,
    Point,
    PointFailed,
    PointSummary,
    Port,
    RepetitionFigures,
    RunRecord,
    Scalar,
    Section,
    Session,
    Step,
    StudySpec,
    TrafficSpec,
    TrialFigures,
    TrialRecord,
    TrialResult,
    TrialSpec,
    Unsupported,
    XdplabError,
    cannot_change,
    compare_points,
    comparison_verdict,
    corrected,
    figure_column,
    load_streams,
    new_flow_streams,
    number,
    probe_streams,
    ratio_text,
    wait_until,
)
from xdplab_changes.figures import (
    BLOCKED,
    FIGURES,
    FIRST,
    GAP,
    INSTALLED,
    LOST,
    LOST_WITHOUT,
    NEW,
    REMOVED,
    TOOK,
    ChangeRecord,
    NewFlowsRecord,
    StepDone,
    answer_by_change,
    repetition_figures,
)

# A trial in which the forwarder carries out a change; what it does is read back before anything is a figure.

#: From the beginning of the trial to that of the change.
LEAD_S = 0.2
#: How long a step may take to be seen, once the forwarder has said that it is done.
_SEEN_S = 2.0
#: Of the flows that came through, as many were new at the least: one may have been seen before, and one may end.
_NEW_SHARE = 0.98
#: How often a trial is taken whose traffic began behind the change: a machine that stood still.
_ATTEMPTS = 3


class _TooEarly(PointFailed):
    """The change began before the traffic that is counted."""


def with_change(session: Session, asked: TrialSpec, kind: str, rules: int) -> TrialResult:
    """One trial; another where the traffic came late, which says nothing of the change, and is not journaled.

    Raises:
        PointFailed: the change failed, did not happen, or was not within the traffic.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(_TooEarly):
            return session.measure_by(asked, lambda: _once(session, asked, kind, rules), kind)
    return session.measure_by(asked, lambda: _once(session, asked, kind, rules), kind)


def with_new_flows(session: Session, asked: TrialSpec) -> MethodResult:
    """One trial in which each frame is the first of its flow.

    Raises:
        PointFailed: they were not new to the forwarder, by what it tells.
    """
    counts = session.forwarder if isinstance(session.forwarder, NewFlows) else None
    before = counts.flows_met() if counts else None
    result = session.send(asked)
    after = counts.flows_met() if counts else None
    if before is None or after is None:
        return MethodResult(result, NewFlowsRecord(text=f"{result.received} new flows came through", flows_met=None))
    met = after - before
    if met < _NEW_SHARE * result.received:
        raise PointFailed(f"the flows were not new to it: only {met} of {result.received} frames were of new flows")
    return MethodResult(result, NewFlowsRecord(text=f"{met} new flows", flows_met=met))


def _once(session: Session, asked: TrialSpec, kind: str, rules: int) -> MethodResult:
    if not isinstance(session.forwarder, Changing):
        raise Unsupported(f"{session.forwarder.name}: it carries out no change")
    change = session.forwarder.change(kind, rules)
    simulated = session.dut.ports[0].simulated  # a simulated trial takes no time, and knows what was changed before it
    began = time.monotonic()
    last = began + asked.warmup_s + asked.duration_s
    try:
        if simulated:
            done = _rounds(change, began, began)
            result, ended = session.send(asked), time.monotonic()
        else:
            with ThreadPoolExecutor(1) as pool:  # it ends before anything is undone
                changing = pool.submit(_rounds, change, began + asked.warmup_s + LEAD_S, last - LEAD_S)
                result, ended = session.send(asked), time.monotonic()
                done = changing.result()
    except BaseException:
        with suppress(XdplabError):  # what went wrong is reported, not what followed from it
            change.undo()
        raise
    change.undo()
    first_s, last_s, figures = done
    found = MethodResult(result, figures)
    if simulated:
        return found
    begin_s, end_s = ended - result.elapsed_s, began + asked.warmup_s + result.elapsed_s  # the latest, and the soonest
    if "started_ns" in result.detail and isinstance(session.client.host, LocalHost):  # by the same clock
        begin_s = result.detail["started_ns"] / 1e9
        end_s = begin_s + result.elapsed_s
    if first_s < begin_s:
        raise _TooEarly("the change began before the measured traffic: repeat on an idle machine")
    if last_s > end_s:
        raise PointFailed(
            f"the change took {last_s - first_s:.3g} s and ended after the traffic: raise method.duration_s (once_s of "
            "what is done once), or repeat on an idle machine"
        )
    return found


def _rounds(change: Change, begin_s: float, end_s: float) -> tuple[float, float, ChangeRecord]:
    """When the first step began and the last had ended, and what was done; times of `time.monotonic`."""
    time.sleep(max(0.0, begin_s - time.monotonic()))
    steps = {step.name: StepDone(count=0, s=0.0) for step in change.steps}
    first_s, rounds = time.monotonic(), 0
    while not rounds or (change.often and _fits(time.monotonic(), first_s, rounds, end_s)):
        for step in change.steps:
            done = steps[step.name]
            steps[step.name] = StepDone(count=done.count + step.count, s=done.s + _timed(step.act))
            _be_sure(step)
        rounds += 1
    last_s = time.monotonic()
    returned = ", ".join(f"{name} {each.count} in {each.s * 1e3:.4g} ms" for name, each in steps.items())
    return first_s, last_s, ChangeRecord(text=returned, rounds=rounds, steps=steps)


def _fits(now_s: float, first_s: float, rounds: int, end_s: float) -> bool:
    """Whether one more is over in time, if it takes what the others did."""
    return now_s + (now_s - first_s) / rounds < end_s


def _timed(act: Callable[[], float | None]) -> float:
    began = time.monotonic()
    returned = act()
    return time.monotonic() - began if returned is None else returned


def _be_sure(step: Step) -> None:
    if not (missing := step.missing()):
        return
    try:
        wait_until(lambda: not step.missing(), _SEEN_S, step.name)
    except PointFailed:
        raise PointFailed(f"the change was accepted but did not happen: {step.missing() or missing}") from None


_ONCE = ("port-added", "queue-added", "restart")
#: Clause of the trial without a change.
WITHOUT = "without a change"


class ChangesSpec(MethodSpec):
    """Method `changes`: what a change costs that is made under load."""

    name: Literal["changes"]
    #: What is changed; each is a point.
    kinds: Annotated[tuple[ChangeKind, ...], Distinct] = Field(default=CHANGE_KINDS[:-1], min_length=1)
    #: Rules that are installed and removed by `rules` and `rule-stream`.
    rules: int = Field(default=1000, ge=1, le=MOST_RULES)
    #: Traffic before a trial that is not counted.
    quiet_s: float = Field(default=0.2, ge=0.05, le=60)
    #: Length of a trial; what can be done over and over is done so until it ends.
    duration_s: float = Field(default=1.0, ge=2 * LEAD_S, le=3600)
    #: The same with what is done once: a port, a queue, a restart, behind which frames must come through again.
    once_s: float = Field(default=3.0, ge=2 * LEAD_S, le=3600)
    #: How long late frames are waited for at the most.
    drain_s: float = Field(default=0.05, ge=0.01, le=LEAD_S / 2)


def _text(key: str, per: float) -> Column:
    """Of a value that is compared with nothing."""
    titles = {LOST: "lost", LOST_WITHOUT: "lost without", BLOCKED: "blocked ms", TOOK: "change ms", NEW: "new flows/s"}
    return Column(key, titles[key], lambda point: point.value(key), lambda value: number(value / per))


def _without(key: str, title: str) -> Column:
    def of(point: PointSummary) -> float | None:
        value: float | None = getattr(point.by_clause[WITHOUT], key) if WITHOUT in point.by_clause else None
        return value

    return Column(f"{key.removesuffix('_us')}_without_us", title, of)


class Changes(Method[ChangesSpec]):
    """A trial with a change, and one without."""

    name: ClassVar[str] = "changes"
    spec_model: ClassVar[type[MethodSpec]] = ChangesSpec
    figures: ClassVar[tuple[Figure, ...]] = (*FIGURES, P50, P99)
    records: ClassVar[tuple[type[TrialFigures], ...]] = (ChangeRecord, NewFlowsRecord)
    columns: ClassVar[tuple[Column, ...]] = (
        Column("change", "change", lambda point: point.levels.get("change"), str, left=True),
        figure_column(INSTALLED, "installed/s"),
        figure_column(REMOVED, "removed/s"),
        figure_column(GAP, "gap ms"),
        figure_column(FIRST, "first frame ms"),
        _text(TOOK, 1e3),
        _text(NEW, 1),
        _text(LOST, 1),
        _text(LOST_WITHOUT, 1),
        _text(BLOCKED, 1e3),
        *(each for each in LOAD_COLUMNS if each.key in ("p50_us", "p99_us")),
        _without("p50_us", "p50 µs without"),
        _without("p99_us", "p99 µs without"),
    )
    side_clauses: ClassVar[tuple[str, ...]] = (WITHOUT,)
    sends_new_flows: ClassVar[bool] = True
    sends_requests: ClassVar[bool] = True

    def sends_load(self, traffic: TrafficSpec) -> bool:
        return traffic.stated_load_pps is not None

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """Both, as long as the kinds are on average."""
        return [self.spec.quiet_s + fmean(map(self._length_s, self.spec.kinds))] * 2

    def asked_pps(self, traffic: TrafficSpec) -> float:
        beside = traffic.stated_load_pps or traffic.new_flows_pps or 0.0
        return (traffic.probes_per_s + beside) * len(traffic.directions)

    def levels(self, forwarder: ForwarderSpec) -> Sequence[dict[str, Scalar]]:
        return [{"change": kind} for kind in self.spec.kinds]

    def unsupported(self, point: Point, dut: Dut, client: Port) -> str | None:
        return cannot_change(self.forwarder(point), _kind(point.levels), dut)

    def _length_s(self, kind: ChangeKind) -> float:
        return self.spec.once_s if kind in _ONCE else self.spec.duration_s

    def check(self, study: StudySpec) -> None:
        """New flows are the change, or they arrive next to it; gaps of the load are none of the change."""
        for departures in study.in_loads("departures"):
            if departures != "paced":
                raise InputError(
                    f"study {study.name}: traffic.departures: {departures}: method changes derives gaps from the time "
                    "between two frames, which varies here; give paced"
                )
        if "new-flows" in self.spec.kinds and any(study.in_loads("new_flows_pps")):
            raise InputError(
                f"study {study.name}: traffic.new_flows_pps: change new-flows has those of probe_pps; leave one out"
            )
        shares = [each for each in study.in_loads("probe_pps") if isinstance(each, str)]
        if "new-flows" in self.spec.kinds and shares:
            raise InputError(
                f"study {study.name}: traffic.probe_pps: {shares[0]}: change new-flows sends as many, and must know "
                "beforehand that there are enough; give frames per second"
            )

    def new_flows(self, point: Point) -> float:
        """As many as probes, where they are the change."""
        pps = point.traffic.probe_pps
        if _kind(point.levels) == "new-flows" and isinstance(pps, float):
            return pps * self.spec.duration_s
        return (point.traffic.new_flows_pps or 0.0) * (self.spec.quiet_s + self._length_s(_kind(point.levels)))

    def _new_flows(self, traffic: TrafficSpec) -> tuple[TrialSpec, TrialSpec]:
        """Frames of one flow, and of a flow each, with nothing before them."""
        known = probe_streams(traffic.model_copy(update={"flows": 1}))
        given = {"duration_s": self.spec.duration_s, "drain_s": self.spec.drain_s}
        new = new_flow_streams(traffic, traffic.probes_per_s)
        return TrialSpec(streams=known, **given), TrialSpec(streams=new, **given)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        spec, kind = self.spec, _kind(session.point.levels)
        streams = (*probe_streams(traffic), *load_streams(traffic, traffic.stated_load_pps))
        length_s = self._length_s(kind)
        asked = TrialSpec(
            streams=streams,
            duration_s=length_s,
            warmup_s=spec.quiet_s,
            drain_s=spec.drain_s,
            link_changes=True,
        )
        asked, news = self._new_flows(traffic) if kind == "new-flows" else (asked, asked)
        simulated = session.dut.ports[0].simulated
        for changed in (True, False) if session.number % 2 else (False, True):
            if not changed:
                session.trial(asked, clause=WITHOUT)
            elif kind == "new-flows":
                session.measure_by(news, lambda: with_new_flows(session, news), kind)
            elif kind == "restart" and not simulated:  # a simulated restart takes no time that its tester would see
                session.trial(asked, clause=kind, restart_after_s=LEAD_S)
            else:
                with_change(session, asked, kind, spec.rules)

    def repetition_figures(self, trials: Sequence[TrialRecord]) -> list[RepetitionFigures]:
        """Of the trials with the change."""
        taken = [trial for trial in trials if trial.purpose == "measure" and trial.result]
        beside = {trial.repetition: trial for trial in taken if trial.clause == WITHOUT}
        changed = [trial for trial in taken if trial.clause != WITHOUT]
        return [repetition_figures(trial, beside.get(trial.repetition), self.spec.rules) for trial in changed]

    def notes(self, point: PointSummary) -> list[str]:
        where = ", ".join([point.forwarder, *point.settings])
        found = {each.name: point.measured.get(each.key) for each in FIGURES}
        return [f"{where}: {name} ?: {one.doubt}" for name, one in found.items() if one and one.doubt]

    def part(self, run: RunRecord, summaries: Sequence[PointSummary], *name: str) -> Part:
        points = [point for point in summaries if point.levels.get("change") in name]
        lines = []
        for point in points:
            shown = [f"{each.title} {each.shown(point)}" for each in self.columns[1:] if each.of(point) is not None]
            lines += [f"{point.forwarder}: {', '.join(shown)}"] if shown else []
        return Part(lines, points=points)

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer | None:
        """Who is ahead at each change."""
        return answer_by_change(run.study.answer, summaries, (*FIGURES, P50))

    def findings(self, run: RunRecord, summaries: Sequence[PointSummary]) -> list[str]:
        """What frames took next to a change, over what they took without it."""
        lines = compare_to_unchanged(run, summaries)
        return [f"{one.point}, p50 with it over p50 without: {_slower(one)}" for one in lines.values()]

    def sections(self, page: Page) -> list[Section]:
        """The table of points, latencies with and without, distributions."""
        if not page.measured:
            return []
        lines = [(one.point, _slower(one)) for one in compare_to_unchanged(page.run, page.measured).values()]
        return [page.section(self, "report.html.j2", lines=lines, lead_s=LEAD_S), page.pictures()]

    def remarks(self, run: RunRecord) -> list[str]:
        return [
            "Effective blocked time after the reconfiguration tests of FD.io CSIT (report 19.08): frames lost over the "
            "load; deviating in the load, which is the study's and not the throughput that was searched."
        ]


def compare_to_unchanged(run: RunRecord, summaries: Sequence[PointSummary]) -> dict[str, Comparison]:
    """Point id -> its p50 without the change against that with it; one family (Holm)."""
    found, names = {}, Names(run.points.values())
    for point in summaries:
        without = point.by_clause.get(WITHOUT)
        if without is None:
            continue
        title = names.of(run.points[point.point_id])
        ours, theirs = (
            each.model_copy(update={"forwarder": name})
            for name, each in ((f"{title} ({WITHOUT})", without), (title, point))
        )
        one = compare_points(ours, theirs)
        if one is not None:
            found[point.point_id] = one.model_copy(update={"point": title})
    return corrected(found)


def _slower(found: Comparison) -> str:
    """The ratio, or why there is none."""
    if found.better is None:
        return comparison_verdict(found) if found.blockers else f"{ratio_text(found)}: {comparison_verdict(found)}"
    return ratio_text(found) + "".join(f" ({each})" for each in found.remarks)


def _kind(levels: Mapping[str, Scalar]) -> ChangeKind:
    return next(kind for kind in CHANGE_KINDS if kind == levels["change"])
