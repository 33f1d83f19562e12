# SPDX-License-Identifier: Apache-2.0
"""CPU time that the frames of a trial took: whose core pays, and what of it is the tester's own.

On veth a frame is received by the CPU that sent it. So part of a forwarder's work is done inside the tester's sender,
and part of the tester's inside the forwarder's thread. Neither can be seen apart; their sum can: what all of them took
for the frames, less what the tester takes for as many frames on a direct link, where there is no forwarder. The sender
polls the clock between frames; it tells how long it was busy with those that left.
"""

from collections.abc import Mapping
from math import sqrt

from xdplab.forwarders import Dut
from xdplab.model import Calibration, Disturbance, TrialResult, TrialSpec
from xdplab.model.trial import LOAD_TOLERANCE, CpuTime
from xdplab.runner.disturbance import Use

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
