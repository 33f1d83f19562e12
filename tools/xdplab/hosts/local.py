# SPDX-License-Identifier: Apache-2.0
"""This machine, in the current network namespace or in a named one."""

import ctypes
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from xdplab.hosts.agent.machine import Refused, failure
from xdplab.hosts.base import Host
from xdplab.tools import setup_command

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_RDONLY, _MS_REC, _MS_SLAVE, _MNT_DETACH = 1, 1 << 14, 1 << 19, 2
T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


class LocalHost(Host):
    """This machine: operations are carried out in this process."""

    def __init__(self, name: str = "local") -> None:
        super().__init__(name)

    @property
    def missing_hint(self) -> str:
        return f"; `{setup_command()}` installs it"

    @property
    def python(self) -> str:
        return sys.executable

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs that this process may run on."""
        return tuple(sorted(os.sched_getaffinity(0)))

    def program(self, path: Path) -> str:
        return str(path)

    def call(self, function: Callable[..., Any], *args: Any, **given: Any) -> Any:
        try:
            return function(self, *args, **given)
        except (OSError, Refused) as exc:
            raise self.error(*failure(exc)) from None


class NetnsHost(LocalHost):
    """A named network namespace of this machine: a thread of ours that is in it does what depends on it.

    As in `ip netns exec` that is a mount namespace of its own too, whose /sys is the namespace's.
    """

    def __init__(self, name: str, netns: str) -> None:
        super().__init__(name)
        self.netns = netns
        self._thread: ThreadPoolExecutor | None = None

    def within(self, function: Callable[..., T], *args: Any, **given: Any) -> T:
        """Call it in the namespace. What it starts is there too, and bound to the thread, which stays."""
        if self._thread is None:
            thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self.netns)
            try:
                thread.submit(_enter, self.netns).result()
            except BaseException:
                thread.shutdown()
                raise
            self._thread = thread
        return self._thread.submit(function, *args, **given).result()

    def close(self) -> None:
        """Leave the namespace, which ends once it is deleted and nobody is in it."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None


def _enter(netns: str) -> None:
    """Move the calling thread there (see netns_switch of iproute2)."""
    fd = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        _call("unshare", _CLONE_NEWNS)
        _call("mount", b"", b"/", b"none", _MS_SLAVE | _MS_REC, None)
        _call("setns", fd, _CLONE_NEWNET)
    finally:
        os.close(fd)
    flags = _MS_RDONLY if os.statvfs("/sys").f_flag & os.ST_RDONLY else 0
    _libc.umount2(b"/sys", _MNT_DETACH)
    _call("mount", netns.encode(), b"/sys", b"sysfs", flags, None)


def _call(name: str, *args: Any) -> None:
    if getattr(_libc, name)(*args):
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
