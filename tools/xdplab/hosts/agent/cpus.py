# SPDX-License-Identifier: Apache-2.0
"""A lock on each CPU that a testbed measures on, which every xdplab of the machine sees, whatever its folders are.

It is an flock(2) on the CPU's folder in /sys: nothing has to be made or removed, and the kernel gives it back when its
holder ends. A network namespace with an sshd of its own has a /sys of its own too, and counts as a machine.
"""

from __future__ import annotations

import fcntl
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class HeldCpus:
    """The CPUs that this process holds."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}

    def hold(self, cpus: Iterable[int]) -> tuple[int, int] | None:
        """Take them, all or none; else the first that somebody else holds, and that process (0: of another container).

        Those that this object holds already stay so.

        Raises:
            OSError: there is no such CPU.
        """
        new: dict[int, int] = {}
        try:
            # in one order everywhere: of two that compete, one gets all
            for cpu in sorted(set(cpus) - set(self._held)):
                new[cpu] = os.open(f"/sys/devices/system/cpu/cpu{cpu}", os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(new[cpu], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return cpu, holder(new[cpu])
            self._held.update(new)
            new = {}
        finally:
            _close(new)
        return None

    def release(self) -> None:
        """Give all of them back; safe to call twice."""
        _close(self._held)
        self._held = {}


def _close(fds: dict[int, int]) -> None:
    for fd in fds.values():
        os.close(fd)


def holder(fd: int) -> int:
    """The process that holds the lock on an open file (proc_locks(5)); 0 when it is not to be seen from here."""
    found = os.fstat(fd)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with open("/proc/locks", encoding="ascii") as lines:
        for line in lines:
            match = re.match(rf"\d+: FLOCK +ADVISORY +WRITE (\d+) {file} ", line)
            if match:
                return int(match.group(1))
    return 0
