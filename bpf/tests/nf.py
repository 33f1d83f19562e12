# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames for the network functions, what must become of each, and ways to put them through every form."""

import ctypes
import os
import platform
import struct
from collections import Counter
from typing import NamedTuple

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from xsk import xsk

BPF_PROG_TEST_RUN, BPF_PROG_GET_FD_BY_ID = 10, 13
SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT = 1, 2, 3, 4
VERDICTS = {XDP_DROP: "drop", XDP_PASS: "local", XDP_TX: "forward", XDP_REDIRECT: "forward"}

SRC, DST = "02:00:00:00:00:0a", "02:00:00:00:00:0c"
SERVER = "10.7.0.9"
HOP = {"mac": "02:00:00:00:07:09", "ip": SERVER, "port": 1}
CLIENT, SERVICE = "198.18.0.1", "198.19.0.1"

#: By function and kind of frame; `next` is what the configuration has behind the last function.
OUTCOMES = {
    "macswap": dict.fromkeys(("flow", "bad-udp", "no-ports", "not-ip", "piece", "bad-sum", "ttl", "malformed"), "next"),
    "router": {"flow": "next", "bad-udp": "next", "no-ports": "next", "not-ip": "local", "piece": "next",
               "bad-sum": "drop", "ttl": "local", "malformed": "drop"},
    "checksummer": {"flow": "next", "bad-udp": "drop", "no-ports": "next", "not-ip": "next", "piece": "next",
                    "bad-sum": "next", "ttl": "next", "malformed": "drop"},
    "firewall": {"flow": "next", "bad-udp": "next", "no-ports": "next", "not-ip": "next", "piece": "drop",
                 "bad-sum": "next", "ttl": "next", "malformed": "drop"},
    "load_balancer": {"flow": "next", "bad-udp": "next", "no-ports": "next", "not-ip": "next", "piece": "drop",
                      "bad-sum": "next", "ttl": "next", "malformed": "drop"},
}  # fmt: skip


class Sample(NamedTuple):
    """A frame, and what it is."""

    name: str
    kind: str
    frame: bytes


def samples():
    """Every kind, in every dress."""
    eth = Ether(src=SRC, dst=DST)
    ip = IP(src=CLIENT, dst=SERVICE, ttl=9)
    udp, tcp = UDP(sport=10000, dport=20000), TCP(sport=10000, dport=20000, seq=7)
    plain = eth / ip / udp
    made = [
        ("udp", "flow", plain / Raw(b"x" * 20)),
        ("udp without payload", "flow", plain),
        *((f"udp with {n} bytes", "flow", plain / Raw(bytes(range(1, n + 1)))) for n in range(1, 9)),
        ("udp of the longest frame", "flow", plain / Raw(b"\xa5" * 1472)),
        ("udp without checksum", "flow", eth / ip / UDP(sport=10000, dport=20000, chksum=0) / Raw(b"y" * 9)),
        ("udp of another port", "flow", eth / ip / UDP(sport=10000, dport=53) / Raw(b"dns")),
        ("tcp", "flow", eth / ip / tcp),
        ("tcp with options and data", "flow", eth / ip / TCP(sport=1, dport=20000, options=[("MSS", 1460)]) / b"abcde"),
        ("tcp of the longest frame", "flow", eth / ip / tcp / Raw(b"\xff" * 1460)),
        ("bytes behind the packet", "flow", bytes(plain / Raw(b"zz")) + b"\xee" * 31),
        ("one tag", "flow", eth / Dot1Q(vlan=5, prio=3) / ip / udp / b"tag"),
        ("two tags", "flow", eth / Dot1AD(vlan=6) / Dot1Q(vlan=7) / ip / udp / b"tags"),
        ("three tags", "not-ip", eth / Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3) / ip / udp),
        ("options", "flow", eth / IP(src=CLIENT, dst=SERVICE, ttl=9, options=b"\x01" * 8) / udp / b"opt"),
        ("all options", "flow", eth / IP(src=CLIENT, dst=SERVICE, ttl=9, options=b"\x01" * 40) / udp / b"opt"),
        ("broadcast", "flow", Ether(src=SRC, dst="ff:ff:ff:ff:ff:ff") / ip / udp / b"all"),
        ("icmp", "no-ports", eth / ip / ICMP() / b"ping"),
        ("arp", "not-ip", eth / ARP(psrc=CLIENT, pdst=SERVICE)),
        ("ipv6", "not-ip", eth / IPv6(src="2001:db8::1", dst="2001:db8::2") / udp / b"six"),
        ("unknown type", "not-ip", Ether(src=SRC, dst=DST, type=0x1234) / b"what"),
        ("first fragment", "flow", eth / IP(src=CLIENT, dst=SERVICE, ttl=9, flags="MF") / udp / Raw(b"f" * 24)),
        ("later fragment", "piece", eth / IP(src=CLIENT, dst=SERVICE, ttl=9, frag=3, proto=17) / Raw(b"g" * 24)),
        ("time to live 2", "flow", eth / IP(src=CLIENT, dst=SERVICE, ttl=2) / udp / b"two"),
        ("time to live 1", "ttl", eth / IP(src=CLIENT, dst=SERVICE, ttl=1) / udp / b"one"),
        ("time to live 0", "ttl", eth / IP(src=CLIENT, dst=SERVICE, ttl=0) / udp / b"none"),
        ("wrong sum", "bad-sum", eth / IP(src=CLIENT, dst=SERVICE, ttl=9, chksum=0x1234) / udp / b"sum"),
        ("udp longer than the packet", "bad-udp", eth / ip / UDP(sport=10000, dport=20000, len=99) / b"long"),
        ("udp shorter than itself", "bad-udp", eth / ip / UDP(sport=10000, dport=20000, len=7) / b"short"),
        ("packet longer than the frame", "malformed", eth / IP(src=CLIENT, dst=SERVICE, len=200) / udp),
        ("packet shorter than its header", "malformed", eth / IP(src=CLIENT, dst=SERVICE, len=19) / udp),
        ("header beyond the packet", "malformed", eth / IP(src=CLIENT, dst=SERVICE, ihl=15, len=28) / udp),
        ("header too short", "malformed", eth / IP(src=CLIENT, dst=SERVICE, ihl=4) / udp),
        ("version 5", "malformed", eth / IP(src=CLIENT, dst=SERVICE, version=5) / udp),
        ("udp header cut", "malformed", eth / IP(src=CLIENT, dst=SERVICE, proto=17) / Raw(b"\x27\x10\x4e")),
        ("tcp header cut", "malformed", eth / IP(src=CLIENT, dst=SERVICE, proto=6) / Raw(b"\x27\x10\x4e\x20" * 4)),
        ("ip header cut", "malformed", bytes(plain)[: 14 + 11]),
        ("tag cut", "malformed", bytes(eth / Dot1Q(vlan=5))[:16]),
        ("nothing behind the header", "malformed", bytes(plain)[:14]),
    ]  # fmt: skip
    return [Sample(name, kind, bytes(frame)) for name, kind, frame in made]


def rebuilt(frame, change):
    """The frame after `change(packet)`, its sums made anew by scapy; what is behind the packet is kept."""
    packet = Ether(frame)
    tail = packet["Padding"].load if packet.haslayer("Padding") else b""
    if tail:
        packet["Padding"].underlayer.remove_payload()
    change(packet)
    return bytes(packet) + tail


def with_new_sums(packet, transport=True):
    del packet[IP].chksum
    for layer in (UDP, TCP):
        if transport and packet.haslayer(layer):
            del packet[layer].chksum


def expected(function, sample, hop=HOP, out_mac="00:00:00:00:00:00"):
    """Verdict and frame; `out_mac` is the address of the port that it leaves by."""
    verdict = OUTCOMES[function][sample.kind]
    frame = sample.frame
    if verdict != "next" or function == "firewall":
        return verdict, frame
    macs = bytes.fromhex((hop["mac"] + out_mac).replace(":", ""))
    if function == "macswap":
        return verdict, frame[6:12] + frame[:6] + frame[12:]
    if function == "router":

        def routed(packet):
            packet[IP].ttl -= 1
            with_new_sums(packet, transport=False)

        return verdict, macs + rebuilt(frame, routed)[12:]
    if sample.kind == "not-ip":
        return verdict, frame
    if function == "checksummer":
        whole = sample.kind in ("flow", "ttl", "bad-sum") and "fragment" not in sample.name
        return verdict, rebuilt(frame, lambda packet: with_new_sums(packet, transport=whole))
    if sample.kind == "no-ports" or sample.name == "udp of another port":
        return verdict, frame
    return verdict, macs + translated(frame, hop["ip"])[12:]


def mended(old, before, after):
    """RFC 1624: a checksum after four bytes changed."""
    words = [(before[i] ^ 0xFF) << 8 | before[i + 1] ^ 0xFF for i in (0, 2)]
    words += [after[i] << 8 | after[i + 1] for i in (0, 2)]
    total = (old ^ 0xFFFF) + sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def translated(frame, ip):
    """The destination replaced, sums mended: those that were wrong stay wrong."""
    before, after = (bytes(map(int, text.split("."))) for text in (SERVICE, ip))
    at = frame.index(before)
    header = at - 16
    l4 = header + (frame[header] & 15) * 4
    udp = frame[header + 9] == 17
    places = [header + 10, l4 + (6 if udp else 16)]
    if udp and frame[places[1] : places[1] + 2] == bytes(2):
        places.pop()
    made = bytearray(frame)
    made[at : at + 4] = after
    for place in places:
        value = mended(int.from_bytes(frame[place : place + 2], "big"), before, after)
        if udp and place > header + 10:
            value = value or 0xFFFF
        made[place : place + 2] = value.to_bytes(2, "big")
    return bytes(made)


def config(functions, place, **more):
    """The `nf` object."""
    names = [functions] if isinstance(functions, str) else list(functions)
    return {"functions": names, "place": place, "next_hops": [HOP]} | more


def _bpf(command, attr):
    result = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, command, attr, len(attr.raw))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Program:
    """A loaded XDP program under BPF_PROG_TEST_RUN."""

    def __init__(self, prog_id):
        self.fd = _bpf(BPF_PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("III", prog_id, 0, 0), 16))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def run(self, frame):
        """Verdict and frame."""
        given, made = ctypes.create_string_buffer(frame, len(frame)), ctypes.create_string_buffer(4096)
        packed = struct.pack(
            "IIIIQQII", self.fd, 0, len(frame), 4096, ctypes.addressof(given), ctypes.addressof(made), 1, 0
        )
        attr = ctypes.create_string_buffer(packed, 80)
        _bpf(BPF_PROG_TEST_RUN, attr)
        _, code, _, size = struct.unpack_from("IIII", attr.raw)
        return VERDICTS[code], made.raw[:size]


#: Frames on their way at once: the ring of a veth has 256 places.
_CHUNK = 64


def through(wires, frames, last):
    """What comes out at the far end of a wire; `last` follows each chunk, and comes through."""
    near, far = wires
    got = []
    for begin in range(0, len(frames), _CHUNK):
        for frame in [*frames[begin : begin + _CHUNK], last]:
            near.send(frame)
        while b"the last frame" not in (frame := far.receive()):
            got.append(frame)
    return got


def running(net, nf, *ports, **more):
    """A started nf in namespace b."""
    return xsk(net, "b", "nf", *(ports or ("b0", "b1")), nf=nf, **more)


def tally(verdicts):
    """Counters that must be told for these verdicts."""
    count = Counter(verdicts)
    return {"dropped": count["drop"], "forwarded": count["next"], "local": count["local"]}
