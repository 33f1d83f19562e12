# SPDX-License-Identifier: Apache-2.0
"""Joining a login session to the agent of a folder, which is started in the background if need be."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import stat
import sys
import time

from xdplab.hosts.agent.core import Agent

_PR_SET_CHILD_SUBREAPER = 36
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main() -> None:
    """`attach FOLDER`."""
    if len(sys.argv) != 3 or sys.argv[1] != "attach":
        sys.exit("usage: agent.pyz attach FOLDER")
    folder = sys.argv[2]
    _make_private(folder)
    sock = _agent_of(folder)
    with contextlib.suppress(OSError, KeyboardInterrupt):
        _join(sock)


def _make_private(path: str) -> None:
    """Make the folder, or check that it is ours alone."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as exc:
        sys.exit(f"{path}: {exc.strerror}; root is needed, or another `folder` for this host in the testbed file")
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        sys.exit(f"{path} is not a folder of user {os.geteuid()} alone (mode 0700); remove it or choose another folder")


def _agent_of(folder: str) -> socket.socket:
    """A connection to the folder's agent."""
    address = folder + "/agent.sock"
    deadline = time.monotonic() + 10.0
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(address)
        except OSError:
            sock.close()
            if time.monotonic() > deadline:
                sys.exit(f"the agent does not answer; a process holds {folder}/agent.lock")
            _start(folder, address)
            time.sleep(0.02)
        else:
            return sock


def _start(folder: str, address: str) -> None:
    """Become the agent in a child that is detached from this login; returns in the parent."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        lock = os.open(folder + "/agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails when somebody was faster
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.umask(0o077)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.environ["PATH"] = _PATH
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(8)
            Agent(folder).serve(listener)
        os.unlink(address)
    finally:
        os._exit(0)


def _join(sock: socket.socket) -> None:
    """Copy both ways until either side is closed."""
    ways = {0: sock.fileno(), sock.fileno(): 1}
    while True:
        for source in select.select(list(ways), [], [])[0]:
            data = os.read(source, 65536)
            if not data:
                return
            while data:
                data = data[os.write(ways[source], data) :]
