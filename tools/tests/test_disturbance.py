# SPDX-License-Identifier: Apache-2.0
"""What the machine took of a trial, and what is the forwarder's own, on inputs made by hand."""

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, ClassVar

import pytest
from lab.records import LAYOUT, result, stream

from xdplab.forwarders import Dut, make_forwarder
from xdplab.hosts import LocalHost
from xdplab.hosts.kernel import CpuUse, thread_use
from xdplab.model import Disturbance, ForwarderSpec, Path, ThreadUse
from xdplab.runner.disturbance import Snapshot, Use, _since, between, snapshot, taken_away

DUT = Dut(LocalHost(), (), Path.THROUGH, LAYOUT, FilePath("/nowhere"))
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


def taken(seen: Use, dut: Dut = DUT, **fields: Any) -> Disturbance:
    return taken_away(result(stream([1000]), **fields), seen, dut)


def test_a_quiet_machine_took_nothing_however_many_frames_are_lost() -> None:
    found = taken_away(result(stream([1000], sent=1_000_000)), use(thread(1.0, 0.0)), DUT)
    assert found.taken_share == 0


def test_a_thread_has_waited_no_less_than_nothing() -> None:
    """The scheduler's sum falls where clocks of two CPUs differ."""
    before, after = thread(1.0, 0.5), thread(2.0, 0.4)
    found = _since(before, after)
    assert (found.ran_ns, found.run_delay_ns) == (1.0 * S, 0)


@pytest.mark.parametrize(("steal", "counted"), [({0: 0.02}, 0.02), ({1: 0.009}, 0.009), ({5: 0.9}, 0)])
def test_stolen_time_counts_on_the_cpus_of_the_path_only(steal: dict[int, float], counted: float) -> None:
    assert taken(use(steal=steal)).taken_share == counted


def test_stolen_time_of_the_napi_cpu_counts_when_the_layout_has_one() -> None:
    layout = LAYOUT.model_copy(update={"dut_napi": 5})
    moved = Dut(LocalHost(), (), Path.THROUGH, layout, FilePath("/nowhere"))
    assert taken(use(steal={5: 0.9}), moved).steal_share == {5: 0.9}


def test_a_spinning_thread_that_waited_for_its_cpu() -> None:
    assert taken(use(thread(0.97, 0.03))).run_delay_share == pytest.approx(0.03)


@pytest.mark.parametrize(
    "waiting",
    [thread(0.97, 0.03, switches=0), thread(0.3, 0.03)],
    ids=["nobody took its CPU", "it sleeps between frames"],
)
def test_waking_up_is_not_the_machine_s(waiting: ThreadUse) -> None:
    assert taken(use(waiting)).taken_share == 0


def test_sharing_a_cpu_with_ones_own_napi_is_the_layouts_price() -> None:
    shared = Dut(LocalHost(), (), Path.THROUGH, LAYOUT.model_copy(update={"dut_napi": 1}), FilePath("/nowhere"))
    assert taken(use(thread(0.5, 0.5)), shared).taken_share == 0


@pytest.mark.parametrize(
    ("steal", "stalled", "waited", "most"), [(0.2, 0.1, 0.3, 0.3), (0.2, 0.4, 0.3, 0.4), (0.5, 0.4, 0.3, 0.5)]
)
def test_the_largest_of_what_was_taken_counts(steal: float, stalled: float, waited: float, most: float) -> None:
    found = taken(use(thread(1 - waited, waited), steal={1: steal}), stalled_ns=round(stalled * S))
    assert found.taken_share == pytest.approx(most)


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
    found = taken(seen, **given)
    assert found.stalled_share == pytest.approx(machine)
    assert found.receive_half_share == pytest.approx(forwarder)


@pytest.mark.parametrize(
    ("sender", "here", "waited"), [("socket", True, 0), ("socket", False, 0.4), ("live", True, 0.4)]
)
def test_a_thread_waits_for_the_kernel_that_receives_for_applications_as_part_of_the_path(
    sender: str, here: bool, waited: float
) -> None:
    dut = replace(DUT, tester_here=here)
    assert taken(use(thread(0.6, 0.4)), dut, sender=sender).run_delay_share == pytest.approx(waited)
    assert taken(use(thread(0.6, 0.4), steal={1: 0.2}), dut, sender=sender).taken_share >= 0.2


def test_no_forwarder_runs_on_the_senders_core_of_another_machine() -> None:
    elsewhere = Dut(LocalHost(), (), Path.THROUGH, LAYOUT, FilePath("/nowhere"), tester_here=False)
    assert taken(use(softirq_s={0: 0.9}), elsewhere, stalled_ns=S // 2).stalled_share == 0.5


def test_nothing_is_seen_of_the_machine_that_simulates_a_forwarder() -> None:
    seen = snapshot(make_forwarder(ForwarderSpec(name="fake")), DUT)
    assert (seen.cpus, seen.softirqs, seen.threads) == ({}, {}, {})
