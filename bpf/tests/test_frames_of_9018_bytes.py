# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames of several buffers: AF_XDP sends them, and the receiver finds their trailers and each flipped bit."""

import platform

import pytest
from conftest import clean, config, counts, net_up, sh, stream, xdpgen
from xsk import is_sound, xsk

# Linux 6.6; earlier kernels refuse the socket
pytestmark = pytest.mark.skipif(
    tuple(map(int, platform.release().split(".")[:2])) < (6, 6), reason="AF_XDP frames of several buffers: Linux 6.6"
)

#: A page, one and two bytes more, two pages, and the largest of an MTU of 9000, each without and with the FCS.
SIZES = (3305, 4100, 4101, 8196, 8197, 9018)


@pytest.fixture(scope="module")
def jumbo():
    with net_up(("a0", "b0"), ("b1", "c0")) as net:
        for port in net.ports():
            sh("ip", "-n", net.ns(port[0]), "link", "set", port, "mtu", "9000")
        yield net


def streams(**more):
    return [stream(id=number, frame_bytes=size, pps=200.0, **more) for number, size in enumerate(SIZES)]


@pytest.mark.parametrize("rx", ["xdp", "tc"])
def test_frames_as_they_were_sent(jumbo, tmp_path, rx):
    with jumbo.forwarder(tmp_path):
        got = xdpgen(config([jumbo.port("a0"), jumbo.port("c0", rx=rx)], *streams(flows=7), sender="xsk"))
    assert got["sender"] == "xsk"
    assert [(counts(one), one["damaged"]) for one in got["streams"]] == [(clean(60), 0)] * len(SIZES)


@pytest.mark.parametrize("rx", ["xdp", "tc"])
def test_one_bit(jumbo, tmp_path, rx):
    """Next to the trailer, in each page, and next to the UDP header."""
    paddings = [size - 4 - 42 - 18 for size in SIZES]
    bits = [7, 18 * 8, 18 * 8 + 4096 * 8, *(8 * (18 + padding) - 1 for padding in paddings)]
    flip = {5 + 5 * number: bit for number, bit in enumerate(bits)}
    with jumbo.forwarder(tmp_path, flip=flip):
        got = xdpgen(config([jumbo.port("a0"), jumbo.port("c0", rx=rx)], *streams(), sender="xsk"))["streams"]
    damaged = [sum(bit < 8 * (18 + padding) for bit in bits) for padding in paddings]
    assert [one["damaged"] for one in got] == damaged
    assert len(set(damaged)) > 3


def test_frames_come_back_and_through_a_program(jumbo):
    """By xdpfwd to C, whose reflector sends them back."""
    ports = [jumbo.port("a0"), jumbo.port("c0", reflect=True)]
    asked = [stream(id=number, frame_bytes=size, pps=200.0, rx_port=0) for number, size in enumerate(SIZES)]
    with jumbo.xdpfwd("--if0=b0", "--if1=b1", "--mode=native"):
        got = xdpgen(config(ports, *asked, sender="xsk"))["streams"]
    assert [counts(one) for one in got] == [clean(60)] * len(SIZES)


@pytest.mark.parametrize("chunk_bytes", [2048, 4096])
def test_a_socket_receives_frames_of_several_chunks(jumbo, chunk_bytes):
    """Each is counted once, with all its bytes."""
    with xsk(jumbo, "b", "sink", "b0", multi_buffer=True, chunk_bytes=chunk_bytes, audit=True) as sink:
        ports = [jumbo.port("a0", rx="none"), jumbo.port("c0")]
        xdpgen(config(ports, *streams(), sender="xsk", warmup_s=0))
        done = sink.finish()
    (got,) = done["sockets"]
    assert (got["rx"], got["rx_bytes"]) == (60 * len(SIZES), 60 * sum(size - 4 for size in SIZES))
    assert is_sound(done)


def test_live_frames_have_one_page(jumbo):
    ports = [jumbo.port("a0"), jumbo.port("c0")]
    said = xdpgen(config(ports, stream(frame_bytes=3305)), expect=2)
    assert "must be from 64 (headers) to 3304 (MTU 9000 of a0)" in said
