# SPDX-License-Identifier: Apache-2.0
"""A run: the testbed up, the tester calibrated, every repetition carried out, the testbed down, whatever happens."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from xdplab.forwarders import make_forwarder
from xdplab.hosts.kernel import xdp_attachment
from xdplab.hosts.signals import deferred, interruptible
from xdplab.knobs import make_knob
from xdplab.model import (
    Calibration,
    Environment,
    InputError,
    Interrupted,
    JournalFailed,
    LinkLost,
    Missing,
    Point,
    RunRecord,
    StudySpec,
    TrialRecord,
    XdplabError,
    plain,
)
from xdplab.model.design import UNSET
from xdplab.runner.calibrations import Calibrations
from xdplab.runner.environment import capture_environment
from xdplab.runner.listener import Listener
from xdplab.runner.plan import OVERHEAD_S, Plan, Repetition
from xdplab.runner.refusals import refusals
from xdplab.runner.repeats import Repeats
from xdplab.runner.resume import completed, resumed
from xdplab.runner.session import PointSession
from xdplab.runner.tester_pool import TesterPool
from xdplab.testbed import Testbed, TestbedLock
from xdplab.testbed.state import SystemLock
from xdplab.testers import Tester

T = TypeVar("T")


class Journal(Protocol):
    """Where a run is written as it happens."""

    def head(self, record: RunRecord) -> None:
        """Write run.json again."""

    def repair(self) -> None:
        """Cut off half a last line that a killed run left."""

    def append(self, record: TrialRecord) -> None:
        """Write one trial so that it survives kill -9.

        Raises:
            XdplabError: it cannot be written; all before it is safe.
        """


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
        recalibrate: bool = False,
    ) -> None:
        self._study = study
        self._plan = plan
        self._testbed = testbed
        self._team = TesterPool(study, tuple(testers), testbed)
        self._journal = journal
        self._listener = listener
        self._done = completed(earlier_trials)
        self._earlier_trials = earlier_trials
        self._run_id = run_id
        self._earlier = earlier
        self._recalibrate = recalibrate
        self._measuring_s = (earlier.measuring_s or 0.0) if earlier else 0.0
        self._unsupported: dict[str, str] = {}
        self._journaled = bool(earlier_trials)
        self._locks: list[TestbedLock] = []
        #: What the journal has of the repetition that is being carried out.
        self._taken: list[TrialRecord] = []
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
                    if isinstance(exc, Interrupted) or (isinstance(exc, InputError) and not self._journaled):
                        raise
                    error = exc
                finally:
                    with deferred():  # raises what it held back, once everything has been put back
                        releases = (lock.release for lock in self._locks)
                        for put_back in (self._testbed.reconnect, self._team.close, self._testbed.down, *releases):
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
        """Point -> why it cannot be measured here. Hosts are asked, and nothing on them is changed.

        Raises:
            InputError: the testbed is in use, or this user may not build it.
        """
        with interruptible():
            try:
                self._testbed.look()
                self._leave_out(refusals(self._plan, self._testbed, self._team))
            finally:
                with deferred():
                    self._testbed.down()
        return self._unsupported

    def _open(self) -> RunRecord:
        """Check the ports, look around, calibrate, and write the head of the run."""
        versions, environment = self._once_more("the look at the testbed", self._look_around)
        supported = [point for point in self._plan.points if point.id not in self._unsupported]
        if _of_the_machine(self._plan, supported):
            self._locks.append(SystemLock(self._testbed.system))
            self._locks[-1].acquire()
        redirects = any(self._plan.method.forwarder(point).redirects for point in supported)
        earlier = _calibrations(self._earlier)
        note, progress = self._listener.note, self._listener.progress
        kept = Calibrations(
            self._testbed,
            environment.model_copy(update={"versions": versions}),
            self._study.disturbance,
            note,
            fresh=self._recalibrate,
        )
        refused = self._once_more(
            "the calibration",
            lambda: self._team.prepare(self._plan, supported, redirects, earlier, kept, note, progress),
        )
        first = self._study.all_testers[0]
        self._leave_out({p.id: refused[p.tester or first] for p in supported if (p.tester or first) in refused})
        record = RunRecord(
            run_id=self._run_id,
            started=_now(),
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
            described=_described(self._plan),
            forwarders=_about_forwarders(self._plan),
        )
        if self._earlier is not None:
            record = resumed(self._earlier, record)
            self._journal.repair()
        self._journal.head(record)
        return record

    def _look_around(self) -> tuple[dict[str, str], Environment]:
        """Versions, and the environment; points that cannot be measured are left out."""
        for port in self._testbed.ports.values():
            attached = None if port.simulated else xdp_attachment(port.host, port.ifname)
            if attached:
                raise InputError(
                    f"{port.host.name}: port {port.ifname} already carries XDP program {attached.prog_name!r} "
                    f"({attached.mode}); detach it with `ip link set dev {port.ifname} xdp off`"
                )
        versions = self._team.versions()
        environment = capture_environment(self._testbed, versions, self._plan)
        reasons = refusals(self._plan, self._testbed, self._team)
        self._testbed.check_connections()  # of a host that is gone much looks as if it were not there
        self._leave_out(reasons)
        return versions, environment

    def _once_more(self, what: str, work: Callable[[], T]) -> T:
        """Its result; it is repeated once if a connection is lost meanwhile."""
        try:
            return work()
        except LinkLost as exc:
            self._listener.note(f"{exc}; {what} will be repeated once")
            self._reconnect()
            return work()

    def _leave_out(self, points: dict[str, str]) -> None:
        """`points`: point -> why it cannot be measured here."""
        refused = {point_id: plain(reason) for point_id, reason in points.items()}
        self._unsupported |= refused
        for reason, count in Counter(refused.values()).items():
            self._listener.note(f"unsupported: {'1 point' if count == 1 else f'{count} points'}: {reason}")

    def _carry_out(self, record: RunRecord) -> None:
        planned = [each for each in self._plan.order if each.point.id not in self._unsupported]
        self._repeats = Repeats(self._study, self._plan, planned)
        for trial in self._earlier_trials:
            self._repeats.seen(trial)
        order = self._to_do(planned)
        if not order and not self._earlier:
            reasons = "; ".join(sorted(set(self._unsupported.values())))
            raise Missing(f"study {self._study.name}: nothing can be measured here: {reasons}")
        left_s = self._plan.traffic_seconds(order) + OVERHEAD_S * len(order)
        self._listener.begin(self._plan, len(order), left_s)
        began = time.monotonic()
        number = 0
        while number < len(order) or self._add_round(order):
            if number:
                left_s = (time.monotonic() - began) / number * (len(order) - number)
            repetition = order[number]
            number += 1
            self._listener.starting(repetition.point, repetition.number, number, len(order), left_s)
            self._measure(repetition)
        lacking = self._repeats.left()
        if lacking:
            self._listener.note(lacking)

    def _to_do(self, repetitions: Iterable[Repetition]) -> list[Repetition]:
        """Those that an earlier part of the run has not completed."""
        return [each for each in repetitions if (each.point.id, each.number) not in self._done]

    def _add_round(self, order: list[Repetition]) -> bool:
        """Put a repetition behind the others, in the place of a disturbed one; False when there is no more to do."""
        while (found := self._repeats.next_round()) is not None:
            more = self._to_do(each for each in found.repetitions if each.point.id not in self._unsupported)
            if more:
                self._listener.note(found.text)
                order += more
                return True
        return False

    def _measure(self, repetition: Repetition) -> None:
        """A repetition; once more, with what it has journaled, when the connection to a host is lost within it."""
        key = repetition.point.id, repetition.number
        self._taken = [trial for trial in self._earlier_trials if (trial.point_id, trial.repetition) == key]
        try:
            self._session(repetition).carry_out()
        except LinkLost as exc:
            self._listener.note(f"repetition {repetition.number + 1}: {exc}; the repetition will be repeated once")
            self._reconnect()
            try:
                self._session(repetition).carry_out(f"{exc}; repeated once")
            except LinkLost as again:
                self._reconnect()
                started = datetime.now(UTC).isoformat(timespec="milliseconds")
                self._emit(
                    TrialRecord(
                        point_id=key[0],
                        repetition=key[1],
                        purpose="end",
                        status="failed",
                        reason=f"{again}, also when it was repeated",
                        started=started,
                    )
                )

    def _reconnect(self) -> None:
        """Make lost connections again. Testers are restarted: with a connection, what they had running is gone."""
        self._testbed.reconnect()
        self._team.close()

    def _session(self, repetition: Repetition) -> PointSession:
        tester, rx_program, ceiling_pps = self._team.take(repetition.point)
        return PointSession(
            repetition,
            self._plan.method,
            self._testbed,
            tester,
            rx_program,
            self._study.disturbance,
            self._emit,
            self._repeats.may_repeat,
            tuple(self._taken),
            ceiling_pps,
            self._listener.progress,
        )

    def _emit(self, trial: TrialRecord) -> None:
        self._journal.append(trial)
        self._journaled = True
        self._taken.append(trial)
        self._repeats.seen(trial)
        if trial.result is not None:
            self._measuring_s += trial.result.elapsed_s
        if trial.result is not None or trial.status != "ok":
            self._listener.trial(self._points[trial.point_id], trial)


def _of_the_machine(plan: Plan, points: Iterable[Point]) -> bool:
    """Whether one of them has a setting of the machine."""
    wanted = [{**plan.method.forwarder(point).required_knobs(), **point.knobs}.items() for point in points]
    return any(make_knob(name).scope == "system" for name in {k for each in wanted for k, v in each if v != UNSET})


def _described(plan: Plan) -> dict[str, dict[str, str]]:
    """Knob -> value -> what that means."""
    found: dict[str, dict[str, str]] = {}
    for point in plan.points:
        for name, value in point.knobs.items():
            found.setdefault(name, {}).setdefault(str(value), plain(make_knob(name).describe(value)))
    return found


def _about_forwarders(plan: Plan) -> dict[str, str]:
    """Forwarder's title -> what it says of itself."""
    specs = {point.forwarder.title: point.forwarder for point in plan.points}
    found = {title: plain(make_forwarder(spec).describe()) for title, spec in specs.items()}
    return {title: sentence for title, sentence in found.items() if sentence}


def _calibrations(earlier: RunRecord | None) -> dict[str, Calibration]:
    """Those of an earlier part of the run, by tester."""
    if earlier is None:
        return {}
    first = {earlier.study.all_testers[0]: earlier.calibration} if earlier.calibration else {}
    return {**first, **earlier.calibrations}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
