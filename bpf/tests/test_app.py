# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""xdpapp over loopback: every byte is checked at both ends; what goes wrong is one line and an exit code."""

import contextlib
import json
import socket
import struct
import subprocess
import threading

import pytest
from conftest import BPF, TIMEOUT_S, sh

XDPAPP = BPF / "build" / "xdpapp"
HELLO = struct.Struct("<IIII")
MAGIC = 0x70617078
DAMAGED, SILENT = 3, 4
QUICK = ("--duration", "0.1", "--warmup", "0.02")


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextlib.contextmanager
def server(port):
    """A function that asks a server what it has counted."""
    argv = [XDPAPP, "serve", "127.0.0.1", str(port)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline()) == {"event": "ready"}

        def counted():
            process.stdin.write("\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield counted
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


def client(work, port, *options):
    argv = [XDPAPP, work, "127.0.0.1", str(port), *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def report(done):
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("ways", "up", "down"), [((), True, False), (("--down",), False, True), (("--up", "--down"), True, True)]
)
def test_bulk_goes_the_ways_that_are_asked_for_next_to_requests(port, ways, up, down):
    with server(port) as counted:
        found = report(client("bulk", port, *ways, *QUICK, "--connections", "3", "--probe-us", "500"))
        assert (found["up_bytes"] > 1e6, found["down_bytes"] > 1e6) == (up, down)
        assert found["answered"] == found["asked"]
        assert found["asked"] == pytest.approx(found["elapsed_ns"] / 500_000, rel=0.2)
        assert found["latency"]["count"] == found["answered"]
        assert found["latency"]["min_ns"] <= found["latency"]["mean_ns"] <= found["latency"]["max_ns"]
        assert found["lateness"]["count"] == found["asked"]
        assert 0 < found["lateness"]["mean_ns"] <= found["latency"]["mean_ns"]
        assert counted()["connections"] == 3 * (up + down) + 1
        assert counted()["damaged"] == 0


def test_requests_and_answers_have_the_sizes_that_are_asked_for(port):
    with server(port) as counted:
        sizes = ("--request-bytes", "3000", "--answer-bytes", "70000")
        found = report(client("requests", port, *QUICK, "--connections", "4", *sizes))
        assert found["answered"] == found["lateness"]["count"] > 10
        assert found["lateness"]["max_ns"] == 0
        assert counted()["bytes"] >= 3000 * found["answered"]


def test_each_request_of_a_connection_workload_has_a_connection_of_its_own(port):
    with server(port) as counted:
        found = report(client("connections", port, *QUICK, "--connections", "2"))
        assert 10 < found["answered"] <= counted()["connections"]


def test_datagrams_are_paced_and_counted(port):
    with server(port) as counted:
        found = report(client("udp", port, "--duration", "0.2", "--mbps", "20", "--request-bytes", "1000"))
        assert found["sent"] == pytest.approx(0.2 * 20e6 / 8000, rel=0.1)
        counts = counted()
        assert (counts["datagrams"], counts["damaged"]) == (found["sent"], 0)
        assert counts["datagram_bytes"] == 1000 * found["sent"]


def test_a_byte_that_a_server_gets_wrong_is_damage(port):
    with server(port) as counted, socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(HELLO.pack(MAGIC, 0, 0, 1) + bytes(1000))
        assert link.recv(1) == b""
        assert counted()["damaged"] == 1
    with server(port) as counted, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect(("127.0.0.1", port))
        for payload in (struct.pack("<II", MAGIC, 7) + bytes(100), b"short"):
            datagrams.send(payload)
        assert counted()["damaged"] == 2


@contextlib.contextmanager
def played(port, play):
    """A server of this test's."""
    listening = socket.create_server(("127.0.0.1", port))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                link, _ = listening.accept()
                threading.Thread(target=play, args=(link,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def zeroes(link):
    with contextlib.suppress(OSError):
        link.recv(100)
        link.sendall(bytes(64))


@pytest.mark.parametrize(
    ("play", "work", "code", "said"),
    [
        (zeroes, "requests", DAMAGED, "payload damaged: a byte arrived otherwise than it was sent"),
        (lambda link: link.close(), "requests", 1, "the server closed a connection"),
        (lambda link: link.recv(100), "requests", SILENT, "no byte came through within 0.2 s"),
        (lambda link: link.recv(100), "bulk", SILENT, "no byte came through within 0.2 s"),
    ],
)
def test_what_a_client_meets_is_one_line_and_a_code(port, play, work, code, said):
    kept = []
    with played(port, lambda link: (kept.append(link), play(link))):
        options = ("--down",) if work == "bulk" else ()
        done = client(work, port, *options, "--duration", "1", "--patience", "0.2")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("xdpapp: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr or code == 1


def test_nobody_listens(port):
    done = client("requests", port)
    assert (done.returncode, done.stderr) == (1, "xdpapp: cannot connect: Connection refused\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "usage"),
        (("sing", "127.0.0.1", "1"), "bad work: sing"),
        (("bulk", "::1", "1"), "bad address: ::1"),
        (("bulk", "127.0.0.1", "70000"), "bad port: 70000"),
        (("bulk", "127.0.0.1", "1", "--connections", "0"), "bad option: --connections 0: give 1 to 1000"),
        (("bulk", "127.0.0.1", "1", "--duration", "x"), "bad option: --duration x"),
        (("bulk", "127.0.0.1", "1", "--loud"), "bad option: --loud"),
        (("vlan", "lo", "4095"), "bad VLAN: 4095"),
    ],
)
def test_what_cannot_be_is_refused(argv, said):
    done = subprocess.run([XDPAPP, *argv], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_port_speaks_in_a_vlan_while_it_is_asked_to(direct):
    def ping():
        argv = ["ip", "netns", "exec", direct.ns("a"), "ping", "-c1", "-W1", "198.18.0.2"]
        return subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0

    for port, address in (("a0", "198.18.0.1/24"), ("c0", "198.18.0.2/24")):
        sh("ip", "-n", direct.ns(port[0]), "address", "add", address, "dev", port)
    assert ping()
    with contextlib.ExitStack() as stack:
        for tagged, port in enumerate(("a0", "c0")):
            argv = ["ip", "netns", "exec", direct.ns(port[0]), XDPAPP, "vlan", port, "10"]
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait, TIMEOUT_S)
            stack.enter_context(process.stdin)
            assert json.loads(process.stdout.readline()) == {"event": "ready"}
            assert ping() == bool(tagged)  # one of the two alone
    assert ping()
