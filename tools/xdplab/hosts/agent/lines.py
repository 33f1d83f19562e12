# SPDX-License-Identifier: Apache-2.0
"""A process that is spoken to line by line: a line to its standard input, a line from its output."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


#: Of a line, which is part of an answer of the agent (`serve.ANSWER_BYTES`).
LONGEST = 30 << 20


class Lines:
    """Both ends of one, which are pipes, with time-outs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._pending = bytearray()
        self._searched = 0

    def send(self, line: str) -> None:
        """Write one line, which is lost where the process no longer reads.

        `receive` then raises EOFError if the process has ended, and returns None at its time-out if it has not.
        """
        if self._in.closed:
            return
        try:
            self._in.write(line.encode() + b"\n")
            self._in.flush()
        except BrokenPipeError:
            self.hang_up()

    def receive(self, timeout_s: float) -> str | None:
        """The next line, or None when none came within `timeout_s`.

        Raises:
            EOFError: its output is closed.
        """
        deadline = time.monotonic() + timeout_s
        while (end := self._pending.find(b"\n", self._searched)) < 0:
            self._searched = len(self._pending)  # a line of a megabyte is not searched again for each pipe full of it
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            read = os.read(self._out.fileno(), 1 << 16)
            if not read:
                raise EOFError
            self._pending += read
            if len(self._pending) > LONGEST:
                raise OSError(f"a line of more than {LONGEST >> 20} MiB")
        line = self._pending[:end].decode(errors="replace")
        del self._pending[: end + 1]
        self._searched = 0
        return line

    def hang_up(self) -> None:
        """Close its input, which asks most programs to end."""
        with contextlib.suppress(OSError):  # a line was still on its way
            self._in.close()

    def close(self) -> None:
        self.hang_up()
        self._out.close()
