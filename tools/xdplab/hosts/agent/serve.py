# SPDX-License-Identifier: Apache-2.0
"""The agent: requests in by standard input, answers out, and nothing that it started outlives the session."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import select
import signal
import stat
import sys
import threading
import time
from typing import Any

from xdplab.hosts.agent.cpus import holder
from xdplab.hosts.agent.machine import OPERATIONS, Machine, Refused, failure
from xdplab.hosts.agent.processes import MARK, end_all, end_strays, reap

_PR_SET_CHILD_SUBREAPER = 36
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Of an answer; the controller takes no longer one.
ANSWER_BYTES = 32 << 20
#: Of what is in the lock file, which is there from the first session on: a disk that is full later changes nothing.
_LOCK_BYTES = 8192
#: How long an earlier agent of the same controller may take to end.
_TAKE_OVER_S = 15.0
_REAP_S = 5.0


def main() -> None:
    """`agent.pyz FOLDER`; the first line of standard input is the controller's greeting."""
    if len(sys.argv) != 2:
        sys.exit("usage: agent.pyz FOLDER")
    folder = sys.argv[1]
    _make_private(folder)
    hello = json.loads(sys.stdin.buffer.readline() or sys.exit("no greeting came"))
    os.umask(0o077)
    lock = os.open(folder + "/agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    other = _take(lock, hello["controller"])
    if other is not None:
        _say({"error": f"in use by {other}"})
        return
    before = _content(lock)
    killed = "controller" in before  # that is taken out at a session's end, which then says what it left
    left = {  # agents of 0.2.0 left no names
        name: [*was[:3], was[3] if len(was) > 3 and not killed else {}] for name, was in before.get("left", {}).items()
    }
    _put(lock, {"controller": hello["controller"], "label": hello["label"], "left": left})
    mine = os.fstat(lock)
    os.environ[MARK] = f"{folder} {mine.st_dev}:{mine.st_ino}"  # containers may have a folder of the same name
    ended = [*before.get("ended", ()), *(end_strays() if killed else ())]
    os.chdir("/")
    os.environ["PATH"] = _PATH
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    machine = Machine(folder, tied=False)
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, _end)
        _say({**_facts(), "ended": ended, "left": left})
        _serve(machine, float(hello["lease_s"]))
    finally:
        _ignore()
        machine.forking.acquire()  # for good: a request that is late starts nothing
        at_the_end = {"ended": end_all(), "left": machine.ports_left(left)}
        with contextlib.suppress(OSError):
            _put(lock, at_the_end)
        os._exit(0)


def _make_private(path: str) -> None:
    """Make the folder, or check that it is ours alone."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as exc:
        sys.exit(f"{path}: {exc.strerror}; root is needed, or another `folder` for this host in the testbed file")
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        sys.exit(f"{path} is not a folder of user {os.geteuid()} alone (mode 0700); remove it or choose another folder")


def _take(lock: int, controller: str) -> str | None:
    """None once the lock is ours, else who has it.

    A controller holds the lock of its testbed: an earlier session of the same one is dead, and its agent is ended.
    """
    deadline = time.monotonic() + _TAKE_OVER_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = _content(lock)
            if held.get("controller", controller) != controller or time.monotonic() > deadline:
                return str(held.get("label", "an agent that does not end"))
            pid = holder(lock)
            if pid:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)
            time.sleep(0.02)
        else:
            return None


def _content(lock: int) -> dict[str, Any]:
    """Who holds it; `ended`: what still ran when the last holder ended."""
    try:
        found = json.loads(os.pread(lock, 65536, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _put(lock: int, content: dict[str, Any]) -> None:
    data = json.dumps(content).encode().ljust(_LOCK_BYTES)
    os.pwrite(lock, data, 0)
    os.ftruncate(lock, len(data))


def _facts() -> dict[str, Any]:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    return {
        "pid": os.getpid(),
        "uid": os.geteuid(),
        "boot_id": boot_id,
        "netns": os.readlink("/proc/self/ns/net"),
        "python": sys.executable,
        "cpus": sorted(os.sched_getaffinity(0)),
        "machine_id": _machine_id(),
        "machine": os.uname().machine,
        "glibc": _glibc(),
        "ssh": _ssh_connection(),
    }


def _glibc() -> str:
    with contextlib.suppress(ValueError, OSError):
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return ".".join(re.findall(r"\d+", version)[:2]) if name == "glibc" else ""
    return ""


def _machine_id() -> str:
    with contextlib.suppress(OSError), open("/etc/machine-id", encoding="ascii", errors="replace") as file:
        return "".join(re.findall(r"\A[0-9a-f]+$", file.read(), re.MULTILINE))
    return ""


def _ssh_connection() -> str:
    """`SSH_CONNECTION` of the login, which sudo hands on to nobody: of the first parent that has addresses in it."""
    pid = os.getpid()
    with contextlib.suppress(OSError):  # a parent is hidden, or has ended
        while pid:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found = re.search(rb"(?:^|\0)SSH_CONNECTION=([0-9A-Fa-f:][^\0]*)", file.read())
            if found:
                return found.group(1).decode("ascii", "replace")
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as text:
                pid = int(text.read().rpartition(")")[2].split()[1])
    return ""


def _serve(machine: Machine, lease_s: float) -> None:
    """Until the session is closed, or silent for as long as the lease."""
    rest, heard_at, reaped_at = b"", time.monotonic(), 0.0
    while True:
        ready, _, _ = select.select([0], [], [], min(_REAP_S, lease_s / 4))
        now = time.monotonic()
        if now - reaped_at > _REAP_S:
            reap(machine)
            reaped_at = now
        if ready:
            data = os.read(0, 65536)
            if not data:
                return
            heard_at = now
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if request["op"] != "beat":
                    threading.Thread(target=_carry_out, args=(machine, request), daemon=True).start()
        elif now - heard_at > lease_s:
            return


def _carry_out(machine: Machine, request: dict[str, Any]) -> None:
    """An operation and its answer, whatever it raises."""
    try:
        function = OPERATIONS.get(request["op"])
        if function is None:
            raise Refused(f"unknown operation {request['op']!r}")
        answer = {"ok": function(machine, *request["args"], **request["given"])}
    except Exception as exc:
        answer = dict(zip(("error", "kind"), failure(exc)))  # noqa: B905 - Python 3.9 on hosts
    _say({"id": request["id"], **answer})


_saying = threading.Lock()


def _say(answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode()
    if len(data) > ANSWER_BYTES:
        refused = {"id": answer.get("id"), "error": f"an answer of {len(data)} bytes is too long", "kind": "error"}
        data = json.dumps(refused).encode()
    with _saying, contextlib.suppress(OSError):  # nobody is there any more: standard input says so too
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()


def _ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _end(*_: Any) -> None:
    _ignore()
    raise SystemExit
