# SPDX-License-Identifier: Apache-2.0
"""Forwarders side by side, for real: who is not in turn sleeps, who dies asleep fails alone, nothing stays behind."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import wait_for
from lab.rooted import Lab

from xdplab import app
from xdplab.cli.progress import ConsoleListener
from xdplab.runner.session import PointSession

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


def stopped(pids: tuple[int, ...]) -> set[bool]:
    """Whether each of these processes is stopped; the last of its threads is some microseconds later."""
    for _ in range(20):
        found = {Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0] == "T" for pid in pids}
        if found == {True}:
            break
        time.sleep(0.001)
    return found


@pytest.mark.usefixtures("in_process")
def test_only_the_forwarder_in_turn_is_awake(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, set[bool], set[bool]]] = []
    there: dict[str, PointSession] = {}
    begin, measure = PointSession.begin, PointSession.measure

    def begun(self: PointSession, before: str = "") -> None:
        begin(self, before)
        there[self.point.id] = self

    def measured(self: PointSession) -> None:
        others = [each.forwarder.pids() for key, each in there.items() if key != self.point.id]
        seen.append((self.point.id, stopped(self.forwarder.pids()), set().union(*map(stopped, others))))
        measure(self)

    monkeypatch.setattr(PointSession, "begin", begun)
    monkeypatch.setattr(PointSession, "measure", measured)
    study = studies.study(
        testbed="embedded",
        tester="quick",
        forwarders=["xsk", "ovs-afxdp", "linux-bridge"],
        method=METHOD,
        repetitions=2,
    )
    with ConsoleListener() as listener:
        folder, outcome = app.run_study(app.prepare(study), listener, results)
    assert outcome.error is None
    trials = folder.trials()
    assert [each.reason for each in trials if each.status != "ok"] == []
    assert len(seen) == 2 * 3 * 3
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


def killed(target: str, **plan: Any) -> dict[str, Any]:
    """SIGKILL for a process in the middle of a trial."""
    return {"at": TRIAL, "after_s": 0.05, "signal": "SIGKILL", "target": target, **plan}


def test_one_that_dies_fails_alone(lab: Lab) -> None:
    lab.run(killed("ovs-vswitchd", needs="ovs-vswitchd"), forwarders=["ovs-afxdp", "linux-bridge"], method=METHOD)
    lab.assert_nothing_left()
    bad, good = lab.rows()
    assert (good["status"], good["repetitions"]) == ("ok", 1)
    assert bad["status"] in ("failed", "partial")
    assert "ovs-vswitchd was ended by signal SIGKILL" in bad["reason"]


def test_kill_9_leaves_nobody_asleep(lab: Lab) -> None:
    done = lab.run(
        {"at": TRIAL, "call": 4, "target": "self", "signal": "SIGKILL"}, forwarders=["ovs-afxdp", "xsk"], method=METHOD
    )
    assert done.code == -signal.SIGKILL
    down = lab.down()
    assert down.complaints == []
    wait_for(lambda: not lab.processes(), "the end of what slept", 3)
    lab.assert_nothing_left()


def test_an_interrupt_wakes_and_ends_all(lab: Lab) -> None:
    done = lab.run(
        {"at": TRIAL, "call": 4, "target": "self", "signal": "SIGINT"}, forwarders=["ovs-afxdp", "xsk"], method=METHOD
    )
    assert done.code == 130
    lab.assert_nothing_left()
    resumed = lab.xdplab("run", "--resume", "latest")
    assert resumed.complaints == []
    assert [row["repetitions"] for row in lab.rows()] == [1, 1]
    taken = [(each.point_id, each.turn, each.clause) for each in lab.trials() if each.result]
    assert len(taken) == len(set(taken)) == 2 * 3 * 2
