# SPDX-License-Identifier: Apache-2.0
"""A process that puts back what a run changed if the run is killed (SIGKILL, out of memory): nobody stays frozen."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from xdplab.hosts.signals import deferred, giving_up
from xdplab.model import TestbedSpec, XdplabError

#: Its input ends when the run does; a small interpreter waits for that, and becomes `xdplab restore` only then.
_WAIT = (
    "import os, sys\n"
    "os.read(0, 1)\n"
    "os.write(2, b'xdplab: the run was killed; what it changed is being put back\\n')\n"
    "os.dup2(2, 1)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
_RESTORE = "from xdplab.cli import main; main()"


@contextmanager
def guarded(testbed: TestbedSpec) -> Iterator[None]:
    """Within: if this process is killed, `xdplab restore` runs for the testbed, in a session of its own.

    A run that is told three times to end has been told not to put things back, and neither is it here.

    Raises:
        XdplabError: the process cannot be started.
    """
    if testbed.kind == "fake" or not testbed.file:  # there is nothing to put back, or no name for it
        yield
        return
    restore = [sys.executable, "-c", _RESTORE, "restore", "--testbed", testbed.file]
    waiting: subprocess.Popen[bytes] | None = None
    try:
        with deferred():
            waiting = _started([sys.executable, "-I", "-S", "-c", _WAIT, *restore])
        with giving_up(waiting.kill):
            yield
    finally:
        if waiting is not None:
            waiting.kill()
            waiting.communicate()


def _started(argv: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError as exc:
        raise XdplabError(f"the process that restores after kill -9 cannot be started: {exc.strerror}") from None
