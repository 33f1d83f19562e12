# SPDX-License-Identifier: Apache-2.0
"""What is read before and after a trial: time that the machine took away, CPU time of its frames, counters."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from xdplab.forwarders import Dut, Forwarder
from xdplab.hosts.agent.cpu_time import CpuTimes
from xdplab.hosts.kernel import CpuUse, cpu_use, net_rx_softirqs, thread_use
from xdplab.model import Calibration, Disturbance, ThreadUse, TrialResult, TrialSpec, XdplabError
from xdplab.model.trial import BY_APPLICATIONS, LOAD_TOLERANCE, CpuTime

#: Fields of `ThreadUse` that grow.
_SUMS = {"ran_ns", "run_delay_ns", "nonvoluntary_switches", "user_ns", "system_ns"}


@dataclass(frozen=True)
class Snapshot:
    """Scheduler facts at one moment."""

    at_s: float
    cpus: dict[int, CpuUse]
    softirqs: dict[int, int]
    threads: dict[int, ThreadUse]
    #: None where all is simulated.
    times: CpuTimes | None = None


def snapshot(forwarder: Forwarder, dut: Dut) -> Snapshot:  # type: ignore[type-arg]
    """Read them; a thread that has just ended is left out. The machine that simulates a forwarder disturbs nothing."""
    if forwarder.simulated:
        return Snapshot(time.monotonic(), {}, {}, {})
    threads = {}
    for tid, pid in forwarder.forwarding_threads().items():
        try:
            threads[tid] = thread_use(dut.host, pid, tid)
        except XdplabError:
            continue
    cpus, softirqs = cpu_use(dut.host), net_rx_softirqs(dut.host)
    times = dut.host.cpu_times(list(forwarder.pids()), not dut.tester_here)
    return Snapshot(time.monotonic(), cpus, softirqs, threads, times)


@dataclass(frozen=True)
class Use:
    """What happened between two snapshots."""

    elapsed_s: float
    steal_share: dict[int, float]
    #: CPU -> seconds that it spent in softirq context.
    softirq_s: dict[int, float]
    softirqs: dict[int, int]
    threads: tuple[ThreadUse, ...]
    #: CPU -> seconds that it was idle or taken by the hypervisor.
    away_s: dict[int, float] = field(default_factory=dict)
    #: As of its beginning and its end.
    times: tuple[CpuTimes, CpuTimes] | None = None


def _since(before: ThreadUse, after: ThreadUse) -> ThreadUse:
    """A sum of the scheduler's may fall where the clocks of two CPUs differ, as in an emulated guest."""
    now = after.model_dump(include=_SUMS, exclude_none=True)
    return after.model_copy(update={key: max(0, value - getattr(before, key)) for key, value in now.items()})


def between(before: Snapshot, after: Snapshot) -> Use:
    elapsed = after.at_s - before.at_s
    threads = tuple(_since(before.threads[tid], use) for tid, use in after.threads.items() if tid in before.threads)
    pairs = {cpu: (before.cpus.get(cpu, now), now) for cpu, now in after.cpus.items()}
    steal = {cpu: (new.steal_ns - old.steal_ns) / 1e9 / elapsed for cpu, (old, new) in pairs.items()}
    softirq_s = {cpu: (new.softirq_ns - old.softirq_ns) / 1e9 for cpu, (old, new) in pairs.items()}
    softirqs = {cpu: count - before.softirqs.get(cpu, count) for cpu, count in after.softirqs.items()}
    away_s = {cpu: (new.away_ns - old.away_ns) / 1e9 for cpu, (old, new) in pairs.items()}
    times = (before.times, after.times) if before.times and after.times else None
    return Use(elapsed, steal, softirq_s, softirqs, threads, away_s, times)


def receive_half_share(result: TrialResult, use: Use, dut: Dut) -> float:
    """Share of a trial in which the sender stalled for the forwarder's receive half, which is no disturbance.

    On veth the receive half runs in softirq context inside the sender's own system call: departures are late though
    the sender has its CPU. So it is what remains of the stalls after the time that the sender waited for its CPU
    (another process ran) and the time that the hypervisor took. A remainder that the CPU's softirq time cannot hold is
    the machine's: a hypervisor that does not tell what it takes. Kernels before 6.5 hand a long receive half to
    ksoftirqd; there the sender waits for it, and it counts as another process.
    """
    if not dut.tester_here or not result.elapsed_s:
        return 0.0
    cpus = dut.layout.tx_cpus[: result.senders]
    taken_s = result.run_delay_ns / 1e9 + sum(use.steal_share.get(cpu, 0.0) for cpu in cpus) * use.elapsed_s
    rest_s = result.stalled_ns / 1e9 - taken_s
    softirq_s = sum(use.softirq_s.get(cpu, 0.0) for cpu in cpus)
    return rest_s / (result.elapsed_s * result.senders) if 0 < rest_s <= softirq_s else 0.0


def taken_away(result: TrialResult, use: Use, dut: Dut) -> Disturbance:
    """Of what was seen, the part that is the machine's.

    Time that a forwarder's thread waits for a CPU which the layout makes it share with its NAPI thread is the
    layout's price, not a disturbance; so is the wake-up delay of a thread that sleeps between frames (it shows in
    run delay without involuntary switches). On veth the kernel also receives there for an application at the far end,
    under load in ksoftirqd: the thread waits for that as part of the path.
    """
    receive_half = receive_half_share(result, use, dut)
    stalled = max(0.0, result.stalled_share - receive_half)
    path_cpus = {dut.layout.forwarder, dut.layout.dut_napi} - {None}
    if dut.tester_here:
        path_cpus |= {*dut.layout.tx_cpus, dut.layout.tester_rx} - {None}
    steal = {cpu: share for cpu, share in use.steal_share.items() if cpu in path_cpus}
    shared = dut.layout.dut_napi == dut.layout.forwarder or (dut.tester_here and result.sender == BY_APPLICATIONS)
    preempted = [thread for thread in use.threads if thread.nonvoluntary_switches]
    busy = [thread for thread in preempted if thread.ran_ns + thread.run_delay_ns > 0.95 * use.elapsed_s * 1e9]
    delay = 0.0 if shared else max((thread.run_delay_ns / (use.elapsed_s * 1e9) for thread in busy), default=0.0)
    return Disturbance(
        stalled_share=stalled,
        receive_half_share=receive_half,
        steal_share=steal,
        run_delay_share=delay,
    )


# CPU time that the frames of a trial took: whose core pays, and what of it is the tester's own.
#
# On veth a frame is received by the CPU that sent it. So part of a forwarder's work is done inside the tester's sender,
# and part of the tester's inside the forwarder's thread. Neither can be seen apart; their sum can: what all of them
# took for the frames, less what the tester takes for as many frames on a direct link, where there is no forwarder. The
# sender polls the clock between frames; it tells how long it was busy with those that left.

#: A thread that runs, or waits for its CPU, for more of the time than this polls; what it does without traffic is
#: not for the frames.
_POLLS = 0.95
#: Of what a sender reaches on the direct link: less than that is not for its own sake, however the machine varies.
_LESS = 0.85
#: How old the time of a running thread may be: a scheduler's tick at CONFIG_HZ=100.
_TICK_S = 0.01
#: Frames that a softirq takes from a port at the most (NAPI's weight).
_NAPI_WEIGHT = 64


def cpu_time(
    use: Use, spec: TrialSpec, result: TrialResult, found: Disturbance, dut: Dut, calibration: Calibration | None
) -> CpuTime | None:
    """Of a trial between two snapshots; None where they do not have it."""
    if use.times is None:
        return None
    before, after = use.times
    frames = result.received + sum(stream.rx_pps for stream in result.streams) * spec.warmup_s
    own, kernel = _grown(before.own, after.own), _grown(before.kernel, after.kernel)
    traffic = min(1.0, (spec.warmup_s + result.elapsed_s) / use.elapsed_s)
    always = [each for each in use.threads if each.ran_ns + each.run_delay_ns > _POLLS * use.elapsed_s * 1e9]
    polled_s = sum(each.ran_ns for each in always) / 1e9
    forwarder_s = sum(own.values()) / 1e9 - polled_s * (1 - traffic)
    running = sum(ns > use.elapsed_s * 1e9 / 2 for ns in (*own.values(), *kernel.values()))
    beyond = _beyond_sending(use, result, found, dut, calibration) if dut.tester_here else _of_no_thread(use)
    softirq_s, unsure_s, unknown = beyond
    if dut.tester_here and softirq_s is not None and result.received:
        softirq_s *= frames / result.received
    return CpuTime(
        elapsed_s=use.elapsed_s,
        frames=frames,
        forwarder_s=forwarder_s,
        polling_s=polled_s * traffic,
        kernel_s=sum(kernel.values()) / 1e9,
        softirq_s=softirq_s,
        unknown=unknown,
        resolution_s=unsure_s + _TICK_S * running,
    )


def _grown(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    return {tid: ns - before.get(tid, 0) for tid, ns in after.items()}


def _beyond_sending(
    use: Use, result: TrialResult, found: Disturbance, dut: Dut, calibration: Calibration | None
) -> tuple[float | None, float, str]:
    """What the senders' CPUs did for the frames, less what they do on a direct link; how exactly; why it is not known.

    It is negative where the forwarder's receive half is cheaper than the tester's, which then runs on its core.
    """
    if result.sending_ns is None:
        return None, 0.0, f"tester {result.tester} does not report what sending takes on the forwarder's machine"
    alone_s = calibration.sending_s(result.sent, result.handovers or 0) if calibration else None
    if calibration is None or alone_s is None:
        return None, 0.0, "what the tester takes alone was not measured on a direct link"
    threads = {thread.cpu for thread in use.threads}
    layout = dut.layout
    path = {*layout.tx_cpus, *threads, *({layout.dut_napi} if layout.dut_napi is not None else ())}
    for cpu, count in use.softirqs.items():
        if cpu not in path and count * _NAPI_WEIGHT > result.sent:  # they may be of our frames
            return None, 0.0, f"CPU {cpu} had {count} NET_RX softirqs, and no thread of the path that they could be in"
    own_stalls_ns = found.receive_half_share * result.elapsed_s * result.senders * 1e9
    machine_ns = max(0.0, result.sending_stalled_ns - own_stalls_ns)
    return (result.sending_ns - machine_ns) / 1e9 - alone_s, calibration.sending_spread * alone_s, ""


def sender_full(result: TrialResult, dut: Dut, calibration: Calibration | None) -> bool:
    """Whether the forwarder's work on the sender's CPU filled it, so that the tester could not send what was asked for.

    More is missing than the machine took, and on the direct link the same sender sends more by a schedule.
    """
    if not dut.tester_here or result.sending_ns is None or calibration is None or not result.intended:
        return False
    missing = 1 - result.sent / result.intended
    alone_pps = (calibration.paced_pps or 0.0) * result.senders
    return missing > LOAD_TOLERANCE + 2 * result.stalled_share and result.achieved_pps < _LESS * alone_pps


def _of_no_thread(use: Use) -> tuple[float | None, float, str]:
    """What the CPUs did and no thread has: softirqs and interrupts while they were idle."""
    assert use.times is not None
    before, after = use.times
    busy_ns = sum((use.elapsed_s - away_s) * 1e9 for away_s in use.away_s.values())
    groups = ((getattr(before, key), getattr(after, key)) for key in ("own", "kernel", "others"))
    threads_ns = sum(sum(_grown(old, new).values()) for old, new in groups)
    return max(0.0, busy_ns - threads_ns) / 1e9, _TICK_S * sqrt(2 * len(use.away_s)), ""


# What a trial added to counters that were not at zero when it began: of the proof, of trials before it.


def added(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Each number of `after` less that of `before`, at any depth; one that was not there began at zero.

    When one has fallen, its program was restarted meanwhile: all of its numbers are of the time since.
    """
    found = _differences(before, after)
    return _differences({}, after) if any(number < 0 for number in _numbers(found)) else found


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in after.items():
        if isinstance(value, Mapping):
            found[key] = _differences(before.get(key, {}), value)
        elif isinstance(value, int | float):
            found[key] = value - before.get(key, 0)
    return found


def _numbers(found: Mapping[str, Any]) -> Iterator[float]:
    for value in found.values():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        else:
            yield value
