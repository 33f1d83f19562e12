# SPDX-License-Identifier: Apache-2.0
"""VPP played back: client and statistics reader of vpp-papi, answering what `dev record vpp` wrote down."""

import builtins
import json
import lzma
import re
from collections import namedtuple
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import vpp_papi
from pydantic import TypeAdapter
from vpp_papi.vpp_stats import StatsCombinedList, StatsSimpleList, StatsTuple

from lab.startup import contradictions
from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.vpp.control import VppControl
from xdplab.forwarders.vpp.forwarder import VppForwarder
from xdplab.hosts import Completed
from xdplab.model import CpuLayout, ForwarderSpec, Path as Way
from xdplab.model.pipeline import PipelineText
from xdplab.testbed import Port

DATA = Path(__file__).resolve().parents[1] / "data" / "vpp"


#: Of `show runtime`, without a node.
RUNTIME_HEAD = "Name State Calls Vectors Suspends Packet-Clocks Vectors/Call\n"


def recorded(path: Path) -> str:
    return lzma.decompress(path.read_bytes()).decode()


class Playback:
    """One recording. Every request must be the one that was recorded next."""

    def __init__(self, path: Path) -> None:
        self.recorded: dict[str, Any] = json.loads(recorded(path))
        self.left: list[dict[str, Any]] = list(self.recorded["exchange"])

    def connect(self, api: str, stats: str) -> VppControl:
        return VppControl(api, stats, lambda _: Client(self), lambda _: Reader(self))

    def answer(self, kind: str, asked: dict[str, Any]) -> Any:
        if kind == "message" and asked["fields"].get("cmd") in self.recorded.get("not_asked", ()):
            return {"retval": 0, "reply": RUNTIME_HEAD}  # what the forwarder did not ask yet when this was recorded
        assert self.left, f"{kind} {asked}: the recording is over"
        step = self.left.pop(0)
        assert {kind: asked} == {key: value for key, value in step.items() if key not in ("answer", "raises", "text")}
        if "raises" in step:
            raise getattr(vpp_papi, step["raises"], getattr(builtins, step["raises"], OSError))(step["text"])
        return step["answer"]

    def absent(self, message: str) -> bool:
        """Whether the recorded VPP was found to lack a message at this place."""
        here = {"message": {"name": message}, "answer": "absent"}
        if self.left[:1] == [here]:
            self.left.pop(0)
            return True
        return False

    def dut(self, rundir: Path) -> Dut:
        """The recorded ports on a host that knows what was recorded of them."""
        host = PlayedHost(self)
        ports, peers = (
            tuple(Port(p["role"], host, p["ifname"], p["mac"], 1500) for p in self.recorded.get(ends, ()))  # type: ignore[arg-type]
            for ends in ("ports", "peers")
        )
        layout = CpuLayout.model_validate(self.recorded["layout"])
        pipeline = TypeAdapter(PipelineText).validate_python(self.recorded.get("pipeline", "cross"))
        return Dut(host, ports, Way.THROUGH, layout, rundir, peers=peers, pipeline=pipeline)  # type: ignore[arg-type]


class Client:
    """VPPApiClient."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self.api = Api(playback)

    def connect(self, name: str) -> None:
        self._playback.answer("connect", {})

    def disconnect(self) -> None:
        raise OSError("the socket is gone")  # as vpp-papi does when VPP was faster

    def get_type(self, name: str) -> Any:
        members = self._playback.answer("type", {"name": name})
        return members and SimpleNamespace(enum=SimpleNamespace(__members__=members))


class Api:
    """VPPApiClient.api."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback

    def __getattr__(self, message: str) -> Any:
        if self._playback.absent(message):
            raise AttributeError(message)

        def function(**fields: Any) -> Any:
            answer = self._playback.answer("message", {"name": message, "fields": fields})
            return [_reply(message, row) for row in answer] if isinstance(answer, list) else _reply(message, answer)

        return function


class Reader:
    """VPPStats."""

    in_progress = 0

    def __init__(self, playback: Playback) -> None:
        self._playback = playback

    def connect(self) -> None:
        """Nothing to do."""

    disconnect = connect

    def __getitem__(self, name: str) -> Any:
        threads = self._playback.answer("statistics", {"name": name})
        if isinstance(threads[0][0], int):
            return StatsSimpleList(threads)
        return StatsCombinedList([[StatsTuple(pair) for pair in thread] for thread in threads])

    def set_errors(self) -> Any:
        return self._playback.answer("errors", {})


class PlayedHost:
    """A host on which VPP seems to run."""

    name = "B"
    python = "python3"

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self._prefix = ""

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Completed:
        recorded = self._playback.recorded
        if argv[0] == "find" and self._prefix:  # for removing what VPP leaves in shared memory
            made = [self._prefix + name for name in recorded["in_use"].get("shared memory", ())]
            assert [name for name in made if not fnmatch(name, argv[argv.index("-name") + 1])] == []
        out, code = {
            "which": ("/usr/bin/vpp\n", 0),
            "ip": ("", int(argv[-1] in recorded["missing"])),
            "ethtool": ("driver: veth\n", 0),
            "find": ("", 0),
        }[argv[0]]
        return Completed(tuple(argv), code, out, "")

    def xsk_sockets(self, pid: int) -> list[dict[str, Any]]:
        return list(self._playback.recorded["xsk"])

    def program(self, path: Path) -> str:
        return str(path)

    def exists(self, path: str) -> bool:
        return path == "/dev/shm" or path.endswith(".sock")

    def write(self, path: str, text: str) -> None:
        """The configuration must say what the recorded VPP was found to have in use."""
        recorded = self._playback.recorded["in_use"]
        assert contradictions(text, str(Path(path).parent), recorded) == [] if recorded else True
        self._prefix = re.findall(r"prefix (\S+)", text)[0]

    def start(self, argv: Sequence[str], **_: Any) -> "PlayedProcess":
        return PlayedProcess(self._playback)


class PlayedProcess:
    """The process: dead once the recording that killed it is over, or from the start when nothing was said."""

    pid = 4242

    def __init__(self, playback: Playback) -> None:
        self._playback = playback

    def poll(self) -> int | None:
        if not self._playback.recorded["exchange"]:
            return 1
        return -9 if self._playback.recorded["killed"] and not self._playback.left else None

    def stop(self, grace_s: float = 3.0) -> int:
        return -15

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        return tuple(self._playback.recorded["log"])


def _reply(message: str, row: dict[str, Any]) -> Any:
    return namedtuple(f"{message}_reply", [*row, "context"])(**row, context=7)


def forwarder_of(playback: Playback) -> VppForwarder[Any]:
    made = make_forwarder(ForwarderSpec(name=playback.recorded["forwarder"], options=playback.recorded["options"]))
    assert isinstance(made, VppForwarder)
    made.connect = playback.connect
    return made


def changed(path: Path, message: str, **fields: Any) -> Playback:
    """A recording in which the answer to one request is another one."""
    playback = Playback(path)
    for step in playback.left:
        if step.get("message", {}).get("name") == message:
            answer = step["answer"]
            for row in answer if isinstance(answer, list) else [answer]:
                row.update(fields)
    return playback
