# SPDX-License-Identifier: Apache-2.0
"""How a program is spoken to: line by line through its pipes, or by requests to its Unix socket."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

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


# Requests to a Unix socket: JSON-RPC 1.0 (ovs-appctl(8), RFC 7047 section 4), or any bytes. In both, objects follow
# each other with nothing in between.


def ask(path: str, method: str, params: list[Any], timeout_s: float) -> Any:
    """The result.

    Raises:
        OSError: nobody listens there, no answer came in time, an error is the answer, or it is no answer.
    """
    with _connected(path, timeout_s) as sock:
        sock.sendall(json.dumps({"id": 0, "method": method, "params": params}).encode())
        reply = _reply(sock)
    if reply.get("error") is not None:
        raise OSError(str(reply["error"]))
    return reply.get("result")


def exchange(path: str, data: bytes, until: bytes, timeout_s: float) -> bytes:
    """All that a program answers to these bytes, up to an end of it that is known before.

    Raises:
        OSError: nobody listens there, it hung up, or the end did not come in time.
    """
    got = b""
    with _connected(path, timeout_s) as sock:
        sock.sendall(data)
        while not got.endswith(until):
            read = sock.recv(1 << 16)
            if not read:
                raise ConnectionError("it hung up")
            got += read
    return got


@contextlib.contextmanager
def _connected(path: str, timeout_s: float) -> Iterator[socket.socket]:
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout_s)
            # an address has room for 107 bytes, a path has no such limit
            sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            yield sock
    finally:
        os.close(folder)


def _reply(sock: socket.socket) -> dict[str, Any]:
    text = b""
    while True:
        read = sock.recv(1 << 16)
        if not read:
            raise ConnectionError("it hung up")
        text += read
        if not text.rstrip().endswith(b"}"):
            continue
        try:
            reply = json.loads(text)
        except ValueError:
            continue  # the object goes on
        if not isinstance(reply, dict):
            raise OSError("no object came")
        return reply
