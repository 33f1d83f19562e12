# SPDX-License-Identifier: Apache-2.0
"""A forwarder's processes, asleep and awake together: in a cgroup that is frozen, else by SIGSTOP.

Both versions of cgroups do it (admin-guide/cgroup-v2.rst, cgroup-v1/freezer-subsystem.rst of the kernel's documents).
What a forwarder starts once it is in a cgroup is in it as well. Version 1 has no ear for SIGKILL while it is frozen.
"""

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from xdplab.hosts.agent.processes import descendants
from xdplab.hosts.waiting import comes_true, wait_until
from xdplab.model import PointFailed, XdplabError

#: How long it may take to freeze or to end what is in a cgroup: the kernel lets a system call come to its end first.
_TIMEOUT_S = 2.0
#: How often processes are looked for: the next look finds what those of this one fork meanwhile.
_LOOKS = 5
_PROCESSES = "cgroup.procs"
#: Version -> the file that asks, the file that tells, and what is written to one and a line of the other by then.
_CONTROLS: dict[str, tuple[str, str, dict[bool, tuple[str, str]]]] = {
    "v2": ("cgroup.freeze", "cgroup.events", {True: ("1", "frozen 1"), False: ("0", "frozen 0")}),
    "v1": ("freezer.state", "freezer.state", {True: ("FROZEN", "FROZEN"), False: ("THAWED", "THAWED")}),
}


class Freezer:
    """Of the processes in network namespaces and of all below them, whatever namespace those have gone to.

    They have one forwarder, and its database and helpers are there, too, whoever their parents are.
    """

    def __init__(self, netns: Sequence[str], remember: Callable[[str], None], tell: Callable[[str], None]) -> None:
        """Nothing is made before it is needed.

        Args:
            netns: names of the namespaces, the first of which is the cgroup's as well.
            remember: called with the path of a cgroup before it is made, for `remove`, also after kill -9.
            tell: called with the reason why there is none, when signals are sent in its place.
        """
        self._netns = netns
        self._remember = remember
        self._tell = tell
        self._cgroup: Path | None = None
        self._without_cgroup = False
        self._stopped: list[int] = []

    def freeze(self, *, wait: bool = True) -> None:
        """Returns when all are frozen; without `wait`, as soon as that is requested.

        A busy loop under SCHED_FIFO delays the freezing of other processes on its CPU until its own is requested.

        Raises:
            PointFailed: one cannot be stopped.
        """
        with self._named_errors():
            if self._cgroup is None and not self._without_cgroup:
                self._cgroup = self._made()
                self._without_cgroup = self._cgroup is None
            if self._cgroup is not None:
                self._gather(self._cgroup)
                _set(self._cgroup, frozen=True, wait=wait)
            else:
                self._stop()

    def thaw(self) -> None:
        """Returns when all may run.

        Raises:
            PointFailed: they may not.
        """
        with self._named_errors():
            if self._cgroup is not None:
                _set(self._cgroup, frozen=False)
        _send(self._stopped, signal.SIGCONT)
        self._stopped = []

    def _made(self) -> Path | None:
        """Its cgroup with its processes in it; None where no freezer takes them."""
        reasons = []
        for parent in folders():
            path = parent / self._netns[0]
            self._remember(str(path))
            try:
                path.mkdir(exist_ok=True)
                self._gather(path)
            except OSError as exc:
                reasons.append(f"{parent}: {exc.strerror}")
                with contextlib.suppress(OSError):
                    path.rmdir()
            else:
                return path
        why = "; ".join(reasons) or "no cgroup freezer is mounted"
        self._tell(f"forwarders that are not in turn are stopped by SIGSTOP: {why}")
        return None

    def _gather(self, cgroup: Path) -> None:
        """Move those that are not in it: all at first, which takes some 10 ms each; later what was started since."""
        for _ in range(_LOOKS):
            new = self._processes() - members(cgroup)
            if not new:
                return
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    _write(cgroup / _PROCESSES, str(pid))

    def _stop(self) -> None:
        for _ in range(_LOOKS):
            new = self._processes().difference(self._stopped)
            if not new:
                return
            self._stopped.extend(new)
            _send(new, signal.SIGSTOP)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise PointFailed(f"{self._cgroup or self._netns[0]}: {exc.strerror}") from None

    def _processes(self) -> set[int]:
        return set().union(*map(processes_of, self._netns))


def folders(proc: Path = Path("/proc/self")) -> Iterator[Path]:
    """Where cgroups with a freezer can be made: below our own cgroup, whose limits they keep; version 2 first.

    Not where other controllers would come along, which change how CPUs are shared or which are allowed.
    """
    cgroups = (proc / "cgroup").read_text(encoding="utf-8")
    own = {name: Path(path) for name, path in re.findall(r"^\d+:(freezer|):(/.*)$", cgroups, re.MULTILINE)}
    mounts = [line.split() for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines()]
    for name, kind in (("", "cgroup2"), ("freezer", "cgroup")):
        for _, _, _, root, point, *_, fstype, _, options in mounts:
            if fstype == kind and name in ("", *options.split(",")) and name in own and own[name].is_relative_to(root):
                folder = Path(point) / own[name].relative_to(root)
                if not _passed_on(folder):
                    yield folder


def _passed_on(folder: Path) -> str:
    """Controllers that a cgroup of version 2 has passed on to those below it."""
    path = folder / "cgroup.subtree_control"
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def processes_of(netns: str) -> set[int]:
    """Those in a network namespace of this machine, and all below them."""
    there = Path("/run/netns", netns).stat().st_ino
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            if os.stat(f"/proc/{name}/ns/net").st_ino == there:
                found.add(int(name))
    return found.union(descendants(*found)) if found else found


def members(cgroup: Path) -> set[int]:
    """Processes in a cgroup; none in one that is not there."""
    try:
        pids = (cgroup / _PROCESSES).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return set()
    return set(map(int, pids)) - {0}  # of another PID namespace


def remove(cgroup: Path) -> None:
    """End what is in a cgroup, frozen or not, and remove it; nothing where there is none.

    Raises:
        XdplabError: it is still there.
    """

    def gone() -> bool:
        _send(members(cgroup), signal.SIGKILL)
        with contextlib.suppress(OSError):  # killed first: nothing runs again
            file, _, words = _control(cgroup)
            _write(cgroup / file, words[False][0])
        with contextlib.suppress(OSError):
            cgroup.rmdir()
        return not cgroup.is_dir()

    if not comes_true(gone, _TIMEOUT_S):
        raise XdplabError(f"{cgroup} is still there; `cat {cgroup / _PROCESSES}` says what runs in it")


def _control(cgroup: Path) -> tuple[str, str, dict[bool, tuple[str, str]]]:
    """Raises FileNotFoundError where it is gone."""
    for control in _CONTROLS.values():
        if (cgroup / control[0]).exists():
            return control
    raise FileNotFoundError(2, "there is no such cgroup", str(cgroup))


def _set(cgroup: Path, *, frozen: bool, wait: bool = True) -> None:
    file, seen, words = _control(cgroup)
    word, line = words[frozen]
    _write(cgroup / file, word)
    if not wait:
        return
    path = cgroup / seen
    wait_until(lambda: line in path.read_text(encoding="ascii").splitlines(), _TIMEOUT_S, f"{path}: {line}")


def _write(path: Path, text: str) -> None:
    """To a file that is there."""
    with path.open("rb+", buffering=0) as file:
        file.write(text.encode())


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # its crash is seen by its own turn
            os.kill(pid, number)
