# SPDX-License-Identifier: Apache-2.0
"""Forwarders side by side, for real: who is not in turn sleeps, who dies asleep fails alone, nothing stays behind."""

import itertools
import secrets
import signal
from pathlib import Path
from typing import Any

import pytest
from lab import saboteur, studies
from lab.command import wait_for
from lab.rooted import Lab, cgroups, frozen

from xdplab import app
from xdplab.analysis.run import Run
from xdplab.cli.study import ConsoleListener
from xdplab.forwarders.xsk.forwarder import XskForwarder
from xdplab.hosts import NetnsHost, freezer
from xdplab.methods.latency import Latency
from xdplab.model import PointFailed, TestbedSpec, TrafficSpec
from xdplab.results import RunFolder
from xdplab.runner import RunOutcome
from xdplab.runner.session import PointSession
from xdplab.testbed.embedded import EmbeddedTestbed

pytestmark = pytest.mark.root

METHOD = {
    "name": "latency",
    "duration_s": 0.1,
    "warmup_s": 0.02,
    "light_pps": 2000,
    "light_duration_s": 0.1,
    "turns": 3,
}
TRIAL = "lab.saboteur:QuickXdpgen.measure"


#: How processes are put to sleep: `none` is by signals.
KINDS = ("v2", "v1", "none")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """One of them, where it is mounted."""
    found = str(request.param)
    if found != "none" and not saboteur.freezers(found):
        pytest.skip(f"no freezer of cgroup {found} can be used here")
    return found


def state(pid: int) -> str:
    """`Z` where it has ended and nobody has asked how; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except OSError:
        return ""


def processes_named(names: list[str], netns: str) -> set[int]:
    """Those of a namespace and below, if they have these names and no others."""
    pids = freezer.processes_of(netns)
    return pids if sorted(map(name, pids)) == names else set()


def name(pid: int) -> str:
    """What it runs; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def is_asleep(pid: int, kind: str) -> bool:
    if kind == "none":
        return state(pid) == "T"
    return any(frozen(path) for path in cgroups("xdplab-") if str(pid) in (path / "cgroup.procs").read_text().split())


def ran_ns(pids: set[int]) -> int:
    files = (path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in files)


def carried_out(results: Path, **changes: Any) -> tuple[RunFolder, RunOutcome]:
    study = studies.study(testbed="embedded", tester="quick", repetitions=2, **changes)
    with ConsoleListener() as listener:
        return app.run_study(app.prepare(study), listener, results)


@pytest.mark.usefixtures("in_process")
def test_only_the_forwarder_in_turn_is_awake(results: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    seen: list[tuple[str, set[bool], set[bool]]] = []
    used_ns: list[int] = []
    names: set[str] = set()
    there: dict[str, PointSession] = {}
    prove_start, measure = PointSession.prove_start, Latency.measure

    def begun(self: PointSession) -> None:
        prove_start(self)
        there[self.point.id] = self

    def processes(session: PointSession) -> set[int]:
        """Also those that have no sockets; but of `xdp` there is one that only waits for the end."""
        assert isinstance(session.dut.host, NetnsHost)
        return freezer.processes_of(session.dut.host.netns) if session.forwarder.pids() else set()

    def measured(method: Latency, session: PointSession, traffic: TrafficSpec) -> None:
        own = processes(session)
        others = set().union(*(processes(each) for key, each in there.items() if key != session.point.id))
        names.update(Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() for pid in others)
        wait_for(lambda: all(is_asleep(pid, kind) for pid in others), "that the others are stopped")
        seen.append((session.point.id, {is_asleep(pid, kind) for pid in own}, {is_asleep(pid, kind) for pid in others}))
        before_ns = ran_ns(others)
        measure(method, session, traffic)
        used_ns.append(ran_ns(others) - before_ns)

    monkeypatch.setattr(freezer, "folders", lambda: iter(saboteur.freezers(kind)))
    monkeypatch.setattr(PointSession, "prove_start", begun)
    monkeypatch.setattr(Latency, "measure", measured)
    folder, outcome = carried_out(results, forwarders=["xsk", "ovs-afxdp", "linux-bridge"], method=METHOD)
    assert outcome.error is None
    trials = folder.trials()
    assert [each.reason for each in trials if each.status != "ok"] == []
    assert len(seen) == 2 * 3 * 3
    assert names == {"ovsdb-server", "ovs-vswitchd", "xsk"}
    assert max(used_ns) < 1_000_000, used_ns  # a turn takes 200 times that, and who polls uses all of it
    assert set().union(*(own for _, own, _ in seen)) == {False}
    assert set().union(*(others for _, _, others in seen)) == {True}
    orders = [tuple(point for point, *_ in seen[at : at + 3]) for at in range(0, len(seen), 3)]
    assert len(set(orders)) > 1  # random
    assert all(sorted(order) == sorted(there) for order in orders)
    for key in there:
        own = [each for each in trials if each.point_id == key and each.result]
        assert [(each.repetition, each.turn) for each in own if not each.clause] == [
            (number, turn) for number in (0, 1) for turn in range(3)
        ]
        light = [each.result for each in own if each.clause and each.result]
        assert sum(each.received for each in light) > 0.5 * sum(each.sent for each in light)  # the machine is busy


@pytest.mark.usefixtures("in_process")
def test_one_that_failed_at_its_start_sleeps_while_others_measure(
    results: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its processes go on until the round is over: a thread that polls would have half of the forwarders' CPU."""
    failed: list[PointSession] = []
    asleep: list[bool] = []
    prove, measure = PointSession.prove, Latency.measure

    def proven(self: PointSession) -> None:
        if self.forwarder.name == "ovs-afxdp":
            failed.append(self)
            raise PointFailed("it does not do what it was asked for")
        prove(self)

    def measured(method: Latency, session: PointSession, traffic: TrafficSpec) -> None:
        if session.turn:  # each has had a step
            pids = {pid for each in failed[-1:] for pid in each.forwarder.pids()}
            asleep.append(bool(pids) and all(is_asleep(pid, kind) for pid in pids))
        measure(method, session, traffic)

    monkeypatch.setattr(freezer, "folders", lambda: iter(saboteur.freezers(kind)))
    monkeypatch.setattr(PointSession, "prove", proven)
    monkeypatch.setattr(Latency, "measure", measured)
    folder, outcome = carried_out(results, forwarders=["ovs-afxdp", "linux-bridge", "xsk"], method=METHOD)
    assert outcome.error is None
    assert {each.status for each in folder.trials() if each.purpose == "end"} == {"ok", "failed"}
    assert asleep == [True] * (2 * 2 * 2)


@pytest.mark.usefixtures("in_process")
def test_each_stands_beside_itself(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two starts of each in a round, in places of their own; turns of the second are numbered behind the first's."""
    places: list[tuple[str, int, str]] = []
    measure = Latency.measure

    def measured(method: Latency, session: PointSession, traffic: TrafficSpec) -> None:
        assert isinstance(session.dut.host, NetnsHost)
        places.append((session.point.id, session.number, session.dut.host.netns))
        measure(method, session, traffic)

    monkeypatch.setattr(Latency, "measure", measured)
    method = {**METHOD, "turns": 2, "instances": 2}
    folder, outcome = carried_out(results, forwarders=["xsk", "linux-bridge"], method=method)
    assert outcome.error is None
    trials = folder.trials()
    assert [each.reason for each in trials if each.status != "ok"] == []
    assert all(places.count(each) == 2 for each in places)
    assert len({netns for *_, netns in places}) == 4
    for key in {point for point, *_ in places}:
        own = [each for each in trials if each.point_id == key]
        measured_turns = sorted((each.repetition, each.turn or 0) for each in own if each.result and not each.clause)
        assert measured_turns == [(number, turn) for number in (0, 1) for turn in range(4)]
        numbers = [(each.repetition, each.trial) for each in own if each.result]
        assert len(numbers) == len(set(numbers)) == 16
        assert [each.repetition for each in own if each.purpose == "end"] == [0, 0, 1, 1]
    found = Run.of(folder, outcome).points
    for point in found:  # a turn without its tester's CPU has no percentile
        assert {turn for each in point.by_repetition for turn in each.turns["p50_us"]} == set(range(4))


@pytest.mark.usefixtures("in_process")
def test_what_cannot_be_stopped_side_by_side_is_said(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, calls = XskForwarder.stop, itertools.count()

    def fails_once(self: XskForwarder) -> None:
        stop(self)
        if next(calls) == 0:
            raise PointFailed("xsk: it does not end")

    monkeypatch.setattr(XskForwarder, "stop", fails_once)
    folder, outcome = carried_out(results, forwarders=["xsk", "linux-bridge"], method=METHOD)
    said = [str(outcome.error), *(each.reason for each in folder.trials())]
    assert any("xsk: it does not end" in each for each in said), said


def killed(target: str, **plan: Any) -> dict[str, Any]:
    """SIGKILL for a process in the middle of a trial."""
    return {"at": TRIAL, "after_s": 0.05, "signal": "SIGKILL", "target": target, **plan}


def test_one_that_dies_fails_alone(lab: Lab, kind: str) -> None:
    lab.run(
        killed("ovs-vswitchd", needs="ovs-vswitchd"),
        {"LAB_FREEZER": kind},
        forwarders=["ovs-afxdp", "linux-bridge"],
        method=METHOD,
    )
    lab.assert_nothing_left()
    bad, good = lab.rows()
    assert (good["status"], good["repetitions"]) == ("ok", 1)
    assert bad["status"] in ("failed", "partial")
    assert "ovs-vswitchd was ended by signal SIGKILL" in bad["reason"]


#: What sockets look at by themselves, in us, of the whole machine.
BUSY_READ = Path("/proc/sys/net/core/busy_read")


@pytest.mark.parametrize("target", ["ovs-vswitchd", "self"])
def test_points_side_by_side_have_a_setting_of_the_machine_together(lab: Lab, target: str) -> None:
    before = BUSY_READ.read_text(encoding="ascii")
    done = lab.run(
        {"at": TRIAL, "call": 3, "signal": "SIGKILL", "target": target},
        forwarders=["ovs-afxdp", "linux-bridge"],
        knobs={"sysctl_busy_read_us": [7]},
        method=METHOD,
    )
    taken = [each for each in lab.trials() if each.result]
    assert {each.knobs["sysctl_busy_read_us"] for each in taken} == {7}
    if target == "self":
        assert done.code == -signal.SIGKILL
        assert BUSY_READ.read_text(encoding="ascii").split() == ["7"]
        assert lab.down().complaints == []
    else:
        bad, good = lab.rows()
        assert bad["status"] in ("failed", "partial")
        assert (good["status"], good["repetitions"]) == ("ok", 1)
    assert BUSY_READ.read_text(encoding="ascii") == before
    lab.assert_nothing_left()


def test_kill_9_leaves_nobody_asleep(lab: Lab, kind: str) -> None:
    done = lab.run(
        {"at": TRIAL, "call": 4, "target": "self", "signal": "SIGKILL"},
        {"LAB_FREEZER": kind},
        forwarders=["ovs-afxdp", "xsk"],
        method=METHOD,
    )
    assert done.code == -signal.SIGKILL
    asleep = {name for pid, name in lab.processes().items() if is_asleep(pid, kind)}
    assert asleep & {"ovs-vswitchd", "xsk"}  # who was awake ends with the run, at any moment from now on
    assert len(lab.cgroups()) == (0 if kind == "none" else 2)
    down = lab.down()
    assert down.complaints == []
    wait_for(lambda: not lab.processes(), "the end of what slept")
    lab.assert_nothing_left()


def test_after_kill_9_all_is_put_back_without_a_command(lab: Lab, kind: str) -> None:
    done = lab.run(
        {"at": TRIAL, "call": 4, "target": "self", "signal": "SIGKILL", "restored": True},
        {"LAB_FREEZER": kind},
        forwarders=["ovs-afxdp", "xsk"],
        method=METHOD,
    )
    assert done.code == -signal.SIGKILL
    wait_for(lambda: not lab.processes(), "the end of what slept, and of what restores")
    lab.assert_nothing_left()


def test_an_interrupt_wakes_and_ends_all(lab: Lab, kind: str) -> None:
    done = lab.run(
        {"at": TRIAL, "call": 4, "target": "self", "signal": "SIGINT"},
        {"LAB_FREEZER": kind},
        forwarders=["ovs-afxdp", "xsk"],
        method=METHOD,
    )
    assert done.code == 130
    lab.assert_nothing_left()
    resumed = lab.xdplab("run", "--resume", "latest")
    assert resumed.complaints == []
    assert [row["repetitions"] for row in lab.rows()] == [1, 1]
    taken = [(each.point_id, each.turn, each.clause) for each in lab.trials() if each.result]
    assert len(taken) == len(set(taken)) == 2 * 3 * 2


#: One that left its parent, one in a namespace of its own, and one that comes after a line of input.
HELPERS = "setsid --fork sleep 301; unshare --net sleep 302 & read line; sleep 303 & wait"


def test_every_process_sleeps_wherever_it_has_gone(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezer, "folders", lambda: iter(saboteur.freezers(kind)))
    testbed = EmbeddedTestbed(TestbedSpec(name=f"sleep-{secrets.token_hex(2)}", kind="embedded"))
    testbed.up()
    try:
        assert isinstance(testbed.dut, NetnsHost)
        netns = testbed.dut.netns
        helpers = testbed.dut.converse(["sh", "-c", HELPERS], log=tmp_path / "log")
        for count in (2, 3):
            there = ["sh", *["sleep"] * count]
            found = wait_for(lambda there=there: processes_named(there, netns), f"processes {there}")
            testbed.freezer.freeze()
            wait_for(lambda found=found: all(is_asleep(pid, kind) for pid in found), "that they sleep")
            testbed.freezer.thaw()
            assert not any(is_asleep(pid, kind) for pid in found)
            helpers.send("go on")
        assert len(cgroups(netns)) == (kind != "none")
        assert bool(testbed.notes()) == (kind == "none")
        testbed.freezer.freeze()
    finally:
        testbed.down()
    assert cgroups(netns) == []
    wait_for(lambda: {state(pid) for pid in found} <= {"Z", ""}, "that they have ended")
    helpers.stop()


def test_searches_advance_side_by_side(results: Path, lab: Lab) -> None:
    """Trial by trial: neither has ended its search before the other has begun."""
    done = lab.run(
        forwarders=["xdp", "linux-bridge"],
        method={"name": "throughput", "preset": "quick", "loss_ratios": [0.0], "budget_s": 3, "drain_s": 0.1},
        tester="xdpgen",
        traffic={"frame_bytes": 64},
    )
    assert done.code == 0, done.err
    order = [each.point_id for each in lab.trials() if each.purpose == "search"]
    first, second = dict.fromkeys(order)
    assert order.index(second) < len(order) - 1 - order[::-1].index(first)
    changes = sum(one != other for one, other in itertools.pairwise(order))
    assert changes > min(order.count(first), order.count(second)) / 2


def test_a_busy_loop_under_sched_fifo_does_not_delay_freezing(lab: Lab) -> None:
    """Processes of the same priority on its CPU run, and so freeze, only once the loop itself is frozen."""
    fifo = {"policy": "fifo", "priority": 50}
    waits = {"spins": "spin", **dict.fromkeys(("sleeps", "sleeps too", "sleeps as well"), "poll")}
    asked = [{"name": "xsk", "label": label, "options": {**fifo, "wait": wait}} for label, wait in waits.items()]
    lab.run(forwarders=asked, method={"name": "latency", "duration_s": 0.1, "turns": 2}, repetitions=2)
    assert [(row["forwarder"], row["status"], row["reason"]) for row in lab.rows()] == [
        (label, "ok", "") for label in waits
    ]
