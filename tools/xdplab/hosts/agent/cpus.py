# SPDX-License-Identifier: Apache-2.0
"""A lock on each CPU and interface of a testbed, which every xdplab of the machine sees, whatever its folders are.

It is an flock(2) on its folder in /sys: nothing has to be made or removed, and the kernel gives it back when its
holder ends. A network namespace with an sshd of its own has a /sys of its own too, and counts as a machine.
"""

from __future__ import annotations

import fcntl
import os
import re
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Name = TypeVar("Name", int, str)
CPU, INTERFACE = "/sys/devices/system/cpu/cpu{}", "/sys/class/net/{}"


class Held(Generic[Name]):
    """CPUs or interfaces that this process holds; `folder` is where in /sys one of a name is."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._held: dict[Name, int] = {}

    def hold(self, names: Iterable[Name]) -> tuple[Name, int] | None:
        """Take them, all or none; else the first that somebody else holds, and that process (0: of another container).

        Those that this object holds already stay so.

        Raises:
            OSError: one is not there.
        """
        new: dict[Name, int] = {}
        try:
            # in one order everywhere: of two that compete, one gets all
            for name in sorted(set(names) - set(self._held)):
                new[name] = os.open(self._folder.format(name), os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(new[name], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return name, holder(new[name])
            self._held.update(new)
            new = {}
        finally:
            _close(new)
        return None

    def __contains__(self, name: Name) -> bool:
        return name in self._held

    def release(self) -> None:
        """Give all of them back; safe to call twice."""
        _close(self._held)
        self._held = {}


def _close(fds: dict[Name, int]) -> None:
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
