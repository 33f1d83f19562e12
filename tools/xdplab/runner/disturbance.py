# SPDX-License-Identifier: Apache-2.0
"""Telling a stalled machine from a lossy forwarder (DESIGN.md rule 9)."""

import os
import time
from dataclasses import dataclass

from xdplab.forwarders import Dut, Forwarder
from xdplab.hosts.kernel import net_rx_softirqs, steal_ticks, thread_use
from xdplab.model import Disturbance, DisturbanceRule, ThreadUse, TrialResult, XdplabError

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Snapshot:
    """Scheduler facts at one moment."""

    at_s: float
    steal: dict[int, int]
    softirqs: dict[int, int]
    threads: dict[int, ThreadUse]


def snapshot(forwarder: Forwarder, dut: Dut) -> Snapshot:  # type: ignore[type-arg]
    """Read them; a thread that has just ended is left out."""
    threads = {}
    for tid, pid in forwarder.forwarding_threads().items():
        try:
            threads[tid] = thread_use(dut.host, pid, tid)
        except XdplabError:
            continue
    return Snapshot(time.monotonic(), steal_ticks(dut.host), net_rx_softirqs(dut.host), threads)


@dataclass(frozen=True)
class Use:
    """What happened between two snapshots."""

    elapsed_s: float
    steal_share: dict[int, float]
    softirqs: dict[int, int]
    threads: tuple[ThreadUse, ...]


def between(before: Snapshot, after: Snapshot) -> Use:
    """Differences of two snapshots."""
    elapsed = after.at_s - before.at_s
    threads = tuple(
        use.model_copy(
            update={
                "ran_ns": use.ran_ns - before.threads[tid].ran_ns,
                "run_delay_ns": use.run_delay_ns - before.threads[tid].run_delay_ns,
                "nonvoluntary_switches": use.nonvoluntary_switches - before.threads[tid].nonvoluntary_switches,
            }
        )
        for tid, use in after.threads.items()
        if tid in before.threads
    )
    steal = {cpu: (ticks - before.steal.get(cpu, ticks)) / _TICKS_PER_S / elapsed for cpu, ticks in after.steal.items()}
    softirqs = {cpu: count - before.softirqs.get(cpu, count) for cpu, count in after.softirqs.items()}
    return Use(elapsed, steal, softirqs, threads)


def judge(rule: DisturbanceRule, result: TrialResult, use: Use, dut: Dut) -> Disturbance:
    """Apply the rule to what was seen.

    Time that a forwarder's thread waits for a CPU which the layout makes it share with its NAPI thread is the
    layout's price, not a disturbance; so is the wake-up delay of a thread that sleeps between frames (it shows in
    run delay without involuntary switches).
    """
    stalled = result.stalled_share
    path_cpus = {dut.layout.forwarder, dut.layout.dut_napi} - {None}
    if dut.tester_here:
        path_cpus |= {dut.layout.tester_tx, dut.layout.tester_rx} - {None}
    steal = {cpu: share for cpu, share in use.steal_share.items() if cpu in path_cpus}
    shared = dut.layout.dut_napi == dut.layout.forwarder
    preempted = [thread for thread in use.threads if thread.nonvoluntary_switches]
    busy = [thread for thread in preempted if thread.ran_ns + thread.run_delay_ns > 0.95 * use.elapsed_s * 1e9]
    delay = 0.0 if shared else max((thread.run_delay_ns / (use.elapsed_s * 1e9) for thread in busy), default=0.0)
    reasons = []
    if stalled > rule.max_stalled_share:
        reasons.append(f"sender stalled {stalled:.1%} of the time (longest {result.longest_gap_ns / 1e6:.1f} ms)")
    reasons += [
        f"CPU {cpu}: {share:.1%} stolen by the hypervisor"
        for cpu, share in sorted(steal.items())
        if share > rule.max_steal_share
    ]
    if delay > rule.max_run_delay_share:
        reasons.append(f"forwarder's thread waited {delay:.1%} of the time for its CPU")
    return Disturbance(stalled_share=stalled, steal_share=steal, run_delay_share=delay, reasons=tuple(reasons))
