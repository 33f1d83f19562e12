# SPDX-License-Identifier: Apache-2.0
"""Processes and sockets that are spoken to, on this machine and by a host's agent: the same words, the same errors."""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_agent import Session, folder  # noqa: F401 - a fixture

from xdplab.hosts import Host, LocalHost, Running, SshHost
from xdplab.hosts.agent.ipc import LONGEST
from xdplab.hosts.ssh_link import AgentError
from xdplab.model import HostSpec, MissingProgram, XdplabError


class AgentHost(SshHost):
    """A host whose agent runs here, without SSH between."""

    def __init__(self, agent: Session) -> None:
        super().__init__("B", HostSpec(address="192.0.2.1"), "c/t")
        self._link = Link(agent)  # type: ignore[assignment]


class Link:
    """In the place of `AgentLink`."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    async def request(self, op: str, args: Any, given: Any, waits_s: float) -> Any:
        self.agent.line({"id": 1, "op": op, "args": args, "given": given}, default=str)
        reply = self.agent.reply()
        if "ok" in reply:
            return reply["ok"]
        raise AgentError(reply["error"], reply["kind"])


@pytest.fixture(params=["here", "agent"])
def host(request: pytest.FixtureRequest) -> Host:
    if request.param == "here":
        return LocalHost("B")
    return AgentHost(Session(request.getfixturevalue("folder")))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_lines_go_both_ways(host: Host, log: Path) -> None:
    process = host.converse(["sh", "-c", "echo one; echo two; read x; echo $x; echo err >&2"], log=log)
    assert [process.receive(30), process.receive(30), process.receive(0.05)] == ["one", "two", None]
    assert process.poll() is None
    process.send("three ; $HOME")
    assert process.receive(30) == "three ; $HOME"
    for _ in range(2):
        with pytest.raises(EOFError):
            process.receive(30)
    assert process.wait(30) == 0
    assert process.log_tail() == ("err",)


def test_a_line_of_many_megabytes(host: Host, log: Path) -> None:
    program = "import sys; line = sys.stdin.readline(); print(line.strip() * 3_000_000, flush=True); sys.stdin.read()"
    process = host.converse([sys.executable, "-c", program], log=log)
    process.send("abc")
    assert process.receive(60) == "abc" * 3_000_000
    process.stop()


def test_a_line_without_end_is_an_error(host: Host, log: Path) -> None:
    process = host.converse(["head", "-c", f"{LONGEST + 1}", "/dev/zero"], log=log)
    with pytest.raises((OSError, XdplabError), match="a line of more than 30 MiB"):
        process.receive(60)
    process.stop()


def test_no_start_keeps_a_file_open(host: Host, log: Path) -> None:
    """Of a program whose input is held open, as of testpmd."""
    starter = host.run(["sh", "-c", "echo $PPID"]).stdout.strip()
    counts = []
    for _ in range(4):
        process = host.start(["cat"], log=log, hold_stdin=True)
        assert process.poll() is None
        process.stop()
        counts.append(len(host.names(f"/proc/{starter}/fd")))
    assert counts == counts[:1] * 4


def test_a_process_that_is_killed_closes_its_output(host: Host, log: Path) -> None:
    process = host.converse(["sleep", "60"], log=log)
    process.signal(signal.SIGKILL)
    with pytest.raises(EOFError):
        process.receive(30)
    assert process.wait(30) == -signal.SIGKILL
    for _ in range(2):
        process.send("x")
    with pytest.raises(EOFError):
        process.receive(30)


def test_one_that_waits_for_input_is_stopped(host: Host, log: Path) -> None:
    process = host.converse(["cat"], log=log)
    assert process.stop() in (0, -signal.SIGTERM)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[bytes], Path]]:
    """`serve(reply)`: a socket, in a folder of a long name, that answers so and keeps what it was asked beside."""
    listeners = []

    def start(reply: bytes) -> Path:
        place = tmp_path / ("a" * 100)
        place.mkdir()
        listener = socket.socket(socket.AF_UNIX)
        listeners.append(listener)
        here = tmp_path / "s"
        listener.bind(str(here))
        here.rename(place / "daemon.ctl")
        listener.listen(1)
        threading.Thread(target=answer, args=(listener, reply, place), daemon=True).start()
        return place / "daemon.ctl"

    def answer(listener: socket.socket, reply: bytes, place: Path) -> None:
        peer, _ = listener.accept()
        (place / "asked").write_bytes(peer.recv(65536))
        for at in range(0, len(reply), 100_000):
            peer.sendall(reply[at : at + 100_000])
        if reply.endswith(b"..."):
            peer.recv(1)  # goes on, and nothing comes
        peer.close()

    yield start
    for listener in listeners:
        listener.close()


def test_a_socket_answers(host: Host, serve: Callable[[bytes], Path]) -> None:
    reported = {"text": "{}}" * 200_000, "more": [None, 1.5]}
    path = serve(json.dumps({"id": 0, "result": reported, "error": None}).encode())
    assert host.ask_socket(path, "coverage/show", "a", {"b": 1}) == reported
    asked = json.loads((path.parent / "asked").read_bytes())
    assert asked == {"id": 0, "method": "coverage/show", "params": ["a", {"b": 1}]}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b'{"id": 0, "result": null, "error": "\\"x\\" is not a valid command\\n"}', "is not a valid command"),
        (b"", "it hung up"),
        (b'{"id": 0, "result": ', "it hung up"),
        (b"[1, {}", "it hung up"),
        (b"hello }", "it hung up"),
        (b'{"id": 0 ...', "timed out"),
    ],
)
def test_what_is_no_answer_is_reported(host: Host, serve: Callable[[bytes], Path], reply: bytes, words: str) -> None:
    path = serve(reply)
    with pytest.raises(XdplabError, match=f"B: .*daemon.ctl: .*{words}"):
        host.ask_socket(path, "list-commands", timeout_s=0.5)


def test_bytes_are_exchanged_up_to_an_end(host: Host, serve: Callable[[bytes], Path]) -> None:
    reported = bytes(range(256)) * 2000 + b"end..."
    path = serve(reported)
    assert host.exchange(path, b"\0\xff ask", b"end...") == reported
    assert (path.parent / "asked").read_bytes() == b"\0\xff ask"


@pytest.mark.parametrize(("reply", "words"), [(b"some", "it hung up"), (b"some...", "timed out")])
def test_an_end_that_does_not_come(host: Host, serve: Callable[[bytes], Path], reply: bytes, words: str) -> None:
    with pytest.raises(XdplabError, match=f"B: .*daemon.ctl: .*{words}"):
        host.exchange(serve(reply), b"ask", b"end", timeout_s=0.5)


def test_nobody_listens(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(XdplabError, match=r"B: .*absent: No such file or directory"):
        host.ask_socket(tmp_path / "absent", "exit")
    with pytest.raises(XdplabError, match=r"B: .*file: Connection refused"):
        host.ask_socket(tmp_path / "file", "exit")


@pytest.mark.parametrize(
    ("op", "reported"),
    [
        ("exchange_hex", 7), ("exchange_hex", "no hex"), ("exchange_hex", None), ("receive", ["x"]), ("receive", 7),
        ("wait_process", "soon"), ("execute", [0, ""]), ("execute", {"returncode": "0"}), ("names", "abc"),
        ("links", {"p0": [1500]}), ("xdp", ["native", "one", "x"]), ("take_cpus", [1]), ("read", None),
    ],
)  # fmt: skip
def test_an_agent_that_answers_something_else_is_reported(op: str, reported: Any, log: Path) -> None:
    host = AgentHost(SimpleNamespace(line=lambda *_, **__: None, reply=lambda: {"ok": reported}))  # type: ignore[arg-type]
    asks: dict[str, Callable[[], Any]] = {
        "exchange_hex": lambda: host.exchange(log, b"", b""), "receive": lambda: host.receive(1, 1.0),
        "wait_process": lambda: host.wait_process(1, 0), "execute": lambda: host.run(["x"]),
        "names": lambda: host.names("/"), "links": host.links, "xdp": lambda: host.xdp("p0"),
        "take_cpus": lambda: host.hold_cpus([1]), "read": lambda: host.read("/x"),
    }  # fmt: skip
    with pytest.raises(XdplabError, match=f"^B: the agent's answer to {op} cannot be understood$"):
        asks[op]()


def test_the_same_words_for_the_same_failures(host: Host, tmp_path: Path) -> None:
    for failing, words in (
        (lambda: host.run(["false"]), "B: false: exit code 1"),
        (lambda: host.run(["sleep", "9"], timeout_s=0.1), "B: sleep 9: timed out after 0.1 s"),
        (lambda: host.read("/absent"), "B: /absent: No such file or directory"),
        (lambda: host.names("/absent"), "B: /absent: No such file or directory"),
        (lambda: host.write("/sys/absent", "1"), "B: /sys/absent: (No such file or directory|Permission denied) writ"),
        (lambda: host.xdp("nothere"), "B: XDP program of nothere: No such device"),
        (lambda: host.xsk_sockets(2**22 + 1), "B: AF_XDP sockets of process 4194305: No such process"),
    ):
        with pytest.raises(XdplabError, match=words):
            failing()
    with pytest.raises(MissingProgram, match="B: program 'no-such-program' not found"):
        host.run(["no-such-program"])
    with pytest.raises(MissingProgram, match="B: program 'no-such-program' not found"):
        host.start(["no-such-program"], log=tmp_path / "log")


def test_what_the_kernel_says_is_of_one_type_everywhere(host: Host) -> None:
    assert host.links()["lo"].mtu == 65536
    assert host.links()["lo"].counters["rx"].keys() >= {"packets", "bytes"}
    assert host.xdp("lo") is None
    assert host.queue_napis("lo", 0) == {"rx": None, "tx": None}
    assert host.xsk_sockets(os.getpid()) == []


def test_a_process_that_nothing_ends_is_reported_and_not_waited_for_without_end() -> None:
    """It waits for a device, which no signal ends."""
    sent: list[int] = []
    host: Any = SimpleNamespace(
        name="b", session=0, wait_process=lambda *_: None, signal_process=lambda _, number: sent.append(number)
    )
    with pytest.raises(XdplabError, match="b: process 7 has not ended 30 s after SIGKILL"):
        Running(host, 7, Path("log")).stop()
    assert sent == [signal.SIGTERM, *[signal.SIGKILL] * 3]
