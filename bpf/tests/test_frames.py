# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What leaves the sender: sizes, headers, checksums, flows, trailer."""

import ipaddress
import struct

import pytest
from conftest import clean, config, counts, stream, xdpgen

scapy = pytest.importorskip("scapy.all", reason="needs scapy to check frames")

TRAILER = struct.Struct("!HBBIQH")
MAGIC = 0x78D7
V6 = {"ip": 6, "src_ip": "fd00::1", "dst_ip": "fd00::2"}

# All in one sender thread: long frames are written where short ones have been.
STREAMS = [
    stream(id=n, pps=200.0) | more
    for n, more in enumerate(
        [
            {"frame_bytes": 64},
            {"frame_bytes": 65, "flows": 3, "udp_src": 60000},
            {"frame_bytes": 68, "vlan": 1},
            {"frame_bytes": 84} | V6,
            {"frame_bytes": 88, "vlan": 4094} | V6,
            {"frame_bytes": 75},
            {"frame_bytes": 76, "flows": 7},
            {"frame_bytes": 127, "flows": 200, "udp_src": 0xFF00},
            {"frame_bytes": 128} | V6,
            {"frame_bytes": 512, "kind": "load"},
            {"frame_bytes": 1023, "vlan": 77},
            {"frame_bytes": 1024, "udp_dst": 65535},
            {"frame_bytes": 1280, "flows": 10, "vlan": 5} | V6,
            {"frame_bytes": 1517, "flows": 10} | V6,
            {"frame_bytes": 1518},
            {"frame_bytes": 1522, "vlan": 100},
        ]
    )
]

#: Address 0 is the first, the others lie elsewhere and apart, as rules of a switch do; over a carry of both checksums.
TARGETS = {"dst_ip": "10.0.255.254", "dst_addresses": 3, "dst_next": "10.255.255.240", "dst_step": 32}
SOURCES = {"src_ip": "192.168.255.255", "src_addresses": 2}
MORE = [
    stream(id=n, pps=400.0) | more
    for n, more in enumerate(
        [
            {"frame_bytes": 64, "flows": 60} | TARGETS | SOURCES,
            {"frame_bytes": 75, "flows": 60, "udp_src": 60000, "dscp": 46} | TARGETS,
            {"frame_bytes": 68, "flows": 4, "vlan": 9, "pcp": 5, "dei": True} | SOURCES,
            {"frame_bytes": 72, "vlan": 4094, "outer_vlan": 77, "pcp": 7, "dscp": 63},
            {"frame_bytes": 93, "flows": 6, "vlan": 1, "outer_vlan": 4094, "dei": True, "dscp": 41, "src_addresses": 3}
            | V6,
            {"frame_bytes": 1518, "flows": 100000, "dst_addresses": 100000, "vlan": 3, "outer_vlan": 2},
        ]
    )
]


def address_of(cfg, end, number):
    first, following = cfg[f"{end}_ip"], cfg.get(f"{end}_next")
    beyond = ipaddress.ip_address(following) if following else ipaddress.ip_address(first) + 1
    return str(beyond + (number - 1) * cfg.get(f"{end}_step", 1)) if number else first


def headers_of(cfg, flow):
    """Targets in turns, then sources, then ports."""
    rest, target = divmod(flow, cfg.get("dst_addresses", 1))
    port, source = divmod(rest, cfg.get("src_addresses", 1))
    return address_of(cfg, "src", source), address_of(cfg, "dst", target), cfg.get("udp_src", 10000) + port


def tags_of(packet):
    """(ethertype in front, identifier, priority, drop eligible) of each tag."""
    found, layer = [], packet
    while isinstance(layer.payload, scapy.Dot1Q | scapy.Dot1AD):
        tag = layer.payload
        word = int.from_bytes(bytes(tag)[:2], "big")
        found.append((layer.type, word & 0xFFF, word >> 13, bool(word & 0x1000)))
        layer = tag
    return found


def is_checksum_right(packet):
    """Scapy recomputes what is deleted."""
    again = packet.copy()
    if scapy.IP in again:
        del again[scapy.IP].chksum
    del again[scapy.UDP].chksum
    again = scapy.Ether(bytes(again))
    return bytes(again) == bytes(packet) and packet[scapy.UDP].chksum != 0


def check_frame(frame, cfg, position):
    packet = scapy.Ether(frame)
    magic, ident, epoch, seq, _, _ = TRAILER.unpack(frame[-TRAILER.size :])
    assert len(frame) == cfg["frame_bytes"] - 4
    assert (packet.src, packet.dst) == (cfg["src_mac"], cfg["dst_mac"])
    assert (magic, ident, seq, epoch & 1) == (MAGIC, cfg["id"], position, 1)
    marks = cfg.get("pcp", 0), cfg.get("dei", False)
    tags = [(0x88A8, cfg.get("outer_vlan"), *marks), (0x8100, cfg.get("vlan"), *marks)]
    assert tags_of(packet) == [tag for tag in tags if tag[1]]
    ip = packet[scapy.IPv6 if cfg.get("ip") == 6 else scapy.IP]
    assert (ip.tc if cfg.get("ip") == 6 else ip.tos) == cfg.get("dscp", 0) << 2
    udp = packet[scapy.UDP]
    assert (ip.src, ip.dst, udp.sport) == headers_of(cfg, seq % cfg.get("flows", 1))
    assert udp.dport == cfg.get("udp_dst", 20000)
    payload = bytes(udp.payload)
    assert udp.len == 8 + len(payload)
    assert not any(payload[: -TRAILER.size]), "payload is not clean"
    assert is_checksum_right(packet)


@pytest.mark.parametrize("sender", ["live", "xsk"])
@pytest.mark.parametrize("streams", [STREAMS, MORE], ids=["one address", "tags and addresses"])
def test_formats(middle, tmp_path, sender, streams):
    middle.exec("a", "ip", "link", "set", "a0", "mtu", "1504")
    ports = [middle.port("a0"), middle.port("c0")]
    with middle.forwarder(tmp_path, capture=1000) as report:
        result = xdpgen(config(ports, *streams, sender=sender))
    middle.exec("a", "ip", "link", "set", "a0", "mtu", "1500")
    assert result["sender"] == sender
    for cfg, got in zip(streams, result["streams"], strict=True):
        sent = round(cfg["pps"] * 0.3)
        assert counts(got) == clean(sent), cfg
        assert (got["latency"] is None) == (cfg["kind"] == "load")
        frames = report["captured"][str(cfg["id"])]
        assert len(frames) == sent
        for position, frame in enumerate(frames):
            check_frame(bytes.fromhex(frame), cfg, position)


@pytest.mark.parametrize("receiver", [{"rx": "tc"}, {"rx": "tc", "tc_hook": "clsact"}, {"xdp_mode": "generic"}])
def test_formats_reach_every_receiver(direct, receiver):
    """On a direct link, so that a VLAN tag is in the data for XDP."""
    ports = [direct.port("a0"), direct.port("c0", **receiver)]
    streams = [*(s for s in STREAMS if s["frame_bytes"] <= 1518), MORE[3] | {"id": 15, "pps": 200.0}]
    result = xdpgen(config(ports, *streams))
    assert [counts(got) for got in result["streams"]] == [clean(60)] * len(streams)


def test_largest_frame(direct):
    """3304 bytes: what fits a page beside the kernel's own data."""
    for letter in "ac":
        direct.exec(letter, "ip", "link", "set", f"{letter}0", "mtu", "3500")
    ports = [direct.port("a0"), direct.port("c0")]
    small, large = stream(), stream(id=1, frame_bytes=3304)
    try:
        result = xdpgen(config(ports, small, large))
        line = xdpgen(config(ports, stream(frame_bytes=3305)), expect=2)
    finally:
        for letter in "ac":
            direct.exec(letter, "ip", "link", "set", f"{letter}0", "mtu", "1500")
    assert [counts(got) for got in result["streams"]] == [clean(600)] * 2
    assert "to 3304" in line


def test_a_changed_frame_is_written_again(middle):
    """xdpfwd in the path recycles pages; a hairpin returns the same ones."""
    with middle.xdpfwd("--if0", "b0", "--hairpin"):
        ports = [middle.port("a0", tx_cpu=0)]
        both = [stream(rx_port=0, pps=50000.0), stream(id=1, rx_port=0, pps=50000.0, frame_bytes=90, **V6)]
        result = xdpgen(config(ports, *both))
    assert [counts(got) for got in result["streams"]] == [clean(15000)] * 2
