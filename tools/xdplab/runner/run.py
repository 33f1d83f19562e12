# SPDX-License-Identifier: Apache-2.0
"""A run, from a plan to its record.

    up -> open -> measure, repetition after repetition -> put back -> close
     |      |        |                                       ^
     +------+--------+---- an error, or a signal ------------+

`up` builds the testbed; `open` asks what cannot be measured, calibrates the testers and writes the head of the run;
a repetition (`session`) ends with a record in the journal whatever happens to its forwarder or tester; `put back` takes
down testers, testbed and locks, each even if another fails; `close` writes the head again, with how the run ended.
"""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from xdplab.forwarders import make_forwarder, plain_name
from xdplab.hosts.signals import check_interrupted, deferred, interruptible
from xdplab.hosts.waiting import run_parallel
from xdplab.knobs import KnobContext, make_knob
from xdplab.model import (
    Calibration,
    Environment,
    InputError,
    Interrupted,
    JournalFailed,
    LinkLost,
    NothingMeasurable,
    Point,
    RunRecord,
    Steps,
    StudySpec,
    TrialRecord,
    XdplabError,
    plain,
)
from xdplab.model.study import Scalar
from xdplab.results import RunFolder, trials_by_point
from xdplab.runner.calibrations import Calibrations
from xdplab.runner.environment import capture_environment, completed, resumed
from xdplab.runner.low_latency import LowLatency
from xdplab.runner.plan import Listener, Plan, Repetition, why_alone
from xdplab.runner.ports import redirects_by_xdp
from xdplab.runner.recovery import guarded
from xdplab.runner.refusals import refusals
from xdplab.runner.session import PointSession, SessionContext
from xdplab.runner.settings import Settings
from xdplab.runner.tester_pool import TesterPool
from xdplab.runner.turns import has_system_setting, in_groups, instances_of, system_settings
from xdplab.testbed import Testbed, TestbedLock
from xdplab.testbed.needs import refuse_if_needed
from xdplab.testbed.state import SystemLock
from xdplab.testers import Tester

T = TypeVar("T")
#: Forwarders that start at a time.
_AT_ONCE = 8


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    record: RunRecord
    interrupted: Interrupted | None = None
    error: XdplabError | None = None


@dataclass(frozen=True)
class Job:
    """What a run is made of."""

    run_id: str
    study: StudySpec
    plan: Plan
    testbed: Testbed
    testers: Sequence[Tester]
    journal: RunFolder
    listener: Listener
    #: Of a run that goes on: its record and its journal.
    earlier: RunRecord | None = None
    earlier_trials: Sequence[TrialRecord] = ()
    #: No calibration of an earlier run is used.
    recalibrate: bool = False
    #: Asked after each round, a repetition of all points, with how many are over, and whether one failed; True ends
    #: the run.
    enough: Callable[[int, bool], bool] = lambda rounds, failed: False


@dataclass
class _Ended:
    """Why a run ended early: the first error, and the interruption."""

    error: XdplabError | None = None
    interrupted: Interrupted | None = None


class StudyRun:
    """One execution of a study on one testbed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._study, self._plan, self._testbed, self._listener = job.study, job.plan, job.testbed, job.listener
        self._testers = TesterPool(job.study, tuple(job.testers), job.testbed)
        self._low_latency = LowLatency(job.testbed, min(each.senders(job.testbed.spec) for each in job.testers))
        self._done = completed(job.earlier_trials, job.plan)
        self._measuring_s = (job.earlier.measuring_s or 0.0) if job.earlier else 0.0
        self._unsupported: dict[str, str] = {}
        self._journaled = bool(job.earlier_trials)
        self._locks: list[TestbedLock] = []
        #: What the journal has of the repetition that is being carried out.
        self._taken: list[TrialRecord] = []
        self._points = {point.id: point for point in job.plan.points}
        #: Rounds after which it was enough.
        self._rounds: int | None = None
        #: Whether a repetition has failed.
        self._failed = False
        #: Of what was put back on ports: each is noted once.
        self._noted: set[str] = set()
        #: Points of which it is known where they lose frames.
        self._explained: set[str] = set()

    def execute(self) -> RunOutcome:
        """Carry the run out. `Interrupted` and errors that end it early are returned after everything is put back.

        Raises:
            InputError: nothing was measured because something is missing or in use.
        """
        began = time.monotonic()
        record: RunRecord | None = None
        ended = _Ended()
        with interruptible(self._study.testbed):
            try:
                with guarded(self._testbed.spec), self._put_back_afterwards(ended):
                    self._testbed.up()
                    self._retry_once("what a run sets on cards", self._low_latency.apply)
                    record = self._open()
                    self._carry_out(record)
            except Interrupted as exc:
                ended.interrupted = exc
        if record is None:
            raise ended.interrupted or ended.error or XdplabError("the run did not start")
        return self._close(record, ended, time.monotonic() - began)

    @contextlib.contextmanager
    def _put_back_afterwards(self, ended: _Ended) -> Iterator[None]:
        """Notes an error, and puts everything back after it as well; only bad input before any trial is raised."""
        try:
            yield
        except XdplabError as exc:
            if isinstance(exc, InputError) and not self._journaled:
                raise
            ended.error = exc
        finally:
            with deferred():  # raises what it held back, once everything has been put back
                steps = Steps()
                for what, put_back in (
                    ("connections", self._testbed.reconnect),
                    ("testers", self._testers.close),
                    ("what a run sets on cards", self._low_latency.restore),
                    ("testbed", self._testbed.down),
                    *(("lock", lock.release) for lock in self._locks),
                ):
                    with steps.step(what):
                        put_back()
                try:  # an interruption goes on
                    steps.raise_failed()
                except XdplabError as exc:
                    ended.error = ended.error or exc

    def _close(self, record: RunRecord, ended: _Ended, wall_s: float) -> RunOutcome:
        """The head of the run as it stays."""
        for note in (*self._testbed.notes(), *self._low_latency.notes(), *self._testers.put_back):
            self._listener.note(note)
        if any(self._low_latency.undone.values()):
            record = _with_undone(record, self._low_latency.undone)
        reason = ended.interrupted or ended.error
        if self._rounds is not None:
            record = record.model_copy(update={"study": record.study.model_copy(update={"repetitions": self._rounds})})
        record = record.model_copy(
            update={
                "finished": _now(),
                "wall_s": round((record.wall_s or 0.0) + wall_s, 2),
                "measuring_s": round(self._measuring_s, 2),
                "unsupported": self._unsupported,
                "put_back": (*record.put_back, *self._testers.put_back),
                "ended_early": plain(str(reason)) if reason else None,
            }
        )
        try:
            self._job.journal.head(record)
        except JournalFailed as exc:
            ended.error = ended.error or exc
        return RunOutcome(record, ended.interrupted, ended.error)

    def survey(self) -> dict[str, str]:
        """Point -> why it cannot be measured here. Hosts are asked, and nothing on them is changed.

        Raises:
            InputError: the testbed is in use, or this user may not build it.
        """
        with interruptible():
            try:
                self._testbed.look()
                self._leave_out(refusals(self._plan, self._testbed, self._testers))
            finally:
                with deferred():
                    self._testbed.down()
        return self._unsupported

    def _open(self) -> RunRecord:
        """Check the ports, look around, calibrate, and write the head of the run."""
        versions, environment = self._retry_once("the look at the testbed", self._look_around)
        supported = [point for point in self._plan.points if point.id not in self._unsupported]
        if not self._plan.method.own_ends:
            self._retry_once("the look at the tester's cards", lambda: self._testers.find_macs(supported))
        if has_system_setting(self._plan, supported):
            self._locks.append(SystemLock(self._testbed.system))
            self._locks[-1].acquire()
        redirects = any(self._plan.method.forwarder(point).redirects for point in supported) or self._look(supported)
        earlier = _calibrations(self._job.earlier)
        note, progress = self._listener.note, self._listener.progress
        kept = Calibrations(
            self._testbed,
            environment.model_copy(update={"versions": versions}),
            note,
            fresh=self._job.recalibrate,
        )
        refused = self._retry_once(
            "the calibration",
            lambda: self._testers.prepare(self._plan, supported, redirects, earlier, kept, note, progress),
        )
        first = self._study.all_testers[0]
        self._leave_out({p.id: refused[p.tester or first] for p in supported if (p.tester or first) in refused})
        record = RunRecord(
            run_id=self._job.run_id,
            started=_now(),
            study=self._study,
            testbed=self._testbed.spec,
            layout=self._testbed.layout,
            rx_program=self._testers.choice.program,
            rx_reason=self._testers.choice.reason,
            points=self._points,
            unsupported=self._unsupported,
            calibration=self._testers.calibration,
            calibrations=self._testers.calibrations if len(self._study.all_testers) > 1 else {},
            environment=environment,
            described=_described(self._plan),
            plain_names=_plain_names(self._plan),
            pipelines={each.title: make_forwarder(each).pipelines for each in self._plan.forwarders},
            forwarders=_about_forwarders(self._plan),
        )
        if self._job.earlier is not None:
            record = resumed(self._job.earlier, record)
            self._job.journal.repair()
        self._job.journal.head(record)
        return record

    def _look(self, points: Iterable[Point]) -> bool:
        """Whether a program of which it is not known transmits by XDP; each is started once."""
        method = self._plan.method
        if method.own_ends:
            return False
        unknown = {point.forwarder.title: point for point in points if method.forwarder(point).redirects_unknown}
        for point in unknown.values():
            forwarder = method.forwarder(point)
            send, note = self._testers.look(point), self._listener.note
            if redirects_by_xdp(point, forwarder, self._testbed, self._testbed.layout, send, note):
                return True
        return False

    def _look_around(self) -> tuple[dict[str, str], Environment]:
        """Versions, and the environment; points that cannot be measured are left out."""
        for port in self._testbed.ports.values():
            if port.in_kernel:
                refuse_if_needed(port.host, port.ifname)
        versions = self._testers.versions()
        environment = capture_environment(self._testbed, versions, self._plan, self._low_latency.found)
        reasons = refusals(self._plan, self._testbed, self._testers)
        self._testbed.check_connections()  # of a host that is gone much looks as if it were not there
        self._leave_out(reasons)
        return versions, environment

    def _retry_once(self, what: str, work: Callable[[], T]) -> T:
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
        order = self._to_do(planned)
        alone = why_alone(self._study, self._testbed.spec.kind)
        if alone and len(self._plan.points) > 1:
            self._listener.note(f"points are measured one after another: {alone}")
        if not order and not self._job.earlier:
            reasons = "; ".join(sorted(set(self._unsupported.values())))
            raise NothingMeasurable(f"study {self._study.name}: no point of it can be measured here: {reasons}")
        left_s = self._plan.seconds(order)
        self._listener.begin(self._plan, len(order), left_s)
        began = time.monotonic()
        number = 0
        groups = in_groups(self._plan, self._study, order, alone)
        for at, group in enumerate(groups):
            if number:
                left_s = (time.monotonic() - began) / number * (len(order) - number)
            if len(group) > 1 or instances_of(self._plan, group[0].point) > 1:
                self._take_turns(group, number, len(order), left_s)
            else:
                self._listener.starting(group[0].point, group[0].number, number + 1, len(order), left_s)
                self._measure(group[0])
            check_interrupted()
            number += len(group)
            round_over = at + 1 == len(groups) or groups[at + 1][0].number != group[0].number
            if round_over and self._job.enough(group[0].number + 1, self._failed):
                self._rounds = group[0].number + 1
                return

    def _to_do(self, repetitions: Iterable[Repetition]) -> list[Repetition]:
        """Those that an earlier part of the run has not completed."""
        return [each for each in repetitions if (each.point.id, each.number) not in self._done]

    def _take_turns(self, repetitions: Sequence[Repetition], number: int, of: int, left_s: float) -> None:
        """Start all, then steps in random order, each point awake in its own only; then end all, whatever happens."""
        began = time.monotonic()
        sessions: list[PointSession] = []
        held = system_settings(self._plan, repetitions[0].point)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._in_force(held))
            try:
                for at, repetition in enumerate(repetitions, number + 1):
                    self._listener.starting(repetition.point, repetition.number, at, of, left_s)
                    for session in self._beside(repetition, repetitions, held, len(self._job.earlier_trials) + number):
                        sessions.append(session)
                        stack.callback(session.end)
                        session.prepare()
                _start_together(sessions)
                self._go_round(sessions, max(left_s - (time.monotonic() - began), 0.0))
                _stop_together(sessions)
            except BaseException:
                for session in sessions:  # a run that goes on takes the turns that are left of it
                    session.abandon()
                raise

    @contextlib.contextmanager
    def _in_force(self, wanted: dict[str, Scalar]) -> Iterator[None]:
        """Settings of the whole machine, for all points that stand side by side; put back when they have ended.

        What cannot be set each point finds for itself, and says so.
        """
        testbed = self._testbed
        settings = Settings(testbed.lock, KnobContext(testbed.dut, (), testbed.layout, testbed.cpus), wanted)
        try:
            try:
                settings.apply()
            except (InputError, JournalFailed):
                raise
            except XdplabError as exc:
                self._listener.note(f"a setting of the machine: {exc}")
            yield
        finally:
            with deferred():
                settings.restore()

    def _beside(
        self, repetition: Repetition, group: Sequence[Repetition], held: Collection[str] = (), number: int | None = None
    ) -> Iterator[PointSession]:
        """One for each start of its forwarder, in places that are its own in each round of this group."""
        starts = instances_of(self._plan, repetition.point)
        wanted = {each.point.id for each in group}
        first = starts * [each for each in self._points if each in wanted].index(repetition.point.id)
        self._taken = self._earlier_trials(repetition)
        for instance in range(starts):
            place = self._testbed.beside(first + instance)
            yield self._session(repetition, place, freezer=place.freezer, instance=instance, held=held, group=number)

    def _go_round(self, sessions: Sequence[PointSession], left_s: float) -> None:
        """One step of each after another, until none has any left."""
        began = time.monotonic()
        number = sessions[0].number
        chance = random.Random(f"{self._study.seed}:{number}:turns")  # noqa: S311 - an order
        going, turn = list(sessions), 0
        while going:
            turn += 1
            if turns := self._plan.method.turns:
                left_now = max(left_s - (time.monotonic() - began), 0.0)
                where = f"round {number + 1}, turn {turn} of {turns}"
                self._listener.progress(f"{where}: {len(going)} side by side   [left {left_now:.0f} s]")
            going = [session for session in chance.sample(going, len(going)) if session.step()]

    def _earlier_trials(self, repetition: Repetition) -> list[TrialRecord]:
        own = trials_by_point(self._job.earlier_trials).get(repetition.point.id, ())
        return [trial for trial in own if trial.repetition == repetition.number]

    def _measure(self, repetition: Repetition) -> None:
        """A repetition, repeated once with what it has journaled if the connection to a host is lost within it."""
        self._taken = self._earlier_trials(repetition)
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
                        point_id=repetition.point.id,
                        repetition=repetition.number,
                        purpose="end",
                        status="failed",
                        reason=f"{again}, repeated once with the same result",
                        started=started,
                    )
                )

    def _reconnect(self) -> None:
        """Make lost connections again. Testers are restarted: with a connection, what they had running is gone."""
        self._testbed.reconnect()
        self._testers.close()

    def _session(
        self,
        repetition: Repetition,
        testbed: Testbed | None = None,
        **beside: Any,
    ) -> PointSession:
        """`beside`: fields of `SessionContext`, where it does not stand alone."""
        place = testbed or self._testbed
        tester, rx_program, ceiling_pps, calibration = self._testers.take(repetition.point, place)
        name = f"{repetition.point.forwarder.title}: " if beside else ""
        return PointSession(
            SessionContext(
                repetition=repetition,
                method=self._plan.method,
                testbed=place,
                tester=tester,
                rx_program=rx_program,
                ceiling_pps=ceiling_pps,
                calibration=calibration,
                earlier=tuple(self._taken),
                emit=self._emit,
                progress=lambda line: self._listener.progress(name + line.lstrip()),
                explained=self._explained,
                **beside,
            )
        )

    def _emit(self, trial: TrialRecord) -> None:
        self._job.journal.append(trial)
        self._journaled = True
        self._taken.append(trial)
        self._failed |= trial.status == "failed"
        for sentence in set(trial.put_back) - self._noted:
            self._listener.note(sentence)
        self._noted |= set(trial.put_back)
        if trial.result is not None:
            self._measuring_s += trial.result.elapsed_s
        if (trial.result is not None and trial.turn is None) or trial.status != "ok":
            self._listener.trial(self._points[trial.point_id], trial)


def _start_together(sessions: Sequence[PointSession]) -> None:
    """Start all side by side, each asleep as soon as it has started; then prove one after another.

    A signal waits for the last start.
    """
    with deferred(), ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        starts = {pool.submit(session.start): session for session in sessions}
        for done in as_completed(starts):
            done.result()
            starts[done].sleep(wait=False)
    for session in sessions:
        session.sleep()
    for session in sessions:
        session.wake()
        session.prove_start()
        session.sleep()


def _stop_together(sessions: Sequence[PointSession]) -> None:
    """Prove one after another, then stop all side by side."""
    for session in sessions:
        session.prove_end()
    with deferred():
        run_parallel(*(session.stop for session in sessions))


def _with_undone(record: RunRecord, undone: Mapping[str, Mapping[str, str]]) -> RunRecord:
    """What was set on cards and not in force at the end."""
    environment = record.environment
    merged = {role: {**settings, **undone.get(role, {})} for role, settings in environment.low_latency.items()}
    return record.model_copy(update={"environment": environment.model_copy(update={"low_latency": merged})})


def _described(plan: Plan) -> dict[str, dict[str, str]]:
    """Knob -> value -> what that means."""
    found: dict[str, dict[str, str]] = {}
    for point in plan.points:
        for name, value in point.knobs.items():
            found.setdefault(name, {}).setdefault(str(value), plain(make_knob(name).describe(value)))
    return found


def _plain_names(plan: Plan) -> dict[str, str]:
    """Title -> plain name of forwarders that have another one, which no other of the run has."""
    found = {spec.title: plain(plain_name(spec)) for spec in plan.forwarders}
    often = Counter(found.values())
    return {title: name for title, name in found.items() if name != title and often[name] == 1}


def _about_forwarders(plan: Plan) -> dict[str, str]:
    """Forwarder's title -> what it says of itself."""
    found = {spec.title: plain(make_forwarder(spec).describe()) for spec in plan.forwarders}
    return {title: sentence for title, sentence in found.items() if sentence}


def _calibrations(earlier: RunRecord | None) -> dict[str, Calibration]:
    """Those of an earlier part of the run, by tester."""
    if earlier is None:
        return {}
    first = {earlier.study.all_testers[0]: earlier.calibration} if earlier.calibration else {}
    return {**first, **earlier.calibrations}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
