# SPDX-License-Identifier: Apache-2.0
"""A run: the testbed up, the tester calibrated, every visit carried out, the testbed down, whatever happens."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from xdplab.forwarders import Dut, make_forwarder
from xdplab.hosts.kernel import xdp_attachment
from xdplab.hosts.signals import deferred, interruptible
from xdplab.knobs import KnobContext
from xdplab.model import (
    Calibration,
    InputError,
    Interrupted,
    JournalFailed,
    Path,
    Point,
    RunRecord,
    StudySpec,
    TrialRecord,
    XdplabError,
    plain,
)
from xdplab.runner.environment import capture_environment
from xdplab.runner.plan import OVERHEAD_S, Plan
from xdplab.runner.restore import Settings
from xdplab.runner.team import Team
from xdplab.runner.visit import PointVisit
from xdplab.testbed import Testbed
from xdplab.testers import Tester


class Journal(Protocol):
    """Where a run is written as it happens."""

    def head(self, record: RunRecord) -> None:
        """Write run.json anew."""

    def append(self, record: TrialRecord) -> None:
        """Write one trial so that it survives kill -9.

        Raises:
            XdplabError: it cannot be written; all before it is safe.
        """


class Listener(Protocol):
    """Who is told how far it is. Called between trials only: a screen must not be drawn on a measured core."""

    def begin(self, plan: Plan, left: int, seconds: float) -> None:
        """The run starts; `left` visits, `seconds` expected."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def progress(self, text: str) -> None:
        """Something that changes often within a visit, worth showing and not worth keeping."""

    def visiting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        """A visit starts."""

    def trial(self, point: Point, record: TrialRecord) -> None:
        """A trial has been journaled."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    record: RunRecord
    interrupted: Interrupted | None = None
    error: XdplabError | None = None


class StudyRun:
    """One execution of a study on one testbed."""

    def __init__(
        self,
        run_id: str,
        study: StudySpec,
        plan: Plan,
        testbed: Testbed,
        testers: Sequence[Tester],
        journal: Journal,
        listener: Listener,
        *,
        earlier: RunRecord | None = None,
        earlier_trials: Sequence[TrialRecord] = (),
    ) -> None:
        self._study = study
        self._plan = plan
        self._testbed = testbed
        self._team = Team(study, tuple(testers), testbed)
        self._journal = journal
        self._listener = listener
        done = {(trial.point_id, trial.repetition) for trial in earlier_trials if trial.purpose == "end"}
        self._visits = [visit for visit in plan.visits if (visit.point.id, visit.repetition) not in done]
        self._earlier_trials = earlier_trials
        self._repeats = 0
        self._trials = 0
        self._run_id = run_id
        self._earlier = earlier
        self._measuring_s = (earlier.measuring_s or 0.0) if earlier else 0.0
        self._unsupported: dict[str, str] = {}
        self._points = {point.id: point for point in plan.points}

    def execute(self) -> RunOutcome:
        """Carry the run out. `Interrupted` and errors that end it early are returned after everything is put back.

        Raises:
            InputError: nothing was measured because something is missing or in use.
        """
        began = time.monotonic()
        interrupted: Interrupted | None = None
        error: XdplabError | None = None
        record: RunRecord | None = None
        with interruptible():
            try:
                try:
                    self._testbed.up()
                    record = self._open()
                    self._carry_out(record)
                except XdplabError as exc:
                    if isinstance(exc, InputError | Interrupted):
                        raise
                    error = exc
                finally:
                    with deferred():  # raises what it held back, once everything has been put back
                        for put_back in (self._team.close, self._testbed.down):
                            try:
                                put_back()
                            except XdplabError as exc:
                                error = error or exc
            except Interrupted as exc:
                interrupted = exc
        if record is None:
            raise interrupted or error or XdplabError("the run did not start")
        for note in self._testbed.notes():
            self._listener.note(note)
        ended = interrupted or error
        record = record.model_copy(
            update={
                "finished": _now(),
                "wall_s": round((record.wall_s or 0.0) + time.monotonic() - began, 2),
                "measuring_s": round(self._measuring_s, 2),
                "unsupported": self._unsupported,
                "ended_early": plain(str(ended)) if ended else None,
            }
        )
        try:
            self._journal.head(record)
        except JournalFailed as exc:
            error = error or exc
        return RunOutcome(record, interrupted, error)

    def survey(self) -> dict[str, str]:
        """Point -> why it cannot be measured here; builds the testbed, asks, and takes it down again.

        Raises:
            InputError: the testbed is in use, or this user may not build it.
        """
        with interruptible():
            try:
                self._testbed.up()
                self._find_unsupported()
            finally:
                with deferred():
                    self._testbed.down()
        return self._unsupported

    def _open(self) -> RunRecord:
        """Check the ports, look around, calibrate, and write the head of the run."""
        for port in self._testbed.ports.values():
            attached = None if port.simulated else xdp_attachment(port.host, port.ifname)
            if attached:
                raise InputError(
                    f"{port.host.name}: port {port.ifname} already carries XDP program {attached.prog_name!r} "
                    f"({attached.mode}); detach it with `ip link set dev {port.ifname} xdp off`"
                )
        self._find_unsupported()
        supported = [point for point in self._plan.points if point.id not in self._unsupported]
        redirects = any(make_forwarder(point.forwarder).redirects for point in supported)
        earlier = _calibrations(self._earlier)
        refused = self._team.prepare(self._plan, supported, redirects, earlier, self._listener.note)
        first = self._study.all_testers[0]
        self._leave_out({p.id: refused[p.tester or first] for p in supported if (p.tester or first) in refused})
        environment = capture_environment(self._testbed, self._team.versions(), self._plan)
        record = RunRecord(
            run_id=self._run_id,
            started=self._earlier.started if self._earlier else _now(),
            study=self._study,
            testbed=self._testbed.spec,
            layout=self._testbed.layout,
            rx_program=self._team.choice.program,
            rx_reason=self._team.choice.reason,
            points=self._points,
            unsupported=self._unsupported,
            calibration=self._team.calibration,
            calibrations=self._team.calibrations if len(self._study.all_testers) > 1 else {},
            environment=environment,
            wall_s=self._earlier.wall_s if self._earlier else None,
        )
        self._journal.head(record)
        return record

    def _find_unsupported(self) -> None:
        """Ask each point's knobs and forwarder before traffic, so that reasons come first and cost nothing."""
        asked: dict[tuple[Any, ...], str | None] = {}
        found: dict[str, str] = {}
        for point in self._plan.points:
            reason = self._no_tester(point, asked) or self._no_one_way(point) or self._reason(point, asked)
            if reason:
                found[point.id] = reason
        self._leave_out(found)

    def _leave_out(self, points: dict[str, str]) -> None:
        """`points`: point -> why it cannot be measured here."""
        told = {point_id: plain(reason) for point_id, reason in points.items()}
        self._unsupported |= told
        for reason, count in Counter(told.values()).items():
            self._listener.note(f"unsupported: {'1 point' if count == 1 else f'{count} points'}: {reason}")

    def _no_tester(self, point: Point, asked: dict[tuple[Any, ...], str | None]) -> str | None:
        """Its tester is not here, or cannot measure the path."""
        question: tuple[Any, ...] = ("tester", point.tester, point.path)
        if question not in asked:
            asked[question] = self._team.missing(point)
        return asked[question]

    def _no_one_way(self, point: Point) -> str | None:
        """A one-way latency is the difference of two readings of one clock."""
        one_clock, why = self._testbed.clock
        if one_clock or point.path is not Path.THROUGH:
            return None
        return f"path through is one-way and needs one clock: {why}; paths reflect and hairpin are round trips"

    def _reason(self, point: Point, asked: dict[tuple[Any, ...], str | None]) -> str | None:
        """Why a point cannot be measured. A sweep asks the same of many points: `asked` holds the answers so far."""
        ports = tuple(self._testbed.ports[r] for r in (("b0",) if point.path is Path.HAIRPIN else ("b0", "b1")))
        forwarder = make_forwarder(point.forwarder)
        context = KnobContext(self._testbed.dut, ports, self._testbed.layout, self._testbed.cpus)
        wanted = {**forwarder.required_knobs(), **point.knobs}
        settings = Settings(self._testbed.lock, context, wanted)
        for name, value in settings.foreseeable().items():
            question: tuple[Any, ...] = (point.path, name, value)
            if question not in asked:
                asked[question] = Settings(self._testbed.lock, context, {name: value}).unsupported()
            if asked[question]:
                return asked[question]
        layout = settings.context.layout
        question = (point.path, point.forwarder.model_dump_json(), layout)
        if question not in asked:
            folder = self._testbed.folder_on(self._testbed.dut)
            dut = Dut(self._testbed.dut, ports, point.path, layout, folder)
            asked[question] = forwarder.supported(dut)
        return asked[question]

    def _carry_out(self, record: RunRecord) -> None:
        visits = [visit for visit in self._visits if visit.point.id not in self._unsupported]
        if not visits and not self._earlier:
            reasons = "; ".join(sorted(set(self._unsupported.values())))
            raise InputError(f"study {self._study.name}: nothing can be measured here: {reasons}")
        left_s = sum(sum(self._plan.method.trials(v.point.traffic)) + OVERHEAD_S for v in visits)
        self._listener.begin(self._plan, len(visits), left_s)
        began = time.monotonic()
        for number, visit in enumerate(visits):
            if number:
                left_s = (time.monotonic() - began) / number * (len(visits) - number)
            tester, rx_program, ceiling_pps = self._team.take(visit.point)
            self._listener.visiting(visit.point, visit.repetition, number + 1, len(visits), left_s)
            PointVisit(
                visit,
                self._testbed,
                tester,
                rx_program,
                self._study.disturbance,
                self._emit,
                self._may_repeat,
                [t for t in self._earlier_trials if (t.point_id, t.repetition) == (visit.point.id, visit.repetition)],
                ceiling_pps,
                self._listener.progress,
            ).carry_out(self._plan.method)

    def _may_repeat(self) -> bool:
        """Take one repeat from the run's budget, which grows with its trials."""
        allowed = math.ceil(self._study.disturbance.max_repeats_share * max(self._trials, len(self._visits)))
        self._repeats += 1
        return self._repeats <= allowed

    def _emit(self, trial: TrialRecord) -> None:
        self._journal.append(trial)
        if trial.result is not None:
            self._trials += 1
            self._measuring_s += trial.result.elapsed_s
        if trial.result is not None or trial.status != "ok":
            self._listener.trial(self._points[trial.point_id], trial)


def _calibrations(earlier: RunRecord | None) -> dict[str, Calibration]:
    """Those of an earlier part of the run, by tester."""
    if earlier is None:
        return {}
    first = {earlier.study.all_testers[0]: earlier.calibration} if earlier.calibration else {}
    return {**first, **earlier.calibrations}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
