# SPDX-License-Identifier: Apache-2.0
"""Writing down what is said between a VPP forwarder and VPP, in order, as JSON; tests play it back."""

import array
import mmap
import os
import socket
from pathlib import Path
from typing import Any

from xdplab.forwarders.vpp.control import VppControl, papi_client, plain
from xdplab.forwarders.vpp.remote import Link
from xdplab.forwarders.vpp.segment import papi_stats
from xdplab.hosts import LocalHost


class Recorder:
    """Everything that one forwarder asked and was answered."""

    def __init__(self) -> None:
        self.exchange: list[dict[str, Any]] = []
        self._control: VppControl | None = None
        self._paused = False

    def connect(self, api: str, stats: str) -> VppControl:
        """A connection whose client and reader write down what passes."""
        self._control = VppControl(
            api, stats, lambda address: _Client(self, address), lambda address: _Reader(self, address)
        )
        return self._control

    def aside(self, command: str) -> str:
        """What VPP prints for a CLI command that the forwarder did not give: it is no part of the exchange."""
        assert self._control is not None
        self._paused = True
        try:
            return self._control.cli(command)
        finally:
            self._paused = False

    def answered(self, kind: str, asked: dict[str, Any], function: Any, form: Any = plain) -> Any:
        """Call `function`, write down its answer or what it raised, and pass that on."""
        if self._paused:
            return function()
        try:
            answer = function()
        except Exception as exc:
            self.exchange.append({kind: asked, "raises": type(exc).__name__, "text": " ".join(map(str, exc.args))})
            raise
        self.exchange.append({kind: asked, "answer": form(answer)})
        return answer


class _Client:
    """vpp-papi's client."""

    def __init__(self, recorder: Recorder, address: str) -> None:
        self._recorder = recorder
        self._real = papi_client(address)
        self.api = _Api(recorder, self._real)
        self.disconnect = self._real.disconnect

    def connect(self, name: str) -> None:
        self._recorder.answered("connect", {}, lambda: self._real.connect(name))

    def get_type(self, name: str) -> Any:
        def members(found: Any) -> dict[str, int] | None:
            return found and {key: int(value) for key, value in found.enum.__members__.items()}

        return self._recorder.answered("type", {"name": name}, lambda: self._real.get_type(name), members)


class _Api:
    """Its functions, one for each message; one that this VPP has not is absent here too."""

    def __init__(self, recorder: Recorder, client: Any) -> None:
        self._recorder = recorder
        self._client = client

    def __getattr__(self, message: str) -> Any:
        try:
            function = getattr(self._client.api, message)
        except AttributeError:
            self._recorder.exchange.append({"message": {"name": message}, "answer": "absent"})
            raise

        def asked(**fields: Any) -> Any:
            request = {"name": message, "fields": fields}
            return self._recorder.answered("message", request, lambda: function(**fields), _nowhere)

        return asked


def _nowhere(answer: Any) -> Any:
    """As JSON has it, without the folder in which VPP was built: it is of the machine that records."""
    found = plain(answer)
    return {**found, "build_directory": ""} if isinstance(found, dict) and "build_directory" in found else found


class _Reader:
    """The statistics reader."""

    def __init__(self, recorder: Recorder, address: str) -> None:
        self._recorder = recorder
        self._real = papi_stats(address)
        self.connect = self._real.connect
        self.disconnect = self._real.disconnect

    @property
    def in_progress(self) -> bool:
        return bool(self._real.in_progress)

    def __getitem__(self, name: str) -> Any:
        return self._recorder.answered("statistics", {"name": name}, lambda: self._real[name])

    def set_errors(self) -> Any:
        return self._recorder.answered("errors", {}, self._real.set_errors)


class LinkRecorder:
    """The messages of a connection as a VPP behind SSH has one, and its statistics as a piece of memory."""

    def __init__(self, log: Path) -> None:
        self._log = log
        #: `>` for what VPP was asked, `<` for what it answered, and the message in hexadecimal digits.
        self.messages: list[tuple[str, str]] = []
        self._stats = ""

    def connect(self, api: str, stats: str) -> VppControl:
        self._stats, link = stats, _LinkWrittenDown(LocalHost(), self._log, api, stats)
        link.messages = self.messages
        return VppControl(api, stats, link.client, link.reader)

    def segment(self) -> dict[str, Any]:
        """Its size in bytes, and each page that is not empty: place -> hexadecimal digits."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.connect(self._stats)
            _, ancillary, _, _ = sock.recvmsg(0, socket.CMSG_SPACE(4))
        descriptor = array.array("i", ancillary[0][2])[0]
        size = os.fstat(descriptor).st_size
        with mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ) as memory:
            pages = {at: memory[at : at + mmap.PAGESIZE] for at in range(0, size, mmap.PAGESIZE)}
        os.close(descriptor)
        return {"bytes": size, "pages": {str(at): page.hex() for at, page in pages.items() if any(page)}}


class _LinkWrittenDown(Link):
    messages: list[tuple[str, str]]

    def _speak(self, line: dict[str, Any]) -> None:
        if "message" in line:
            self.messages.append((">", line["message"]))
        super()._speak(line)

    def _line(self, timeout_s: float) -> dict[str, Any] | None:
        found = super()._line(timeout_s)
        if found and "message" in found:
            self.messages.append(("<", found["message"]))
        return found


def talk(control: VppControl) -> dict[str, Any]:
    """A question of each kind, and the answers; statistics last."""
    rows = control.dump("sw_interface_dump", sw_if_index=0xFFFFFFFF)
    return {
        "version": control.call("show_version")["version"],
        "interfaces": [row["interface_name"] for row in rows],
        "free buffers": control.free_buffers(),
        "statistics": control.interface_statistics(rows[-1]["sw_if_index"]),
        "errors": control.errors(),
    }
