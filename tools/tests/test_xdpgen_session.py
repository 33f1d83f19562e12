# SPDX-License-Identifier: Apache-2.0
"""xdpgen's process is started once and asked for each trial; one that breaks costs the trial, not the run."""

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from xdplab.model import Path as Way, PointFailed, StreamSpec, TestbedSpec, TrialResult, TrialSpec
from xdplab.testbed import FakeTestbed
from xdplab.testers import TesterContext
from xdplab.testers.xdpgen import Xdpgen

#: In place of bpf/build/xdpgen: answers by turns as the file `answers` next to it says, and tells its own pid.
_PROGRAM = """#!{python} -IS
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(__file__).parent
with (folder / "started").open("a") as file:
    print(os.getpid(), file=file)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
for line in sys.stdin:
    with (folder / "asked").open("a") as file:
        file.write(line)
    kind, *left = (folder / "answers").read_text().split()
    (folder / "answers").write_text(" ".join(left or [kind]))
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "complains":
        sys.exit("xdpgen: port busy: a0 carries XDP program 7")
    if kind == "silent":
        time.sleep(60)
    stream = {{"id": 0}}
    told = dict(json.loads((folder / "result").read_text()), elapsed_s=os.getpid())
    print({{"garbage": "gar{{bage", "list": "[1]", "empty": "{{}}"}}.get(kind) or json.dumps(
        dict(told, error="8 redirects refused" if kind == "error" else None)), flush=True)
    if kind == "error":
        sys.exit(1)
"""

RESULT: dict[str, Any] = {
    "sender": "live", "sender_reason": None, "interrupted": False, "error": None, "batch": 1,
    "warmup": {"sent": 0, "received": 0}, "streams": [], "threads": [], "ports": [],
}  # fmt: skip
TRIAL = TrialSpec(streams=(StreamSpec(kind="load", pps=1000, frame_bytes=64),), duration_s=0.01, drain_s=0.01)


class Lab:
    """A tester whose program is the one above."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "xdpgen"
        program.write_text(_PROGRAM.format(python=sys.executable), encoding="utf-8")
        program.chmod(0o700)
        (folder / "result").write_text(json.dumps(RESULT), encoding="utf-8")
        self.testbed = FakeTestbed(TestbedSpec(name="t", kind="fake"))
        self.tester = Xdpgen()
        self.dead: str | None = None

    def trial(self, answer: str = "good", workdir: str = "work") -> TrialResult:
        (self.folder / "answers").write_text(answer, encoding="utf-8")
        place = self.folder / workdir
        place.mkdir(exist_ok=True)
        ports = self.testbed.tester_ports(Way.THROUGH)
        context = TesterContext(
            ports, self.testbed.layout, "tc", place, self.testbed.tester_host, check_alive=lambda: self.dead
        )
        return self.tester.run(context, TRIAL)

    def started(self) -> list[int]:
        return [int(line) for line in (self.folder / "started").read_text(encoding="utf-8").split()]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("XDPLAB_BPF_DIR", str(tmp_path))
    made = Lab(tmp_path)
    yield made
    made.tester.close()
    assert not any(alive(pid) for pid in made.started())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_process_serves_all_trials(lab: Lab) -> None:
    found = [lab.trial() for _ in range(3)]
    assert lab.started() == [found[0].elapsed_s]  # in which the program tells its process id
    assert found == [found[0]] * 3
    asked = [json.loads(line) for line in (lab.folder / "asked").read_text(encoding="utf-8").splitlines()]
    assert [(one["duration_s"], one["streams"][0]["pps"]) for one in asked] == [(0.01, 1000)] * 3


def test_it_serves_all_repetitions_and_ends_with_the_run(lab: Lab) -> None:
    for _ in range(2):
        lab.trial()
        lab.tester.rest()
    (pid,) = lab.started()
    assert alive(pid)
    lab.tester.close()
    lab.tester.close()
    assert not alive(pid)


def test_sockets_of_it_at_the_ports_do_not_stay_after_a_repetition(lab: Lab) -> None:
    (lab.folder / "result").write_text(json.dumps(RESULT | {"sender": "xsk"}), encoding="utf-8")
    lab.trial()
    lab.trial()
    (pid,) = lab.started()
    lab.tester.rest()
    assert not alive(pid)


def test_one_that_another_thread_started_does_not_outlive_its_trial(lab: Lab) -> None:
    """It would be ended with that thread, in the middle of some later trial."""
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lab.trial).result()
        assert not alive(lab.started()[-1])
    lab.trial()
    assert len(lab.started()) == 3


def test_another_place_has_a_process_of_its_own(lab: Lab) -> None:
    lab.trial()
    lab.trial(workdir="other")
    first, second = lab.started()
    assert (alive(first), alive(second)) == (False, True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("garbage", r"xdpgen: answered 'gar\{bage', which is no result"),
        ("list", r"xdpgen: answered '\[1\]', which is no result"),
        ("empty", r"xdpgen: answered '\{\}', which is no result"),
        ("error", "xdpgen: 8 redirects refused"),
        ("killed", "xdpgen was ended by signal SIGKILL: no message"),
        ("complains", "xdpgen ended with exit code 1: xdpgen: port busy: a0 carries XDP program 7"),
    ],
)
def test_one_that_breaks_costs_its_trial_alone(lab: Lab, answer: str, words: str) -> None:
    lab.trial()
    with pytest.raises(PointFailed, match=f"^{words}$"):
        lab.trial(answer)
    assert not alive(lab.started()[0])
    assert lab.trial().elapsed_s == lab.started()[1]


def test_one_that_says_nothing_is_ended_when_the_forwarder_has_died_or_it_is_late(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.dead = "ovs-vswitchd was ended by signal SIGSEGV"
    with pytest.raises(PointFailed, match=r"^ovs-vswitchd was ended by signal SIGSEGV$"):
        lab.trial("silent")
    lab.dead = None
    monkeypatch.setattr("xdplab.testers.base._GRACE_S", 0.0)
    with pytest.raises(PointFailed, match=r"^xdpgen: did not end in time"):
        lab.trial("silent")
    assert not any(alive(pid) for pid in lab.started())
