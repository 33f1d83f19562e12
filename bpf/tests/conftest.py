# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Namespaces, programs and configurations that the tests share.

Needs root, Python >= 3.11, pytest and hdrhistogram (and scapy for the frame
format); `pytest bpf/tests` builds the programs first.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

BPF = Path(__file__).resolve().parents[1]
XDPGEN = BPF / "build" / "xdpgen"
XDPFWD = BPF / "build" / "xdpfwd"
FORWARDER = Path(__file__).with_name("forwarder.py")
TCX_COUNT = Path(__file__).with_name("tcx_count.py")
TIMEOUT_S = 30


# Of what a program does at which time, of sockets whose rings overflow when
# their program does not get its CPU, or of real-time threads, which take it from
# all others: with `-n` they run one after another with
# runs on testbeds (tools/tests/conftest.py), all others beside those.
TIMED = {
    "test_drain.py",
    "test_flow_figures.py",
    "test_frames_of_9018_bytes.py",
    "test_ovsprobe.py",
    "test_ping_batches.py",
    "test_preempted.py",
    "test_realtime.py",
    "test_schedule.py",
    "test_several_cpus.py",
    "test_stalled_queue.py",
    "test_xsk_accounting.py",
    "test_xsk_frames.py",
    "test_xsk_lifecycle.py",
    "test_xsk_probes.py",
    "test_xsk_roles.py",
    "test_xsk_trace.py",
}


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook too
def pytest_collection_modifyitems(items):
    ours = [item for item in items if item.path.is_relative_to(BPF)]  # the hook is given all tests of the session
    for item in ours:
        group = "testbed" if item.path.name in TIMED else "frames"
        item.add_marker(pytest.mark.xdist_group(group))
        if os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root: makes network namespaces and loads BPF"))


def make(*targets):
    """One worker at a time: both want the same files. The lock makes none: guests of ci/nic have a read-only tree."""
    argv = ["flock", BPF / "Makefile", "make", "-s", "-C", BPF, *targets]
    subprocess.run(argv, check=True)


@pytest.fixture(scope="session", autouse=True)
def programs():
    if os.geteuid() == 0:
        make()


@pytest.fixture(scope="session")
def sanitized_build(programs):
    """Programs with AddressSanitizer and UBSan: an error ends them with a report and an exit code."""
    make("sanitized")
    return BPF / "build" / "sanitized"


@pytest.fixture(scope="session")
def sanitized(sanitized_build):
    """bpf/xsk of them."""
    return sanitized_build / "xsk"


def compiled(path, source, *more, libraries=(), options=(), flags="flags"):
    """A C program of a test, as the sources of this project are compiled for user space; `more`: what it uses of it."""
    _, user = sh("make", "-s", "--no-print-directory", "-C", BPF, flags).splitlines()
    argv = [*shlex.split(user), *options, "-o", path, source, *(BPF / name for name in more)]
    subprocess.run([*argv, *(f"-l{name}" for name in libraries)], check=True, cwd=BPF)
    return path


def sh(*argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr or done.stdout}"
    return done.stdout


class Net:
    """Namespaces a, b, ... with veth pairs between them."""

    def __init__(self, *links, queues=1):
        self.queues = ["numrxqueues", str(queues), "numtxqueues", str(queues)]
        self.prefix = f"xg{uuid.uuid4().hex[:8]}"
        self.links = links
        self.namespaces = sorted({end[0] for link in links for end in link})

    def ns(self, letter):
        return f"{self.prefix}-{letter}"

    def path(self, letter):
        return f"/run/netns/{self.ns(letter)}"

    def up(self):
        for letter in self.namespaces:
            sh("ip", "netns", "add", self.ns(letter))
            self.exec(letter, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for left, right in self.links:
            sh("ip", "link", "add", left, "netns", self.ns(left[0]), *self.queues, "type", "veth",
               "peer", "name", right, "netns", self.ns(right[0]), *self.queues)  # fmt: skip
        for port in self.ports():
            sh("ip", "-n", self.ns(port[0]), "link", "set", port, "up")
        for port in self.ports():
            self.accept_redirects(port)

    def ports(self):
        return [port for link in self.links for port in link]

    def accept_redirects(self, port, on=True):
        """A veth takes redirected frames with NAPI on; only a change counts."""
        self.exec(port[0], "ethtool", "-K", port, "gro", "off")
        if on:
            self.exec(port[0], "ethtool", "-K", port, "gro", "on")

    def down(self):
        for letter in self.namespaces:
            subprocess.run(["ip", "netns", "del", self.ns(letter)], check=False)

    def exec(self, letter, *argv):
        return sh("ip", "netns", "exec", self.ns(letter), *argv)

    def attached(self, port):
        """What is attached to a port: XDP program, tcx and tc filters."""
        show = sh("ip", "-n", self.ns(port[0]), "-d", "-j", "link", "show", port)
        filters = sh("tc", "-n", self.ns(port[0]), "filter", "show", "dev", port, "ingress")
        qdisc = sh("tc", "-n", self.ns(port[0]), "qdisc", "show", "dev", port)
        return {
            "xdp": "xdp" in json.loads(show)[0],
            "tcx": int(self.exec(port[0], sys.executable, TCX_COUNT, port)),
            "filters": len(re.findall("handle 0x78d[78]", filters)),
            "clsact": "clsact" in qdisc,
        }

    def is_clean(self, *ports):
        return all(not any(self.attached(port).values()) for port in ports or self.ports())

    def port(self, ifname, **more):
        return {"netns": self.path(ifname[0]), "ifname": ifname, "rx": "xdp"} | more

    @contextlib.contextmanager
    def forwarder(self, tmp_path, *ports, **plan):
        """The impairing AF_PACKET forwarder; yields a dict filled at its end."""
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan), encoding="ascii")
        ports = ports or ("b0", "b1")
        with self.program(ports[0][0], sys.executable, FORWARDER, *ports, path) as process:
            assert process.stdout.readline() == "ready\n"
            report = {}
            yield report
            process.send_signal(signal.SIGTERM)
            report.update(json.loads(process.stdout.readline()))

    @contextlib.contextmanager
    def xdpfwd(self, *options):
        with self.program("b", XDPFWD, *options) as process:
            process.ready = json.loads(process.stdout.readline())
            yield process

    @contextlib.contextmanager
    def program(self, letter, *argv):
        argv = ["ip", "netns", "exec", self.ns(letter), *map(str, argv)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()


@contextlib.contextmanager
def net_up(*links, queues=1):
    net = Net(*links, queues=queues)
    try:
        net.up()
        yield net
    finally:
        net.down()


@pytest.fixture(scope="session")
def direct():
    """a0 -- c0"""
    with net_up(("a0", "c0")) as net:
        yield net


@pytest.fixture(scope="session")
def middle():
    """a0 -- b0, b1 -- c0"""
    with net_up(("a0", "b0"), ("b1", "c0")) as net:
        yield net


def stream(**more):
    return {
        "id": 0, "kind": "latency", "tx_port": 0, "rx_port": 1, "pps": 2000.0, "frame_bytes": 64,
        "src_mac": "02:00:00:00:00:0a", "dst_mac": "02:00:00:00:00:0c", "src_ip": "10.0.0.1", "dst_ip": "10.0.0.2",
    } | more  # fmt: skip


def config(ports, *streams, **more):
    return {
        "ports": ports, "streams": list(streams or [stream()]),
        "warmup_s": 0.05, "duration_s": 0.3, "drain_s": 0.2, "progress": False,
        "max_burst": 1_000_000,  # a busy machine makes frames late, never fewer
    } | more  # fmt: skip


#: For figures of a sender that others of a busy machine must not take the CPU from.
REALTIME = ("chrt", "-f", "1")


def xdpgen(cfg, *options, expect=0, program=None, prefix=()):
    """Run to the end.  Returns the result, or the only line on stderr."""
    text = cfg if isinstance(cfg, str) else json.dumps(cfg)
    done = subprocess.run(
        [*prefix, program or XDPGEN, *options, "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == expect, (done.returncode, done.stderr, done.stdout[:300])
    if expect:
        lines = done.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("xdpgen: "), done.stderr
        return lines[0]
    return json.loads(done.stdout) if done.stdout else None


def wait_until_it_sends(process, wait_s):
    """Its sender is a thread, begun when all is attached; `wait_s` at least. One that has ended is not waited for."""
    began = time.monotonic()
    tasks = Path("/proc", str(process.pid), "task")
    while wait_s and process.poll() is None and len(os.listdir(tasks)) < 2:
        assert time.monotonic() < began + TIMEOUT_S
        time.sleep(0.01)
    time.sleep(max(0.0, began + wait_s - time.monotonic()))


@contextlib.contextmanager
def xdpgen_running(cfg, wait_s=0.4, program=None):
    with subprocess.Popen(
        [program or XDPGEN, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            process.stdin.write(json.dumps(cfg))
            process.stdin.close()
            process.stdin = None
            wait_until_it_sends(process, wait_s)
            yield process
        finally:
            process.kill()


def only(result):
    (one,) = result["streams"]
    return one


def batches_of(reported):
    """What ovsprobe or xsk recorded, by the names of the columns."""
    return [dict(zip(reported["columns"], record, strict=True)) for record in reported["records"]]


def counts(result_stream):
    keys = ("sent", "received", "lost", "duplicated", "out_of_order", "late_beyond_window")
    return {key: result_stream[key] for key in keys}


def clean(frames):
    return {"sent": frames, "received": frames, "lost": 0, "duplicated": 0, "out_of_order": 0, "late_beyond_window": 0}
