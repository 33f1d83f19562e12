# SPDX-License-Identifier: Apache-2.0
"""What a repetition waits for: programs that it starts, and sleeps. Times depend on the machine, these do not."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab import studies

from xdplab import app
from xdplab.cli.study import ConsoleListener
from xdplab.hosts.waiting import POLL_S
from xdplab.runner.session import PointSession

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("in_process")]

#: Forwarder -> programs that one repetition starts, after one that has asked what holds for the run.
PROGRAMS = {
    "ovs-afxdp": ["ovsdb-server", "ovs-vswitchd", "ovs-ofctl"],
    "ovs-afpacket": ["ovsdb-server", "ovs-vswitchd", "ovs-ofctl"],
    "ovs-dpdk": ["ovsdb-server", "ovs-vswitchd-dpdk", "ovs-ofctl"],
    "testpmd": ["dpdk-testpmd"],
    "xdp": ["xdpfwd"],
    "linux-bridge": ["ip", "ip", "ip"],
}
#: Of a started program's command line: what starts it there.
_BEFORE = (("taskset", 3), ("setpriv", 3))


class Watch:
    """Programs that this process starts, and how long it sleeps at a time; an audit hook stays for good."""

    def __init__(self) -> None:
        self.on = False
        self.programs: list[str] = []
        self.sleeps: list[float] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.on and event == "subprocess.Popen":
            self.programs.append(_program(list(map(str, args[1]))))
        elif self.on and event == "time.sleep":
            self.sleeps.append(float(args[0]))

    @contextmanager
    def during(self) -> Iterator[None]:
        self.on, self.programs, self.sleeps = True, [], []
        try:
            yield
        finally:
            self.on = False


def _program(argv: list[str]) -> str:
    for words, count in _BEFORE:
        if " ".join(argv).startswith(f"{words} "):
            argv = argv[count:]
    return Path(argv[0]).name


@pytest.fixture(autouse=True)
def short_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """EAL has sockets in the forwarder's folder, whose paths have a limit."""
    with tempfile.TemporaryDirectory(prefix="xdt-") as folder:
        monkeypatch.setenv("XDPLAB_STATE", folder)
        yield


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


def test_the_program_behind_what_starts_it_is_named() -> None:
    argv = ["taskset", "--cpu-list", "0", "setpriv", "--pdeathsig", "TERM", "/usr/sbin/ovsdb-server", "conf.db"]
    assert [_program(argv), _program(["ip", "link", "show"])] == ["ovsdb-server", "ip"]


@pytest.mark.slow
def test_a_repetition_starts_its_forwarder_and_little_else_and_sleeps_for_no_fixed_time(
    results: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tester, no command that a question to the kernel, to a socket or to the database can do."""
    found: dict[str, list[tuple[list[str], list[float]]]] = {}
    parts: dict[int, tuple[list[str], list[float]]] = {}

    def watched(name: str) -> None:
        """A part of a repetition: others are begun, or take a turn, between two of one."""
        part = getattr(PointSession, name)

        def heard(self: PointSession, *args: Any) -> Any:
            programs, sleeps = parts.setdefault(id(self), ([], []))
            with watch.during():
                try:
                    return part(self, *args)
                finally:
                    programs += watch.programs
                    sleeps += watch.sleeps
                    if name == "end":
                        found.setdefault(self.point.forwarder.name, []).append(parts.pop(id(self)))

        monkeypatch.setattr(PointSession, name, heard)

    for name in ("begin", "step", "end"):
        watched(name)
    method = {"name": "latency", "duration_s": 0.1, "light_pps": 1000, "light_duration_s": 0.1, "warmup_s": 0.05}
    study = studies.study(
        testbed="embedded", tester="quick", forwarders=list(PROGRAMS), method=method, repetitions=2,
    )  # fmt: skip
    with ConsoleListener() as listener:
        folder, outcome = app.run_study(app.prepare(study), listener, results)
    assert outcome.error is None
    assert [trial.reason for trial in folder.trials() if trial.status in ("failed", "unsupported")] == []
    assert {name: len(visits) for name, visits in found.items()} == dict.fromkeys(PROGRAMS, 2)
    assert {name: visits[1][0] for name, visits in found.items()} == PROGRAMS
    testers = [program for visits in found.values() for programs, _ in visits for program in programs]
    assert testers.count("xdpgen") == len(PROGRAMS)  # each that stands beside others has one, in both rounds
    longest = {
        name: max((sleep for _, sleeps in visits for sleep in sleeps), default=0.0) for name, visits in found.items()
    }
    assert {name: sleep for name, sleep in longest.items() if sleep > POLL_S} == {}
