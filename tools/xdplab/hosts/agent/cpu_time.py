# SPDX-License-Identifier: Apache-2.0
"""What the threads of this machine have used so far: exact sums of the scheduler, no samples of a timer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: Threads of the kernel that carry frames.
_CARRIERS = ("ksoftirqd/", "napi/", "irq/")
_KTHREADD = 2
#: Of each thread of the kernel, as long as it is there at each look: to read them all takes longer than all else.
_names: dict[str, str] = {}


class CpuTimes(NamedTuple):
    """In ns, since each thread began.

    The scheduler counts the time of a thread when it leaves its CPU and at its tick, so that of a running one is up to
    a tick (1 to 10 ms) old. Softirqs on top of a thread are part of its time, but where the kernel has
    CONFIG_IRQ_TIME_ACCOUNTING; stolen time is not.
    """

    #: Thread id -> time on a CPU, of the processes asked for and of those in sessions that they lead.
    own: dict[int, int]
    #: Of threads of the kernel that carry frames.
    kernel: dict[int, int]
    #: Of all others; empty where nobody asked for them.
    others: dict[int, int]


def cpu_times(pids: Sequence[int], others: bool) -> CpuTimes:
    """Of now; what ends meanwhile is left out."""
    found = CpuTimes({}, {}, {})
    of_kernel = _kernel_threads()
    for gone in _names.keys() - of_kernel:
        del _names[gone]
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            if name in of_kernel:
                if name not in _names:
                    _names[name] = _read(f"/proc/{name}/comm")
                group = found.kernel if _names[name].startswith(_CARRIERS) else found.others
            else:
                group = found.own if int(name) in pids or _session(name) in pids else found.others
        except OSError:
            continue
        if group is not found.others or others:
            group.update(_threads(name))
    return found


def _kernel_threads() -> frozenset[str]:
    """Process ids, of which most are: one file has them all."""
    try:
        return frozenset(_read(f"/proc/{_KTHREADD}/task/{_KTHREADD}/children").split())
    except OSError:  # no CONFIG_PROC_CHILDREN, or a PID namespace, in which there are none
        return frozenset(name for name in os.listdir("/proc") if name.isdecimal() and _parent(name) == _KTHREADD)


def _parent(pid: str) -> int | None:
    try:
        return int(_stat(pid)[1])
    except OSError:
        return None


def _session(pid: str) -> int:
    return int(_stat(pid)[3])


def _stat(pid: str) -> list[str]:
    """Fields behind the name, state first (proc_pid_stat(5))."""
    text = _read(f"/proc/{pid}/stat")
    return text[text.rindex(")") + 2 :].split()


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _threads(pid: str) -> Iterator[tuple[int, int]]:
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for tid in tids:
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf-8") as file:
                yield int(tid), int(file.read().split()[0])
        except OSError:
            continue
