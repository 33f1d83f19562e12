# SPDX-License-Identifier: Apache-2.0
"""The rule that tells a stalled machine from a lossy forwarder, on inputs made by hand."""

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, ClassVar

import pytest
from lab.records import LAYOUT, result, stream

from xdplab.forwarders import Dut, make_forwarder
from xdplab.hosts import LocalHost
from xdplab.hosts.kernel import CpuUse, thread_use
from xdplab.model import DisturbanceRule, ForwarderSpec, Path, ThreadUse
from xdplab.runner.disturbance import Snapshot, Use, between, judge_trial, snapshot

DUT = Dut(LocalHost(), (), Path.THROUGH, LAYOUT, FilePath("/nowhere"))
RULE = DisturbanceRule()
S = 1_000_000_000


def thread(ran_s: float, delay_s: float, switches: int = 3) -> ThreadUse:
    return ThreadUse(
        name="pmd",
        cpu=1,
        allowed=(1,),
        ran_ns=int(ran_s * S),
        run_delay_ns=int(delay_s * S),
        nonvoluntary_switches=switches,
    )


def use(*threads: ThreadUse, steal: dict[int, float] | None = None, softirq_s: dict[int, float] | None = None) -> Use:
    return Use(elapsed_s=1.0, steal_share=steal or {}, softirq_s=softirq_s or {}, softirqs={}, threads=threads)


def reasons(seen: Use, dut: Dut = DUT, **fields: Any) -> tuple[str, ...]:
    return judge_trial(RULE, result(stream([1000]), **fields), seen, dut).reasons


def test_a_quiet_machine_disturbs_nothing_however_many_frames_are_lost() -> None:
    found = judge_trial(RULE, result(stream([1000], sent=1_000_000)), use(thread(1.0, 0.0)), DUT)
    assert not found.disturbed


@pytest.mark.parametrize(("stalled_ms", "disturbed"), [(9, False), (10, False), (11, True)])
def test_a_stalled_sender(stalled_ms: int, disturbed: bool) -> None:
    found = reasons(use(), stalled_ns=stalled_ms * 1_000_000, longest_gap_ns=4_200_000)
    assert bool(found) == disturbed
    if disturbed:
        assert found == ("sender stalled 1.1% of the time (longest 4.2 ms)",)


@pytest.mark.parametrize(
    ("steal", "disturbed"), [({0: 0.02}, True), ({1: 0.02}, True), ({1: 0.009}, False), ({5: 0.9}, False)]
)
def test_stolen_time_counts_on_the_cpus_of_the_path_only(steal: dict[int, float], disturbed: bool) -> None:
    assert bool(reasons(use(steal=steal))) == disturbed


def test_stolen_time_of_the_napi_cpu_counts_when_the_layout_has_one() -> None:
    layout = LAYOUT.model_copy(update={"dut_napi": 5})
    moved = Dut(LocalHost(), (), Path.THROUGH, layout, FilePath("/nowhere"))
    assert reasons(use(steal={5: 0.9}), moved) == ("CPU 5: 90.0% stolen by the hypervisor",)


def test_a_spinning_thread_that_waited_for_its_cpu() -> None:
    assert reasons(use(thread(0.97, 0.03))) == ("forwarder's thread waited 3.0% of the time for its CPU",)


@pytest.mark.parametrize(
    "waiting",
    [thread(0.97, 0.03, switches=0), thread(0.3, 0.03)],
    ids=["nobody took its CPU", "it sleeps between frames"],
)
def test_waking_up_is_no_disturbance(waiting: ThreadUse) -> None:
    assert not reasons(use(waiting))


def test_sharing_a_cpu_with_ones_own_napi_is_the_layouts_price() -> None:
    shared = Dut(LocalHost(), (), Path.THROUGH, LAYOUT.model_copy(update={"dut_napi": 1}), FilePath("/nowhere"))
    assert not reasons(use(thread(0.5, 0.5)), shared)


def test_every_reason_is_reported() -> None:
    assert len(reasons(use(thread(0.9, 0.1), steal={0: 0.5, 1: 0.5}), stalled_ns=S // 2)) == 4


def test_use_is_the_difference_of_two_snapshots_of_threads_that_lived_through_both() -> None:
    first = {0: CpuUse(softirq_ns=7, steal_ns=S), 1: CpuUse(softirq_ns=7, steal_ns=S)}
    later = {0: CpuUse(S // 2 + 7, S, away_ns=3 * S // 10), 1: CpuUse(softirq_ns=7, steal_ns=S + 4 * S // 10)}
    before = Snapshot(10.0, first, {0: 5}, {7: thread(1.0, 0.5), 8: thread(1.0, 0.0)})
    after = Snapshot(12.0, later, {0: 9, 1: 3}, {7: thread(2.5, 0.75, switches=10), 9: thread(9.0, 9.0)})
    found = between(before, after)
    (lived,) = found.threads
    assert (lived.ran_ns, lived.run_delay_ns, lived.nonvoluntary_switches) == (1.5 * S, S // 4, 7)
    assert found.steal_share[0] == 0
    assert found.away_s == {0: 0.3, 1: 0}
    assert found.steal_share[1] == pytest.approx(0.4 / 2)
    assert found.softirq_s == {0: 0.5, 1: 0}
    assert found.softirqs == {0: 4, 1: 0}


def test_both_halves_of_a_threads_time_are_read_and_subtracted(tmp_path: FilePath) -> None:
    stat = "7 (pmd-c01/id:8) R 1 2 3 4 5 6 7 8 9 10 {user} {system} 13 14 15 16 17 18 19 " + " ".join(["20"] * 30)
    task = {"status": "nonvoluntary_ctxt_switches:\t4\nCpus_allowed_list:\t1", "schedstat": "9000000000 1 2"}

    class Proc(LocalHost):
        times: ClassVar[dict[str, int]] = {"user": 100, "system": 250}

        def read(self, path: str | FilePath) -> str:
            name = FilePath(path).name
            return stat.format(**self.times) if name == "stat" else task[name]

    before = thread_use(Proc(), 7, 7)
    assert (before.user_ns, before.system_ns) == (1 * S, 2.5 * S)  # clock ticks of 10 ms
    Proc.times = {"user": 110, "system": 290}
    (used,) = between(Snapshot(0, {}, {}, {7: before}), Snapshot(1, {}, {}, {7: thread_use(Proc(), 7, 7)})).threads
    assert (used.user_ns, used.system_ns, used.ran_ns) == (S // 10, 4 * S // 10, 0)


@pytest.mark.parametrize(
    ("reported", "seen", "machine", "forwarder"),
    [
        ({"stalled_ns": 0.59 * S, "run_delay_ns": 0.008 * S}, use(softirq_s={0: 0.71}), 0.008, 0.582),
        ({"stalled_ns": 0.5 * S, "run_delay_ns": 0.5 * S}, use(softirq_s={0: 0.01}), 0.5, 0),
        ({"stalled_ns": 0.51 * S, "run_delay_ns": 0.255 * S}, use(softirq_s={0: 0.46}), 0.255, 0.255),
        ({"stalled_ns": 0.1 * S, "run_delay_ns": 0.12 * S}, use(softirq_s={0: 0.9}), 0.1, 0),
        ({"stalled_ns": 0.3 * S}, use(steal={0: 0.2}, softirq_s={0: 0.7}), 0.2, 0.1),
        ({"stalled_ns": 0.3 * S}, use(steal={1: 0.2}, softirq_s={0: 0.7}), 0, 0.3),
        ({"stalled_ns": 0.3 * S}, use(softirq_s={0: 0.29, 1: 0.9}), 0.3, 0),
        ({"stalled_ns": 0.6 * S, "senders": 2}, use(softirq_s={0: 0.7}), 0, 0.3),
    ],
    ids=[
        "receive half alone", "a busy loop", "both", "waits too short to be stalls",
        "the hypervisor and a receive half", "stolen on another core",
        "more than the softirq time: a hypervisor that does not tell", "two senders",
    ],
)  # fmt: skip
def test_what_the_receive_half_on_the_senders_core_takes_is_the_forwarders(
    reported: dict[str, Any], seen: Use, machine: float, forwarder: float
) -> None:
    given = {name: round(value) for name, value in reported.items()}
    found = judge_trial(RULE, result(stream([1000]), **given), seen, DUT)
    assert found.stalled_share == pytest.approx(machine)
    assert found.receive_half_share == pytest.approx(forwarder)
    assert any("sender stalled" in reason for reason in found.reasons) == (machine > RULE.max_stalled_share)


@pytest.mark.parametrize(
    ("sender", "here", "disturbed"), [("socket", True, False), ("socket", False, True), ("live", True, True)]
)
def test_a_thread_waits_for_the_kernel_that_receives_for_applications_as_part_of_the_path(
    sender: str, here: bool, disturbed: bool
) -> None:
    dut = replace(DUT, tester_here=here)
    assert bool(reasons(use(thread(0.6, 0.4)), dut, sender=sender)) == disturbed
    assert reasons(use(thread(0.6, 0.4), steal={1: 0.2}), dut, sender=sender)


def test_no_forwarder_runs_on_the_senders_core_of_another_machine() -> None:
    elsewhere = Dut(LocalHost(), (), Path.THROUGH, LAYOUT, FilePath("/nowhere"), tester_here=False)
    assert reasons(use(softirq_s={0: 0.9}), elsewhere, stalled_ns=S // 2)


def test_the_machine_that_simulates_a_forwarder_disturbs_nothing() -> None:
    seen = snapshot(make_forwarder(ForwarderSpec(name="fake")), DUT)
    assert (seen.cpus, seen.softirqs, seen.threads) == ({}, {}, {})
