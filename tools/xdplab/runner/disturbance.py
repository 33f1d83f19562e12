# SPDX-License-Identifier: Apache-2.0
"""What a machine took away during a trial: recorded, and shown next to the figures."""

import time
from dataclasses import dataclass, field

from xdplab.forwarders import Dut, Forwarder
from xdplab.hosts.agent.cpu_time import CpuTimes
from xdplab.hosts.kernel import CpuUse, cpu_use, net_rx_softirqs, thread_use
from xdplab.model import Disturbance, ThreadUse, TrialResult, XdplabError
from xdplab.model.trial import BY_APPLICATIONS

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
