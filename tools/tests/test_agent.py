# SPDX-License-Identifier: Apache-2.0
"""The agent as a host runs it: one zip file, Python's standard library, a session that ends all it started."""

import ast
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab.command import kill_9, wait_for

from xdplab.forwarders.vpp import segment
from xdplab.hosts import bpf
from xdplab.hosts.agent import machine, netlink, serve, xsk
from xdplab.hosts.ssh_link import agent_zip
from xdplab.model import Unsupported
from xdplab_applications import cpu_job, memcached_client
from xdplab_timeline import perf_probe


class Session:
    """A login whose command is the agent of a folder."""

    def __init__(self, folder: Path, controller: str = "c", lease_s: float = 30.0) -> None:
        program = folder.parent / "agent.pyz"
        program.write_bytes(agent_zip())
        argv = [sys.executable, "-I", "-S", str(program), str(folder)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.number = 0
        hello = {"controller": controller, "label": "a test", "lease_s": lease_s}
        self.facts = self._exchange(hello)

    def send(self, op: str, *args: Any, **given: Any) -> int:
        self.number += 1
        self.line({"id": self.number, "op": op, "args": args, "given": given})
        return self.number

    def line(self, message: dict[str, Any], default: Any = None) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message, default=default).encode() + b"\n")
        self.process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        assert self.process.stdout
        found = json.loads(self.process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        self.line(message)
        return self.reply()

    def ask(self, op: str, *args: Any, **given: Any) -> Any:
        number = self.send(op, *args, **given)
        reply = self.reply()
        assert reply["id"] == number
        return reply["ok"]

    def refused(self, op: str, *args: Any, **given: Any) -> str:
        self.send(op, *args, **given)
        return str(self.reply()["error"])

    def hang_up(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def cut(self) -> None:
        """Close both ends, as sshd does when the connection is lost."""
        assert self.process.stdout
        self.hang_up()
        self.process.stdout.close()
        self.process.wait(15)


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
        last = Session(path)
        if "pid" in last.facts:
            last.cut()
            wait_for(lambda: ended(last.facts["pid"]), "the agent's end")


def test_the_zip_is_the_same_each_time() -> None:
    agent_zip.cache_clear()
    first = agent_zip()
    agent_zip.cache_clear()
    assert agent_zip() == first


def test_commands_files_and_processes(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    done = agent.ask("execute", ["cat"], 5, "; rm -rf $HOME `x`\n")
    assert done == [0, "; rm -rf $HOME `x`\n", ""]
    assert agent.ask("execute", ["false"], 5)[0] == 1
    assert agent.refused("execute", ["no-such-program"], 5) == "no-such-program"
    assert agent.refused("execute", ["sleep", "9"], 0.1) == "sleep 9: timed out after 0.1 s"
    log = folder / "log"
    pid = agent.ask("start_process", ["sh", "-c", "echo $WORD; echo seen >&2; exec sleep 60"], str(log),
                    env={"WORD": "said"})  # fmt: skip
    wait_for(lambda: agent.ask("tail", str(log), 2) == ["said", "seen"], "its log")
    assert agent.ask("wait_process", pid, 0.05) is None
    agent.ask("signal_process", pid, signal.SIGTERM)
    assert agent.ask("wait_process", pid, 5) == -signal.SIGTERM
    assert "was started here" in agent.refused("wait_process", 1, 0)
    (tmp_path / "file").write_text("old", encoding="utf-8")
    agent.ask("write", str(tmp_path / "file"), "new")
    assert agent.ask("read", str(tmp_path / "file")) == "new"
    assert "No such file" in agent.refused("write", str(tmp_path / "missing"), "x")
    agent.ask("write", str(folder / "vpp.conf"), "made")
    assert (folder / "vpp.conf").stat().st_mode & 0o777 == 0o600
    assert agent.ask("exists", str(tmp_path)) is True


def test_a_command_that_is_waited_for_can_be_cancelled(folder: Path) -> None:
    agent = Session(folder)
    agent.send("execute", ["sleep", "76"], 60, key="k")
    wait_for(lambda: runs("sleep", "76"), "the command")
    agent.send("cancel", "k")
    assert sorted(str(agent.reply()["ok"]) for _ in range(2)) == ["None", "[-9, '', '']"]


def test_only_folders_of_its_own_are_made_and_removed(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    for path in (tmp_path / "other", folder / ".." / "other", folder):
        assert "not within" in agent.refused("make_folder", str(path))
        assert "not within" in agent.refused("remove_folder", str(path))
    agent.ask("make_folder", str(folder / "run" / "dut"))
    assert (folder / "run" / "dut").stat().st_mode & 0o777 == 0o700
    agent.ask("remove_folder", str(folder / "run"))
    assert not (folder / "run").exists()


def test_a_log_is_private_and_never_follows_a_link(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (folder / "log").symlink_to(victim)
    assert "Too many levels" in agent.refused("start_process", ["echo", "x"], str(folder / "log"))
    assert "Too many levels" in agent.refused("write", str(folder / "log"), "x")
    assert victim.read_text(encoding="utf-8") == "precious"
    agent.ask("start_process", ["echo", "x"], str(folder / "log2"))
    assert (folder / "log2").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_session_that_is_cut_ends_what_runs_there_at_once_and_the_next_one_says_so(folder: Path) -> None:
    agent = Session(folder)
    # a grandchild whose parent is gone, as a daemon leaves it
    agent.ask("start_process", ["sh", "-c", "setsid sleep 75 & exit 0"], str(folder / "log"))
    agent.send("execute", ["sleep", "75"], 60)
    wait_for(lambda: sum(command.startswith("sleep\x0075") for command in commands()) == 2, "the commands")
    began = time.monotonic()
    agent.hang_up()
    wait_for(lambda: ended(agent.facts["pid"]), "the agent's end")
    assert not runs("sleep", "75")
    assert time.monotonic() - began < 2
    assert Session(folder).facts["ended"] == ["sleep", "sleep"]


def test_what_an_agent_that_was_killed_left_running_is_ended_by_the_next_one(folder: Path) -> None:
    """As the out-of-memory killer does: a switch that polls would have its CPU for good."""
    agent = Session(folder)
    agent.ask("start_process", ["sleep", "78"], str(folder / "log"))
    agent.ask("start_process", ["sh", "-c", "setsid sleep 78 & exit 0"], str(folder / "log2"))
    wait_for(lambda: sum(command.startswith("sleep\x0078") for command in commands()) == 2, "the commands")
    kill_9(agent.facts["pid"])
    wait_for(lambda: ended(agent.facts["pid"]), "the agent's end")
    assert runs("sleep", "78")
    other = Session(folder.parent / "other")  # of another folder: they are none of its own
    assert (other.facts["ended"], runs("sleep", "78")) == ([], True)
    other.cut()
    assert Session(folder).facts["ended"] == ["sleep", "sleep"]
    assert not runs("sleep", "78")


def test_what_is_on_a_port_at_a_sessions_end_is_known_to_the_next_one_unless_it_was_killed(folder: Path) -> None:
    first = Session(folder)
    first.ask("take_ports", ["lo"])
    first.cut()
    second = Session(folder)
    assert "127.0.0.1/8" in second.facts["left"]["lo"][3]["addresses"]
    second.ask("take_ports", ["lo"])
    kill_9(second.facts["pid"])
    wait_for(lambda: ended(second.facts["pid"]), "the agent's end")
    assert Session(folder).facts["left"]["lo"][3] == {}, "of an earlier session, which says nothing of this one's end"


def test_half_a_request_is_not_carried_out(folder: Path, tmp_path: Path) -> None:
    agent = Session(folder)
    assert agent.process.stdin
    asked = {"id": 1, "op": "execute", "args": [["touch", str(tmp_path / "t")], 5], "given": {}}
    agent.process.stdin.write(json.dumps(asked).encode())
    agent.hang_up()
    assert agent.process.wait(10) == 0
    assert not (tmp_path / "t").exists()


def test_another_controller_is_kept_out_and_a_new_session_of_the_same_one_ends_what_was_left(folder: Path) -> None:
    first = Session(folder)
    first.ask("start_process", ["sh", "-c", "setsid sleep 77 & exit 0"], str(folder / "log"))
    assert Session(folder, controller="other").facts == {"error": "in use by a test"}
    again = Session(folder)  # the first is still connected, as over a cable that was pulled
    assert again.facts["ended"] == ["sleep"]
    assert ended(first.facts["pid"])
    assert not runs("sleep", "77")
    assert Session(folder, controller="other").facts == {"error": "in use by a test"}
    again.hang_up()
    wait_for(lambda: ended(again.facts["pid"]), "the agent's end")
    assert "error" not in Session(folder, controller="other").facts


def test_a_controller_that_is_not_heard_is_gone_though_nobody_closed_its_connection(folder: Path) -> None:
    """A pulled cable leaves sshd connected for hours."""
    agent = Session(folder, lease_s=2.0)
    agent.ask("start_process", ["sleep", "79"], str(folder / "log"))
    for _ in range(6):
        time.sleep(0.5)
        agent.line({"op": "beat"})
    assert agent.ask("exists", "/") is True
    wait_for(lambda: ended(agent.facts["pid"]), "the agent's end")
    assert not runs("sleep", "79")


def test_an_agent_whose_answers_nobody_takes_is_ended_by_the_lease_too(folder: Path) -> None:
    agent = Session(folder, lease_s=0.5)
    for _ in range(20):
        agent.send("execute", ["head", "-c", "100000", "/dev/zero"], 5)
    wait_for(lambda: ended(agent.facts["pid"]), "the agent's end")


@pytest.mark.xdist_group("testbed")  # the CPU is this machine's: tests that send frames hold it too
def test_a_cpu_is_measured_on_by_one_testbed_at_a_time(folder: Path) -> None:
    other = folder.parent / "other"
    first, second = Session(folder), Session(other)
    cpu = first.facts["cpus"][-1]
    assert first.ask("take_cpus", [cpu]) is None
    assert first.ask("take_cpus", [cpu]) is None
    assert second.ask("take_cpus", first.facts["cpus"]) == [cpu, first.facts["pid"]]
    if cpu != first.facts["cpus"][0]:  # those that were free are not kept
        assert first.ask("take_cpus", first.facts["cpus"]) is None
    Session(folder)  # the first is dead
    assert second.ask("take_cpus", [cpu]) is None
    assert "No such file" in second.refused("take_cpus", [4095])
    second.cut()
    wait_for(lambda: ended(second.facts["pid"]), "the other agent's end")


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    program = tmp_path / "agent.pyz"
    program.write_bytes(agent_zip())
    done = subprocess.run([sys.executable, "-I", "-S", program, folder], capture_output=True, text=True)
    assert (done.returncode, "mode 0700" in done.stderr) == (1, True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "open")
    done = subprocess.run([sys.executable, "-I", "-S", program, link], capture_output=True, text=True)
    assert (done.returncode, "mode 0700" in done.stderr) == (1, True)


def test_what_is_no_operation_is_refused(folder: Path) -> None:
    agent = Session(folder)
    assert agent.refused("nonsense") == "unknown operation 'nonsense'"
    assert agent.refused("call", "ls")
    assert agent.refused("execute")
    assert agent.refused("execute", "ls -l", 1) == "argv must be a list of strings"
    assert agent.refused("read")
    assert agent.ask("exists", "/") is True


def runs(*argv: str) -> bool:
    return any("\0".join(argv) in command for command in commands())


def commands() -> list[str]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and path.name != str(os.getpid()):
            try:
                found.append((path / "cmdline").read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
    return found


def test_a_socket_that_is_closed_while_a_process_is_looked_at_is_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xsk.os, "listdir", lambda _: ["1000000"])
    monkeypatch.setattr(xsk.os, "readlink", lambda _: "socket:[1]")
    assert xsk.sockets_of(os.getpid()) == []


def test_an_answer_that_is_too_long_is_refused_here(folder: Path) -> None:
    """The controller would give the whole connection up."""
    agent = Session(folder)
    size = serve.ANSWER_BYTES // len("\\u0000") + 1
    assert "is too long" in agent.refused("execute", ["head", "-c", str(size), "/dev/zero"], 20)
    assert agent.ask("exists", "/") is True


def test_what_another_session_left_on_a_port_is_kept_as_that_left_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator's XDP program and MTU since were taken for the killed run's, and `restore` took them off."""
    links = {"b0": (7, 1700, 99), "b1": (8, 1500, 0), "c0": (9, 9000, 5), "new0": (10, 1500, 0), "e0": (3, 1500, 0)}
    seen = {name: SimpleNamespace(ifindex=index, mtu=mtu, xdp=xdp) for name, (index, mtu, xdp) in links.items()}
    monkeypatch.setattr(machine.netlink, "links", lambda: seen)
    agent: Any = SimpleNamespace(
        _before={name: index for name, (index, *_) in links.items() if name != "new0"}, _ports=["c0"]
    )
    earlier = {"b0": [7, 1500, 0], "b1": [6, 1500, 0], "gone": [4, 1500, 0]}  # b1 is another interface by now
    left = machine.Machine.ports_left(agent, earlier)
    assert {name: tuple(was) for name, was in left.items()} == {
        "b0": (7, 1500, 0),
        "c0": (9, 9000, 5, {}),
        "new0": (10, 1500, 0, {}),
    }


def test_what_runs_on_hosts_needs_no_newer_python_than_3_9() -> None:
    """Grammar by the parser; of the library, what came after and has been taken for granted here before."""
    folder = Path(machine.__file__).parent
    beside = [folder.parent / f"{name}.py" for name in ("frame_probe", "cable_probe")]
    beside += [Path(each.__file__) for each in (segment, cpu_job, memcached_client, perf_probe)]
    for path in [*folder.glob("*.py"), *beside]:
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
                assert not node.keywords, f"{path}:{node.lineno}: zip(strict=) is of Python 3.10"
        annotations = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
        inside = [each for found in annotations if found is not None for each in ast.walk(found)]
        if any(isinstance(each, ast.BinOp) for each in inside):
            names = [each.module for each in tree.body if isinstance(each, ast.ImportFrom)]
            assert "__future__" in names, f"{path}: `X | Y` in an annotation is of Python 3.10"


def test_kernels_before_6_15_tell_queues_of_af_xdp_sockets_by_sock_diag(monkeypatch: pytest.MonkeyPatch) -> None:
    """As struct xdp_diag_msg and xdp_diag_info; a socket that is bound to nothing has no information."""
    monkeypatch.setattr(netlink.platform, "release", lambda: "6.1.0-47-amd64")
    assert netlink.xsk_queues("lo") in ([], None)  # None: this kernel has no such module
    asked = []

    def ask(protocol: int, kind: int, body: bytes, header: int, *, dump: bool) -> Iterator[dict[int, bytes]]:
        asked.append((protocol, kind, body.hex(), header, dump))
        for place in ((1, 3), (1, 0), (9, 5), None):
            yield {0: bytes(16)} | ({1: struct.pack("=2I", *place)} if place else {})

    monkeypatch.setattr(netlink, "ask", ask)
    assert netlink.xsk_queues("lo") == [0, 3]
    assert asked == [(4, 20, "2c000000" + "00000000" + "01000000" + "ffffffff" * 2, 16, True)]


@pytest.mark.parametrize(
    ("machine", "glibc", "runs"),
    [
        ("", "", True),
        (os.uname().machine, "2.99", True),
        (os.uname().machine, "", False),
        (os.uname().machine, "2.1", False),
        ("riscv128", "2.99", False),
    ],
)
def test_a_program_for_a_newer_c_library_is_refused_before_it_is_copied(
    machine: str, glibc: str, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []
    host = SimpleNamespace(name="B", runs_on=(machine, glibc), program=lambda path: copied.append(path) or "/there")
    monkeypatch.setattr(bpf, "bpf_program", lambda _: Path("/bin/true"))
    if runs:
        assert bpf.built("xdpgen", host) == "/there"  # type: ignore[arg-type]
        return
    has = f"it has glibc {glibc}" if glibc == "2.1" else "it has another C library than glibc"
    says = f"its processor is {machine}" if machine == "riscv128" else has
    with pytest.raises(Unsupported, match=rf"^B: {says}; true of this machine "):
        bpf.built("xdpgen", host)  # type: ignore[arg-type]
    assert copied == []


def test_the_agent_says_what_runs_on_its_host(tmp_path: Path) -> None:
    session = Session(tmp_path / "agent")
    session.process.kill()
    assert session.facts["machine"] == os.uname().machine
    assert session.facts["glibc"].startswith("2.")
