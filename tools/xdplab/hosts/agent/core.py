# SPDX-License-Identifier: Apache-2.0
"""Requests in, replies out: one controller at a time, each request once."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import struct
import sys
import threading
import time
from typing import Any

from xdplab.hosts.agent.operations import OPERATIONS, Refused
from xdplab.hosts.agent.processes import Processes

#: How long the agent waits for its first controller; later it is as the controller says.
_FIRST_LEASE_S = 10.0
#: A reply that the connection does not take for this long is kept for the next connection.
_SEND_TIMEOUT_S = 5


class Agent:
    """Each request has a thread of its own; all of them may run at once."""

    def __init__(self, folder: str) -> None:
        self._lease_s = _FIRST_LEASE_S
        self._instance = secrets.token_hex(8)
        self._cpus = sorted(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._processes = Processes(folder)
        self._controller = self._session = self._label = ""
        self._connection: socket.socket | None = None
        #: When the controller was heard last: a network that falls silent does not close its connection.
        self._heard_at = time.monotonic()
        self._ended = False
        #: A byte through it ends the wait for a connection. Shutting the listener down does not: an accept that may not
        #: wait says EAGAIN then, poll says ready, and Python asks both in turn until its timeout.
        self._waker, self._woken = socket.socketpair()
        #: Request -> its reply, None while it is being carried out; gone once acknowledged. Of this session: a request
        #: of an earlier one that ends late finds that these are not its own.
        self._replies: dict[int, str | None] = {}

    def serve(self, listener: socket.socket) -> None:
        """Take connections until nobody has been heard for as long as the lease."""
        listener.setblocking(False)
        while True:
            ready, _, _ = select.select([listener, self._woken], [], [], min(5.0, self._lease_s / 4))
            if listener in ready:
                with contextlib.suppress(OSError):  # who came is gone again
                    connection, _ = listener.accept()
                    threading.Thread(target=self._listen, args=(connection,), daemon=True).start()
                continue
            if ready:
                self._woken.recv(1)
            self._processes.reap()
            if self._left():
                self._processes.end_all()
                return

    def _left(self) -> bool:
        silent_s = time.monotonic() - self._heard_at
        return silent_s > self._lease_s or (self._ended and self._connection is None)

    def _listen(self, connection: socket.socket) -> None:
        """Read the requests of one connection; the first must be `hello`."""
        greeted = False
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT_S, 0))
        with (
            contextlib.suppress(OSError, ValueError, KeyError, TypeError),
            connection,
            connection.makefile("rb") as lines,
        ):
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # cut off in the middle: it will be repeated
                request = json.loads(line)
                if greeted:
                    self._take(connection, request)
                elif self._greet(connection, request):
                    greeted = True
                else:
                    break
        with self._lock:
            if self._connection is connection:
                self._connection = None
                if self._ended:
                    self._waker.send(b"e")

    def _greet(self, connection: socket.socket, hello: dict[str, Any]) -> bool:
        """Let a controller in, unless another one is using this host.

        A controller holds the lock of its testbed, so a new session of the same one means that the old one is dead:
        what that left running is ended.
        """
        answer: dict[str, Any] = {}
        with self._lock:
            if self._controller not in ("", hello["controller"]) and not self._left():
                answer["error"] = f"in use by {self._label}"
            elif hello["session"] != self._session:
                answer["ended"] = self._processes.end_all()
                self._replies = {}
                self._controller, self._session, self._label = hello["controller"], hello["session"], hello["label"]
            if "error" not in answer:
                self._lease_s, self._heard_at = float(hello["lease_s"]), time.monotonic()
                before, self._connection = self._connection, connection
                if before is not None:
                    with contextlib.suppress(OSError):
                        before.shutdown(socket.SHUT_RDWR)
                answer.update(self._facts())
            connection.sendall((json.dumps(answer) + "\n").encode())
        return "error" not in answer

    def _facts(self) -> dict[str, Any]:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
        return {
            "agent": self._instance,
            "pid": os.getpid(),
            "uid": os.geteuid(),
            "boot_id": boot_id,
            "netns": os.readlink("/proc/self/ns/net"),
            "python": sys.executable,
            "cpus": self._cpus,
        }

    def _take(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Carry a request out once, however often it comes; `beat` only says that the controller is there."""
        with self._lock:
            if connection is not self._connection:
                return  # it was made anew meanwhile: its session repeats what has no reply
            self._heard_at = time.monotonic()
            if request["op"] == "beat":
                return
            number, replies = request["id"], self._replies
            for done in request.get("ack", ()):
                replies.pop(done, None)
            if number in replies:
                kept = replies[number]
                if kept is not None:
                    self._send(kept)
                return
            replies[number] = None
        threading.Thread(target=self._carry_out, args=(number, request, replies), daemon=True).start()

    def _carry_out(self, number: int, request: dict[str, Any], replies: dict[int, str | None]) -> None:
        try:
            operation = OPERATIONS.get(request["op"])
            if operation is None:
                raise Refused(f"unknown operation {request['op']!r}")
            reply = {"id": number, "ok": operation(self._processes, request)}
        except Refused as exc:
            reply = {"id": number, "error": str(exc), "kind": exc.kind}
        except OSError as exc:
            reply = {"id": number, "error": f"{exc.filename or 'system call'}: {exc.strerror}", "kind": "error"}
        except Exception as exc:  # a request must never end the agent
            reply = {"id": number, "error": f"{type(exc).__name__}: {exc}", "kind": "error"}
        text = json.dumps(reply) + "\n"
        with self._lock:
            if replies is not self._replies:
                return  # the session that asked is over
            if number in replies:
                replies[number] = text
            if request["op"] == "end":
                self._ended = True  # as soon as the other side, having this reply, hangs up
            self._send(text)

    def _send(self, text: str) -> None:
        """To whoever is connected; a reply that does not arrive is asked for again."""
        if self._connection is not None:
            try:
                self._connection.sendall(text.encode())
            except OSError:  # half a reply may be on its way: nothing may follow it
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
