# SPDX-License-Identifier: Apache-2.0
"""Frames built by scapy are read back as they were meant, with checksums that somebody else would compute."""

import ipaddress
import struct

import pytest
from hypothesis import assume, given, settings, strategies as st
from lab.frames import decode

from xdplab.model import StreamSpec
from xdplab.testers.packets import FCS_BYTES, Headers, build

macs = st.binary(min_size=6, max_size=6).map(lambda raw: bytes([raw[0] & 0xFE]) + raw[1:]).map(lambda raw: raw.hex(":"))
ports = st.integers(1, 65535).filter(lambda port: port not in (53, 4789))  # scapy reads these two further
v4 = st.integers(1, 2**32 - 2).map(ipaddress.IPv4Address).map(str)
v6 = st.integers(1, 2**128 - 2).map(ipaddress.IPv6Address).map(str)


@st.composite
def headers(draw: st.DrawFn) -> Headers:
    version = draw(st.sampled_from([4, 6]))
    address = v4 if version == 4 else v6
    vlan = draw(st.none() | st.integers(1, 4094))
    addresses = draw(address), draw(address)
    outer, marks = (draw(st.none() | st.integers(1, 4094)), draw(st.integers(0, 7))) if vlan else (None, 0)
    dei = bool(vlan) and draw(st.booleans())
    fixed = draw(macs), draw(macs), *addresses, draw(ports), draw(ports), version, vlan
    return Headers(*fixed, outer, marks, dei, draw(st.integers(0, 63)))


def ones_complement(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@settings(max_examples=60, deadline=None)
@given(headers(), st.integers(64, 1522), st.binary(max_size=40))
def test_what_is_built_is_what_is_read(asked: Headers, frame_bytes: int, payload: bytes) -> None:
    assume(frame_bytes - FCS_BYTES - asked.bytes >= len(payload))
    frame = build(asked, frame_bytes, payload=payload)
    assert len(frame) == frame_bytes - FCS_BYTES
    found = decode(frame)
    assert found.headers == asked
    assert found.payload[: len(payload)] == payload
    assert not any(found.payload[len(payload) :])
    assert found.checksums_right
    assert struct.unpack_from("!H", frame, asked.flow_offset) == (asked.udp_src,)


@settings(max_examples=30, deadline=None)
@given(headers(), st.integers(0, 200))
def test_a_bit_that_flips_under_a_checksum_is_seen(asked: Headers, position: int) -> None:
    frame = bytearray(build(asked, 300))
    payload = asked.bytes + position % (300 - FCS_BYTES - asked.bytes)
    frame[payload] ^= 0x10
    assert not decode(bytes(frame)).checksums_right


def test_checksums_are_those_of_the_protocol_and_not_only_of_scapy() -> None:
    asked = Headers("02:00:00:00:00:01", "02:00:00:00:00:02", "198.18.0.1", "198.19.0.1", 10000, 20000)
    frame = build(asked, 128, payload=b"abc")
    ip, udp = frame[14:34], frame[34:]
    assert ones_complement(ip) == 0xFFFF  # RFC 791
    assert ones_complement(ip[12:20] + struct.pack("!HH", 17, len(udp)) + udp) == 0xFFFF  # RFC 768
    assert build(asked, 128, udp_checksum=False)[40:42] == b"\0\0"
    assert decode(build(asked, 128, udp_checksum=False)).checksums_right


def test_headers_that_do_not_fit_are_refused() -> None:
    asked = Headers("02:00:00:00:00:01", "02:00:00:00:00:02", "2001:2::1", "2001:2::2", 1, 2, ip=6, vlan=7)
    with pytest.raises(ValueError, match="frame of 69 bytes: 66 of headers leave no room for 0"):
        build(asked, 69)
    with pytest.raises(ValueError, match="no room for 9"):
        build(asked, 78, payload=bytes(9))


def test_the_other_direction_has_the_addresses_the_other_way_round() -> None:
    from xdplab.hosts import LocalHost
    from xdplab.testbed import Port, TesterPorts
    from xdplab.testers.packets import headers_of

    host = LocalHost()
    between = TesterPorts(
        Port("a0", host, "a0", "02:00:00:00:00:0a", 1500), Port("c0", host, "c0", "02:00:00:00:00:0c", 1500)
    )
    forward = headers_of(StreamSpec(kind="load", pps=1, frame_bytes=64, pair=3), between)
    backward = headers_of(StreamSpec(kind="load", pps=1, frame_bytes=64, pair=3, direction="backward"), between)
    assert (forward.src_ip, forward.dst_ip) == ("198.18.3.1", "198.19.3.1")
    assert (backward.src_ip, backward.dst_ip) == (forward.dst_ip, forward.src_ip)
    assert (backward.src_mac, backward.dst_mac) == (forward.dst_mac, forward.src_mac)
