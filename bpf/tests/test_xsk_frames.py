# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames that nobody sends on purpose: runts, rubbish, VLAN stacks, jumbo, traffic of others."""

import os
import random
import socket

import pytest
from conftest import TIMEOUT_S, clean, config, counts, net_up, sh, stream, xdpgen
from xsk import SANITIZED, SOCKETS, frames, is_sound, wait_for_frames, xsk

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
#: Frames may wait in a wire until all are sent; before Linux 6.4 each that XDP redirected over veth takes a page there,
#: so that the usual 208 KiB hold 49.
WIRE_BYTES = 1 << 20
SOME = pytest.mark.parametrize("sockets", [SOCKETS[name] for name in ("native", "generic", "packet-v2", "packet-v3")])


class Wire:
    """Raw frames at a port of another namespace."""

    def __init__(self, net, ifname):
        here = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(net.path(ifname[0]), os.O_RDONLY)
        setns(there)
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.socket.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
            self.socket.setsockopt(263, 8, 1)  # PACKET_AUXDATA: tells of VLAN tags
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, WIRE_BYTES)
            self.socket.bind((ifname, 0))
        finally:
            setns(here)
            os.close(here)
            os.close(there)
        self.socket.settimeout(TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, frame):
        self.socket.send(frame)

    def receive(self):
        """One frame, with the tag that the stack took out."""
        frame, ancillary, _, _ = self.socket.recvmsg(65536, 64)
        for _, _, data in ancillary:
            status = int.from_bytes(data[0:4], "little")
            if status & 0x10:
                tci, tpid = (int.from_bytes(data[at : at + 2], "little") for at in (16, 18))
                frame = frame[:12] + tpid.to_bytes(2, "big") + tci.to_bytes(2, "big") + frame[12:]
        return frame


def setns(descriptor):
    if not hasattr(os, "setns"):
        import ctypes

        assert ctypes.CDLL(None, use_errno=True).setns(descriptor, 0) == 0
        return
    os.setns(descriptor)


def rubbish(seed, longest):
    """Runts, stacks of tags, headers that lie, and noise: all with a broadcast address so that stacks take them."""
    rng = random.Random(seed)
    macs = b"\xff" * 6 + bytes.fromhex("02000000000a")
    tags = b"\x81\x00\x00\x07", b"\x88\xa8\x00\x09", b"\x81\x00\xef\xff"
    made = [macs + b"\x08\x00" + bytes(n) for n in (0, 1, 3, 20, 45)]  # AF_PACKET sends no less than a header
    made += [macs + tags[0] * n + b"\x08\x00" + bytes(46) for n in range(1, 9)]
    made += [macs + tags[1] + tags[2] + b"\x08\x00" + b"\x45" + b"\xff" * 60]
    made += [macs + b"\x08\x00" + b"\x4f\x00\xff\xff" + bytes(42)]
    made += [macs + b"\x86\xdd" + b"\x60\x00\x00\x00\xff\xff\x00" + bytes(60)]
    made += [macs + b"\x00\x05" + rng.randbytes(50)]
    made += [macs + rng.randbytes(rng.randrange(2, longest - 12)) for _ in range(80)]
    made += [macs + b"\x12\x34" + rng.randbytes(longest - 14)]
    return made


@SOME
def test_every_frame_is_forwarded_as_it_came(middle, sanitized, sockets):
    """Also by the build that ends at the first memory error or undefined behaviour."""
    with xsk(middle, "b", "forward", "b0", "b1", program=sanitized, **sockets) as forwarder:
        with Wire(middle, "a0") as wire, Wire(middle, "c0") as far:
            for frame in rubbish(1, 1514):
                wire.send(frame)
                assert far.receive() == frame
            for frame in rubbish(2, 1514):
                far.send(frame)
                assert wire.receive() == frame
        done = forwarder.finish()
    sent = len(rubbish(1, 1514))
    assert [(sock["rx"], sock["tx"]) for sock in done["sockets"]] == [(sent, sent)] * 2
    assert is_sound(done)


@SOME
@pytest.mark.parametrize("role", ["reflect", "sink", "ping", "probe"])
def test_rubbish_breaks_no_role(middle, sanitized, sockets, role):
    more = {"streams": [frames(pps=None if role == "ping" else 1000.0)]} if role in ("ping", "probe") else {}
    more |= {"stages": True} if role == "sink" else {}
    with xsk(middle, "b", role, "b0", program=sanitized, touch="macswap", **more, **sockets) as running:
        with Wire(middle, "a0") as wire:
            for frame in rubbish(3, 1514):
                wire.send(frame)
            # a trailer, and nothing else is right; with zeros its epoch would be, in one run of 128
            forged = bytes(42) + b"\x78\xd7" + b"\xff" * 16
            for n in (60, 59, 43, 20):
                wire.send((bytes(60) + forged)[-n:])
            wire.send(b"\xff" * 1500)
            seen = len(rubbish(3, 1514)) + 5
            wait_for_frames(running, "rx", seen)
        done = running.finish()
    assert done["sockets"][0]["rx"] >= seen
    if role in ("ping", "probe"):
        assert done["streams"][0]["received"] == 0
        assert done["other"] >= seen
    if role == "sink":
        assert done["stages"]["unstamped"] + done["stages"]["software"] == done["sockets"][0]["rx"]
    assert is_sound(done)


def test_traffic_of_others_is_not_counted_as_ours(middle):
    """A second program's probes, with the same stream ids, at the same reflector."""
    with xsk(middle, "b", "reflect", "b0"):
        with xsk(middle, "a", "probe", "a0", streams=[frames(pps=500.0)], duration_s=0.2, warmup_s=0.1) as first:
            assert first.finish(signal=False)["streams"][0]["lost"] == 0
        with xsk(middle, "a", "probe", "a0", streams=[frames(pps=500.0)], duration_s=0.5, drain_s=0.3,
                 max_burst=1000000) as probe, Wire(middle, "b1"):  # fmt: skip
            done = probe.finish(signal=False)
    assert counts(done["streams"][0]) == clean(250)


def test_jumbo():
    """What native XDP on veth takes: an MTU of 3506; generic XDP and AF_PACKET as well."""
    with net_up(("a0", "b0"), ("b1", "c0")) as net:
        for port in net.ports():
            sh("ip", "-n", net.ns(port[0]), "link", "set", port, "mtu", "3400")
        for sockets in (SOCKETS["native"], SOCKETS["generic"], SOCKETS["packet-v2"]):
            with xsk(net, "b", "forward", "b0", "b1", **sockets) as forwarder:
                ports = [net.port("a0", rx="none"), net.port("c0", rx="tc")]
                result = xdpgen(config(ports, stream(frame_bytes=3304), stream(id=1), warmup_s=0))
                assert [counts(got) for got in result["streams"]] == [clean(600)] * 2
                assert is_sound(forwarder.finish())


def test_the_sanitized_build_is_one():
    assert b"__asan_init" in SANITIZED.read_bytes()


@pytest.mark.parametrize("role", ["sink", "reflect"])
def test_the_fill_ring_is_full_from_the_start_and_stays_so(middle, role):
    """Whatever the batch: a first burst is not lost for want of chunks."""
    with xsk(middle, "b", role, "b0", wait="poll", batch=1, fill_ring=512) as running:
        done = running.finish()
    assert done["umems"][0]["receiving"] == 512
    ports = [middle.port("a0", rx="tc"), middle.port("c0", rx="tc")]
    with xsk(middle, "b", role, "b0", wait="poll", batch=1, fill_ring=512) as running:
        xdpgen(config(ports, stream(kind="load", pps=2000.0), warmup_s=0))
        done = running.finish()
    assert done["sockets"][0]["rx"] == 600
    assert done["sockets"][0]["kernel"]["rx_fill_ring_empty_descs"] == 0
    assert done["umems"][0]["receiving"] == 512
