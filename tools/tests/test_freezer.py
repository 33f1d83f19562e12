# SPDX-License-Identifier: Apache-2.0
"""Where cgroups with a freezer are made, and how they are frozen, thawed and removed: on a tree that does as a kernel.

test_root_turns.py does it for real.
"""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from xdplab.hosts import freezer
from xdplab.hosts.freezer import Freezer, folders, remove
from xdplab.model import PointFailed, XdplabError

NETNS = "xdplab-0000-B"


class Kernel:
    """Cgroups of a folder, and the processes of a namespace."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        #: In the namespace, and what one of them forks when it is moved.
        self.pids: set[int] = {101, 102}
        self.forks: dict[int, int] = {}
        #: Signals that were sent, and what is written where.
        self.sent: list[tuple[int, int]] = []
        self.written: list[tuple[str, str]] = []
        #: Whether nothing freezes or dies, and whether nobody may be moved.
        self.stuck = self.forbidden = False
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(freezer, "_TIMEOUT_S", 0.01)
        monkeypatch.setattr(freezer, "processes_of", lambda netns: set(self.pids) if netns == NETNS else set())
        monkeypatch.setattr(freezer, "_write", self.write)
        monkeypatch.setattr(os, "kill", self.kill)
        monkeypatch.setattr(Path, "mkdir", self.made(Path.mkdir))
        monkeypatch.setattr(Path, "rmdir", lambda path: self.rmdir(path))

    def mount(self, *kinds: str) -> None:
        """Freezers of these versions are there."""
        mounts = []
        for kind in kinds:
            (self.folder / kind).mkdir()
            how = "cgroup2 cgroup2 rw" if kind == "v2" else "cgroup cgroup rw,freezer"
            mounts.append(f"30 20 0:30 / {self.folder / kind} rw,relatime shared:9 - {how}\n")
        found = folders(proc_self(self.folder, "0::/\n7:freezer:/\n", "".join(mounts)))
        self.monkeypatch.setattr(freezer, "folders", lambda: found)

    def made(self, mkdir: Callable[..., None]) -> Callable[..., None]:
        """With the files of its version."""

        def make(path: Path, **given: bool) -> None:
            mkdir(path, **given)
            kind = path.parent.name
            if kind in ("v1", "v2"):
                (path / "cgroup.procs").write_text("", encoding="ascii")
            if kind == "v2":
                (path / "cgroup.freeze").write_text("0\n", encoding="ascii")
                (path / "cgroup.events").write_text("populated 1\nfrozen 0\n", encoding="ascii")
            elif kind == "v1":
                (path / "freezer.state").write_text("THAWED\n", encoding="ascii")

        return make

    def write(self, path: Path, text: str) -> None:
        self.written.append((path.name, text))
        if path.name == "cgroup.procs":
            if self.forbidden:
                raise PermissionError(1, "Operation not permitted")
            if int(text) not in self.pids:
                raise ProcessLookupError(3, "No such process")
            if child := self.forks.pop(int(text), None):
                self.pids.add(child)
            path.write_text(path.read_text(encoding="ascii") + f"{text}\n", encoding="ascii")
        elif path.name == "cgroup.freeze":
            if not self.stuck:
                (path.parent / "cgroup.events").write_text(f"populated 1\nfrozen {text}\n", encoding="ascii")
        else:
            path.write_text("FREEZING\n" if self.stuck and text == "FROZEN" else f"{text}\n", encoding="ascii")

    def kill(self, pid: int, number: int) -> None:
        """Of a frozen cgroup of version 1 nobody ends."""
        self.sent.append((pid, number))
        if pid not in self.pids:
            raise ProcessLookupError
        if number == signal.SIGKILL and not self.stuck:
            self.pids.discard(pid)

    def rmdir(self, path: Path) -> None:
        """Only when it is empty and thawed."""
        thawed = not (path / "freezer.state").exists() or (path / "freezer.state").read_text() == "THAWED\n"
        inside = set(map(int, (path / "cgroup.procs").read_text().split()))
        if not thawed or inside & self.pids:
            raise OSError(16, "Device or resource busy")
        shutil.rmtree(path)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


@pytest.fixture
def remembered() -> list[str]:
    return []


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def made(remembered: list[str], notes: list[str]) -> Freezer:
    return Freezer([NETNS], remembered.append, notes.append)


def proc_self(folder: Path, cgroup: str, mountinfo: str) -> Path:
    (folder / "cgroup").write_text(cgroup, encoding="utf-8")
    (folder / "mountinfo").write_text(mountinfo, encoding="utf-8")
    return folder


def words(kernel: Kernel, file: str) -> list[str]:
    return [text for name, text in kernel.written if name == file]


@pytest.mark.parametrize(
    ("kind", "file", "asked"), [("v2", "cgroup.freeze", ["1", "0"]), ("v1", "freezer.state", ["FROZEN", "THAWED"])]
)
def test_a_cgroup_is_frozen_and_thawed(
    kernel: Kernel, made: Freezer, remembered: list[str], notes: list[str], kind: str, file: str, asked: list[str]
) -> None:
    kernel.mount(kind)
    kernel.forks = {101: 103}  # while it was moved
    cgroup = kernel.folder / kind / NETNS
    for turn in (1, 2):
        made.freeze()
        assert freezer.members(cgroup) == kernel.pids
        made.thaw()
        assert words(kernel, file) == asked * turn
        kernel.pids.add(104)  # of a later start
    assert remembered == [str(cgroup)]
    assert sorted(words(kernel, "cgroup.procs")) == ["101", "102", "103", "104"]  # each once
    assert (notes, kernel.sent) == ([], [])


def test_one_that_has_ended_is_left_out(kernel: Kernel, made: Freezer, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.mount("v2")
    looks = iter([{101, 199}, {101}])
    monkeypatch.setattr(freezer, "processes_of", lambda _: next(looks, {101}))
    made.freeze()
    assert freezer.members(kernel.folder / "v2" / NETNS) == {101}


def test_what_is_forked_before_its_parent_has_stopped_is_stopped_too(
    kernel: Kernel, made: Freezer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.mount()
    looks = iter([{101, 102}, {101, 102, 103}])
    monkeypatch.setattr(freezer, "processes_of", lambda _: next(looks, {101, 102, 103}))
    made.freeze()
    made.thaw()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        assert [pid for pid, sent in kernel.sent if sent == number] == [101, 102, 103]


@pytest.mark.parametrize("mounted", [(), ("v2",)], ids=["none", "forbidden"])
def test_without_a_freezer_it_is_signals(kernel: Kernel, made: Freezer, notes: list[str], mounted: tuple[str]) -> None:
    kernel.mount(*mounted)
    kernel.forbidden = True
    for _ in range(2):
        kernel.sent.clear()
        made.freeze()
        kernel.pids.add(103)  # nobody stopped it
        made.thaw()
        kernel.pids.discard(103)
        sent = [(pid, number) for number in (signal.SIGSTOP, signal.SIGCONT) for pid in (101, 102)]
        assert kernel.sent == sent
    reason = f"{kernel.folder / 'v2'}: Operation not permitted" if mounted else "no cgroup freezer is mounted"
    assert notes == [f"forwarders that are not in turn are stopped by SIGSTOP: {reason}"]
    assert not (kernel.folder / "v2" / NETNS).exists()


def test_the_next_freezer_is_taken_where_the_first_is_none(
    kernel: Kernel, made: Freezer, remembered: list[str], notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.mount("v2", "v1")
    write = kernel.write

    def refused(path: Path, text: str) -> None:
        kernel.forbidden = path.parent.parent.name == "v2"
        write(path, text)

    monkeypatch.setattr(freezer, "_write", refused)
    made.freeze()
    assert remembered == [str(kernel.folder / kind / NETNS) for kind in ("v2", "v1")]
    assert words(kernel, "freezer.state") == ["FROZEN"]
    assert (notes, (kernel.folder / "v2" / NETNS).exists()) == ([], False)


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_what_does_not_freeze_is_said(kernel: Kernel, made: Freezer, kind: str) -> None:
    kernel.mount(kind)
    kernel.stuck = True
    with pytest.raises(PointFailed, match=r"(frozen 1|FROZEN): timed out after"):
        made.freeze()
    kernel.stuck = False
    made.thaw()


def test_freeze_without_wait_returns_before_processes_are_frozen(kernel: Kernel, made: Freezer) -> None:
    kernel.mount("v2")
    kernel.stuck = True  # one of another cgroup has the CPU
    made.freeze(wait=False)
    assert words(kernel, "cgroup.freeze") == ["1"]
    kernel.stuck = False
    made.freeze()
    made.thaw()


def test_a_cgroup_that_somebody_removed_fails_its_point_only(kernel: Kernel, made: Freezer) -> None:
    kernel.mount("v2")
    made.freeze()
    shutil.rmtree(kernel.folder / "v2" / NETNS)
    for ask in (made.freeze, made.thaw):
        with pytest.raises(PointFailed, match=f"{NETNS}: "):
            ask()


@pytest.mark.parametrize("kind", ["v1", "v2"])
def test_what_a_killed_run_left_frozen_is_ended(
    kernel: Kernel, made: Freezer, remembered: list[str], kind: str
) -> None:
    kernel.mount(kind)
    made.freeze()
    for _ in range(2):
        remove(Path(remembered[0]))
        assert not Path(remembered[0]).exists()
        assert kernel.pids == set()
    assert kernel.sent == [(101, signal.SIGKILL), (102, signal.SIGKILL)]


def test_a_cgroup_that_stays_is_said(kernel: Kernel, made: Freezer, remembered: list[str]) -> None:
    kernel.mount("v2")
    made.freeze()
    kernel.stuck = True
    with pytest.raises(XdplabError, match=r"xdplab-0000-B is still there; `cat .*/cgroup.procs` says what runs in it"):
        remove(Path(remembered[0]))


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "expected"),
    [
        pytest.param("0::/user/x\n", "30 20 0:3 / {at}/two rw - cgroup2 cgroup2 rw\n", ["two/user/x"], id="below-own"),
        pytest.param(
            "7:freezer:/docker/a\n0::/docker/a\n",
            "30 20 0:3 /docker/a {at}/one rw - cgroup cgroup rw,freezer\n"
            "31 20 0:4 /docker/a {at}/two rw - cgroup2 cgroup2 rw\n",
            ["two", "one"],
            id="root-of-a-container",
        ),
        pytest.param("0::/a\n", "30 20 0:3 /b {at}/two rw - cgroup2 cgroup2 rw\n", [], id="of-others"),
        pytest.param(
            "7:cpu,freezer:/\n",
            "30 20 0:3 / {at}/one rw - cgroup cgroup rw,cpu,freezer\n",
            [],
            id="with-another-controller",
        ),
        pytest.param("8:memory:/\n", "30 20 0:3 / {at}/one rw - cgroup cgroup rw,memory\n", [], id="other-controller"),
        pytest.param("0::/\n", "30 20 0:3 / {at}/passing rw - cgroup2 cgroup2 rw\n", [], id="passes-controllers-on"),
        pytest.param("", "30 20 0:3 / / rw - ext4 /dev/vda rw\n", [], id="no-cgroups"),
    ],
)
def test_where_a_cgroup_is_made(tmp_path: Path, cgroup: str, mountinfo: str, expected: list[str]) -> None:
    for name, passed_on in (("two", "\n"), ("passing", "cpu cpuset\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.subtree_control").write_text(passed_on, encoding="ascii")
    found = folders(proc_self(tmp_path, cgroup, mountinfo.format(at=tmp_path)))
    assert list(found) == [tmp_path / each for each in expected]
