# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames with a payload of the user's: what leaves, and answers, which repeat 18 bytes of it."""

import subprocess
import sys

import pytest
from conftest import BPF, clean, config, counts, only, stream, xdpgen
from test_counters import FRAMES, RECEIVERS
from test_frames import TRAILER, V6, is_checksum_right

scapy = pytest.importorskip("scapy.all", reason="needs scapy to check frames")

#: Name of the query: 18 bytes that identify the frame, then example.
QUERY = bytes.fromhex("0001 0100 0001 0000 0000 0000 12") + bytes(18) + b"\x07example\0" + bytes.fromhex("0001 0001")
AT = 13
HEADERS = {4: 42, 6: 62}


def request(payload=QUERY, at=AT, **more):
    size = HEADERS[more.get("ip", 4)] + len(payload) + 4
    return stream(request=payload.hex(), trailer_at=at, frame_bytes=size, **more)


@pytest.mark.parametrize("sender", ["live", "xsk"])
@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request(flows=7, dst_addresses=3, pps=None, count=FRAMES, kind="load"),
        request(bytes(range(18)), 0),
        request(bytes(range(256)), 238),
        request(bytes(range(255)), 1, udp_src=65000, flows=400, **V6),
    ],
    ids=["query", "load", "identity alone", "longest", "odd"],
)
def test_the_payload_is_the_one_asked_for(middle, tmp_path, sender, asked):
    at = HEADERS[asked.get("ip", 4)] + asked["trailer_at"]
    payload = bytes.fromhex(asked["request"])
    with middle.forwarder(tmp_path, capture=50, trailer_at=at) as report:
        one = only(xdpgen(config([middle.port("a0"), middle.port("c0")], asked, sender=sender)))
    assert one["received"] > 0
    if asked["kind"] == "latency":
        assert (counts(one), one["damaged"]) == (clean(FRAMES), 0)
    frames = [bytes.fromhex(frame) for frame in report["captured"]["0"]]
    assert len(frames) == 50
    for number, frame in enumerate(frames):
        packet = scapy.Ether(frame)
        found, begin = bytes(packet[scapy.UDP].payload), asked["trailer_at"]
        assert found[:begin] + found[begin + 18 :] == payload[:begin] + payload[begin + 18 :]
        assert TRAILER.unpack(frame[at : at + 18])[3] == number
        assert is_checksum_right(packet)


@pytest.mark.parametrize("receiver", RECEIVERS, ids=lambda r: "-".join(r.values()))
def test_answers_are_known_by_what_they_repeat(middle, tmp_path, receiver):
    """They are longer, and have it elsewhere; one bit of it is wrong in one, and one is lost."""
    ports = [middle.port("a0"), middle.port("c0", **receiver)]
    bit = 8 * (len(QUERY) - AT - 18) + 3  # of the compensation, counted from the frame's end
    with middle.forwarder(tmp_path, trailer_at=42 + AT, answer=29, drop=[7], flip={9: bit}):
        one = only(xdpgen(config(ports, request(answer_at=29))))
    assert (one["sent"], one["received"], one["lost"], one["damaged"]) == (FRAMES, FRAMES - 2, 2, 1)
    assert one["latency"]["count"] == FRAMES - 2


def test_an_answer_that_has_it_elsewhere_is_none(middle, tmp_path):
    ports = [middle.port("a0"), middle.port("c0")]
    with middle.forwarder(tmp_path, trailer_at=42 + AT, answer=29) as report:
        one = only(xdpgen(config(ports, request())))
    assert (one["sent"], report["forwarded"], one["received"]) == (FRAMES, FRAMES, 0)


def test_all_streams_have_it_at_one_place(middle):
    ports = [middle.port("a0"), middle.port("c0")]
    assert "at one place" in xdpgen(config(ports, request(), stream(id=1)), expect=2)
    assert "at one place" in xdpgen(config(ports, request(), request(id=1, answer_at=20)), expect=2)
    assert xdpgen(config(ports, request(), request(id=1, answer_at=AT)), "--check") is None


ASK = """
import socket, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
port.bind(("a0", 0))
port.settimeout(5)
port.send(bytes.fromhex(sys.argv[1]))
print(next(frame.hex() for frame in iter(lambda: port.recv(2048), b"") if frame[:6] == b"\\2" + bytes(4) + b"\\1"))
"""


def test_the_sample_server_answers_a_query(middle, tmp_path):
    """docs/samples/dns.c, as scapy reads it."""
    source = BPF.parent / "docs" / "samples" / "dns.c"
    made = tmp_path / "dns"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", made, "-lxdp", "-lbpf"], check=True)
    query = (
        scapy.Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / scapy.IP(src="198.18.0.1", dst="198.19.0.1")
        / scapy.UDP(sport=10000, dport=53)
        / scapy.DNS(id=77, rd=1, qd=scapy.DNSQR(qname="abc.example"), ar=scapy.DNSRROPT())
    )
    with middle.program("b", made, "b0") as process:
        for _ in range(20):
            try:
                found = middle.exec("a", sys.executable, "-c", ASK, bytes(query).hex())
                break
            except AssertionError:  # its socket is not there yet
                assert process.poll() is None
    middle.exec("b", "ip", "link", "set", "b0", "xdp", "off")  # it outlives its socket
    answer = scapy.Ether(bytes.fromhex(found))
    assert (answer[scapy.IP].src, answer[scapy.IP].dst) == ("198.19.0.1", "198.18.0.1")
    assert (answer[scapy.UDP].sport, answer[scapy.UDP].dport) == (53, 10000)
    given = answer[scapy.IP].chksum
    del answer[scapy.IP].chksum
    assert scapy.Ether(bytes(answer))[scapy.IP].chksum == given
    dns = answer[scapy.DNS]
    assert (dns.id, dns.qr, dns.aa, dns.rcode, dns.qdcount, dns.ancount, dns.arcount) == (77, 1, 1, 0, 1, 1, 0)
    assert dns.an[0].rrname == b"abc.example."
    assert dns.an[0].rdata == "192.0.2.1"
