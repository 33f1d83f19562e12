# SPDX-License-Identifier: Apache-2.0
"""The narrow interface to a host: run, start, read, write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol

#: Lines at each end of what a program complained of.
_ENDS = 2


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
        told = lines if len(lines) <= 2 * _ENDS else [*lines[:_ENDS], "...", *lines[-_ENDS:]]
        return "; ".join(told).strip() or f"exit code {self.returncode}"


def cpu_in_use(host: str, cpu: int, pid: int) -> str:
    """What is told of a CPU that another testbed measures on; `pid` 0: its process is not to be seen."""
    who = f"process {pid}" if pid else "a process of another container"
    return f"{host}: CPU {cpu} is measured on by {who}; wait for it, or give this testbed other `cpus` in its file"


class Running(Protocol):
    """A started process."""

    @property
    def pid(self) -> int:
        """Process id on the host."""

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""

    def wait(self, timeout_s: float) -> int | None:
        """Exit code, or None if it still runs after `timeout_s`."""

    def signal(self, number: int) -> None:
        """Send a signal to the process and its children; a finished process is no error."""

    def stop(self, grace_s: float = 3.0) -> int:
        """SIGTERM, then SIGKILL after `grace_s`; returns the exit code."""

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        """The last lines that it wrote."""


class Conversation(Running, Protocol):
    """A started process that is spoken to: a line to its standard input, a line from its output."""

    def send(self, line: str) -> None:
        """Write one line.

        Raises:
            XdplabError: the process no longer reads.
        """

    def receive(self, timeout_s: float) -> str | None:
        """The next line, or None when none came within `timeout_s`.

        Raises:
            EOFError: its output is closed.
        """


class Host(Protocol):
    """A place where commands run."""

    def __hash__(self) -> int:
        """Of this object: a testbed makes its hosts anew, so what was asked of one holds for a run."""

    @property
    def name(self) -> str:
        """Name of the host in messages and results."""

    @property
    def python(self) -> str:
        """Its Python interpreter, for scripts that need the standard library only."""

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs that programs may run on there."""

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
    ) -> Running:
        """Start a command on `cpus`; stderr goes to the file `log`, stdout to `stdout` or there too.

        `hold_stdin`: its standard input stays open and silent, for programs that end when it closes.
        `die_with_us`: it ends when the thread that started it does, also by kill -9 (PR_SET_PDEATHSIG).
        """

    def converse(self, argv: Sequence[str], *, log: Path) -> Conversation:
        """Start a command that is spoken to; stderr goes to the file `log`, and it ends when its starter does."""

    def ask_socket(self, path: Path, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        """What a program answers to a request of JSON-RPC 1.0 over its Unix socket.

        Raises:
            XdplabError: nobody listens there, no answer came in time, or it is an error.
        """

    def exchange(self, path: Path, data: bytes, until: bytes, *, timeout_s: float = 30.0) -> bytes:
        """All that a program answers to bytes over its Unix socket, up to an end of it that is known before.

        Raises:
            XdplabError: nobody listens there, or the end did not come in time.
        """

    def read(self, path: str) -> str:
        """Text of a file, stripped.

        Raises:
            XdplabError: it cannot be read.
        """

    def write(self, path: str, text: str) -> None:
        """Write a (sysfs, procfs) file, or one in a folder of the run.

        Raises:
            XdplabError: it cannot be written.
        """

    def exists(self, path: str | PurePath) -> bool:
        """True when there is a file, folder or socket of that path."""

    def names(self, folder: str | PurePath) -> list[str]:
        """Names in a folder, sorted.

        Raises:
            XdplabError: it cannot be read.
        """

    def make_folder(self, path: Path) -> None:
        """A folder that only its user may enter, with those above it; one that is there is no error."""

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and all in it; one that is not there is no error."""

    def program(self, path: Path) -> str:
        """Where a program or script of ours is on this host: copied there first when it is another machine.

        Raises:
            XdplabError: it cannot be put there.
        """
