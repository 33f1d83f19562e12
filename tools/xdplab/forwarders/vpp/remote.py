# SPDX-License-Identifier: Apache-2.0
"""A VPP on another machine: `segment.py` runs beside it, and passes its API's messages and its statistics on."""

import builtins
import json
from collections import deque
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xdplab.forwarders.vpp import segment
from xdplab.forwarders.vpp.control import REPLY_TIMEOUT_S, VppControl, papi_client
from xdplab.hosts.base import Conversation, Host
from xdplab.hosts.ssh_link import program_zip
from xdplab.model import PointFailed

#: Python's start on a slow host, and the longest that a statistic is waited for.
_START_S = 30.0
#: `sockclnt_create` of vlibmemory/memclnt.api and its answer, whose numbers are fixed.
_CREATE, _CREATED = 15, 16


def connect(host: Host, log: Path, api: str, stats: str) -> VppControl:
    """A connection to the VPP of `host` with these sockets; the program beside it writes its errors to `log` there.

    Raises:
        VppAway: nobody listens there, or not yet.
        PointFailed: there is no VPP that answers.
    """
    link = Link(host, log, api, stats)
    try:
        return VppControl(api, stats, link.client, link.reader)
    except BaseException:
        link.close()
        raise


@cache
def archive() -> bytes:
    """The program for the host."""
    statistics = find_spec("vpp_papi.vpp_stats")
    assert statistics is not None
    assert statistics.origin is not None
    return program_zip(
        {
            "__main__.py": Path(segment.__file__).read_text(encoding="utf-8"),
            "vpp_papi/__init__.py": "",
            "vpp_papi/vpp_stats.py": Path(statistics.origin).read_text(encoding="utf-8"),
        }
    )


class Link:
    """The program beside VPP, and its lines."""

    def __init__(self, host: Host, log: Path, api: str, stats: str) -> None:
        self._host, self._log, self._sockets = host, log, (api, stats)
        self._program: Conversation | None = None
        self._messages: deque[bytes] = deque()
        #: Of the last statistic that was asked for: an answer that came too late is of an earlier one.
        self._asked = 0

    def client(self, address: str) -> Any:
        """vpp-papi's client, with this link in the place of its socket."""
        made = papi_client(address)
        made.transport = _transport(made, self)
        return made

    def reader(self, _address: str) -> "_Reader":
        return _Reader(self)

    def open(self) -> None:
        """Start it, and have it connect to the API.

        Raises:
            OSError: VPP does not listen.
        """
        with TemporaryDirectory(prefix="xdplab-") as scratch:
            path = Path(scratch, "vpp.pyz")
            path.write_bytes(archive())
            program = self._host.program(path)
            self._program = self._host.converse([self._host.python, "-I", "-S", program, *self._sockets], log=self._log)
            self._answer(_START_S)  # of its connection to VPP

    def close(self) -> None:
        """End it; safe to call twice."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def send(self, message: bytes) -> None:
        self._speak({"message": message.hex()})

    def message(self, timeout_s: float) -> bytes | None:
        """The next of VPP; None: none came in time.

        Raises:
            OSError: VPP or the program beside it has ended.
        """
        while not self._messages:
            line = self._line(timeout_s)
            if line is None:
                return None
            self._keep(line)
        return self._messages.popleft()

    def read(self, name: str) -> Any:
        """A statistic, `segment.IN_PROGRESS` or `segment.ERRORS`.

        Raises:
            OSError: it cannot be read; other built-in errors as vpp-papi raises them there.
        """
        self._asked += 1
        self._speak({"read": name, "of": self._asked})
        return self._answer(REPLY_TIMEOUT_S)

    def _speak(self, line: dict[str, Any]) -> None:
        if self._program is None:
            raise PointFailed("vpp: not connected")
        self._program.send(json.dumps(line))

    def _answer(self, timeout_s: float) -> Any:
        while True:
            line = self._line(timeout_s)
            if line is None:
                raise OSError(f"no answer of the program beside VPP within {timeout_s:g} s")
            if line.get("of", self._asked) != self._asked:
                continue
            if "raises" in line:
                kind, text = line["raises"]
                found = getattr(builtins, kind, OSError)
                raise found(text) if issubclass(found, Exception) else OSError(text)
            if "answer" in line:
                return line["answer"]
            self._keep(line)

    def _keep(self, line: dict[str, Any]) -> None:
        if "message" in line:
            self._messages.append(bytes.fromhex(line["message"]))

    def _line(self, timeout_s: float) -> dict[str, Any] | None:
        if self._program is None:
            return None
        try:
            line = self._program.receive(timeout_s)
        except EOFError:
            raise OSError("; ".join(self._program.log_tail(2)) or "the connection to VPP is closed") from None
        found = json.loads(line) if line else None
        return found if isinstance(found, dict) else None


def _transport(client: Any, link: Link) -> Any:
    """A transport of vpp-papi (`vpp_transport_socket`): waits for each answer, without a thread."""
    from vpp_papi.vpp_transport_socket import VppTransport

    class Transport(VppTransport):  # type: ignore[misc]
        def connect(self, name: str, _pfx: Any, _handler: Any, _rx_qlen: int, _do_async: bool = False) -> int:
            link.open()
            self.connected = True
            asked = {"_vl_msg_id": _CREATE, "name": name, "context": 124}
            self.write(self.parent.messages["sockclnt_create"].pack(asked))
            message = link.message(REPLY_TIMEOUT_S)
            if message is None or int.from_bytes(message[:2], "big") != _CREATED:
                raise OSError("VPP does not take a client")
            created, _ = self.parent.messages["sockclnt_create_reply"].unpack(message)
            self.socket_index = created.index
            self.message_table.update({each.name: each.index for each in created.message_table})
            return 0

        def disconnect(self) -> int:
            self.connected = False
            link.close()  # VPP sees its socket closed
            return 0

        def write(self, buf: bytes) -> None:
            link.send(bytes(buf))

        def read(self, timeout: float | None = None) -> bytes | None:
            while (message := link.message(timeout or REPLY_TIMEOUT_S)) is not None:
                if self.parent.has_context(message):  # else an event, which nobody asked for
                    return message
            return None

    return Transport(client, REPLY_TIMEOUT_S, client.transport.server_address)


class _Reader:
    """Those functions of vpp-papi's reader of the statistics that `VppControl` uses."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def connect(self) -> None:
        """At the first question."""

    def disconnect(self) -> None:
        """With the link."""

    @property
    def in_progress(self) -> bool:
        return bool(self._link.read(segment.IN_PROGRESS))

    def set_errors(self) -> Any:
        return self._link.read(segment.ERRORS)

    def __getitem__(self, name: str) -> Any:
        from vpp_papi.vpp_stats import StatsCombinedList, StatsSimpleList, StatsTuple

        threads = self._link.read(name)
        if not threads or not threads[0] or isinstance(threads[0][0], int):
            return StatsSimpleList(threads)
        return StatsCombinedList([[StatsTuple(pair) for pair in thread] for thread in threads])
