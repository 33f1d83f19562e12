# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of a process's AF_XDP sockets.

Borrows the sockets of another process with pidfd_getfd(2) and asks them: zero-copy flag (XDP_OPTIONS), the six
XDP_STATISTICS counters, SO_INCOMING_NAPI_ID and the busy-poll options. So the mode in use is read, never assumed, for
any program, also one that prints nothing. Needs ptrace permission on it (root).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import Any

AF_XDP, SOL_XDP = 44, 283
XDP_STATISTICS, XDP_OPTIONS = 7, 8
SO_DOMAIN, SO_BUSY_POLL, SO_INCOMING_NAPI_ID, SO_PREFER_BUSY_POLL = 39, 46, 56, 69
SYS_PIDFD_GETFD = 438
STATISTICS = ("rx_dropped", "rx_invalid_descs", "tx_invalid_descs", "rx_ring_full", "rx_fill_ring_empty_descs",
              "tx_ring_empty_descs")  # fmt: skip
_libc = ctypes.CDLL(None, use_errno=True)


def _option(sock: socket.socket, level: int, name: int) -> int | None:
    try:
        return sock.getsockopt(level, name)
    except OSError:
        return None


def _facts(sock: socket.socket) -> dict[str, Any]:
    raw = sock.getsockopt(SOL_XDP, XDP_STATISTICS, 8 * len(STATISTICS))
    values = struct.unpack(f"={len(raw) // 8}Q", raw)
    options = _option(sock, SOL_XDP, XDP_OPTIONS)
    return {
        "zero_copy": None if options is None else bool(options & 1),
        "napi_id": _option(sock, socket.SOL_SOCKET, SO_INCOMING_NAPI_ID),
        "prefer_busy_poll": _option(sock, socket.SOL_SOCKET, SO_PREFER_BUSY_POLL),
        "busy_poll_us": _option(sock, socket.SOL_SOCKET, SO_BUSY_POLL),
        "statistics": dict(zip(STATISTICS, values)),  # noqa: B905 - Python 3.9 on hosts
    }


def sockets_of(pid: int) -> list[dict[str, Any]]:
    """The AF_XDP sockets of a process.

    Raises:
        OSError: the process is gone or may not be looked into.
    """
    found = []
    pidfd = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
            except FileNotFoundError:
                continue
            fd = _libc.syscall(SYS_PIDFD_GETFD, pidfd, int(name), 0)
            if fd < 0:
                code = ctypes.get_errno()
                if code == errno.EBADF:  # closed meanwhile
                    continue
                raise OSError(code, f"pidfd_getfd: {os.strerror(code)}")
            # the family is given because its detection asks getsockname, which AF_XDP does not have
            with socket.socket(AF_XDP, socket.SOCK_RAW, 0, fileno=fd) as sock:
                if _option(sock, socket.SOL_SOCKET, SO_DOMAIN) == AF_XDP:
                    found.append({"pid": pid, **_facts(sock)})
    finally:
        os.close(pidfd)
    return found
