# SPDX-License-Identifier: Apache-2.0
"""What runs next to a network function: the client of memcached against played servers, what wrk and perf print."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from xdplab.model import PointFailed
from xdplab_applications import cpu_job, memcached_client
from xdplab_applications.functions.measuring import cache_misses_of
from xdplab_applications.servers import wrk_requests_per_s

VALUE = b"VALUE xdplab 0 32\r\n" + b"x" * 32 + b"\r\nEND\r\n"


@contextlib.contextmanager
def server(answers: list[bytes], stored: bytes = b"STORED\r\n") -> Iterator[int]:
    """Speaks as memcached: `answers` to a get are sent piece by piece; an empty piece closes the connection."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve(link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):  # the client leaves when its time is over
            while not over.is_set():
                asked = link.recv(4096)
                if not asked:
                    return
                for piece in [stored] if asked.startswith(b"set ") else answers:
                    if not piece:
                        return
                    link.sendall(piece)
                    if len(answers) > 1:
                        over.wait(0.005)

    def accept() -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(link,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def client(port: int, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, memcached_client.__file__, "127.0.0.1", str(port), *(more or ("0.2", "3"))]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("pieces", [[VALUE], [VALUE[:5], VALUE[5:]], [VALUE[:-1], VALUE[-1:]]])
def test_requests_are_counted_also_when_answers_come_in_pieces(pieces: list[bytes]) -> None:
    with server(pieces) as port:
        done = client(port)
    assert (done.returncode, done.stderr) == (0, "")
    reported = json.loads(done.stdout)
    assert reported["requests"] > 10
    assert reported["elapsed_s"] == pytest.approx(0.2, abs=0.15)


@pytest.mark.parametrize(
    ("answers", "stored", "words"),
    [
        ([b"END\r\n"], b"STORED\r\n", "get was answered b'END"),
        ([VALUE.replace(b"x", b"y")], b"STORED\r\n", "get was answered b'VALUE"),
        ([b""], b"STORED\r\n", "get was answered b''"),
        ([VALUE], b"SERVER_ERROR out of memory\r\n", "set was answered b'SERVER_ERROR"),
    ],
)
def test_wrong_answers_end_it_with_one_line(answers: list[bytes], stored: bytes, words: str) -> None:
    with server(answers, stored) as port:
        done = client(port)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert words in line


def test_the_job_counts_its_rounds() -> None:
    argv = [sys.executable, cpu_job.__file__, "0.1"]
    reported = json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout)
    assert reported["rounds"] >= 1
    assert reported["elapsed_s"] >= 0.1


WRK = """Running 1s test @ http://198.18.0.2:8080/
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   497.61us  227.33us   7.15ms   93.61%
  32203 requests in 1.00s, 5.19MB read
{}Requests/sec:  32066.78
Transfer/sec:      5.17MB
"""


def test_what_wrk_prints() -> None:
    assert wrk_requests_per_s(WRK.format("")) == 32066.78
    timeouts = "  Socket errors: connect 0, read 0, write 0, timeout 16\n"
    assert wrk_requests_per_s(WRK.format(timeouts)) == 32066.78  # next to a flood some requests are lost
    for trouble in ("  Socket errors: connect 3, read 0, write 0, timeout 0\n", "  Non-2xx or 3xx responses: 7\n"):
        with pytest.raises(PointFailed, match=trouble.split()[0]):
            wrk_requests_per_s(WRK.format(trouble))
    with pytest.raises(PointFailed, match="no request"):
        wrk_requests_per_s("Requests/sec:      0.00\n")


def test_what_perf_prints() -> None:
    assert cache_misses_of("1234567,,cache-misses,1002003004,100.00,,\n") == 1234567
    assert cache_misses_of("<not supported>,,cache-misses,0,100.00,,\n") == "unsupported: perf says <not supported>"
    assert str(cache_misses_of("perf: nothing like it")).startswith("unsupported: ")
