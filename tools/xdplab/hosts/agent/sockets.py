# SPDX-License-Identifier: Apache-2.0
"""Requests to the Unix socket of a program: JSON-RPC 1.0, or any bytes.

Sources of the former: ovs-appctl(8), RFC 7047 section 4. In both, objects follow each other with nothing in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Refusal(Exception):
    """What a program answers a request with that it does not carry out."""


def ask(path: str, method: str, params: list[Any], timeout_s: float) -> Any:
    """The result.

    Raises:
        OSError: nobody listens there, or no answer came in time.
        Refusal: an error is the answer, or it is no answer.
    """
    with _connected(path, timeout_s) as sock:
        sock.sendall(json.dumps({"id": 0, "method": method, "params": params}).encode())
        reply = _reply(sock)
    if reply.get("error") is not None:
        raise Refusal(str(reply["error"]))
    return reply.get("result")


def exchange(path: str, data: bytes, until: bytes, timeout_s: float) -> bytes:
    """All that a program answers to these bytes, up to an end of it that is known before.

    Raises:
        OSError: nobody listens there, or the end did not come in time.
        Refusal: it hung up.
    """
    got = b""
    with _connected(path, timeout_s) as sock:
        sock.sendall(data)
        while not got.endswith(until):
            read = sock.recv(1 << 16)
            if not read:
                raise Refusal("it hung up")
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
            raise Refusal("it hung up")
        text += read
        if not text.rstrip().endswith(b"}"):
            continue
        try:
            reply = json.loads(text)
        except ValueError:
            continue  # the object goes on
        if not isinstance(reply, dict):
            raise Refusal("no object came")
        return reply
