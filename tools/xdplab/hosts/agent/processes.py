# SPDX-License-Identifier: Apache-2.0
"""The processes below the agent: started, adopted when they are orphaned, and ended with everything below them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from xdplab.hosts.agent.cpus import HeldCpus
from xdplab.hosts.agent.lines import Lines

#: How long processes have between SIGTERM and SIGKILL when the agent ends them, in s.
_GRACE_S = 3.0


class Processes:
    """What was started, by process id, and commands that are being run, by request; and the CPUs that are theirs."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.started: dict[int, subprocess.Popen[bytes]] = {}
        self.running: dict[int, subprocess.Popen[str]] = {}
        #: Both ends of those that are spoken to.
        self.lines: dict[int, Lines] = {}
        self.cpus = HeldCpus()

    def end_all(self) -> list[str]:
        """End everything that was started here, and give its CPUs back; returns the names of what was still alive."""
        names: list[str] = []
        deadline = time.monotonic() + _GRACE_S
        while True:
            self.reap()
            alive = [pid for pid in descendants() if _state(pid) not in ("Z", "")]
            if not alive or time.monotonic() > deadline + _GRACE_S:
                self.started.clear()
                self.lines.clear()
                self.cpus.release()
                return names
            names = names or [_comm(pid) for pid in alive]
            number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
            for pid in alive:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            time.sleep(0.02)

    def reap(self) -> None:
        """Collect what has ended: our own by their objects, orphans that the agent adopted directly."""
        own = {process.pid for process in list(self.running.values())} | set(self.started)
        for process in list(self.started.values()):
            process.poll()
        for pid in descendants():
            if pid not in own and _state(pid) == "Z":
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)


def descendants() -> list[int]:
    """Every process below this one."""
    found: list[int] = []
    queue = [os.getpid()]
    while queue:
        pid = queue.pop()
        for task in _names(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                children = [int(child) for child in file.read().split()]
                found += children
                queue += children
    return found


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process that leads a session of its own, and its children."""
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _state(pid: int) -> str:
    """`Z` for one that has ended and waits to be collected; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _comm(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
