# SPDX-License-Identifier: Apache-2.0
"""VPP on another machine: the program beside it runs for real, on this one, against a VPP that is played back.

Messages and statistics are those of VPP 26.10 (`python tools/dev record vpp --only link`).
"""

import array
import io
import json
import os
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.papi import DATA, recorded

from dev.vpp_record import talk
from xdplab.forwarders.vpp import remote
from xdplab.forwarders.vpp.control import VppAway, VppControl
from xdplab.forwarders.vpp.segment import HEADER_BYTES
from xdplab.hosts import LocalHost
from xdplab.model import PointFailed

#: Where a request and a reply have their context, which vpp-papi chooses anew.
_ASKED_CONTEXT, _SAID_CONTEXT = slice(6, 10), slice(2, 6)


class PlayedVpp:
    """Listens on both sockets; answers each request with what the recorded VPP said to the one in its place."""

    def __init__(self, folder: Path, *, hangs_up_after: int = 1000) -> None:
        self.recording = json.loads(recorded(DATA / "26.10-link.json.xz"))
        self.api, self.stats = str(folder / "api.sock"), str(folder / "stats.sock")
        self.unlike: list[str] = []
        self._left = hangs_up_after
        for serve, path, kind in (
            (self._answer, self.api, socket.SOCK_STREAM),
            (self._hand_over, self.stats, socket.SOCK_SEQPACKET),
        ):
            listening = socket.socket(socket.AF_UNIX, kind)
            listening.bind(path)
            listening.listen()
            threading.Thread(target=self._accept, args=(listening, serve), daemon=True).start()

    def _accept(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        connection, _ = listening.accept()
        with connection, listening:
            serve(connection)

    def _answer(self, connection: socket.socket) -> None:
        steps = [(way, bytearray.fromhex(text)) for way, text in self.recording["messages"]]
        with connection.makefile("rb") as stream:
            while head := stream.read(HEADER_BYTES):
                asked = bytearray(stream.read(int.from_bytes(head[8:12], "big")))
                _, expected = steps.pop(0)
                context, asked[_ASKED_CONTEXT] = bytes(asked[_ASKED_CONTEXT]), expected[_ASKED_CONTEXT]
                self.unlike += [asked.hex()] if asked != expected else []
                self._left -= 1
                if self._left < 0:
                    return
                while steps and steps[0][0] == "<":
                    _, said = steps.pop(0)
                    said[_SAID_CONTEXT] = context
                    connection.sendall(bytes(8) + len(said).to_bytes(4, "big") + bytes(4) + said)

    def _hand_over(self, connection: socket.socket) -> None:
        memory, segment = os.memfd_create("statistics"), self.recording["segment"]
        os.ftruncate(memory, segment["bytes"])
        for at, page in segment["pages"].items():
            os.pwrite(memory, bytes.fromhex(page), int(at))
        connection.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))])
        os.close(memory)


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Callable[..., tuple[PlayedVpp, VppControl]]]:
    made: list[VppControl] = []

    def connect(**given: Any) -> tuple[PlayedVpp, VppControl]:
        vpp = PlayedVpp(tmp_path, **given)
        made.append(remote.connect(LocalHost(), tmp_path / "link.log", vpp.api, vpp.stats))
        return vpp, made[0]

    yield connect
    for control in made:
        control.close()


def test_what_a_vpp_behind_ssh_says_is_what_it_said(connected: Callable[..., tuple[PlayedVpp, VppControl]]) -> None:
    vpp, control = connected()
    said = talk(control)
    assert vpp.unlike == []
    assert said == vpp.recording["said"]
    assert said["statistics"]["rx"] > 0
    assert len(said["interfaces"]) == 3


def test_a_vpp_that_hangs_up_ends_the_point(connected: Callable[..., tuple[PlayedVpp, VppControl]]) -> None:
    _, control = connected(hangs_up_after=3)  # two of them make the connection
    with pytest.raises(PointFailed, match="VPP does not answer"):
        talk(control)


def test_where_nobody_listens_vpp_is_away(tmp_path: Path) -> None:
    with pytest.raises(VppAway, match=r"VPP does not answer \(connect\): .*No such file or directory"):
        remote.connect(LocalHost(), tmp_path / "link.log", str(tmp_path / "api.sock"), str(tmp_path / "stats.sock"))


def test_a_statistic_that_is_not_there_is_an_error_and_the_next_is_read(
    connected: Callable[..., tuple[PlayedVpp, VppControl]],
) -> None:
    _, control = connected()
    with pytest.raises(PointFailed, match="VPP does not answer"):
        control.list_matches(7, 0)
    assert control.errors() == json.loads(recorded(DATA / "26.10-link.json.xz"))["said"]["errors"]


def test_the_program_for_hosts_is_the_same_each_time() -> None:
    assert remote.archive.__wrapped__() == remote.archive()
    with zipfile.ZipFile(io.BytesIO(remote.archive())) as made:
        assert {each.date_time for each in made.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {"__main__.py", "vpp_papi/vpp_stats.py"} <= {*made.namelist()}
