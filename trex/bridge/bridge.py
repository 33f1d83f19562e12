# SPDX-License-Identifier: Apache-2.0
"""Speaks to a TRex server for xdplab, in a process of its own: TRex's client brings its own scapy, zmq and yaml.

    python bridge.py LIBRARIES            LIBRARIES: the folder with TRex's Python package `trex`
    python bridge.py LIBRARIES --record FILE
    python bridge.py --replay FILE        answers from a record; needs no TRex

One request is one line of JSON on standard input, and has one line of JSON as reply on standard output:

    {"id": 1, "op": "hello"}                            -> {"id": 1, "ok": {"protocol": 1}}
    {"id": 2, "op": "connect", "server": ..., "sync_port": ..., "async_port": ..., "user": ..., "ports": [0, 1],
     "frame": HEX}                                      -> {"id": 2, "ok": {"version": ..., "drivers": [...]}}
    {"id": 2, "op": "ports", "server": ..., "sync_port": ..., "async_port": ..., "user": ...}
                                                        -> {"id": 2, "ok": {"ports": [{"index": 0, "src_mac": ...}]}}
    {"id": 3, "op": "trial", "streams": [...], "warmup_s": ..., "duration_s": ..., "drain_s": ...}
                                                        -> {"id": 3, "ok": {"streams": [...], "ports": {...}, ...}}
    {"id": 4, "op": "stop"}                             ends a running trial, which is answered with error `stopped`
    {"id": 5, "op": "close"}                            gives the ports back; the process ends

or `{"id": n, "error": TEXT, "kind": KIND}`, where KIND is `request` (not understood), `version`, `owned` (ports in use
by another TRex user), `histogram` (the server keeps none), `server` (not reached, or gone), `client` (TRex refused),
`stopped`, or `replay`. The process ends when its standard input closes.
"""

import json
import os
import select
import sys
from collections.abc import Callable
from typing import Any

sys.dont_write_bytecode = True  # TRex's folder may be read-only, and is not ours

import client  # noqa: E402
from client import BridgeError, Client  # noqa: E402
from replay import Clock, Recorder, Replay  # noqa: E402
from session import Session  # noqa: E402

PROTOCOL = 1


class Lines:
    """Standard input, line by line, with a look ahead while a trial runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self.closed = False

    def _read(self, timeout_s: float | None) -> None:
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        if ready:
            read = os.read(self._descriptor, 1 << 16)
            self.closed = not read
            self._pending += read

    def next(self) -> str | None:
        """The next line; None at the end."""
        while b"\n" not in self._pending:
            if self.closed:
                return None
            self._read(None)
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode(errors="replace")

    def waiting(self) -> bool:
        """True when a line is there to be read, or nobody listens any more."""
        if not self.closed and b"\n" not in self._pending:
            self._read(0)
        return self.closed or b"\n" in self._pending


def main() -> None:
    """Answer until there is nobody to answer."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # TRex's library prints on standard output, which belongs to the protocol
    lines = Lines(0)
    session = Session(_client(sys.argv[1:]))
    while (line := lines.next()) is not None:
        number, reply = _answer(session, line, lines.waiting)
        answers.write(json.dumps({"id": number, **reply}) + "\n")
        answers.flush()
        if reply.get("ok") == {"closed": True}:
            return
    session.close()


def _answer(session: Session, line: str, stopping: Callable[[], bool]) -> tuple[Any, dict[str, Any]]:
    number = None
    try:
        request = json.loads(line)
        number, op = request["id"], request["op"]
        if op == "hello":
            return number, {"ok": {"protocol": PROTOCOL}}
        if op == "connect":
            return number, {"ok": session.connect(request)}
        if op == "ports":
            return number, {"ok": session.ports(request)}
        if op == "trial":
            return number, {"ok": session.trial(request, stopping)}
        if op == "stop":
            return number, {"ok": {}}
        if op == "close":
            session.close()
            return number, {"ok": {"closed": True}}
        return number, {"error": f"op {op!r}: unknown", "kind": "request"}
    except BridgeError as exc:
        return number, {"error": str(exc), "kind": exc.kind}
    except (ValueError, KeyError, TypeError) as exc:
        return number, {"error": f"{type(exc).__name__}: {exc}", "kind": "request"}
    except Exception as exc:  # TRex's library raises what it likes; the other side must get its answer
        return number, {"error": f"{type(exc).__name__}: {' '.join(str(exc).split())}", "kind": "client"}


def _client(arguments: list[str]) -> Client:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "profiles"))
    if len(arguments) == 2 and arguments[0] == "--replay":
        sys.modules["trex.stl.api"] = Replay(arguments[1])
        client.time = Clock()  # type: ignore[assignment]
        return Client()
    recording = len(arguments) == 3 and arguments[1] == "--record"
    if not recording and len(arguments) != 1:
        sys.exit("usage: bridge.py LIBRARIES [--record FILE] | bridge.py --replay FILE")
    sys.path.insert(0, arguments[0])
    try:
        from trex.common.trex_req_resp_client import JsonRpcClient
        from trex.stl import api

        if recording:
            sys.modules["trex.stl.api"] = Recorder(api, JsonRpcClient, arguments[2])
        return Client()
    except Exception as exc:  # whatever an import of somebody else's tree can raise
        sys.exit(f"{arguments[0]}: TRex's client library cannot be loaded: {exc}")


if __name__ == "__main__":
    main()
