# SPDX-License-Identifier: Apache-2.0
"""The agent as a host runs it: one zip file, Python's standard library, requests over its standard input."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.command import wait_for

from xdplab.hosts.ssh_deploy import agent_zip


class Session:
    """A login that is joined to the agent of a folder."""

    def __init__(self, folder: Path, controller: str = "c", session: str = "s", lease_s: float = 30.0) -> None:
        program = folder.parent / "agent.pyz"
        program.write_bytes(agent_zip())
        argv = [sys.executable, "-I", "-S", str(program), "attach", str(folder)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.number = 0
        hello = {"controller": controller, "session": session, "label": "a test", "lease_s": lease_s}
        self.facts = self._exchange(hello)

    def send(self, **request: Any) -> int:
        self.number += 1
        self.line({"id": self.number, **request})
        return self.number

    def line(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        assert self.process.stdout
        found = json.loads(self.process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        self.line(message)
        return self.reply()

    def ask(self, **request: Any) -> Any:
        number = self.send(**request)
        reply = self.reply()
        assert reply["id"] == number
        return reply["ok"]

    def refused(self, **request: Any) -> str:
        self.send(**request)
        return str(self.reply()["error"])

    def cut(self) -> None:
        self.process.kill()
        self.process.communicate()


def ended(pid: int) -> bool:
    """Gone, or waiting to be collected by whatever is process 1 here."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "agent"
    yield path
    if path.exists():
        last = Session(path, session="the end")
        if "agent" in last.facts:
            last.send(op="end")
            last.reply()
            pid = last.facts["pid"]
            last.cut()
            wait_for(lambda: ended(pid), "the agent's end")


def test_the_zip_is_the_same_each_time() -> None:
    agent_zip.cache_clear()
    first = agent_zip()
    agent_zip.cache_clear()
    assert agent_zip() == first


def test_commands_files_and_processes(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    done = agent.ask(op="run", argv=["cat"], stdin="; rm -rf $HOME `x`\n", timeout_s=5)
    assert done == {"returncode": 0, "stdout": "; rm -rf $HOME `x`\n", "stderr": ""}
    assert agent.ask(op="run", argv=["false"], timeout_s=5)["returncode"] == 1
    assert agent.refused(op="run", argv=["no-such-program"], timeout_s=5) == "no-such-program"
    assert "no end after 0.1 s" in agent.refused(op="run", argv=["sleep", "9"], timeout_s=0.1)
    log = folder / "log"
    pid = agent.ask(op="start", argv=["sh", "-c", "echo $WORD; echo seen >&2; exec sleep 60"], log=str(log),
                    env={"WORD": "said"})  # fmt: skip
    wait_for(lambda: agent.ask(op="tail", path=str(log), lines=2) == ["said", "seen"], "its log")
    assert agent.ask(op="wait", pid=pid, timeout_s=0.05) is None
    agent.ask(op="signal", pid=pid, number=signal.SIGTERM)
    assert agent.ask(op="wait", pid=pid, timeout_s=5) == -signal.SIGTERM
    assert "was started here" in agent.refused(op="wait", pid=1, timeout_s=0)
    (tmp_path / "file").write_text("old", encoding="utf-8")
    agent.ask(op="write", path=str(tmp_path / "file"), text="new")
    assert agent.ask(op="read", path=str(tmp_path / "file")) == "new"
    assert "No such file" in agent.refused(op="write", path=str(tmp_path / "missing"), text="x")
    agent.ask(op="write", path=str(folder / "vpp.conf"), text="made")
    assert (folder / "vpp.conf").stat().st_mode & 0o777 == 0o600
    assert agent.ask(op="exists", path=str(tmp_path)) is True


def test_only_folders_of_its_own_are_made_and_removed(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    for path in (tmp_path / "other", folder / ".." / "other", folder):
        assert "not within" in agent.refused(op="make_folder", path=str(path))
        assert "not within" in agent.refused(op="remove_folder", path=str(path))
    agent.ask(op="make_folder", path=str(folder / "run" / "dut"))
    assert (folder / "run" / "dut").stat().st_mode & 0o777 == 0o700
    agent.ask(op="remove_folder", path=str(folder / "run"))
    assert not (folder / "run").exists()


def test_a_log_is_private_and_never_follows_a_link(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (folder / "log").symlink_to(victim)
    assert "Too many levels" in agent.refused(op="start", argv=["echo", "x"], log=str(folder / "log"))
    assert victim.read_text(encoding="utf-8") == "precious"
    agent.ask(op="start", argv=["echo", "x"], log=str(folder / "log2"))
    assert (folder / "log2").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_repeated_request_happens_once_and_its_reply_is_kept(folder: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.touch()
    request = {"id": 7, "op": "run", "argv": ["sh", "-c", f"sleep 0.3; echo x >> {marks}"], "timeout_s": 9}
    first = Session(folder)
    first.line(request)
    time.sleep(0.1)
    first.cut()  # in the middle of the command
    second = Session(folder)
    assert (second.facts["agent"], "ended" in second.facts) == (first.facts["agent"], False)
    second.line(request)
    assert second.reply()["ok"]["returncode"] == 0
    second.line(request)  # the reply is still there
    assert second.reply()["ok"]["returncode"] == 0
    assert marks.read_text(encoding="utf-8") == "x\n"
    second.number = 7
    second.send(op="exists", path="/", ack=[7])
    assert second.reply()["ok"] is True
    second.line(request)  # acknowledged, so forgotten: it is a new one
    second.reply()
    assert marks.read_text(encoding="utf-8") == "x\nx\n"


def test_an_agent_whose_work_is_done_takes_no_time_to_end(folder: Path) -> None:
    agent = Session(folder)
    agent.ask(op="end")
    began = time.monotonic()
    agent.cut()
    wait_for(lambda: ended(agent.facts["pid"]), "the agent's end")
    assert time.monotonic() - began < 1


def test_half_a_request_is_not_carried_out(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    assert agent.process.stdin
    agent.process.stdin.write(json.dumps({"id": 1, "op": "run", "argv": ["touch", str(tmp_path / "t")]}).encode())
    agent.process.stdin.flush()
    agent.cut()
    assert Session(folder).ask(op="exists", path=str(tmp_path / "t")) is False


def test_another_controller_is_kept_out_and_a_new_session_of_the_same_one_ends_what_was_left(folder: Path) -> None:
    first = Session(folder)
    # a grandchild whose parent is gone, as a daemon leaves it
    first.ask(op="start", argv=["sh", "-c", "setsid sleep 77 & exit 0"], log=str(folder / "log"))
    assert Session(folder, controller="other").facts == {"error": "in use by a test"}
    first.cut()
    assert Session(folder, controller="other").facts == {"error": "in use by a test"}  # until the lease is over
    again = Session(folder, session="new")
    assert again.facts["ended"] == ["sleep"]
    assert not any("sleep\0" + "77" in command for command in commands())


def test_when_nobody_comes_back_the_lease_ends_everything(folder: Path) -> None:
    agent = Session(folder, lease_s=0.5)
    agent.ask(op="start", argv=["sleep", "78"], log=str(folder / "log"))
    agent.cut()
    wait_for(lambda: ended(agent.facts["pid"]), "the agent's end", 10)
    assert not any("sleep\0" + "78" in command for command in commands())
    assert not (folder / "agent.sock").exists()


def test_a_controller_that_is_not_heard_is_gone_though_nobody_closed_its_connection(folder: Path) -> None:
    """A pulled cable leaves sshd connected for hours."""
    agent = Session(folder, lease_s=0.5)
    agent.ask(op="start", argv=["sleep", "79"], log=str(folder / "log"))
    for _ in range(6):
        time.sleep(0.25)
        agent.line({"op": "beat"})
    assert agent.ask(op="exists", path="/") is True
    wait_for(lambda: ended(agent.facts["pid"]), "the agent's end", 10)
    assert not any("sleep\0" + "79" in command for command in commands())
    assert agent.process.wait(5) == 0


def test_a_reply_belongs_to_the_session_that_asked(folder: Path) -> None:
    first = Session(folder)
    first.send(op="run", argv=["sleep", "80"], timeout_s=60)
    wait_for(lambda: any("sleep\0" + "80" in command for command in commands()), "the command")
    second = Session(folder, session="new")  # ends it, and takes the same number again
    assert second.facts["ended"] == ["sleep"]
    time.sleep(0.2)
    assert second.ask(op="run", argv=["echo", "mine"], timeout_s=5)["stdout"] == "mine\n"


@pytest.mark.xdist_group("testbed")  # the CPU is this machine's: tests that send frames hold it too
def test_a_cpu_is_measured_on_by_one_testbed_at_a_time(folder: Path) -> None:
    """Whatever folders their agents have."""
    other = folder.parent / "other"
    first, second = Session(folder), Session(other)
    cpu = first.facts["cpus"][-1]
    assert first.ask(op="hold_cpus", cpus=[cpu]) is None
    assert first.ask(op="hold_cpus", cpus=[cpu]) is None
    assert second.ask(op="hold_cpus", cpus=first.facts["cpus"]) == [cpu, first.facts["pid"]]
    if cpu != first.facts["cpus"][0]:  # those that were free are not kept
        assert first.ask(op="hold_cpus", cpus=first.facts["cpus"]) is None
    Session(folder, session="new")  # the first is dead
    assert second.ask(op="hold_cpus", cpus=[cpu]) is None
    assert "No such file" in second.refused(op="hold_cpus", cpus=[4095])
    second.ask(op="end")
    second.cut()
    wait_for(lambda: ended(second.facts["pid"]), "the other agent's end")


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    program = tmp_path / "agent.pyz"
    program.write_bytes(agent_zip())
    done = subprocess.run([sys.executable, "-I", "-S", program, "attach", folder], capture_output=True, text=True)
    assert (done.returncode, "mode 0700" in done.stderr) == (1, True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "open")
    done = subprocess.run([sys.executable, "-I", "-S", program, "attach", link], capture_output=True, text=True)
    assert (done.returncode, "mode 0700" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b'{"id": 1}\n',
        b"\xff\xfe\n",
        b'{"controller": 3}\n',
        pytest.param(b"x" * 70000 + b"\n", id="endless"),
    ],
)
def test_nonsense_instead_of_hello_ends_that_connection_only(folder: Path, line: bytes) -> None:
    agent = Session(folder)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(folder / "agent.sock"))
        sock.sendall(line)
        sock.settimeout(5)
        assert b'"agent"' not in sock.recv(1000)
    assert agent.ask(op="exists", path="/") is True
    for bad in ({"op": "nonsense"}, {"op": "run"}, {"op": "run", "argv": "ls -l", "timeout_s": 1}, {"op": "read"}):
        assert agent.refused(**bad)
    assert agent.ask(op="exists", path="/") is True


def commands() -> list[str]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and path.name != str(os.getpid()):
            try:
                found.append((path / "cmdline").read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
    return found
