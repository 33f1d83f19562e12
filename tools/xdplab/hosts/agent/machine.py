# SPDX-License-Identifier: Apache-2.0
"""What can be done on a machine: each operation is one method here, for this machine, a namespace and a host alike.

Arguments and results are what JSON can hold; results are checked against their annotation when a host gives them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import IO, Any, NamedTuple, TypeVar, cast

from xdplab.hosts.agent import ipc, netlink, ports, xsk
from xdplab.hosts.agent.cpu_time import CpuTimes, cpu_times
from xdplab.hosts.agent.cpus import CPU, INTERFACE, Held

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

#: Name -> what carries it out, with the machine as its first argument.
OPERATIONS: dict[str, Callable[..., Any]] = {}
#: What another network namespace shows otherwise.
_OF_NAMESPACE = ("/proc/sys/", "/proc/net/", "/sys/")
_TAIL_BYTES = 65536


class Refused(Exception):
    """What cannot be done; `kind` is `error`, or `missing`: a program is not there, which is then all of the text."""

    def __init__(self, text: str, kind: str = "error") -> None:
        super().__init__(text)
        self.kind = kind


def failure(exc: Exception) -> tuple[str, str]:
    """Text and kind of what an operation raised; kind `eof` is an EOFError."""
    if isinstance(exc, Refused):
        return str(exc), exc.kind
    if isinstance(exc, OSError):
        where = f"{exc.filename}: " if exc.filename else ""
        return f"{where}{exc.strerror or exc}", "error"
    return f"{type(exc).__name__}: {exc}", "eof" if isinstance(exc, EOFError) else "error"


def operation(function: F) -> F:
    """A method that `call` carries out."""
    OPERATIONS[function.__name__] = function

    @functools.wraps(function)
    def call(self: Machine, *args: Any, **given: Any) -> Any:
        return self.call(function, *args, **given)

    return cast("F", call)


class Finished(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class Machine:
    """The machine that this runs on.

    `folder`: where alone folders and new files may be made, and removed; None: anywhere. `tied`: what is started ends
    with the thread that starts it; else somebody calls `end_all` in the end.
    """

    def __init__(self, folder: str | None = None, *, tied: bool = True) -> None:
        self._folder = folder
        self._tied = tied
        #: Those that were started here, and commands that are being run, by process id.
        self.children: dict[int, subprocess.Popen[Any]] = {}
        self._commands: dict[str, int] = {}
        self._lines: dict[int, ipc.Lines] = {}
        self._cpus: Held[int] = Held(CPU)
        self._ports: Held[str] = Held(INTERFACE)
        #: Links by name -> index, before the first interface was taken.
        self._before: dict[str, int] | None = None
        #: Held while a child is made, until it is among `children`.
        self.forking = threading.Lock()

    def call(self, function: Callable[..., Any], *args: Any, **given: Any) -> Any:
        return function(self, *args, **given)

    def within(self, function: Callable[..., T], *args: Any, **given: Any) -> T:
        """Call what depends on the network namespace."""
        return function(*args, **given)

    # -- processes

    @operation
    def execute(
        self,
        argv: Sequence[str],
        timeout_s: float,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        key: str = "",
    ) -> Finished:
        """Run a command to its end; `cancel` ends the one of this `key`."""
        pipe = subprocess.PIPE
        process = self._spawn(argv, env, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace")
        self._commands[key] = process.pid
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise Refused(f"{' '.join(argv)}: timed out after {timeout_s:g} s") from None
        finally:
            self._commands.pop(key, None)
            if process.poll() is None:
                kill_group(process.pid)
                process.communicate()
            self.children.pop(process.pid, None)
        return Finished(process.returncode, out, err)

    @operation
    def cancel(self, key: str) -> None:
        """Kill a command that `execute` runs."""
        if key in self._commands:
            kill_group(self._commands[key])

    @operation
    def start_process(
        self,
        argv: Sequence[str],
        log: str | PurePath,
        stdout: str | PurePath | None = None,
        cpus: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        hold_stdin: bool = False,
        converse: bool = False,
    ) -> int:
        """Start a command on `cpus` in a session of its own; its process id. `converse`: by `send` and `receive`."""
        taskset = ["taskset", "--cpu-list", ",".join(map(str, cpus))] if cpus else []
        tied = ["setpriv", "--pdeathsig", "TERM"] if self._tied else []
        if argv and shutil.which(argv[0], path=(env or {}).get("PATH")) is None:  # else one of those would miss it
            raise Refused(argv[0], "missing")
        piped = stdin is not None or hold_stdin or converse
        with contextlib.ExitStack() as stack:
            err = stack.enter_context(_create(log))
            out = stack.enter_context(_create(stdout)) if stdout else subprocess.PIPE if converse else err
            ends = {"stdin": subprocess.PIPE if piped else subprocess.DEVNULL, "stdout": out, "stderr": err}
            process = self._spawn([*taskset, *tied, *argv], env, **ends)
        if converse:
            self._lines[process.pid] = ipc.Lines(process)
        elif stdin is not None and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(stdin.encode())
                process.stdin.close()
        return process.pid

    @operation
    def wait_process(self, pid: int, timeout_s: float) -> int | None:
        """Exit code, or None when it still runs after `timeout_s`."""
        process = self._child(pid)
        # A pidfd sleeps until the end; Popen.wait(timeout) would wake 20 times a second, on a core that is measured.
        if process.poll() is None and timeout_s > 0:
            pidfd = os.pidfd_open(pid)
            try:
                select.select([pidfd], [], [], timeout_s)
            finally:
                os.close(pidfd)
        code = process.poll()
        if code is not None and process.stdin is not None and pid not in self._lines:
            process.stdin.close()  # of `hold_stdin`: the process is kept for whoever asks again
        return code

    @operation
    def signal_process(self, pid: int, number: int) -> None:
        """Send a signal to the process and its children; a finished process is no error."""
        if self._child(pid).poll() is None:
            kill_group(pid, number)

    @operation
    def send(self, pid: int, line: str) -> None:
        """Write a line to the input of a process."""
        with _about(f"process {pid}"):
            self._lines_of(pid).send(line)

    @operation
    def receive(self, pid: int, timeout_s: float) -> str | None:
        """The next line of its output; None when none came within `timeout_s`.

        Raises:
            EOFError: its output is closed.
        """
        return self._lines_of(pid).receive(timeout_s)

    @operation
    def hang_up(self, pid: int) -> None:
        """Close the input of a process, which asks most programs to end."""
        self._lines_of(pid).hang_up()

    @operation
    def forget(self, pid: int) -> None:
        """Close both ends of a process that is spoken to no more."""
        if pid in self._lines:
            self._lines.pop(pid).close()

    # -- files

    @operation
    def read(self, path: str | PurePath) -> str:
        return self._at(path, _read, path)

    @operation
    def write(self, path: str | PurePath, text: str) -> None:
        """Write a file: a new one in the folder only, elsewhere what the kernel has there already."""
        path = os.path.normpath(path)
        new = os.O_CREAT if self._folder is None else 0
        if self._folder is not None and path.startswith(self._folder + "/"):
            new = os.O_CREAT | os.O_NOFOLLOW
        with _about(f"{path}", f" writing {text!r}"):
            self._at(path, _write, path, new, text)

    @operation
    def tail(self, path: str | PurePath, lines: int) -> list[str]:
        """The last lines of a file."""
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]

    @operation
    def exists(self, path: str | PurePath) -> bool:
        """True when there is a file, folder or socket of that path."""
        return self._at(path, os.path.exists, path)

    @operation
    def names(self, folder: str | PurePath) -> list[str]:
        return sorted(self._at(folder, os.listdir, folder))

    @operation
    def make_folder(self, path: str | PurePath) -> None:
        """A folder that only its user may enter, with those above it; one that is there is no error."""
        os.makedirs(self._own(path), mode=0o700, exist_ok=True)

    @operation
    def remove_folder(self, path: str | PurePath) -> None:
        """Remove a folder and all in it; one that is not there is no error."""
        shutil.rmtree(self._own(path), ignore_errors=True)

    @operation
    def sha256(self, path: str | PurePath) -> str:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    # -- sockets of programs

    @operation
    def ask_rpc(self, path: str | PurePath, method: str, params: list[Any], timeout_s: float) -> Any:
        """What a program answers to a request of JSON-RPC 1.0 over its Unix socket."""
        with _about(f"{path}"):
            return ipc.ask(str(path), method, params, timeout_s)

    @operation
    def exchange_hex(self, path: str | PurePath, data: str, until: str, timeout_s: float) -> str:
        """What a program answers to bytes over its Unix socket, up to an end that is known; in hexadecimal digits."""
        with _about(f"{path}"):
            return ipc.exchange(str(path), bytes.fromhex(data), bytes.fromhex(until), timeout_s).hex()

    # -- what the kernel says

    @operation
    def take_cpus(self, cpus: Sequence[int]) -> tuple[int, int] | None:
        """Have these CPUs for one testbed; else the first that is held, and by which process."""
        return self._cpus.hold(cpus)

    @operation
    def take_ports(self, ifnames: Sequence[str]) -> tuple[str, int] | None:
        """Have these interfaces for one testbed; else the first that is held, and by which process."""
        with _about(f"interfaces {', '.join(ifnames)}"):
            if self._before is None:
                self._before = {name: link.ifindex for name, link in self.within(netlink.links).items()}
            return self.within(self._ports.hold, ifnames)

    def ports_left(self, earlier: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        """Index, MTU and XDP program of the interfaces that were taken, and of links that have come since.

        Of those that were taken, what `ports.names` gives, too. `earlier`: the same of an earlier session; where none
        was taken in this one, that is all.
        """
        if self._before is None:
            return earlier
        try:
            links = netlink.links()
        except OSError:
            return earlier
        seen = {
            name: (link.ifindex, link.mtu, link.xdp, ports.names(name) if name in self._ports else {})
            for name, link in links.items()
            if name in self._ports or self._before.get(name) != link.ifindex
        }
        # what somebody has set since on another session's is not what that left
        kept = {name: was for name, was in earlier.items() if name in links and links[name].ifindex == was[0]}
        return {**kept, **seen}

    @operation
    def links(self) -> dict[str, netlink.Link]:
        with _about("links"):
            return self.within(netlink.links)

    @operation
    def read_port(self, ifname: str) -> dict[str, Any]:
        """What an interface is set to: kind of setting -> its value, or name -> value (`hosts/agent/ports.py`)."""
        with _about(f"settings of {ifname}"):
            return self.within(ports.read, ifname)

    @operation
    def put_port_back(self, ifname: str, wanted: Mapping[str, Any]) -> list[str]:
        """Set what differs to what `read_port` gave; what could not be, and why. `read_port` says what is in force."""
        with _about(f"settings of {ifname}"):
            return self.within(ports.put_back, ifname, wanted)

    @operation
    def xdp(self, ifname: str) -> netlink.XdpAttachment | None:
        """The XDP program of an interface; None when it carries none."""
        with _about(f"XDP program of {ifname}"):
            return self.within(netlink.xdp, ifname)

    @operation
    def xdp_features(self, ifname: str) -> list[str] | None:
        """What a driver can do with XDP; None when the kernel does not tell."""
        with _about(f"XDP features of {ifname}"):
            return self.within(netlink.features, ifname)

    @operation
    def held_queues(self, ifnames: Sequence[str]) -> list[str] | None:
        """Those of the interfaces of which an AF_XDP socket has a queue; None: not reported before 6.15."""
        with _about(f"queues of {', '.join(ifnames)}"):
            return self.within(netlink.held_queues, ifnames)

    @operation
    def xsk_queues(self, ifname: str) -> list[int] | None:
        """Receive queues of an interface that AF_XDP sockets have; None: not reported."""
        with _about(f"queues of {ifname}"):
            return self.within(netlink.xsk_queues, ifname)

    @operation
    def queue_napis(self, ifname: str, queue: int) -> dict[str, int | None]:
        """`rx`, `tx` -> id of the NAPI that serves a queue; None where the kernel or the driver does not tell."""
        with _about(f"NAPIs of {ifname}"):
            return self.within(netlink.queue_napis, ifname, queue)

    @operation
    def suspend_timeouts(self, ifname: str, wanted_ns: Sequence[int] = ()) -> list[int] | None:
        """irq-suspend-timeout (ns) of the NAPIs of an interface, after setting them to `wanted_ns` if it is given.

        None where kernel or driver has none. Source: Documentation/networking/napi.rst, "IRQ suspension" (6.13).
        """
        with _about(f"irq-suspend-timeout of {ifname}"):
            return self.within(netlink.suspend_timeouts, ifname, wanted_ns)

    @operation
    def xsk_sockets(self, pid: int) -> list[dict[str, Any]]:
        """The AF_XDP sockets of a process, with what the kernel says of each."""
        with _about(f"AF_XDP sockets of process {pid}"):
            return xsk.sockets_of(pid)

    @operation
    def cpu_times(self, pids: Sequence[int], others: bool) -> CpuTimes:
        """CPU time of threads so far: of these processes, of the kernel's that carry frames, and of all `others`."""
        return cpu_times(pids, others)

    # -- the end

    def _spawn(self, argv: Sequence[str], env: Mapping[str, str] | None, **ends: Any) -> subprocess.Popen[Any]:
        """In a session of its own, so that Ctrl-C reaches xdplab first, and in a language that is no user's."""
        if isinstance(argv, str) or not argv:
            raise Refused("argv must be a list of strings")
        whole = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
        with self.forking:
            try:
                process: subprocess.Popen[Any] = self.within(
                    subprocess.Popen, list(argv), env=whole, start_new_session=True, **ends
                )
            except FileNotFoundError:
                raise Refused(argv[0], "missing") from None
            self.children[process.pid] = process
        return process

    def _child(self, pid: int) -> subprocess.Popen[Any]:
        if pid not in self.children:
            raise Refused(f"no process {pid} was started here")
        return self.children[pid]

    def _lines_of(self, pid: int) -> ipc.Lines:
        if pid not in self._lines:
            raise Refused(f"process {pid} has no conversation here")
        return self._lines[pid]

    def _at(self, path: str | PurePath, function: Callable[..., T], *args: Any) -> T:
        """In the namespace, if that is where the file is."""
        return self.within(function, *args) if str(path).startswith(_OF_NAMESPACE) else function(*args)

    def _own(self, path: str | PurePath) -> str:
        found = os.path.normpath(path)
        if self._folder is not None and not found.startswith(self._folder + "/"):
            raise Refused(f"{found}: not within {self._folder}")
        return found


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process that leads a session of its own, and its children."""
    with contextlib.suppress(OSError):
        os.killpg(pid, number)


@contextlib.contextmanager
def _about(what: str, more: str = "") -> Iterator[None]:
    """An error of the system says what it is about."""
    try:
        yield
    except OSError as exc:
        raise Refused(f"{what}: {exc.strerror or exc}{more}") from None


def _read(path: str | PurePath) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def _write(path: str, flags: int, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_TRUNC | flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _create(path: str | PurePath) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb")
