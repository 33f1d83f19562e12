# SPDX-License-Identifier: Apache-2.0
"""Commands on this machine, in the current network namespace or in a named one."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from xdplab.hosts.agent import sockets
from xdplab.hosts.agent.lines import Lines
from xdplab.hosts.base import Completed
from xdplab.hosts.signals import started
from xdplab.model import MissingProgram, XdplabError
from xdplab.tools import setup_command

#: Paths that differ between network namespaces; all others are read and written without starting a program.
_PER_NETNS = ("/proc/sys/", "/proc/net/", "/proc/self/", "/sys/", "/etc/")


class LocalProcess:
    """A child process in a session of its own, so that Ctrl-C reaches xdplab first and clean-up stays in order."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self._popen = popen
        self._log = log

    @property
    def pid(self) -> int:
        """Process id."""
        return self._popen.pid

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._popen.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Exit code, or None if it still runs after `timeout_s`."""
        # A pidfd sleeps until the end; Popen.wait(timeout) would wake 20 times a second, on a core that is measured.
        if self._popen.poll() is None:
            pidfd = os.pidfd_open(self._popen.pid)
            try:
                select.select([pidfd], [], [], timeout_s)
            finally:
                os.close(pidfd)
        return self._popen.poll()

    def signal(self, number: int) -> None:
        """Send a signal to the process and its children; a finished process is no error."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)

    def stop(self, grace_s: float = 3.0) -> int:
        """SIGTERM, then SIGKILL after `grace_s`; returns the exit code."""
        self.signal(signal.SIGTERM)
        code = self.wait(grace_s)
        if code is None:
            self.signal(signal.SIGKILL)
            code = self._popen.wait()
        return code

    def log_tail(self, lines: int = 15) -> tuple[str, ...]:
        """The last lines that it wrote."""
        try:
            with self._log.open(encoding="utf-8", errors="replace") as file:
                return tuple(line.rstrip() for line in deque(file, maxlen=lines))
        except OSError:
            return ()


class LineProcess(LocalProcess):
    """One that is spoken to line by line."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        super().__init__(popen, log)
        self._lines = Lines(popen)

    def send(self, line: str) -> None:
        """Write one line."""
        try:
            self._lines.send(line)
        except OSError as exc:
            raise XdplabError(f"process {self.pid}: {exc.strerror}") from None

    def receive(self, timeout_s: float) -> str | None:
        """The next line, or None when none came within `timeout_s`."""
        return self._lines.receive(timeout_s)

    def stop(self, grace_s: float = 3.0) -> int:
        """Close its input, which asks it to end; then as any other process."""
        self._lines.hang_up()
        code = self.wait(grace_s)
        if code is None:
            code = super().stop(grace_s)
        self._lines.close()
        return code


class LocalHost:
    """This machine."""

    def __init__(self, name: str = "local") -> None:
        self._name = name
        self._prefix: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name in messages and results."""
        return self._name

    @property
    def python(self) -> str:
        """The interpreter that runs us."""
        return sys.executable

    @property
    def cpus(self) -> tuple[int, ...]:
        """CPUs that this process may run on."""
        return tuple(sorted(os.sched_getaffinity(0)))

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
        full = [*self._prefix, *argv]
        try:
            done = subprocess.run(
                full,
                input=stdin if stdin is not None else "",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=timeout_s,
                env={**os.environ, **env} if env else None,
            )
        except FileNotFoundError:
            raise MissingProgram(
                f"{self.name}: program {full[0]!r} not found; `{setup_command()}` installs it"
            ) from None
        except subprocess.TimeoutExpired:
            raise XdplabError(f"{self.name}: {' '.join(argv)}: no end after {timeout_s:g} s") from None
        result = Completed(tuple(argv), done.returncode, done.stdout, done.stderr)
        if self._prefix and result.returncode and 'exec of "' in result.stderr:  # what `ip netns exec` says of it
            raise MissingProgram(f"{self.name}: program {argv[0]!r} not found; `{setup_command()}` installs it")
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
        die_with_us: bool = False,
    ) -> LocalProcess:
        """Start a command on `cpus`; see `Host.start`."""
        taskset = ["taskset", "--cpu-list", ",".join(map(str, cpus))] if cpus else []
        tied = ["setpriv", "--pdeathsig", "TERM"] if die_with_us else []
        full = [*taskset, *tied, *self._prefix, *argv]
        given = subprocess.PIPE if stdin is not None or hold_stdin else subprocess.DEVNULL
        environment = {**os.environ, **env} if env else None
        with contextlib.ExitStack() as stack:
            err = stack.enter_context(log.open("wb"))
            out = stack.enter_context(stdout.open("wb")) if stdout else err

            def start() -> LocalProcess:
                popen = subprocess.Popen(
                    full, stdin=given, stdout=out, stderr=err, env=environment, start_new_session=True
                )
                if stdin is not None and popen.stdin is not None:
                    with contextlib.suppress(BrokenPipeError):
                        popen.stdin.write(stdin.encode())
                        popen.stdin.close()
                return LocalProcess(popen, log)

            try:
                return started(start)
            except FileNotFoundError:
                raise MissingProgram(
                    f"{self.name}: program {full[0]!r} not found; `{setup_command()}` installs it"
                ) from None

    def converse(self, argv: Sequence[str], *, log: Path) -> LineProcess:
        """Start a command that is spoken to; see `Host.converse`."""
        full = ["setpriv", "--pdeathsig", "TERM", *self._prefix, *argv]

        def start() -> LineProcess:
            with log.open("wb") as err:
                pipe = subprocess.PIPE
                popen = subprocess.Popen(full, stdin=pipe, stdout=pipe, stderr=err, start_new_session=True)
            return LineProcess(popen, log)

        try:
            return started(start)
        except FileNotFoundError:
            raise MissingProgram(
                f"{self.name}: program {full[0]!r} not found; `{setup_command()}` installs it"
            ) from None

    def ask_socket(self, path: Path, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        """Ask a program by its Unix socket; see `Host.ask_socket`."""
        with self._told_of(path):
            return sockets.ask(str(path), method, list(params), timeout_s)

    def exchange(self, path: Path, data: bytes, until: bytes, *, timeout_s: float = 30.0) -> bytes:
        """Ask a program by its Unix socket in bytes; see `Host.exchange`."""
        with self._told_of(path):
            return sockets.exchange(str(path), data, until, timeout_s)

    @contextlib.contextmanager
    def _told_of(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise XdplabError(f"{self.name}: {path}: {exc.strerror or exc}") from None

    def read(self, path: str) -> str:
        """Text of a file, stripped."""
        if not (self._prefix and path.startswith(_PER_NETNS)):
            try:
                return Path(path).read_text(encoding="utf-8", errors="replace").strip()
            except OSError as exc:
                raise XdplabError(f"{self.name}: {path}: {exc.strerror}") from None
        return self.run(["cat", path]).stdout.strip()

    def write(self, path: str, text: str) -> None:
        """Write a (sysfs, procfs) file."""
        if not (self._prefix and path.startswith(_PER_NETNS)):
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as exc:
                raise XdplabError(f"{self.name}: {path}: {exc.strerror} writing {text!r}") from None
        else:
            self.run(["tee", path], stdin=text)

    def exists(self, path: str | PurePath) -> bool:
        """True when there is a file, folder or socket of that path."""
        return Path(path).exists()

    def names(self, folder: str | PurePath) -> list[str]:
        """Names in a folder, sorted."""
        if self._prefix and str(folder).startswith("/sys/"):
            return sorted(self.run(["ls", "-A", str(folder)]).stdout.splitlines())
        try:
            return sorted(os.listdir(folder))
        except OSError as exc:
            raise XdplabError(f"{self.name}: {folder}: {exc.strerror}") from None

    def make_folder(self, path: Path) -> None:
        """A folder that only its user may enter, with those above it."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and all in it."""
        shutil.rmtree(path, ignore_errors=True)

    def program(self, path: Path) -> str:
        """It is here."""
        return str(path)


class NetnsHost(LocalHost):
    """A named network namespace of this machine. `ip netns exec` mounts a /sys of its own there."""

    def __init__(self, name: str, netns: str) -> None:
        super().__init__(name)
        self.netns = netns
        self._prefix = ("ip", "netns", "exec", netns)
