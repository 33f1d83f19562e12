# SPDX-License-Identifier: Apache-2.0
"""A host: what `Machine` can do, whichever machine that is, in the terms of forwarders and testers."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from xdplab.hosts.agent.machine import Machine
from xdplab.hosts.signals import started
from xdplab.model import LinkLost, MissingProgram, XdplabError

#: Lines at each end of what a program complained of.
_ENDS = 2
_keys = count()
#: How often SIGKILL is sent, and how long it is waited for.
_KILLS, _KILL_S = 3, 10.0


@dataclass(frozen=True)
class Completed:
    """A finished command."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """What it printed on stderr, else the last line on stdout, for one-line errors.

        The cause often stands first and what followed from it last, so of many lines both ends are kept.
        """
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        lines = lines or self.stdout.strip().splitlines()[-1:]
        shown = lines if len(lines) <= 2 * _ENDS else [*lines[:_ENDS], "...", *lines[-_ENDS:]]
        return "; ".join(shown).strip() or f"exit code {self.returncode}"


def in_use(what: str, key: str, pid: int) -> str:
    """The message about what another testbed measures with; `pid` 0: its process cannot be seen."""
    who = f"process {pid}" if pid else "a process of another container"
    return f"{what} is in use by a run of {who}; wait for it, or give this testbed other `{key}` in its file"


class Host(Machine):
    """A place where commands run. Its operations raise XdplabError, with the host's name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    def name(self) -> str:
        """Name of the host in messages and results."""
        return self._name

    @property
    def session(self) -> int:
        """Another number once everything that was started here has ended with the connection."""
        return 0

    @property
    def reached_by(self) -> str:
        """`SSH_CONNECTION` of the login there (ssh(1)): addresses and ports of both ends; empty: no login."""
        return ""

    @property
    def identity(self) -> dict[str, str]:
        """What tells this machine from another that has its address; empty of the one that this runs on."""
        return {}

    @property
    def runs_on(self) -> tuple[str, str]:
        """Processor architecture, and version of glibc as 2.36, where the host says them."""
        return "", ""

    @property
    def missing_hint(self) -> str:
        """Where a program that is missing comes from, after `program 'x' not found`."""
        raise NotImplementedError

    @property
    def python(self) -> str:
        """Its Python interpreter, for scripts that need the standard library only."""
        raise NotImplementedError

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs that programs may run on there."""
        raise NotImplementedError

    def program(self, path: Path) -> str:
        """Where a program or script of ours is on this host: copied there first when it is another machine.

        Raises:
            XdplabError: it cannot be put there.
        """
        raise NotImplementedError

    def error(self, text: str, kind: str) -> Exception:
        """What an operation that failed raises here."""
        if kind == "eof":
            return EOFError()
        if kind == "missing":
            return MissingProgram(f"{self.name}: program {text!r} not found{self.missing_hint}")
        return XdplabError(f"{self.name}: {text}")

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end.

        Raises:
            XdplabError: a non-zero exit (with `check`), a timeout, or a missing program.
        """
        result = Completed(tuple(argv), *self.execute(list(argv), timeout_s, stdin or "", env, str(next(_keys))))
        if check and result.returncode:
            raise XdplabError(f"{self.name}: {' '.join(argv)}: {result.complaint}")
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
    ) -> "Running":
        """Start a command on `cpus`; stderr goes to the file `log`, stdout to `stdout` or there too.

        `hold_stdin`: its standard input stays open and silent, for programs that end when it closes.
        It ends when the thread that started it does, also by kill -9 (PR_SET_PDEATHSIG); on a host behind SSH with the
        connection.
        """

        def start() -> Running:
            pid = self.start_process(list(argv), log, stdout, cpus or (), env, stdin, hold_stdin)
            return Running(self, pid, log)

        return started(start)

    def converse(self, argv: Sequence[str], *, log: Path) -> "Conversation":
        """Start a command that is spoken to; stderr goes to the file `log`, and it ends when its starter does."""

        def start() -> Conversation:
            return Conversation(self, self.start_process(list(argv), log, converse=True), log)

        return started(start)

    def ask_socket(self, path: Path, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        """What a program answers to a request of JSON-RPC 1.0 over its Unix socket.

        Raises:
            XdplabError: nobody listens there, no answer came in time, or it is an error.
        """
        return self.ask_rpc(path, method, list(params), timeout_s)

    def exchange(self, path: Path, data: bytes, until: bytes, *, timeout_s: float = 30.0) -> bytes:
        """All that a program answers to bytes over its Unix socket, up to an end of it that is known before.

        Raises:
            XdplabError: nobody listens there, or the end did not come in time.
        """
        answer = self.exchange_hex(path, data.hex(), until.hex(), timeout_s)
        try:
            return bytes.fromhex(answer)
        except ValueError:
            raise XdplabError(f"{self.name}: the agent's answer to exchange_hex cannot be understood") from None


class Running:
    """A started process."""

    def __init__(self, host: Host, pid: int, log: Path) -> None:
        self._host = host
        self._session = host.session
        self._log = log
        self._code: int | None = None
        #: Process id on the host.
        self.pid = pid

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        """Exit code, or None if it still runs after `timeout_s`."""
        if self._code is None:
            lost = self._session != self._host.session
            self._code = -signal.SIGTERM if lost else self._host.wait_process(self.pid, timeout_s)
        return self._code

    def signal(self, number: int) -> None:
        """Send a signal to the process and its children; a finished process is no error."""
        if self.poll() is None:
            self._host.signal_process(self.pid, int(number))

    def stop(self, grace_s: float = 3.0) -> int:
        """SIGTERM, then SIGKILL after `grace_s`; returns the exit code.

        Raises:
            XdplabError: the kernel does not end it: it waits for a device.
        """
        self.signal(signal.SIGTERM)
        code = self.wait(grace_s)
        for _ in range(_KILLS):
            if code is None:
                self.signal(signal.SIGKILL)
                code = self.wait(_KILL_S)
        if code is None:
            raise XdplabError(
                f"{self._host.name}: process {self.pid} has not ended {_KILLS * _KILL_S:g} s after SIGKILL"
            )
        return code

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        """The last lines that it wrote; none when they cannot be had."""
        try:
            return tuple(self._host.tail(self._log, lines))
        except XdplabError:
            return ()


class Conversation(Running):
    """A started process that is spoken to: a line to its standard input, a line from its output."""

    def send(self, line: str) -> None:
        """Write one line, which is lost where the process no longer reads (see `receive`).

        Raises:
            LinkLost: it ended with the connection.
        """
        self._there()
        self._host.send(self.pid, line)

    def receive(self, timeout_s: float) -> str | None:
        """The next line, or None when none came within `timeout_s`.

        Raises:
            LinkLost: it ended with the connection.
            EOFError: its output is closed.
        """
        self._there()
        return self._host.receive(self.pid, timeout_s)

    def hang_up(self) -> None:
        """Close its input, which asks most programs to end."""
        if self._session == self._host.session:
            self._host.hang_up(self.pid)

    def stop(self, grace_s: float = 3.0) -> int:
        """Close its input, which asks it to end; then as any other process."""
        if self.poll() is None:
            self.hang_up()
        code = self.wait(grace_s)
        if code is None:
            code = super().stop(grace_s)
        if self._session == self._host.session:
            self._host.forget(self.pid)
        return code

    def _there(self) -> None:
        if self._session != self._host.session:
            raise LinkLost(f"lost the connection to host {self._host.name}")
