# SPDX-License-Identifier: Apache-2.0
"""A host behind SSH. The connections of all hosts live on one event loop in a thread of its own."""

import contextlib
import hashlib
import signal
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from xdplab.hosts.base import Completed, cpu_in_use
from xdplab.hosts.signals import started
from xdplab.model import HostSpec, InputError, XdplabError

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")
_loop: "asyncio.AbstractEventLoop | None" = None
_loop_lock = threading.Lock()


def _event_loop() -> "asyncio.AbstractEventLoop":
    import asyncio  # 30 ms, which commands without SSH need not take

    global _loop
    with _loop_lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="xdplab-ssh", daemon=True).start()
        return _loop


def _await(work: Coroutine[Any, Any, _T]) -> _T:
    """Its result; a signal that ends our waiting ends the work too."""
    import asyncio

    future = asyncio.run_coroutine_threadsafe(work, _event_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class RemoteProcess:
    """A process that a host's agent started: it goes on while the connection is down."""

    def __init__(self, host: "SshHost", pid: int, log: Path) -> None:
        self._host = host
        self._pid = pid
        self._log = log
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """Process id on the host."""
        return self._pid

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        """Exit code, or None if it still runs after `timeout_s`."""
        if self._code is None:
            self._code = self._host.ask("wait", pid=self._pid, timeout_s=timeout_s)
        return self._code

    def signal(self, number: int) -> None:
        """Send a signal to the process and its children; a finished process is no error."""
        if self._code is None:
            self._host.ask("signal", pid=self._pid, number=int(number))

    def stop(self, grace_s: float = 3.0) -> int:
        """SIGTERM, then SIGKILL after `grace_s`; returns the exit code."""
        if self.poll() is None:
            self.signal(signal.SIGTERM)
        code = self.wait(grace_s)
        while code is None:
            self.signal(signal.SIGKILL)
            code = self.wait(10.0)
        return code

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        """The last lines that it wrote; none when they cannot be had."""
        try:
            return tuple(self._host.ask("tail", path=str(self._log), lines=lines))
        except XdplabError:
            return ()


class RemoteLines(RemoteProcess):
    """One that is spoken to line by line, over the agent."""

    def send(self, line: str) -> None:
        """Write one line to its standard input."""
        self._host.ask("send", pid=self._pid, line=line)

    def receive(self, timeout_s: float) -> str | None:
        """The next line of its output, or None when none came within `timeout_s`."""
        found = self._host.ask("receive", pid=self._pid, timeout_s=timeout_s)
        if found == []:
            raise EOFError
        if not (found is None or (isinstance(found, list) and isinstance(found[0], str))):
            raise XdplabError(f"{self._host.name}: the agent's answer to receive cannot be understood")
        return found[0] if found else None


class SshHost:
    """A machine reached over SSH; see `hosts.agent` for what runs there."""

    def __init__(self, name: str, spec: HostSpec, controller: str) -> None:
        from xdplab.hosts.ssh_link import AgentLink  # its library takes 0.2 s to import, 4 s on an emulated machine

        self._name = name
        self._spec = spec
        self._link = AgentLink(name, spec, controller)
        self._programs: dict[bytes, str] = {}
        self._open = False

    @property
    def name(self) -> str:
        """Name in messages and results."""
        return self._name

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the agent says of its host: `boot_id`, `netns`, `pid`, `uid`, `cpus`; `ended`: what it found running."""
        return self._link.facts

    @property
    def reconnects(self) -> int:
        """How often the connection was made anew."""
        return self._link.reconnects

    def open(self) -> None:
        """Connect.

        Raises:
            InputError: it cannot be reached or used as the testbed file says.
        """
        if not self._open:
            _await(self._link.open())
            self._open = True

    def close(self) -> None:
        """End what runs there, the agent too, and hang up. Safe to call twice, and when the host is lost."""
        if self._open:
            self._open = False
            with contextlib.suppress(XdplabError):
                self.ask("remove_folder", path=str(self.folder))
                self.ask("end")
            _await(self._link.close())

    @property
    def folder(self) -> Path:
        """Where a run may keep files on this host."""
        return Path(self._spec.folder) / "run"

    @property
    def python(self) -> str:
        """Its Python interpreter, for scripts of the standard library."""
        return str(self.facts.get("python", "python3"))

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs that programs may run on there."""
        return tuple(self.facts["cpus"])

    def hold_cpus(self, cpus: Sequence[int]) -> None:
        """Have these CPUs for this testbed alone, until `close`.

        Raises:
            InputError: somebody else measures on one of them.
        """
        taken = self.ask("hold_cpus", cpus=list(cpus))
        if taken is None:
            return
        try:
            cpu, pid = map(int, taken)
        except (TypeError, ValueError):
            raise XdplabError(f"{self._name}: the agent's answer to hold_cpus cannot be understood") from None
        raise InputError(cpu_in_use(self._name, cpu, pid))

    def ask(self, op: str, **asked: Any) -> Any:
        """A request to the agent.

        Raises:
            XdplabError: what it answers with, after the host's name.
        """
        from xdplab.hosts.ssh_link import AgentError

        try:
            return _await(self._link.request(op, **asked))
        except AgentError as exc:
            what = " ".join(asked["argv"]) + ": " if "argv" in asked else ""
            raise XdplabError(f"{self._name}: {what}{exc}") from None

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end; see `Host.run`."""
        done = self.ask("run", argv=list(argv), timeout_s=timeout_s, stdin=stdin, env=dict(env or {}))
        result = Completed(tuple(argv), done["returncode"], done["stdout"], done["stderr"])
        if check and result.returncode:
            raise XdplabError(f"{self._name}: {' '.join(argv)}: {result.complaint}")
        return result

    def start(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        cpus: Sequence[int] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        stdout: Path | None = None,
        hold_stdin: bool = False,
        die_with_us: bool = False,
    ) -> RemoteProcess:
        """Start a command on `cpus`; see `Host.start`. Every command here ends with the agent's lease at the latest."""
        taskset = ["taskset", "--cpu-list", ",".join(map(str, cpus))] if cpus else []
        asked = {
            "argv": [*taskset, *argv],
            "log": str(log),
            "stdout": str(stdout) if stdout else None,
            "env": dict(env or {}),
            "stdin": stdin,
            "hold_stdin": hold_stdin,
        }
        return started(lambda: RemoteProcess(self, self.ask("start", **asked), log))

    def converse(self, argv: Sequence[str], *, log: Path) -> RemoteLines:
        """Start a command that is spoken to; see `Host.converse`."""
        return started(lambda: RemoteLines(self, self.ask("converse", argv=list(argv), log=str(log)), log))

    def ask_socket(self, path: Path, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        """Ask a program by its Unix socket; see `Host.ask_socket`."""
        return self.ask("ask_socket", path=str(path), method=method, params=list(params), timeout_s=timeout_s)

    def exchange(self, path: Path, data: bytes, until: bytes, *, timeout_s: float = 30.0) -> bytes:
        """Ask a program by its Unix socket in bytes; see `Host.exchange`."""
        asked = {"path": str(path), "data": data.hex(), "until": until.hex(), "timeout_s": timeout_s}
        try:
            return bytes.fromhex(self.ask("exchange", **asked))
        except (TypeError, ValueError):
            raise XdplabError(f"{self._name}: the agent's answer to exchange cannot be understood") from None

    def read(self, path: str) -> str:
        """Text of a file, stripped."""
        return str(self.ask("read", path=path)).strip()

    def write(self, path: str, text: str) -> None:
        """Write a (sysfs, procfs) file."""
        try:
            self.ask("write", path=path, text=text)
        except XdplabError as exc:
            raise XdplabError(f"{exc} writing {text!r}") from None

    def exists(self, path: str | PurePath) -> bool:
        """True when there is a file, folder or socket of that path."""
        return bool(self.ask("exists", path=str(path)))

    def names(self, folder: str | PurePath) -> list[str]:
        """Names in a folder, sorted."""
        return list(self.ask("list", path=str(folder)))

    def make_folder(self, path: Path) -> None:
        """A folder that only its user may enter, with those above it."""
        self.ask("make_folder", path=str(path))

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and all in it; one that is not there is no error."""
        self.ask("remove_folder", path=str(path))

    def program(self, path: Path) -> str:
        """Where a program or script of ours is on this host: copied there, and its hash checked, if need be."""
        data = path.read_bytes()
        if data not in self._programs:
            there = _await(self._link.put(path.name, data))
            self._check(there, data)
            self._programs[data] = there
        return self._programs[data]

    def _check(self, path: str, data: bytes) -> None:
        if self.ask("sha256", path=path) != hashlib.sha256(data).hexdigest():
            raise XdplabError(f"{self._name}: {path} is not what was put there")
