# SPDX-License-Identifier: Apache-2.0
"""A request over JSON-RPC 1.0 to the Unix socket of a program: the control sockets of Open vSwitch and its database.

Sources: ovs-appctl(8), RFC 7047 section 4. In both, objects follow each other without anything in between.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any


class Refusal(Exception):
    """What a program answers a request with that it does not carry out."""


def ask(path: str, method: str, params: list[Any], timeout_s: float) -> Any:
    """The result.

    Raises:
        OSError: nobody listens there, or no answer came in time.
        Refusal: an error is the answer, or it is no answer.
    """
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout_s)
            # an address has room for 107 bytes, a path has no such limit
            sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            sock.sendall(json.dumps({"id": 0, "method": method, "params": params}).encode())
            reply = _reply(sock)
    finally:
        os.close(folder)
    if reply.get("error") is not None:
        raise Refusal(str(reply["error"]))
    return reply.get("result")


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
