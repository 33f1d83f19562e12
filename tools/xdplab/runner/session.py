# SPDX-License-Identifier: Apache-2.0
"""One repetition of a point: apply knobs, start the forwarder, prove the path, measure, stop, put everything back."""

import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from greenlet import GreenletExit, getcurrent, greenlet

from xdplab.forwarders import Dut, Forwarder
from xdplab.forwarders.base import UNPROVEN, Counting, Pooled, mode_in_use, sockets_in_use
from xdplab.hosts.freezer import Freezer
from xdplab.hosts.kernel import detach_xdp, link_names, remove_link, wait_for_queues
from xdplab.hosts.signals import check_interrupted, deferred
from xdplab.hosts.waiting import advised, comes_true, complaints, last_words, stopped
from xdplab.knobs import KnobContext
from xdplab.measure import Method, MethodResult, TrialFigures
from xdplab.model import (
    Calibration,
    HostLost,
    InputError,
    Interrupted,
    JournalFailed,
    LinkLost,
    PointFailed,
    Steps,
    TrialRecord,
    TrialResult,
    TrialSpec,
    Unsupported,
    XdplabError,
)
from xdplab.model.trial import REPORTED_LOSS, Purpose
from xdplab.runner.disturbance import added, between, cpu_time, sender_full, snapshot, taken_away
from xdplab.runner.frame_ends import sockets_lost, where_frames_end
from xdplab.runner.plan import Repetition
from xdplab.runner.ports import KeptPorts, dut_of, ports_of, tester_ports_of
from xdplab.runner.proof import prove
from xdplab.runner.refusals import refusal
from xdplab.runner.settings import Settings
from xdplab.runner.work_proof import prove_work
from xdplab.testbed import Port, Testbed, cards
from xdplab.testers import Tester, TesterContext, run_trial

#: How often the connection may be lost while everything is put back.
_PUT_BACKS = 5
#: How long a restarted forwarder is waited for behind its trial, and each look at whether it forwards.
_BACK_S, _PROBE_S = 30.0, 0.05
#: How long a trial is repeated that lost frames.
_LOSSY_S = 0.5
#: How long a process that no longer answers may take to end.
_DYING_S = 0.2
#: The same where its answers have broken off, and the words of that.
_ENDING_S = 3.0
_BROKEN = re.compile(
    r"does not answer|no answer|read failed|reset by peer|broken pipe|refused|closed|nobody listens", re.I
)


@dataclass(frozen=True)
class SessionContext:
    """What a repetition is carried out with."""

    repetition: Repetition
    method: Method[Any]
    testbed: Testbed
    tester: Tester
    rx_program: str
    #: Top load of the tester over all directions, in pps; 0: not known.
    ceiling_pps: float
    #: Of the tester; None where the testbed has no direct link.
    calibration: Calibration | None
    #: What the journal has of it already.
    earlier: Sequence[TrialRecord]
    emit: Callable[[TrialRecord], None]
    progress: Callable[[str], None]
    #: Of its forwarder's processes, where others stand beside it.
    freezer: Freezer | None = None
    #: Which start of it this is in its repetition, from 0 on.
    instance: int = 0
    #: Settings of the whole machine that are in force for all points beside it.
    held: Collection[str] = ()
    #: Number of those that stand beside it in this repetition; None: it stands alone.
    group: int | None = None
    #: Points of the run of which it is known where they lose frames.
    explained: set[str] = field(default_factory=set)


class PointSession:
    """One repetition of one point. It is the `Session` that the method talks to.

    prepare -> prove -> measure -> prove again -> clean up -> record
       |         |         |            |            ^
       +---------+---------+--- fails --+------------+
    """

    def __init__(self, context: SessionContext) -> None:
        repetition, method, testbed, tester = context.repetition, context.method, context.testbed, context.tester
        self._repetition = repetition
        self._method = method
        self._forwarder = method.forwarder(repetition.point)
        self.point = repetition.point
        self.number = repetition.number
        self._testbed = testbed
        self._tester = tester
        self._rx_program = context.rx_program
        self._calibration = context.calibration
        self._emit = context.emit
        self.ceiling_pps = context.ceiling_pps
        self.cannot = {**tester.cannot, **self._forwarder.cannot}
        self.progress = context.progress
        self._workdir = testbed.folder_on(testbed.tester_host)
        wanted = {**self._forwarder.required_knobs(), **repetition.point.knobs}
        knobs = KnobContext(testbed.dut, ports_of(testbed, self.point), testbed.layout, testbed.cpus)
        self._settings = Settings(testbed.lock, knobs, wanted, context.held)
        layout = self._settings.context.layout
        self._dut = dut_of(testbed, self.point, layout)
        self._group = context.group
        self._began = time.monotonic()
        #: Numbers of its trials and turns are behind those of the instances before it.
        self._trials = self._first_trial = context.instance * len(method.trial_seconds(self.point.traffic))
        self._first_turn = context.instance * method.turns
        asked = [record for record in context.earlier if record.asked is not None]
        self._earlier = {record.trial: record for record in asked}
        self._found = {record.clause for record in context.earlier if record.purpose == "figures"}
        self._around = contextlib.ExitStack()
        self.client = testbed.tester_ports(repetition.point.path).first
        self._links_before: frozenset[str] | None = None
        #: As they are before the forwarder has them.
        self._ports = KeptPorts()
        self.sender_full = False
        self._setup_s = 0.0
        self._traffic_s = 0.0
        self._forwarder_s = self._own_s = 0.0
        self._started_ns = 0
        self._status: Literal["ok", "failed", "unsupported"] = "ok"
        self._reason = ""
        self._tail: tuple[str, ...] = ()
        self._link: LinkLost | None = None
        #: Whether a lossy trial of this repetition was repeated, and points for which one found where frames end.
        self._lossy_repeated = False
        self._explained = context.explained
        #: Whether nothing more is measured, and whether that has been raised.
        self._over = self._raised = False
        self._freezer = context.freezer
        #: Whether its processes may be frozen.
        self._asleep = False
        #: Whether processes of it were stopped before everything is put back, and what was wrong, which `end` says.
        self._stopped = False
        self._not_stopped: XdplabError | None = None
        #: Of the trials, in a repetition whose points take turns.
        self._turn: int | None = None
        #: Of `step`: what carries out the trials.
        self._steps: greenlet | None = None

    @property
    def turn(self) -> int:
        return self._turn or 0

    @property
    def forwarder(self) -> Forwarder[Any]:
        return self._forwarder

    @property
    def dut(self) -> Dut:
        return self._dut

    @property
    def _middle(self) -> Port:
        """A port of the forwarder's host, whether this forwarder has it or not; of an external device the tester's."""
        return self._testbed.ports["a0" if self._testbed.spec.external else "b0"]

    def carry_out(self, before: str = "") -> None:
        """The whole repetition; what goes wrong becomes a record, except `Interrupted` and a failed restore.

        `before`: why it was begun before and not ended, for the record.

        Raises:
            LinkLost: the connection to a host was lost. Everything is put back, over a new one; there is no record.
        """
        try:
            self.begin(before)
            self.measure()
        finally:
            self.end()

    def begin(self, before: str = "") -> None:
        """Start the forwarder and prove the path."""
        self.prepare(before)
        self.start()
        self.prove_start()

    def prepare(self, before: str = "") -> None:
        self._reason = before
        with self._failing(), self._own_time():
            self._prepare()

    def start(self) -> None:
        """The forwarder; from any thread, next to the starts of others."""
        if not self._over:
            with self._failing(), self._own_time():
                self._forwarder_s += (time.monotonic_ns() - self._start()) / 1e9

    def prove_start(self) -> None:
        """That it runs with its settings, and forwards."""
        if not self._over:
            with self._failing(), self._own_time():
                self._settings.after_start(self._forwarder.name)
                self._method.prove(self)
                self._setup_s = time.monotonic() - self._began

    def measure(self) -> None:
        """All trials, those of each turn one after another; nothing where it has failed before."""
        if self._over:
            return
        traffic = self.point.traffic.on_line(self._testbed.spec.line_rate_bps).at(self.ceiling_pps)
        with self._failing(), self._own_time():
            if not self._method.turns:
                self._method.measure(self, traffic)
            for turn in range(self._method.turns):
                if turn:
                    self.let_others()
                self._turn = self._first_turn + turn
                self._method.measure(self, traffic)

    def step(self) -> bool:
        """Awake, one step (`Method.lets_others`), asleep again, also where it has failed. Whether there are more."""
        if self._steps is None:
            self._steps = greenlet(self.measure)
        if not self._over:
            self.wake()
        try:
            if self._over:
                self._leave_off()
            else:
                self._steps.switch()
        finally:
            self.sleep()
        return bool(self._steps)  # begun, and not over; one that could not be put to sleep is left off by its next step

    def let_others(self) -> None:
        """The end of a step; nothing where it is alone."""
        if self._steps is None:
            return
        began_s = time.monotonic()
        self._steps.parent.switch()
        self._own_s -= time.monotonic() - began_s

    def abandon(self) -> None:
        """Put everything back at its end, and do not record that it is over."""
        self._over = self._raised = True
        self._leave_off()

    def _leave_off(self) -> None:
        """What `step` began is not gone on with; awake, because a method may still ask its forwarder for something."""
        if self._steps and self._steps is not getcurrent():
            self.wake()
            self._steps.throw()

    def sleep(self, *, wait: bool = True) -> None:
        """Its processes are frozen while others measure: they poll nothing, and the kernel forwards what comes.

        Where none of them has its frames, it costs nothing awake. `wait`: until they are.
        """
        if self._freezer is not None and (self._forwarder.pids() or self._dut.pipeline.pods):
            self._asleep = True
            with self._failing():
                self._freezer.freeze(wait=wait)

    def wake(self) -> None:
        """The opposite, where it is asleep."""
        if self._freezer is not None and self._asleep:
            with self._failing():
                self._freezer.thaw()
                self._asleep = False

    @contextlib.contextmanager
    def _own_time(self) -> Iterator[None]:
        """What the repetition takes, without what others do in between."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self._own_s += time.monotonic() - began_s

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """What goes wrong is kept for the record at the end."""
        try:
            yield
        except Unsupported as exc:
            self._over = True
            if self._status == "ok":  # else what was wrong first is known
                self._status, self._reason = "unsupported", str(exc)
        except GreenletExit:
            raise  # whoever ends it has said why
        except (JournalFailed, InputError):
            self.abandon()
            raise
        except LinkLost as exc:
            self._over, self._link = True, exc
        except XdplabError as exc:
            self._over = True
            if self._status == "ok":
                self._status, self._reason = "failed", str(exc)
                with contextlib.suppress(LinkLost):
                    self._reason, self._tail = self._with_cause(self._reason), self._forwarder.log_tail()
        except BaseException:
            self.abandon()
            raise

    def end(self) -> None:
        """Prove that it still works, put everything back, and record how it ended.

        Raises:
            LinkLost: as `carry_out`.
        """
        with self._own_time():
            try:
                self.prove_end()
            finally:
                with deferred():
                    lost = self._clean_up()
        if self._raised:
            return
        if lost and self._status != "ok":  # it failed of that, whatever it says
            self._link = LinkLost(f"lost the connection to host {', '.join(lost)}")
        if self._link is not None:
            raise self._link
        times = {
            "repetition_s": self._own_s,
            "traffic_s": self._traffic_s,
            "forwarder_s": self._forwarder_s,
        }
        rounded: dict[str, Any] = {name: round(seconds, 3) for name, seconds in times.items()}
        rounded["put_back"] = tuple(self._ports.changed)
        self._emit(
            self._record(purpose="end", status=self._status, reason=self._reason, log_tail=self._tail, **rounded)
        )

    def prove_end(self) -> None:
        """That it still works, once; nothing where it has failed before."""
        self.wake()
        if not self._over:
            self._over = True
            with self._failing():
                prove_work(self._forwarder, self._dut, self._workdir, self.send, own_ends=self._method.own_ends)

    def stop(self) -> None:
        """The forwarder, before everything is put back; from any thread, next to the stops of others."""
        with self._own_time():
            self._stopped = bool(self._forwarder.pids())
            try:
                self._stop()
            except XdplabError as exc:
                self._not_stopped = exc

    def trial(
        self,
        spec: TrialSpec,
        purpose: Purpose = "measure",
        clause: str = "",
        restart_after_s: float | None = None,
        turn: int | None = None,
    ) -> TrialResult:
        def take() -> MethodResult:
            trial = str(self._trials)
            if restart_after_s is None:
                return MethodResult(run_trial(self._tester, self._context(trial), spec))
            return MethodResult(self._run_with_restart(spec, restart_after_s, trial))

        return self._journaled(spec, purpose, clause, take, turn)

    def measure_by(self, asked: TrialSpec, count: Callable[[], MethodResult], clause: str = "") -> TrialResult:
        """Watch the machine while a method counts, and journal."""
        return self._journaled(asked, "measure", clause, count)

    def send(self, spec: TrialSpec) -> TrialResult:
        return run_trial(self._tester, self._context("beside"), spec)

    def _journaled(
        self,
        spec: TrialSpec,
        purpose: Purpose,
        clause: str,
        take: Callable[[], MethodResult],
        turn: int | None = None,
    ) -> TrialResult:
        """By the journal of a resumed run, or taken now."""
        check_interrupted()
        record = self._earlier.pop(self._trials, None)
        if record is None:
            if self._trials > self._first_trial and not self._method.turns and not self._method.lets_others:
                self.let_others()
            record = self._one_trial(spec, purpose, clause, take, self._turn if turn is None else turn)
            self._emit(record)
        elif record.asked != spec:
            raise JournalFailed(
                f"trial {self._trials} of the journal is another one: the study has changed since; start again"
            )
        self._trials += 1
        self.sender_full = record.sender_full
        assert record.result is not None
        return record.result

    def record_figures(self, clause: str, figures: TrialFigures) -> None:
        """Journal what a method found, unless the journal of a resumed run has it."""
        if clause in self._found:
            return
        self._emit(self._record(purpose="figures", status="ok", clause=clause, figures=figures.journaled()))

    def _one_trial(
        self,
        spec: TrialSpec,
        purpose: Purpose,
        clause: str,
        take: Callable[[], MethodResult],
        turn: int | None,
    ) -> TrialRecord:
        mode = mode_in_use(self._forwarder, self._dut)
        if unproven := [f"tester.{name}" for name in self._tester.unproven()]:
            mode[UNPROVEN] = [*mode.get(UNPROVEN, ()), *unproven]
        counting = self._forwarder if isinstance(self._forwarder, Counting) else None
        counters = counting.monotonic(counting.counters()) if counting else None
        pool = self._forwarder if isinstance(self._forwarder, Pooled) else None
        free = pool.free_buffers() if pool else None
        before = snapshot(self._forwarder, self._dut)
        started_ns = self._started_ns
        result, figures = take()
        # at the latest
        trial_ns = time.monotonic_ns() - round((spec.warmup_s + spec.duration_s) * 1e9)
        self._traffic_s += spec.warmup_s + spec.duration_s
        after = snapshot(self._forwarder, self._dut)
        self._testbed.check_connections()
        if wrong := self._forwarder.crashed() or stopped(self._dut.host, self._forwarder.pids()):
            raise PointFailed(wrong)
        if result.restart_own_ns is not None:
            counters = None  # some of them were reset meanwhile, and nothing says which
        now = counting.counters() if counting else {}
        left = pool.free_buffers() if pool else None
        use = between(before, after)
        disturbance = taken_away(result, use, self._dut)
        # else the process that ended took its time with it, or the CPUs are another machine's
        whole = result.restart_own_ns is None and not self._forwarder.external
        cpu = cpu_time(use, spec, result, disturbance, self._dut, self._calibration) if whole else None
        sockets = mode["xsk"]
        mode["xsk"] = sockets_in_use(self._forwarder, self._dut)  # statistics after the trial
        where_lost = "" if figures else self._where_lost(spec, purpose, result, sockets, mode["xsk"])
        return self._record(
            turn=turn,
            group=self._group,
            status="ok",
            purpose=purpose,
            clause=clause,
            trial=self._trials,
            asked=spec,
            offered_pps=spec.offered_pps,
            result=result,
            where_lost=where_lost,
            figures=figures.journaled() if figures else {},
            disturbance=disturbance,
            mode=mode,
            from_before_start=bool(result.earlier) and trial_ns - result.earlier_ns < started_ns,
            threads=use.threads,
            softirq_cpus=use.softirqs,
            sender_full=sender_full(result, self._dut, self._calibration),
            cpu=cpu,
            counters=now,
            free_buffers=None if free is None or left is None else (free, left),
            increments=added(counters, counting.monotonic(now)) if counting and counters is not None else {},
            knobs=self._settings.read_back(),
        )

    def _where_lost(
        self,
        spec: TrialSpec,
        purpose: Purpose,
        result: TrialResult,
        before: Sequence[dict[str, Any]],
        after: Sequence[dict[str, Any]],
    ) -> str:
        """Of the first trial of a repetition that lost more than `REPORTED_LOSS`: where, by a short one like it.

        It takes a second, so once it is known of a point, not again. Not of what has no load, which is lost on
        purpose, nor within a trial that a method follows frames in, between which it lets others: these would be
        among them.
        """
        ours = purpose == "measure" or not self._method.lets_others
        paced = spec.offered_pps is not None and not any(stream.new_flows for stream in spec.streams)
        restarted = result.restart_own_ns is not None or spec.link_changes
        if self._lossy_repeated or not (ours and paced) or restarted or self._tester.simulated:
            return ""
        if result.lost <= REPORTED_LOSS * result.sent or not result.streams or self.point.id in self._explained:
            return ""
        self._lossy_repeated = True
        short = spec.model_copy(update={"duration_s": min(spec.duration_s, _LOSSY_S), "warmup_s": 0.0})
        tester = tester_ports_of(self._testbed, self.point)
        found = where_frames_end(self._forwarder, self._dut, tester, self.send, short)
        if found:
            self._explained.add(self.point.id)
        return found or sockets_lost(before, after, result)

    def _run_with_restart(self, spec: TrialSpec, after_s: float, trial: str) -> TrialResult:
        """A trial in which the forwarder is restarted (RFC 2544 §26.6); the time between stop and start is ours."""
        failures: list[BaseException] = []
        own_ns: list[int] = []

        def restart() -> None:
            try:
                self._forwarder.stop()
                stopped_ns = time.monotonic_ns()
                self._wait_for_queues()
                for ifname in self._ifnames:  # a program of libxdp's without a dispatcher outlives its socket
                    detach_xdp(self._dut.host, ifname)
                self._remove_links()
                self._dut.host.remove_folder(self._dut.rundir)
                own_ns.append(self._start_again() - stopped_ns)
            except BaseException as exc:  # of a thread of its own: it is raised below, by the one that waits
                failures.append(exc)

        timer = threading.Timer(spec.warmup_s + after_s, restart)
        timer.start()
        try:
            around = dataclasses.replace(self._context(trial), check_alive=lambda: None)
            result = run_trial(self._tester, around, spec.model_copy(update={"link_changes": True}))
        finally:
            timer.cancel()  # a trial that ended early takes its restart along; one that has begun is waited for
            timer.join()
        if self._tester.simulated and not (own_ns or failures):  # its trial takes no time
            restart()
        if failures:
            raise failures[0]
        if not own_ns:
            raise PointFailed("restart: the trial ended before it")
        if result.came_back is False and not self._tester.simulated:
            self._wait_until_back(spec)
        return result.model_copy(update={"restart_own_ns": own_ns[0]})

    def _wait_until_back(self, spec: TrialSpec) -> None:
        """Until frames come through again, or not within `_BACK_S`: what is measured next is of one that forwards."""
        probe = spec.model_copy(update={"duration_s": _PROBE_S, "warmup_s": 0.0, "link_changes": True})
        deadline = time.monotonic() + _BACK_S
        while not self.send(probe).received and time.monotonic() < deadline:
            if ended := self._forwarder.crashed():
                raise PointFailed(ended)

    def _start(self) -> int:
        """When its start began (`time.monotonic_ns`). The forwarder has a new folder, the tester that of the run."""
        if self._links_before is not None and self._middle.lasting:
            self._testbed.lock.remember(links=sorted(set(self._forwarder.own_links) - self._links_before))
        self._dut.host.make_folder(self._dut.rundir)
        began_ns = self._started_ns = time.monotonic_ns()
        self._forwarder.start(self._dut)
        return began_ns

    def _start_again(self) -> int:
        """As it was started before, with its settings."""
        began_ns = self._start()
        self._settings.after_start(self._forwarder.name)
        return began_ns

    def _prepare(self) -> None:
        reason = refusal(self.point, self._method, self._forwarder, self._settings, self._dut, self.client)
        if reason:
            raise Unsupported(reason)
        self._testbed.tester_host.make_folder(self._workdir)
        self._dut.host.remove_folder(self._dut.rundir)
        self._settings.apply()
        self._links_before = None if self._middle.simulated else link_names(self._testbed.dut)
        if self._forwarder.takes_ports:
            self._settings.keep_of_driver()
            self._dut = dataclasses.replace(self._dut, ports=cards.take(self._testbed.lock, self._dut.ports))
        self._around.enter_context(self._method.around(self))
        self._ports.look(self._dut.ports)

    def prove(self) -> None:
        """Frames, and that options are in force."""
        point, lasting = self._repetition.point, self._middle.lasting
        prove(
            point,
            self._forwarder,
            lambda spec: run_trial(self._tester, self._context("proof"), spec),
            dut=self._dut,
            tester=tester_ports_of(self._testbed, point),
            lasting=lasting,
        )
        prove_work(self._forwarder, self._dut, self._workdir, self.send)

    def _context(self, trial: str) -> TesterContext:
        return TesterContext(
            ports=tester_ports_of(self._testbed, self.point),
            layout=self._dut.layout,
            rx_program=self._rx_program,
            workdir=self._workdir,
            host=self._testbed.tester_host,
            forwarder=self._forwarder,
            check_alive=self._forwarder.crashed,
            trial_key=f"{self._repetition.point.id}:{self._repetition.number}:{trial}",
            beside=self._freezer is not None,
        )

    def _clean_up(self) -> list[str]:
        """Put everything back; the hosts whose connection had to be made again for that."""
        lost: list[str] = []
        failed: XdplabError | Interrupted | None = None
        for _ in range(_PUT_BACKS):
            steps, again = Steps(), list[str]()
            with steps.step("connections"):
                again = self._testbed.reconnect()
            if failed and not again:
                raise failed
            lost += again
            self._put_back(steps, fresh=bool(lost))
            failed = steps.error
            if failed is None:
                return lost
        raise HostLost(f"{', '.join(lost)}: the connection keeps breaking; `xdplab restore` puts back what is left")

    def _put_back(self, steps: Steps, *, fresh: bool) -> None:
        """Stop, give the ports back as they were, restore, remove its folder.

        `fresh`: with a connection, what the tester had running is gone.
        """
        ran = True
        with steps.step("forwarder"):
            ran = self._stopped or bool(self._forwarder.pids())
        in_order: list[tuple[str, Callable[[], object]]] = [
            ("waking", self.wake),  # also when the wake before was interrupted: what is frozen cannot be stopped
            ("tester", self._tester.close if fresh else self._tester.rest),
            ("forwarder", self._stop),
            *([("queues", self._wait_for_queues)] if ran else []),
            ("ports", partial(self._ports.put_back, self.point.forwarder.title)),
            ("method", self._around.close),
            ("links", self._remove_links),
            ("cards", self._give_cards_back),
            ("settings", self._settings.restore),
            ("folder", partial(self._dut.host.remove_folder, self._dut.rundir)),
        ]
        for what, put_back in in_order:
            with steps.step(what):
                put_back()

    def _give_cards_back(self) -> None:
        """Before what is set on their interfaces."""
        if self._forwarder.takes_ports:
            cards.give_back(self._testbed.lock, self._testbed.dut)

    def _stop(self) -> None:
        failed, self._not_stopped = self._not_stopped, None
        if failed is not None:
            raise failed
        began_s = time.monotonic()
        self._forwarder.stop()
        self._forwarder_s += time.monotonic() - began_s

    @property
    def _ifnames(self) -> list[str]:
        return [port.ifname for port in self._dut.ports if port.in_kernel]

    def _wait_for_queues(self) -> None:
        wait_for_queues(self._dut.host, self._ifnames)

    def _remove_links(self) -> None:
        """Those that were not there before; on machines that others use, only those of the forwarder's names."""
        if self._links_before is None:
            return
        host, lasting = self._testbed.dut, self._middle.lasting
        steps = Steps()
        for name in sorted(link_names(host) - self._links_before):
            ours = not lasting or name in self._forwarder.own_links
            with steps.step(name):
                if ours and name in link_names(host):  # with one end of a pair goes the other
                    known = {*self._forwarder.own_links, *(port.ifname for port in self._dut.ports)}
                    if why := remove_link(host, name, known):
                        raise XdplabError(f"{host.name}: {why}")
        steps.raise_failed()
        if lasting:
            self._testbed.lock.remember(links=[])

    def _with_cause(self, message: str) -> str:
        """How the forwarder or a program of the tester ended comes first; then the complaint; then the forwarder's own.

        Sockets are closed a moment before the end: memory that is given back, and a core that is written, take long.
        One that was killed while it was frozen dies when it wakes.
        """
        forwarder = self._forwarder
        comes_true(lambda: forwarder.crashed() is not None, _ENDING_S if _BROKEN.search(message) else _DYING_S)
        tail = forwarder.log_tail()
        first = forwarder.crashed() or stopped(self._dut.host, forwarder.pids()) or ""
        said = last_words(tail) if forwarder.crashed() else complaints(tail)
        news = [line for line in said.split(" | ") if line and line not in message]
        parts = [
            first if first not in message else "",
            message,
            f"{forwarder.name} said: {' | '.join(news)}" if news else "",
        ]
        return advised("; ".join(filter(None, parts)))

    def _record(self, *, status: Literal["ok", "failed", "unsupported"], **fields: Any) -> TrialRecord:
        return TrialRecord(
            point_id=self._repetition.point.id,
            repetition=self._repetition.number,
            status=status,
            started=datetime.now(UTC).isoformat(timespec="milliseconds"),
            setup_s=round(self._setup_s, 3),
            **fields,
        )
