# SPDX-License-Identifier: Apache-2.0
"""Runs a socket study: every cell of it once per repetition, in a random order, each with a fresh process."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from xdplab.forwarders import Dut
from xdplab.forwarders.base import mode_in_use
from xdplab.forwarders.xdpsock import XdpsockRole
from xdplab.forwarders.xsk_functions import XskFunctions
from xdplab.forwarders.xsk_roles import Role, TestpmdRole, XskRole, frames_sent, make_role
from xdplab.hosts.signals import deferred
from xdplab.knobs import KnobContext
from xdplab.methods import make_method
from xdplab.model import (
    Environment,
    Interrupted,
    Path,
    PointFailed,
    StreamSpec,
    TrialResult,
    TrialSpec,
    Unsupported,
    XdplabError,
)
from xdplab.model.method import default_method
from xdplab.model.sockets import SocketStudy, SocketTrial, StageSummary
from xdplab.runner.cache_misses import cache_misses
from xdplab.runner.cells import Cell, cells, describe
from xdplab.runner.disturbance import between, judge, snapshot
from xdplab.runner.environment import capture_environment
from xdplab.runner.leftovers import detach_xdp
from xdplab.runner.neighbours import Neighbour, seconds_asked
from xdplab.runner.plan import Plan
from xdplab.runner.restore import Settings
from xdplab.testbed import Testbed
from xdplab.testers import Tester, TesterContext

#: A closed AF_XDP socket keeps its queue for some 35 ms (kernel 6.18).
_QUEUE_RELEASE_S = 0.05
_DRAIN_S = 0.1
#: Of the frames that a program is given before it is asked again what is in force.
_FIRST_S = 0.02
#: A flood begins half of this before what is measured beside it, and ends as long after.
_FLOOD_MORE_S = 1.0
_NO_CLOCK = (
    "stages begin at the departure by the tester's clock, which is another machine's: they need a card whose driver "
    "stamps arrivals (bpf_xdp_metadata_rx_timestamp)"
)


def environment_of(testbed: Testbed, tester: Tester) -> Environment:
    """The machine, and the versions of the programs that cases may name."""
    found = capture_environment(
        testbed, tester.versions(testbed.tester_host), Plan((), (), make_method(default_method()))
    )
    programs = (XskRole, TestpmdRole, XdpsockRole)
    versions = found.versions | {name: text for each in programs for name, text in each.versions(testbed.dut).items()}
    return found.model_copy(update={"versions": versions})


class SocketRun:
    """Executes a study on a testbed that is up; what goes wrong in a cell becomes its record."""

    def __init__(self, study: SocketStudy, testbed: Testbed, tester: Tester) -> None:
        self._study = study
        self._testbed = testbed
        self._tester = tester
        self._folders = [(host, testbed.folder_on(host)) for host in (testbed.tester_host, testbed.dut)]

    def trials(self, note: Callable[[str], None] = lambda text: None) -> Iterator[SocketTrial]:
        """Each trial as soon as it is measured."""
        everything = cells(self._study)
        for repetition in range(self._study.repetitions):
            order = list(everything)
            random.Random(f"{self._study.seed}:{repetition}").shuffle(order)  # noqa: S311 - an order, not a secret
            for cell in order:
                began = time.monotonic()
                trial = self._trial(cell, repetition)
                trial = trial.model_copy(update={"visit_s": round(time.monotonic() - began, 3)})
                note(f"{cell.title} #{repetition + 1}: {describe(trial)}")
                yield trial

    def _trial(self, cell: Cell, repetition: int) -> SocketTrial:
        record = SocketTrial(
            workload=cell.workload,
            case=cell.case.title,
            rate_pps=cell.rate_pps,
            repetition=repetition,
            status="ok",
            started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        program = make_role(cell.case, cell.workload, self._study.frame_bytes)
        beside = cell.workload in ("local", "web", "job")
        path = Path.THROUGH if isinstance(program, XskFunctions) and not beside else Path.HAIRPIN
        ports = tuple(self._testbed.ports[role] for role in (("b0", "b1") if path is Path.THROUGH else ("b0",)))
        context = KnobContext(self._testbed.dut, ports, self._testbed.layout, self._testbed.cpus)
        wanted = {**self._study.knobs, **(cell.case.function.knobs if cell.case.function else {})}
        settings = Settings(self._testbed.lock, context, wanted)
        folder, layout = self._testbed.folder_on(self._testbed.dut), settings.context.layout
        dut = Dut(self._testbed.dut, ports, path, layout, folder / "dut", self._testbed.one_machine)
        reason = settings.unsupported() or program.supported(dut)
        neighbour = Neighbour(cell.workload, dut, self._testbed.ports["a0"], dut.layout.tester_tx, folder)
        if beside:
            reason = reason or neighbour.why_not()
        if reason:
            return record.model_copy(update={"status": "unsupported", "reason": reason})
        self._remove_folders()
        for host, place in self._folders:
            host.make_folder(place)
        dut.host.make_folder(dut.rundir)
        stack = contextlib.ExitStack()
        try:
            settings.apply()
            if isinstance(program, XskFunctions) and beside:
                stack.enter_context(neighbour.way_to_the_stack(program))
            program.start(dut)
            settings.after_start(program.name)
            self._first_frames(cell, program, dut)
            found = self._measure(cell, program, dut, neighbour if beside else None)
            idle = program.ineffective() or (program.idle_cores() if isinstance(program, XskFunctions) else None)
            if idle:
                raise Unsupported(idle)
            found["mode"]["knobs"] = settings.read_back()
            return record.model_copy(update=found)
        except Interrupted:
            raise
        except Unsupported as exc:
            return record.model_copy(update={"status": "unsupported", "reason": str(exc)})
        except XdplabError as exc:
            ended = program.crashed()
            reason = str(exc) if not ended or ended in str(exc) else f"{ended}; {exc}"
            return record.model_copy(update={"status": "failed", "reason": reason})
        finally:
            with deferred():
                program.stop()
                time.sleep(_QUEUE_RELEASE_S)
                detach_xdp(dut.host, dut.ports)
                stack.close()
                settings.restore()
                self._remove_folders()

    def _first_frames(self, cell: Cell, program: Role, dut: Dut) -> None:
        """What takes effect with the first frame, as busy polling before Linux 6.13, is given some and looked at again.

        Of stages every frame is measured: there it is looked at when all is over.

        Raises:
            Unsupported: an option is not in force.
        """
        if cell.workload == "stages" or program.ineffective() is None:
            return
        some = StreamSpec(kind="load", pps=1000, frame_bytes=self._study.frame_bytes)
        spec = TrialSpec(streams=(some,), duration_s=_FIRST_S, drain_s=0.0)
        self._tester.run(self._context(program, dut, isinstance(program, XskFunctions)), spec)
        reason = program.ineffective()
        if reason:
            raise Unsupported(reason)

    def _remove_folders(self) -> None:
        for host, folder in self._folders:
            host.remove_folder(folder)

    def _measure(self, cell: Cell, program: Role, dut: Dut, neighbour: Neighbour | None) -> dict[str, Any]:
        before = snapshot(program, dut)
        figure: float | None = None
        pps: float | None = None
        unit = ""
        misses: dict[str, Any] = {}
        if neighbour is not None:
            counting = cache_misses(dut.host, dut.layout.forwarder, dut.rundir)
            with self._flood(cell, program, dut) as sent, counting as misses:
                figure, unit = neighbour.figure(self._study.duration_s)
            result = sent()
        elif cell.workload == "txonly":
            result, pps = self._sending(dut, self._warmup_s(cell))
        else:
            result, pps = self._receiving(cell, program, dut)
        after = snapshot(program, dut)
        ended = program.crashed()
        if ended:
            raise PointFailed(ended)
        found = judge(self._study.disturbance, result, between(before, after), dut)
        counters = program.counters()
        told = counters.pop("stages", {}) if cell.workload == "stages" else {}
        if cell.workload == "stages" and not told["complete"]["count"]:
            raise PointFailed("no frame with a time arrived")
        if told and not self._testbed.one_machine and not told["hardware"]:
            raise Unsupported(_NO_CLOCK)
        return {
            "status": "disturbed" if found.disturbed else "ok",
            "reason": "; ".join(found.reasons),
            "traffic_s": round(self._traffic_s(cell), 3),
            "pps": pps,
            "sent_pps": result.sent / result.elapsed_s if result.streams else None,
            "figure": figure,
            "unit": unit,
            "stages": {name: StageSummary(**told[name]) for name in ("driver", "stack", "complete") if told},
            "stamps": {name: told[name] for name in ("hardware", "software", "unstamped") if told},
            "mode": mode_in_use(program, dut),
            "counters": {**counters, **misses},
        }

    def _traffic_s(self, cell: Cell) -> float:
        """What of a cell's time is traffic, as it was asked for."""
        if cell.workload in ("local", "web", "job"):
            asked_s = seconds_asked(cell.workload, self._study.duration_s)
            flooded = cell.case.function is not None and bool(cell.case.function.flood_pps)
            return asked_s + (_FLOOD_MORE_S if flooded else 0.0)
        return self._study.duration_s + self._warmup_s(cell)

    def _warmup_s(self, cell: Cell) -> float:
        """Of stages every frame is measured, and at 1 pps a warm-up means little."""
        return 0.0 if cell.workload == "stages" else max(self._study.warmup_s, 0.05)

    @contextlib.contextmanager
    def _flood(self, cell: Cell, program: Role, dut: Dut) -> Iterator[Callable[[], TrialResult]]:
        """Frames for the firewall from before a neighbour is measured until after it; its result when that is over."""
        nothing = TrialResult(tester="none", sender="none", elapsed_s=self._study.duration_s, streams=())
        if not isinstance(program, XskFunctions) or cell.case.function is None or not cell.case.function.flood_pps:
            yield lambda: nothing
            return
        spec = TrialSpec(streams=program.streams(), duration_s=self._study.duration_s + _FLOOD_MORE_S, drain_s=_DRAIN_S)
        with ThreadPoolExecutor(1) as pool:
            flooding = pool.submit(self._tester.run, self._context(program, dut, False), spec)
            time.sleep(_FLOOD_MORE_S / 2)
            yield flooding.result

    def _context(self, program: Role, dut: Dut, redirects: bool) -> TesterContext:
        return TesterContext(
            ports=self._testbed.tester_ports(dut.path),
            layout=dut.layout,
            rx_program=self._tester.choose_rx(redirects).program,
            workdir=self._testbed.folder_on(self._testbed.tester_host),
            host=self._testbed.tester_host,
            forwarder=program,
            still_well=program.crashed,
        )

    def _sending(self, dut: Dut, warmup_s: float) -> tuple[TrialResult, float]:
        time.sleep(warmup_s)
        count, begin = frames_sent(dut), time.monotonic()
        time.sleep(self._study.duration_s)
        sent, elapsed_s = frames_sent(dut) - count, time.monotonic() - begin
        if not sent:
            raise PointFailed("nothing was sent")
        return TrialResult(tester="none", sender="none", elapsed_s=elapsed_s, streams=()), sent / elapsed_s

    def _receiving(self, cell: Cell, program: Role, dut: Dut) -> tuple[TrialResult, float]:
        """Flooded by the tester, or with frames at a rate; what came back, or what the program counted, or both."""
        streams: tuple[StreamSpec, ...] = (
            StreamSpec(kind="load", pps=cell.rate_pps, frame_bytes=self._study.frame_bytes),
        )
        functions = isinstance(program, XskFunctions)
        if isinstance(program, XskFunctions):
            streams = program.streams()
        warmup_s = self._warmup_s(cell)
        # what the tester counts, it can tell from the warm-up itself: no second process of it
        with_it = cell.workload in ("l2fwd", "pass-through")
        spec = TrialSpec(
            streams=streams,
            duration_s=self._study.duration_s,
            drain_s=_DRAIN_S,
            warmup_s=warmup_s if with_it else 0.0,
        )
        # XDP_REDIRECT needs NAPI at the receiver: all modes of a function pay for the same one
        context = self._context(program, dut, functions)
        if warmup_s and not with_it:
            # nothing of it is counted: what is under way arrives while this process of the tester ends
            self._tester.run(context, spec.model_copy(update={"duration_s": warmup_s, "drain_s": 0.0}))
        begin = program.frames_received()
        result = self._tester.run(context, spec)
        received = 0 if cell.workload == "l2fwd" else program.frames_received() - begin
        if cell.workload == "l2fwd" or functions:  # of functions: what came through, beside what was dropped on purpose
            received += result.received
        if not received:
            raise PointFailed("nothing was received")
        wrong = {"dropped": result.received, "pass-through": received - result.received}.get(cell.workload, 0)
        if wrong:
            raise PointFailed(f"{wrong} frames were decided on wrongly")
        return result, received / result.elapsed_s
