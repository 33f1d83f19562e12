# SPDX-License-Identifier: Apache-2.0
"""What can be asked of the agent: each takes the processes and the request, and returns what JSON can hold."""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shutil
import subprocess
from typing import IO, TYPE_CHECKING, Any

from xdplab.hosts.agent import sockets
from xdplab.hosts.agent.lines import Lines
from xdplab.hosts.agent.processes import Processes, kill_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Asked = dict[str, Any]


class Refused(Exception):
    """A request that cannot be; `kind` tells the other side which of its errors it is."""

    def __init__(self, text: str, kind: str = "error") -> None:
        super().__init__(text)
        self.kind = kind


def _run(processes: Processes, asked: Asked) -> dict[str, Any]:
    argv = _argv(asked)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_env(asked),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise Refused(argv[0], "missing") from None
    processes.running[asked["id"]] = process
    try:
        out, err = process.communicate(asked.get("stdin") or "", timeout=asked["timeout_s"])
    except subprocess.TimeoutExpired:
        kill_group(process.pid)
        process.communicate()
        raise Refused(f"no end after {asked['timeout_s']:g} s") from None
    finally:
        if processes.running.get(asked["id"]) is process:  # a later session may use the number again
            del processes.running[asked["id"]]
    return {"returncode": process.returncode, "stdout": out, "stderr": err}


def _cancel(processes: Processes, asked: Asked) -> None:
    process = processes.running.get(asked["target"])
    if process is not None:
        kill_group(process.pid)


def _start(processes: Processes, asked: Asked) -> int:
    argv, stdin = _argv(asked), asked.get("stdin")
    piped = stdin is not None or asked.get("hold_stdin")
    with contextlib.ExitStack() as stack:
        err = stack.enter_context(_create(asked["log"]))
        out = stack.enter_context(_create(asked["stdout"])) if asked.get("stdout") else err
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=_env(asked),
                start_new_session=True,
            )
        except FileNotFoundError:
            raise Refused(argv[0], "missing") from None
    processes.started[process.pid] = process
    if stdin is not None and process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(stdin.encode())
            process.stdin.close()
    return process.pid


def _converse(processes: Processes, asked: Asked) -> int:
    argv = _argv(asked)
    with _create(asked["log"]) as err:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                env=_env(asked),
                start_new_session=True,
            )
        except FileNotFoundError:
            raise Refused(argv[0], "missing") from None
    processes.started[process.pid] = process
    processes.lines[process.pid] = Lines(process)
    return process.pid


def _send(processes: Processes, asked: Asked) -> None:
    try:
        _lines(processes, asked).send(asked["line"])
    except OSError as exc:
        raise Refused(f"process {asked['pid']}: {exc.strerror}") from None


def _receive(processes: Processes, asked: Asked) -> list[str] | None:
    """The next line; None when none came within `timeout_s`, [] when its output is closed."""
    try:
        line = _lines(processes, asked).receive(asked["timeout_s"])
    except EOFError:
        return []
    return None if line is None else [line]


def _ask_socket(processes: Processes, asked: Asked) -> Any:
    with _told(asked["path"]):
        return sockets.ask(asked["path"], asked["method"], asked["params"], asked["timeout_s"])


def _exchange(processes: Processes, asked: Asked) -> str:
    """Bytes are written as hexadecimal digits."""
    data, until = (bytes.fromhex(asked[key]) for key in ("data", "until"))
    with _told(asked["path"]):
        return sockets.exchange(asked["path"], data, until, asked["timeout_s"]).hex()


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Refused(f"{path}: {exc.strerror or exc}") from None
    except sockets.Refusal as exc:
        raise Refused(f"{path}: {exc}") from None


def _wait(processes: Processes, asked: Asked) -> int | None:
    """Exit code, or None when it still runs after `timeout_s`."""
    process = _process(processes, asked)
    if process.poll() is None and asked["timeout_s"] > 0:
        pidfd = os.pidfd_open(process.pid)
        try:
            select.select([pidfd], [], [], asked["timeout_s"])
        finally:
            os.close(pidfd)
    code = process.poll()
    if code is not None and process.pid in processes.lines:
        processes.lines.pop(process.pid).close()
    return code


def _signal(processes: Processes, asked: Asked) -> None:
    process = _process(processes, asked)
    if process.poll() is None:
        kill_group(process.pid, asked["number"])


def _read(processes: Processes, asked: Asked) -> str:
    with open(asked["path"], encoding="utf-8", errors="replace") as file:
        return str(file.read())


def _tail(processes: Processes, asked: Asked) -> list[str]:
    with open(asked["path"], "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 65536))
        return file.read().decode("utf-8", "replace").splitlines()[-asked["lines"] :]


def _write(processes: Processes, asked: Asked) -> None:
    """New files in the agent's folder only; elsewhere what the kernel has there already."""
    path = os.path.normpath(asked["path"])
    new = os.O_CREAT | os.O_NOFOLLOW if path.startswith(processes.folder + "/") else 0
    with open(os.open(path, os.O_WRONLY | os.O_TRUNC | new, 0o600), "w", encoding="utf-8") as file:
        file.write(asked["text"])


def _exists(processes: Processes, asked: Asked) -> bool:
    return os.path.exists(asked["path"])


def _list(processes: Processes, asked: Asked) -> list[str]:
    return sorted(os.listdir(asked["path"]))


def _make_folder(processes: Processes, asked: Asked) -> None:
    os.makedirs(_within(processes, asked), mode=0o700, exist_ok=True)


def _remove_folder(processes: Processes, asked: Asked) -> None:
    shutil.rmtree(_within(processes, asked), ignore_errors=True)


def _sha256(processes: Processes, asked: Asked) -> str:
    with open(asked["path"], "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _hold_cpus(processes: Processes, asked: Asked) -> list[int] | None:
    """None, or `[cpu, pid]`: one that is held by another process."""
    taken = processes.cpus.hold(asked["cpus"])
    return None if taken is None else list(taken)


def _end_processes(processes: Processes, asked: Asked) -> list[str]:
    return processes.end_all()


OPERATIONS: dict[str, Callable[[Processes, Asked], Any]] = {
    "run": _run,
    "cancel": _cancel,
    "start": _start,
    "converse": _converse,
    "send": _send,
    "receive": _receive,
    "ask_socket": _ask_socket,
    "exchange": _exchange,
    "wait": _wait,
    "signal": _signal,
    "read": _read,
    "tail": _tail,
    "write": _write,
    "exists": _exists,
    "list": _list,
    "make_folder": _make_folder,
    "remove_folder": _remove_folder,
    "sha256": _sha256,
    "hold_cpus": _hold_cpus,
    "end": _end_processes,
}


def _argv(asked: Asked) -> list[str]:
    argv = asked["argv"]
    if not isinstance(argv, list) or not argv or not all(isinstance(item, str) for item in argv):
        raise Refused("argv must be a list of strings")
    return argv


def _env(asked: Asked) -> dict[str, str]:
    """The agent's environment, in a language that does not change what programs print."""
    return {**os.environ, "LC_ALL": "C.UTF-8", **(asked.get("env") or {})}


def _process(processes: Processes, asked: Asked) -> subprocess.Popen[bytes]:
    process = processes.started.get(asked["pid"])
    if process is None:
        raise Refused(f"no process {asked['pid']} was started here", "gone")
    return process


def _lines(processes: Processes, asked: Asked) -> Lines:
    lines = processes.lines.get(asked["pid"])
    if lines is None:
        raise Refused(f"no process {asked['pid']} is spoken to here", "gone")
    return lines


def _within(processes: Processes, asked: Asked) -> str:
    """A path within the agent's folder: no other folder is made or removed."""
    path: str = os.path.normpath(asked["path"])
    if not path.startswith(processes.folder + "/"):
        raise Refused(f"{path}: not within {processes.folder}")
    return path


def _create(path: str) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb")
