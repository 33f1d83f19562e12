# SPDX-License-Identifier: Apache-2.0
"""A process that restores what a run changed if the run is killed (SIGKILL, out of memory) or crashes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from xdplab.hosts.signals import deferred, giving_up
from xdplab.model import TestbedSpec, XdplabError

#: A small interpreter whose input ends with the run, and which becomes `xdplab restore` only then. It ignores signals
#: that end a service or a terminal, and restores as well if its output is closed.
_WAIT = r"""
import os, signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.read(0, 1)
try:
    show_cursor = b"\x1b[?25h" if os.isatty(2) else b""
    os.write(2, show_cursor + b"\nxdplab: killed; what it changed is being restored\n")
except OSError:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
os.dup2(2, 1)
os.execv(sys.argv[1], sys.argv[1:])
"""
_RESTORE = "from xdplab.cli import main; main()"


@contextmanager
def guarded(testbed: TestbedSpec) -> Iterator[None]:
    """Within: if this process is killed or crashes, `xdplab restore` runs for the testbed, in a session of its own.

    After the third signal, which gives up, nothing is restored here either.

    Raises:
        XdplabError: the process cannot be started.
    """
    if testbed.kind == "fake" or not testbed.file:  # nothing to restore, or no name for it
        yield
        return
    restore = [sys.executable, "-P", "-c", _RESTORE, "restore", "--testbed", testbed.file]
    waiting: subprocess.Popen[bytes] | None = None
    try:
        with deferred():
            waiting = _started([sys.executable, "-I", "-S", "-c", _WAIT, *restore])
        with giving_up(waiting.kill):
            yield
    finally:
        if waiting is not None:
            with deferred():  # an interrupted run has restored everything, and its guardian must not do so again
                waiting.kill()
                waiting.communicate()


def _started(argv: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError as exc:
        raise XdplabError(f"the process that restores after kill -9 cannot be started: {exc.strerror}") from None
