# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the tester's own card drops was not sent; what a full ring of veth drops, its receiver lost.

A tap is the card: its ring holds `txqueuelen` frames until somebody reads.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import socket
import struct
import threading
from pathlib import Path

import pytest
from conftest import XDPGEN, clean, config, counts, only, sh, stream, xdpgen, xdpgen_running

CLONE_NEWNET = 0x40000000
TUNSETIFF, TUNSETIFINDEX = 0x400454CA, 0x400454DA
TUNSETQUEUE, IFF_DETACH_QUEUE = 0x400454D9, 0x0400
IFF_TAP, IFF_NO_PI, IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x0100
RING = 128
TRACEPOINT = b"xdp_devmap_xmit"
NO_TRACEPOINT = b"xdp_devmap_xmiu"


class Tap:
    """What it sends arrives at c0, once it is told to read."""

    flags = 0

    def __init__(self, net, letter="a", index=0, ring=RING):
        self.net, self.letter, self.index, self.ring = net, letter, index, ring
        self.name = f"{letter}tap"
        self.opened, self.reading, self.closing = (threading.Event() for _ in range(3))
        self.thread = threading.Thread(target=self._forward)
        self.waiting = None

    def port(self):
        return {"netns": self.net.path(self.letter), "ifname": self.name, "rx": "none"}

    def prepare(self, tap):
        """What else there is to do once it is there."""

    def _forward(self):
        self._enter(self.letter)
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        if self.index:
            fcntl.ioctl(tap, TUNSETIFINDEX, struct.pack("I", self.index))
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", self.name.encode(), IFF_TAP | IFF_NO_PI | self.flags))
        self.prepare(tap)
        self._enter("b")
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        port.bind(("b1", 0))
        self.opened.set()
        self.reading.wait()
        while not self.closing.is_set():
            if select.select([tap], [], [], 0.02)[0]:
                with contextlib.suppress(BlockingIOError):
                    port.send(os.read(tap, 4096))
        port.close()
        os.close(tap)

    def _enter(self, letter):
        """A socket stays of the namespace in which it was opened."""
        with open(self.net.path(letter), encoding="ascii") as namespace:
            assert ctypes.CDLL(None).setns(namespace.fileno(), CLONE_NEWNET) == 0

    def __enter__(self):
        self.thread.start()
        assert self.opened.wait(30)
        sh("ip", "-n", self.net.ns(self.letter), "link", "set", self.name, "up", "txqueuelen", self.ring)
        return self

    def __exit__(self, *_):
        self.closing.set()
        if self.waiting:
            self.waiting.join()
        self.reading.set()
        self.thread.join()

    def read_when_full(self):
        """It reads a second after its ring has refused a frame: by then all have been sent."""

        def wait():
            while not self._dropped() and not self.closing.wait(0.02):
                pass
            self.closing.wait(1)
            self.reading.set()

        self.waiting = threading.Thread(target=wait)
        self.waiting.start()

    def _dropped(self):
        (link,) = json.loads(sh("ip", "-n", self.net.ns(self.letter), "-j", "-s", "link", "show", self.name))
        return link["stats64"]["tx"]["dropped"]


class TapWithoutQueues(Tap):
    """Its driver refuses what is sent with ENXIO, as those of cards do where a CPU has no transmit queue."""

    flags = IFF_MULTI_QUEUE

    def prepare(self, tap):
        fcntl.ioctl(tap, TUNSETQUEUE, struct.pack("16sH22x", b"", IFF_DETACH_QUEUE))


@pytest.fixture
def tap(middle):
    with Tap(middle) as tap:
        yield tap


def frames(number, **more):
    return stream(count=number, pps=20000.0, **more)


@pytest.mark.parametrize("batch", [1, 64])
def test_what_the_card_dropped_was_not_sent(middle, tap, batch):
    """Nobody reads while 500 frames leave: all but those in the ring are dropped; those then arrive."""
    tap.read_when_full()
    ports = [tap.port(), middle.port("c0")]
    result = xdpgen(config(ports, frames(500), warmup_s=0, duration_s=0.5, drain_s=3, batch=batch))
    one = only(result)
    assert counts(one) == clean(RING)
    assert result["tx_drops_reason"] is None
    assert (one["intended"], one["tx_drops"], one["skipped"], one["redirect_errors"]) == (500, 500 - RING, 0, 0)
    assert [port["tx_drops"] for port in result["ports"]] == [500 - RING, None]
    assert one["gaps"]["trailing"] == 500 - RING  # sequences of frames that no one got


@pytest.mark.parametrize("batch", [1, 8, 64, 256])
def test_each_stream_has_its_own_drops(middle, tap, batch):
    """They leave in one bulk, which the driver cuts anywhere: each frame is known by its stream."""
    tap.read_when_full()
    streams = [
        frames(300), frames(200, id=1, kind="load", frame_bytes=128, start_ns=3000),
        frames(97, id=2, kind="load", frame_bytes=256, start_ns=1000),
    ]  # fmt: skip
    ports = [tap.port(), middle.port("c0")]
    result = xdpgen(config(ports, *streams, warmup_s=0, duration_s=0.5, drain_s=3, batch=batch))
    reported = result["streams"]
    assert [one["lost"] for one in reported] == [0, 0, 0]
    assert [one["sent"] + one["tx_drops"] for one in reported] == [300, 200, 97]
    assert all(one["sent"] == one["received"] > 0 for one in reported)
    assert sum(one["sent"] for one in reported) == RING


def test_drops_of_the_warm_up_are_its_own(middle, tap):
    tap.read_when_full()
    ports = [tap.port(), middle.port("c0")]
    result = xdpgen(config(ports, frames(100), warmup_s=0.2, duration_s=0.5, drain_s=3))
    assert result["warmup"] == {"sent": 100, "received": 100}
    one = only(result)
    assert (one["sent"], one["tx_drops"], one["lost"]) == (RING - 100, 200 - RING, 0)


def test_two_ports_of_one_number(middle):
    """As interfaces of two namespaces may be: drops are of the one that dropped."""
    number = 4321
    with Tap(middle, "a", number) as small, Tap(middle, "b", number, ring=1000) as large:
        small.read_when_full()
        large.reading.set()
        streams = [frames(300), frames(300, id=1, tx_port=2)]
        ports = [small.port(), middle.port("c0"), large.port()]
        result = xdpgen(config(ports, *streams, warmup_s=0, duration_s=0.5, drain_s=3))
    assert [(one["tx_drops"], one["lost"]) for one in result["streams"]] == [(300 - RING, 0), (0, 0)]
    assert [port["tx_drops"] for port in result["ports"]] == [300 - RING, None, 0]


@pytest.fixture
def without_tracepoint(tmp_path, monkeypatch):
    """A kernel whose BTF does not have it."""
    program = XDPGEN.read_bytes()
    assert TRACEPOINT in program
    path = tmp_path / "xdpgen"
    path.write_bytes(program.replace(TRACEPOINT, NO_TRACEPOINT))
    path.chmod(0o755)
    monkeypatch.setattr("conftest.XDPGEN", path)


def test_a_kernel_that_does_not_tell(middle, tap, without_tracepoint):
    """It is said, and what the card dropped is lost somewhere."""
    tap.read_when_full()
    ports = [tap.port(), middle.port("c0")]
    result = xdpgen(config(ports, frames(500), warmup_s=0, duration_s=0.5, drain_s=3))
    one = only(result)
    assert (one["sent"], one["lost"], one["tx_drops"]) == (500, 500 - RING, None)
    assert result["tx_drops_reason"].startswith("cannot read the tracepoint: ")


def test_a_card_that_refuses_all_while_nobody_looks(middle, without_tracepoint):
    """Its own counters tell; 500 frames that are lost would be the forwarder's."""
    with TapWithoutQueues(middle) as card:
        run = config([card.port(), middle.port("c0")], frames(500), warmup_s=0, duration_s=0.5, drain_s=0)
        with xdpgen_running(run, wait_s=0) as process:
            out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert json.loads(out)["error"].startswith("500 frames did not leave the tx port (by its counters)")
    assert err.startswith("xdpgen: 500 frames did not leave")


def test_the_ring_of_veth_is_its_receivers(direct):
    """c0's NAPI is a thread on the sender's core: it comes too late, as a forwarder's may."""
    name = "/sys/class/net/c0/threaded"
    direct.exec("c", "sh", "-c", f"echo 1 > {name}")
    try:
        for comm in Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                if comm.read_text().startswith("napi/c0-"):
                    os.sched_setaffinity(int(comm.parent.name), {0})
        ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
        run = config(ports, stream(pps=None, kind="load"), warmup_s=0, duration_s=0.3, batch=64)
        result = xdpgen(run)
    finally:
        direct.exec("c", "sh", "-c", f"echo 0 > {name}")
    one = only(result)
    assert one["lost"] > 0
    assert one["tx_drops"] is None and result["ports"][0]["tx_drops"] is None
    assert one["intended"] == one["sent"]
