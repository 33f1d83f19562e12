# SPDX-License-Identifier: Apache-2.0
"""The processes below the agent, also those whose parents are gone: collected, and ended with everything below them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdplab.hosts.agent.machine import Machine

#: In the environment of each process that an agent starts: the agent's folder, and which file its lock is.
MARK = "AGENT_OF_XDPLAB"

#: How long processes have between SIGTERM and SIGKILL, in s.
_GRACE_S = 3.0


def end_all() -> list[str]:
    """End everything below this process; the names of what was still alive. No child may be made meanwhile."""
    return _end(descendants)


def end_strays() -> list[str]:
    """End what an agent started that had this one's mark, and was killed before it could end anything; the names."""
    return _end(lambda: _marked(f"{MARK}={os.environ[MARK]}".encode()))


def _marked(mark: bytes) -> list[int]:
    """Processes that have this in their environment, without this one; those of other users only as root."""
    found = []
    for pid in map(int, filter(str.isdecimal, _names("/proc"))):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if pid != os.getpid() and mark in file.read().split(b"\0"):
                found.append(pid)
    return found


def _end(which: Callable[[], list[int]]) -> list[str]:
    names: list[str] = []
    deadline = time.monotonic() + _GRACE_S
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        alive = [pid for pid in which() if _state(pid) not in ("Z", "")]
        if not alive or time.monotonic() > deadline + _GRACE_S:
            return names
        names = names or [_comm(pid) for pid in alive]
        number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        time.sleep(0.02)


def reap(machine: Machine) -> None:
    """Collect orphans that have ended; what the machine started is collected by the caller that waits for it."""
    with machine.forking:
        for pid in descendants():
            if pid not in machine.children and _state(pid) == "Z":
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)


def descendants(*pids: int) -> list[int]:
    """Every process below those, or below this one."""
    found: list[int] = []
    queue = list(pids) or [os.getpid()]
    while queue:
        pid = queue.pop()
        for task in _names(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                children = [int(child) for child in file.read().split()]
                found += children
                queue += children
    return found


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
