# SPDX-License-Identifier: Apache-2.0
"""A process on this machine that is spoken to line by line: a line to its standard input, a line from its output."""

import contextlib
import os
import select
import subprocess
import time
from pathlib import Path

from xdplab.hosts.local import LocalHost, LocalProcess
from xdplab.model import MissingProgram, XdplabError


class LineProcess(LocalProcess):
    """Lines in both directions, with time-outs; what it writes on stderr goes to its log."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        super().__init__(popen, log)
        assert popen.stdin is not None
        assert popen.stdout is not None
        self._in, self._out = popen.stdin, popen.stdout
        os.set_blocking(self._out.fileno(), False)
        self._pending = b""

    def send(self, line: str) -> None:
        """Write one line.

        Raises:
            XdplabError: the process no longer reads.
        """
        try:
            self._in.write(line.encode() + b"\n")
            self._in.flush()
        except OSError as exc:
            raise XdplabError(f"process {self.pid}: {exc.strerror}") from None

    def receive(self, timeout_s: float) -> str | None:
        """The next line, or None when none came within `timeout_s`.

        Raises:
            EOFError: its output is closed.
        """
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            read = os.read(self._out.fileno(), 1 << 16)
            if not read:
                raise EOFError
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode(errors="replace")

    def stop(self, grace_s: float = 3.0) -> int:
        """Close its input, which asks it to end; then as any other process."""
        with contextlib.suppress(OSError):
            self._in.close()
        if self.wait(grace_s) is None:
            super().stop(grace_s)
        self._out.close()
        code = self.poll()
        assert code is not None
        return code


def converse(host: LocalHost, argv: list[str], *, log: Path) -> LineProcess:
    """Start a command on this machine, or in a namespace of it, and keep both of its ends; it dies with its parent.

    Raises:
        MissingProgram: the program is not there.
    """
    full = ["setpriv", "--pdeathsig", "TERM", *host.prefix, *argv]
    try:
        with log.open("wb") as err:
            popen = subprocess.Popen(
                full,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                start_new_session=True,
            )
    except FileNotFoundError:
        raise MissingProgram(f"{host.name}: program {full[0]!r} not found; `ci/setup` installs it") from None
    return LineProcess(popen, log)
