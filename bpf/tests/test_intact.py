# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A probe that arrives otherwise than it was sent is damaged, and lost; what a switch may change is not damage."""

import pytest
from conftest import clean, config, counts, only, stream, xdpgen
from test_counters import FRAMES, RECEIVERS
from test_drain import FRAMES as DRAINED, TESTERS, trial

#: Bits of the trailer, from the end of the frame: compensation, time of departure and sequence.
COMPENSATION, DEPARTURE, SEQUENCE = (0, 7, 15), (16, 50, 79), (80, 95, 111)
TRAILER_BITS = 18 * 8
#: Of one flow, of many over addresses and ports, drawn, with tags, of odd length, over IPv6.
STREAMS = {
    "shortest": {},
    "odd": {"frame_bytes": 65},
    "ports": {"frame_bytes": 201, "flows": 50, "udp_src": 65000},
    "addresses": {"frame_bytes": 200, "flows": 60, "src_addresses": 4, "dst_addresses": 5, "first_flow": 17},
    "drawn": {"frame_bytes": 128, "flows": 60, "flow_choice": "zipf", "dst_addresses": 7},
    "new": {"frame_bytes": 128, "flows": 5000, "flow_choice": "new"},
    "tags": {"frame_bytes": 99, "vlan": 5, "outer_vlan": 9},
    "ipv6": {"ip": 6, "src_ip": "fd00::1", "dst_ip": "fd00::2", "frame_bytes": 97},
    "longest": {"frame_bytes": 1518},
}


def test_frames_as_they_were_sent(middle, tmp_path):
    streams = [stream(id=number, pps=200.0, **asked) for number, asked in enumerate(STREAMS.values())]
    with middle.forwarder(tmp_path):
        got = xdpgen(config([middle.port("a0"), middle.port("c0")], *streams))["streams"]
    found = {kind: (counts(one), one["damaged"]) for kind, one in zip(STREAMS, got, strict=True)}
    assert found == dict.fromkeys(STREAMS, (clean(60), 0))


@pytest.mark.parametrize("receiver", RECEIVERS, ids=lambda r: "-".join(r.values()))
def test_one_bit(middle, tmp_path, receiver):
    """Anywhere between UDP header and the end, the stream's number and epoch aside, which make it another's frame."""
    sizes = {64: 0, 65: 1, 71: 7, 77: 13, 1518: 1454}
    bits = [*COMPENSATION, *DEPARTURE, *SEQUENCE, TRAILER_BITS]
    bits += [TRAILER_BITS + 8 * padding - 1 for padding in sizes.values() if padding]
    flip = {5 + 7 * number: bit for number, bit in enumerate(bits)}
    streams = [stream(id=number, frame_bytes=size, pps=400.0) for number, size in enumerate(sizes)]
    with middle.forwarder(tmp_path, flip=flip):
        got = xdpgen(config([middle.port("a0"), middle.port("c0", **receiver)], *streams))["streams"]
    # in front of the padding lies what a switch may change
    damaged = [sum(bit < TRAILER_BITS + 8 * padding for bit in bits) for padding in sizes.values()]
    assert [one["damaged"] for one in got] == damaged == [9, 11, 12, 13, 14]
    assert [one["received"] for one in got] == [120 - number for number in damaged]


def test_a_load_is_not_looked_at(middle, tmp_path):
    ports = [middle.port("a0"), middle.port("c0")]
    with middle.forwarder(tmp_path, flip={20: 0, 30: TRAILER_BITS}):
        one = only(xdpgen(config(ports, stream(kind="load", frame_bytes=128))))
    assert counts(one) == clean(FRAMES)
    assert one["damaged"] is None


@TESTERS
def test_bits_in_kernel_and_user_space(middle, tmp_path, tester):
    """Both testers find the same: in the trailer, next to it, and behind the UDP header."""
    padding = 8 * (124 - 42 - 18)
    flip = {20: 3, 30: TRAILER_BITS, 40: TRAILER_BITS + padding - 1, 50: TRAILER_BITS + padding}
    with middle.forwarder(tmp_path, flip=flip), trial(middle, tester, 0.5, frame_bytes=128) as result:
        one = result()
    assert one["damaged"] == 3  # the last one is of the UDP header
    assert (one["sent"], one["lost"]) == (DRAINED, 3)
