# SPDX-License-Identifier: Apache-2.0
"""Requests to a memcached, run as a script in the namespace of the client: `ADDRESS PORT SECONDS CONNECTIONS`.

Speaks memcached's text protocol (doc/protocol.txt): `set` once, then `get` on every connection as soon as the answer to
the one before is there. Prints one JSON object; a wrong answer or a lost connection ends it with one line and exit code
1. Uses the standard library only, for it may run where nothing else is.
"""

import contextlib
import json
import selectors
import socket
import sys
import time

_VALUE = b"x" * 32
_SET = b"set xdplab 0 0 %d\r\n%s\r\n" % (len(_VALUE), _VALUE)
_GET = b"get xdplab\r\n"
_ANSWER = b"VALUE xdplab 0 %d\r\n%s\r\nEND\r\n" % (len(_VALUE), _VALUE)
_PATIENCE_S = 5.0


class Failed(Exception):
    """What went wrong, for people."""


def connect(address: str, port: int) -> socket.socket:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            made = socket.create_connection((address, port), timeout=1.0)
        except OSError as exc:
            if time.monotonic() > deadline:
                raise Failed(f"no memcached at {address}:{port}: {exc}") from None
            time.sleep(0.02)
            continue
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def store(link: socket.socket) -> None:
    """Set the value that all requests read."""
    link.sendall(_SET)
    answer = link.recv(64)
    if answer != b"STORED\r\n":
        raise Failed(f"set was answered {answer!r}")


def count_requests(links: list[socket.socket], duration_s: float) -> tuple[int, float]:
    """Requests answered, and the time they took."""
    selector = selectors.DefaultSelector()
    for each in links:
        each.setblocking(False)
        selector.register(each, selectors.EVENT_READ)
        each.send(_GET)
    done, begin = 0, time.monotonic()
    heard = begin
    partial: dict[socket.socket, bytes] = {}
    while (now := time.monotonic()) - begin < duration_s:
        for key, _ in selector.select(0.1):
            link: socket.socket = key.fileobj  # type: ignore[assignment]
            answer = partial.pop(link, b"") + link.recv(4096)
            heard = now
            if len(answer) < len(_ANSWER) and _ANSWER.startswith(answer) and answer:
                partial[link] = answer
                continue
            if answer != _ANSWER:
                raise Failed(f"get was answered {answer[:80]!r}")
            done += 1
            link.send(_GET)
        if now - heard > _PATIENCE_S:
            raise Failed(f"no answer for {_PATIENCE_S:g} s")
    return done, time.monotonic() - begin


def main(argv: list[str]) -> int:
    address, port, duration_s, connections = argv[0], int(argv[1]), float(argv[2]), int(argv[3])
    try:
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(connect(address, port)) for _ in range(connections)]
            store(links[0])
            requests, elapsed_s = count_requests(links, duration_s)
    except (Failed, OSError) as exc:
        sys.stderr.write(f"memcached client: {exc}\n")
        return 1
    sys.stdout.write(json.dumps({"requests": requests, "elapsed_s": elapsed_s}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
