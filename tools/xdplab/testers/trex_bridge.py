# SPDX-License-Identifier: Apache-2.0
"""Our end of the bridge to TRex (`trex/bridge/bridge.py`): a request, its reply, and no third thing.

The bridge is a process of its own because TRex's client library brings its own scapy, zmq and yaml.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xdplab.hosts import Conversation, LocalHost
from xdplab.model import InputError, PointFailed, XdplabError
from xdplab.tools import project_root

PROTOCOL = 1
_HELLO_TIMEOUT_S = 30.0
#: What ends the run, because no point can be measured, rather than the point.
_FATAL = {
    "version": "use server and client of one TRex release",
    "owned": "end the other TRex user's session, or use other ports",
    "histogram": "",
}


def bridge_command(libraries: Path, record: Path | None = None) -> list[str]:
    """How the bridge is started: by our Python, without our packages."""
    program = str(project_root() / "trex" / "bridge" / "bridge.py")
    return [sys.executable, "-s", program, str(libraries), *(["--record", str(record)] if record else [])]


class Bridge:
    """A conversation with the bridge."""

    def __init__(self, host: LocalHost, command: Sequence[str], log: Path) -> None:
        self._process: Conversation = host.converse(command, log=log)
        self._requests = 0
        said = self.ask("hello", timeout_s=_HELLO_TIMEOUT_S)
        if said.get("protocol") != PROTOCOL:
            self.stop()
            raise XdplabError(f"trex: the bridge speaks protocol {said.get('protocol')}, {PROTOCOL} is expected")

    def ask(
        self, op: str, *, timeout_s: float, well: Callable[[], str | None] = lambda: None, **request: Any
    ) -> dict[str, Any]:
        """The reply to a request. `well` is asked about twice a second, and ends the wait with the sentence it has.

        Raises:
            PointFailed: TRex refused, is gone, or did not answer in time.
            InputError: nothing can be measured with this server.
        """
        self._requests += 1
        number = self._requests
        self._process.send(json.dumps({"id": number, "op": op, **request}))
        deadline = time.monotonic() + timeout_s
        while True:
            reply = self._reply()
            if reply is not None and reply.get("id") in (number, None):
                return _checked(op, reply)
            ended = well()
            if ended:
                self._process.send(json.dumps({"id": 0, "op": "stop"}))
                raise PointFailed(ended)
            if time.monotonic() > deadline:
                raise PointFailed(f"trex: no reply to {op} within {timeout_s:.0f} s")

    def signal(self, number: int) -> None:
        self._process.signal(number)

    def stop(self) -> None:
        """Close its input; it gives the ports back and ends."""
        self._process.stop()

    def _reply(self) -> dict[str, Any] | None:
        try:
            line = self._process.receive(0.5)
        except EOFError:
            self._process.wait(1.0)
            said = " | ".join(self._process.log_tail(1)) or "no message"
            raise PointFailed(f"trex: the bridge ended: {said}") from None
        if line is None:
            return None
        reply = json.loads(line)
        assert isinstance(reply, dict)
        return reply


def _checked(op: str, reply: dict[str, Any]) -> dict[str, Any]:
    if "ok" in reply:
        assert isinstance(reply["ok"], dict)
        return reply["ok"]
    kind, text = reply.get("kind", "client"), f"trex: {op}: {reply.get('error')}"
    if kind in _FATAL:
        raise InputError("; ".join(filter(None, (text, _FATAL[kind]))))
    raise PointFailed(text)
