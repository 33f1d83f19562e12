# SPDX-License-Identifier: Apache-2.0
"""What the threads of this machine have used so far: exact sums of the scheduler, no samples of a timer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: Threads of the kernel that carry frames.
_CARRIERS = ("ksoftirqd/", "napi/", "irq/")
_KTHREADD = 2
#: Process id -> name of each thread of the kernel, forgotten when it is gone: reading `stat` of all takes 3 ms.
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
    for gone in _names.keys() - _kernel_threads():
        del _names[gone]
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            parent, session, comm = (_KTHREADD, 0, _names[name]) if name in _names else _identity(name)
        except OSError:
            continue
        if parent == _KTHREADD:
            _names[name] = comm
            group = found.kernel if comm.startswith(_CARRIERS) else found.others
        else:
            group = found.own if int(name) in pids or session in pids else found.others
        if group is not found.others or others:
            group.update(_threads(name))
    return found


def _kernel_threads() -> set[str]:
    """Their process ids; none where the kernel has no CONFIG_PROC_CHILDREN, and each is asked for its parent."""
    try:
        with open(f"/proc/{_KTHREADD}/task/{_KTHREADD}/children", encoding="ascii") as file:
            return set(file.read().split())
    except OSError:
        return set()


def _identity(pid: str) -> tuple[int, int, str]:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        text = file.read()
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), int(fields[3]), text[text.index("(") + 1 : text.rindex(")")]


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
