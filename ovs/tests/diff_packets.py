# SPDX-License-Identifier: Apache-2.0
"""Random frames, right and wrong ones: what `offload_diff.py` sends.

Addresses, ports and VLANs come from small sets, so that the flows of `diff_tables.py` meet them. By hand, for scapy
mends what shall be wrong, and the tests of this folder need nothing but Python.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address

BROADCAST = bytes([255] * 6)
GROUPS = tuple(map(bytes.fromhex, ("01005e000001", "333300000001", "0180c2000000", "0180c2000002", "01000ccccccd")))
VLANS = (0, 1, 7, 100, 4095)
TPIDS = (0x8100, 0x8100, 0x8100, 0x88A8)
IPV4 = tuple(f"10.0.{net}.{host}" for net in range(2) for host in range(1, 5))
IPV6 = tuple(f"2001:db8:{net}::{host}" for net in range(2) for host in range(1, 4))
ODD_IPV4, ODD_IPV6 = ("224.0.0.1", "255.255.255.255", "0.0.0.1"), ("ff02::1", "fe80::1", "::")
L4_PORTS = (0, 53, 80, 443, 1000, 4789, 65535)
TTLS = (0, 1, 2, 64, 64, 64, 255)
TOSES = (0, 0, 4, 0x28, 0xB8, 0xB9, 0xFF)
TCP_FLAGS = (0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x00, 0xFF)
ICMP, IGMP, TCP, UDP, GRE, ESP, AH, ICMP6, NONE, SCTP = 1, 2, 6, 17, 47, 50, 51, 58, 59, 132
HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION, MOBILITY = 0, 43, 44, 60, 135
ETHERTYPES = (0x88CC, 0x8809, 0x8902, 0x8035, 0x894F, 0x8863, 0x88F7, 0x6558, 0x0600, 0x05FF, 0x05DC, 0xFFFF)
LARGEST = 1514
#: For experiments (IEEE 802): of frames by which addresses are learned.
GREETING = 0x88B5
#: Where tunnels end: the switch's own port, which has this address; and who sends there.
TUNNEL_MAC, TUNNEL_IP, TUNNEL_PEERS = bytes.fromhex("020000009901"), "10.9.0.1", ("10.9.0.2", "10.9.0.3")
VXLAN, GENEVE = 4789, 6081
VNIS = (0, 1, 5, 0xFFFFFF)


def macs(port: int) -> tuple[bytes, ...]:
    """Ethernet addresses behind a port; nobody moves."""
    return tuple(bytes([2, 0, 0, 0, port, host]) for host in range(1, 4))


def checksum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) // 2 * 2]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Packets:
    """Frames of one table; the same seed makes the same ones.

    Attributes:
        kinds: What was made, and how often.
    """

    def __init__(self, seed: str, ports: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 (a test)
        self.ports = ports
        self.kinds: Counter[str] = Counter()

    def frame(self, port: int, tunnels: float = 0.0) -> bytes:
        """A frame that comes in by this port; that share of them in VXLAN or Geneve."""
        if self.random.random() < tunnels:
            return self._tunnelled(self.frame(port))
        makers: dict[Callable[[], tuple[int, bytes]], int] = {
            self._ipv4: 45, self._ipv6: 25, self._arp: 7, self._mpls: 6, self._llc: 6, self._other: 5,
        }  # fmt: skip
        (maker,) = self.random.choices(list(makers), list(makers.values()))
        ethertype, body = maker()
        addresses = self._destination() + self.random.choice(macs(port))
        tags = self._tags()
        head = struct.pack("!H", ethertype)
        # IEEE 802.3 has a length there
        if ethertype == 0:
            head = struct.pack("!H", self._wrong(min(len(body), 1500), 1500))
        return self._cut(ethertype, addresses + tags + head + body)

    def not_ip(self, port: int) -> bytes:
        """A frame without a tag that is neither of IPv4 nor of IPv6."""
        ethertype, body = self._arp() if self.random.random() < 0.5 else (0x88CC, self._payload())
        addresses = self._destination() + self.random.choice(macs(port))
        return (addresses + struct.pack("!H", ethertype) + body).ljust(60, b"\0")

    def greeting(self, port: int, mac: bytes, vlan: int | None) -> bytes:
        """A frame by which a switch learns an address."""
        tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
        return macs(port)[0][:4] + b"\xff\xff" + mac + tag + struct.pack("!H", GREETING) + bytes(46)

    def _tunnelled(self, inner: bytes) -> bytes:
        """A frame in a tunnel (RFC 7348, RFC 8926), mostly a right one."""
        choose, some = self.random.choice, self.random.random
        kind, vni = choose((VXLAN, GENEVE)), choose(VNIS)
        self._note("VXLAN" if kind == VXLAN else "Geneve")
        inner = inner[: LARGEST - 60]
        options = self.random.randbytes(4 * choose((1, 2))) if kind == GENEVE and some() < 0.1 else b""
        if kind == VXLAN:
            flags = 0x08000000 if some() < 0.95 else choose((0, 0x0C000000, 0x08000001, 0xFFFFFFFF))
            head = struct.pack("!II", flags, vni << 8 | (some() < 0.03))
        else:
            oam = choose((0x80, 0x40, 0xC0)) if some() < 0.06 else 0
            version = 0x40 if some() < 0.02 else 0
            protocol = 0x6558 if some() < 0.96 else choose((0x0800, 0))
            head = struct.pack("!BBHI", version | len(options) // 4, oam, protocol, vni << 8 | (some() < 0.03))
            if options:  # class, type, and the length of what follows, in words
                head += (
                    (struct.pack("!HBB", 0x0102, 0x03, len(options) // 4 - 1) + options[4:])
                    if some() < 0.9
                    else options
                )
        source, destination = (IPv4Address(ip).packed for ip in (choose(TUNNEL_PEERS), TUNNEL_IP))
        length = 8 + len(head) + len(inner)
        udp = struct.pack("!HHHH", choose((49152, 50001, 65535)), kind, self._wrong(length, 0xFFFF), 0) + head + inner
        if some() < 0.1:
            right = checksum(source + destination + struct.pack("!HH", UDP, len(udp)) + udp + b"\0" * (len(udp) % 2))
            udp = udp[:6] + struct.pack("!H", self._sum(right)) + udp[8:]
        more = b"\1" * 4 if some() < 0.03 else b""
        fragment = choose((0x2000, 0x0001)) if some() < 0.02 else choose((0, 0x4000))
        length = self._wrong(20 + len(more) + len(udp), 0xFFFF)
        ip = struct.pack("!BBHHHBBH", 0x45 + len(more) // 4, choose(TOSES), length, 7, fragment,
                         choose((1, 64, 255)), UDP, 0) + source + destination + more  # fmt: skip
        value = checksum(ip) if some() < 0.96 else self.random.getrandbits(16)
        ip = ip[:10] + struct.pack("!H", value) + ip[12:]
        outer = (TUNNEL_MAC if some() < 0.97 else BROADCAST) + bytes([2, 0, 0, 0, 0x99, 2])
        return self._cut(0, outer + struct.pack("!H", 0x0800) + ip + udp)

    def _destination(self) -> bytes:
        if self.random.random() < 0.15:
            return self.random.choice((BROADCAST, *GROUPS, bytes.fromhex("02000000fffe")))
        return self.random.choice(macs(self.random.randrange(self.ports)))

    def _tags(self) -> bytes:
        (count,) = self.random.choices((0, 1, 2, 3), (62, 26, 9, 3))
        tags = b""
        for _ in range(count):
            tci = self.random.choice(VLANS) | self.random.choice((0, 0, 3, 7)) << 13
            tags += struct.pack("!HH", self.random.choice(TPIDS), tci | (self.random.random() < 0.05) << 12)
        if count:
            self._note("tagged" if count == 1 else "tagged twice or more")
        return tags

    def _cut(self, ethertype: int, frame: bytes) -> bytes:
        if self.random.random() < 0.08 and ethertype not in (0x8847, 0x8848):
            self._note("cut")
            return frame[: self.random.randrange(14, max(15, min(len(frame), 90)))]
        if self.random.random() < 0.5:
            frame = frame.ljust(60, b"\0")
        if self.random.random() < 0.06:
            self._note("trailing bytes")
            frame += self.random.randbytes(self.random.choice((1, 2, 4, 18, 200)))
        return frame[:LARGEST]

    def _wrong(self, value: int, top: int) -> int:
        """Mostly the value; sometimes another one, as large as the field allows."""
        if self.random.random() < 0.92:
            return value
        self._note("wrong length")
        return self.random.choice((0, 1, value - 1, value + 1, value // 2, value + 100, top)) & top

    def _sum(self, value: int) -> int:
        return value if self.random.random() < 0.85 else self.random.choice((0, 0xFFFF, self.random.getrandbits(16)))

    def _payload(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 8, 18, 18, 64, 300, 1200)))

    def _note(self, what: str) -> None:
        self.kinds[what] += 1

    def _ipv4(self) -> tuple[int, bytes]:
        choose = self.random.choice
        source, destination = (
            IPv4Address(choose(IPV4 if self.random.random() < 0.93 else ODD_IPV4)).packed for _ in range(2)
        )
        words = self.random.choices((0, 1, 3, 10), (88, 5, 4, 3))[0]
        options = (b"\x01" * (4 * words - 4) + b"\x94\x04\0\0"[:4]) if words else b""
        fragment = self.random.choices((0, 0x4000, 0x2000, 0x2005, 0x0005, 0x8000), (60, 20, 6, 4, 7, 3))[0]
        protocol, body = self._transport(source, destination, 4)
        version_ihl = 0x45 + words
        if self.random.random() < 0.03:
            version_ihl = choose((0x44, 0x40, 0x4F, 0x55, 0x65, 0x05))
            self._note("wrong version or header length")
        head = struct.pack(
            "!BBHHHBBH4s4s",
            version_ihl, choose(TOSES), self._wrong(20 + len(options) + len(body), 0xFFFF), self.random.getrandbits(16),
            fragment, choose(TTLS), protocol, 0, source, destination,
        )  # fmt: skip
        summed = head + options
        head = head[:10] + struct.pack("!H", self._sum(checksum(summed))) + head[12:]
        self._note("IPv4 fragment" if fragment & 0x3FFF else "IPv4 options" if options else "IPv4")
        return 0x0800, head + options + body

    def _ipv6(self) -> tuple[int, bytes]:
        choose = self.random.choice
        source, destination = (
            IPv6Address(choose(IPV6 if self.random.random() < 0.93 else ODD_IPV6)).packed for _ in range(2)
        )
        protocol, body = self._transport(source, destination, 6)
        extensions = self.random.choices((0, 1, 2, 3), (65, 22, 9, 4))[0]
        for _ in range(extensions):
            kind = choose((HOP_BY_HOP, ROUTING, FRAGMENT, FRAGMENT, DESTINATION, AH, MOBILITY))
            body = self._extension(kind, protocol) + body
            protocol = kind
        first = (6 if self.random.random() < 0.98 else choose((0, 4, 7))) << 28
        first |= choose(TOSES) << 20 | choose((0, 0, 1, 0xFFFFF))
        head = struct.pack("!IHBB", first, self._wrong(len(body), 0xFFFF), protocol, choose(TTLS))
        self._note("IPv6 with extension headers" if extensions else "IPv6")
        return 0x86DD, head + source + destination + body

    def _extension(self, kind: int, following: int) -> bytes:
        if kind == FRAGMENT:
            offset = self.random.choice((0, 0, 1, 185)) << 3 | self.random.getrandbits(1)
            return struct.pack("!BBHI", following, 0, offset, self.random.getrandbits(32))
        if kind == AH:
            return struct.pack("!BBHII", following, self._wrong(4, 0xFF), 0, 1, 2) + bytes(12)
        length = self.random.choice((0, 0, 1, 3))
        return struct.pack("!BB", following, self._wrong(length, 0xFF)) + bytes([1, 4 + 8 * length]).ljust(
            6 + 8 * length, b"\0"
        )

    def _transport(self, source: bytes, destination: bytes, version: int) -> tuple[int, bytes]:
        kinds = {
            TCP: 35,
            UDP: 35,
            ICMP if version == 4 else ICMP6: 12,
            SCTP: 5,
            IGMP: 2,
            GRE: 3,
            ESP: 3,
            NONE: 3,
            253: 2,
        }
        (kind,) = self.random.choices(list(kinds), list(kinds.values()))
        ports = struct.pack("!HH", self.random.choice(L4_PORTS), self.random.choice(L4_PORTS))
        data = self._payload()
        if kind == TCP:
            words = self.random.choice((0, 0, 0, 3, 10))
            offset = 5 + words if self.random.random() < 0.95 else self.random.randrange(16)
            flags = offset << 12 | self.random.choice(TCP_FLAGS) | (self.random.random() < 0.05) << 8
            body, at = ports + struct.pack("!IIHHHH", 1, 2, flags, 1024, 0, 0) + b"\1" * (4 * words) + data, 16
        elif kind == UDP:
            body, at = ports + struct.pack("!HH", self._wrong(8 + len(data), 0xFFFF), 0) + data, 6
        elif kind in (ICMP, ICMP6):
            body, at = self._icmp(kind) + data, 2
        elif kind == SCTP:
            return kind, ports + struct.pack("!II", 3, self.random.getrandbits(32)) + data
        else:
            return kind, data
        pseudo = source + destination + struct.pack("!II", len(body), kind) if kind != ICMP else b""
        value = self._sum(checksum(pseudo + body))
        if kind == UDP and self.random.random() < 0.1:
            value = 0
        return kind, body[:at] + struct.pack("!H", value) + body[at + 2 :]

    def _icmp(self, kind: int) -> bytes:
        if kind == ICMP:
            return struct.pack("!BBHHH", self.random.choice((0, 3, 8, 11)), self.random.choice((0, 1, 4)), 0, 1, 2)
        number = self.random.choice((1, 128, 129, 135, 135, 136))
        head = struct.pack("!BBHI", number, 0, 0, 0)
        if number in (135, 136):  # neighbour discovery: its target and link-layer address are fields of a flow
            option = struct.pack("!BB", number - 134, self._wrong(1, 0xFF)) + macs(0)[0]
            return head + IPv6Address(self.random.choice(IPV6)).packed + option * self.random.choice((0, 1, 1, 2))
        return head

    def _arp(self) -> tuple[int, bytes]:
        self._note("ARP")
        lengths = (1, 0x0800, 6, 4) if self.random.random() < 0.9 else self.random.choice(
            ((6, 0x0800, 6, 4), (1, 0x86DD, 6, 4), (1, 0x0800, 8, 4), (1, 0x0800, 6, 16))
        )  # fmt: skip
        head = struct.pack("!HHBBH", *lengths, self.random.choice((1, 1, 2, 3, 300)))
        ends = (
            self.random.choice(macs(self.random.randrange(self.ports))) + IPv4Address(self.random.choice(IPV4)).packed
            for _ in range(2)
        )
        return 0x0806, head + b"".join(ends)

    def _mpls(self) -> tuple[int, bytes]:
        # Not cut, and no more labels than a flow has: of such flows Open vSwitch 4.0.0 loses counts, with an offload or
        # without (its revalidators do not understand their keys and log "MPLS LSEs have invalid length").
        self._note("MPLS")
        depth = self.random.choice((1, 1, 2, 3))
        labels = [self.random.choice((0, 3, 16, 1000)) << 12 | self.random.choice(TTLS) for _ in range(depth)]
        labels[-1] |= 1 << 8
        return self.random.choice((0x8847, 0x8847, 0x8848)), struct.pack(f"!{depth}I", *labels) + self._ipv4()[1]

    def _llc(self) -> tuple[int, bytes]:
        self._note("LLC")
        what = self.random.random()
        if what < 0.5:  # SNAP: with this OUI an Ethernet type follows, and Open vSwitch reads on
            ethertype, body = self.random.choice((self._ipv4, self._arp, self._ipv6))()
            return 0, bytes.fromhex("aaaa03000000") + struct.pack("!H", ethertype) + body[:1490]
        if what < 0.75:
            return 0, bytes.fromhex("aaaa0300000c2000") + self._payload()
        return 0, bytes.fromhex("424203") + self._payload()

    def _other(self) -> tuple[int, bytes]:
        self._note("other Ethernet types")
        return self.random.choice((*ETHERTYPES, 0x9001 | self.random.getrandbits(12))), self._payload()


class Connections:
    """Frames of some TCP and UDP connections between the first two ports, mostly right ones, step by step.

    Frames of a step belong to different connections, so that their order does not matter.
    """

    def __init__(self, seed: str, count: int) -> None:
        self.random = random.Random(f"{seed}/connections")  # noqa: S311 (a test)
        self.kinds: Counter[str] = Counter()
        self.scripts = [self._script(number) for number in range(count)]

    def steps(self) -> Iterator[list[tuple[int, bytes]]]:
        """Port and frame of each connection that has one left, for each step."""
        scripts = list(self.scripts)
        while scripts:
            step = []
            for script in list(scripts):
                frame = next(script, None)
                if frame is None:
                    scripts.remove(script)
                else:
                    step.append(frame)
            if step:
                yield step

    def _script(self, number: int) -> Iterator[tuple[int, bytes]]:
        choose, some = self.random.choice, self.random.random
        version = choose((4, 4, 6))
        ends = [IPv4Address(f"10.1.{side}.{number + 1}").packed if version == 4
                else IPv6Address(f"2001:db8:1:{side}::{number + 1}").packed for side in range(2)]  # fmt: skip
        ports = (choose((1024, 40000, 65535)), choose((53, 80, 443, 21 if some() < 0.1 else 8080)))
        tag = struct.pack("!HH", 0x8100, 7) if some() < 0.15 else b""
        flow = _Flow(self, ends, ports, version, tag)
        self.kinds["TCP connection" if (tcp := some() < 0.65) else "UDP connection"] += 1
        yield from flow.tcp() if tcp else flow.udp()


class _Flow:
    """A connection of `Connections`: what it sends, by port."""

    def __init__(self, of: Connections, ends: list[bytes], ports: tuple[int, int], version: int, tag: bytes) -> None:
        self.random = of.random
        self.kinds = of.kinds
        self.ends, self.ports, self.version, self.tag = ends, ports, version, tag
        self.seq = [self.random.getrandbits(32), self.random.getrandbits(32)]
        self.scale = self.random.choice((None, 0, 7))

    def udp(self) -> Iterator[tuple[int, bytes]]:
        """Both sides talk, but for some who get no answer."""
        for step in range(self.random.randint(4, 14)):
            side = step % 2 if step < 2 else self.random.randrange(2)
            data = self.random.randbytes(self.random.choice((0, 1, 18, 300)))
            yield side, self._frame(side, UDP, struct.pack("!HHHH", *self._ports(side), 8 + len(data), 0) + data, 6)

    def tcp(self) -> Iterator[tuple[int, bytes]]:
        """A handshake, data, often an end, and what is wrong now and then."""
        for _ in range(self.random.choice((1, 1, 2))):
            options = b"" if self.scale is None else struct.pack("!BBBB", 1, 3, 3, self.scale)
            yield 0, self._segment(0, 0x02, options=options)
            self.seq[0] += 1
            yield 1, self._segment(1, 0x12, options=options)
            self.seq[1] += 1
            yield 0, self._segment(0, 0x10)
            for _ in range(self.random.randint(3, 14)):
                side = self.random.randrange(2)
                flags = self.random.choice((0x10, 0x10, 0x18, 0x18, 0x38, 0xD0)) if self.random.random() < 0.96 else 0
                data = self.random.randbytes(self.random.choice((0, 0, 1, 100, 1000)))
                off = self.random.choice((1, -1, 70000, -70000, 1 << 20, 1 << 31)) if self.random.random() < 0.1 else 0
                yield side, self._segment(side, flags, data, off)
                if not off and flags:
                    self.seq[side] += len(data)
            end = self.random.random()
            if end < 0.3:
                yield 0, self._segment(0, 0x04)
            elif end < 0.8:
                for side in self.random.sample((0, 1), 2):
                    yield side, self._segment(side, 0x11)
                    self.seq[side] += 1
                yield 0, self._segment(0, 0x10)
                yield 1, self._segment(1, 0x18, b"late")

    def _ports(self, side: int) -> tuple[int, int]:
        return self.ports if side == 0 else (self.ports[1], self.ports[0])

    def _segment(self, side: int, flags: int, data: bytes = b"", off: int = 0, options: bytes = b"") -> bytes:
        offset = 5 + len(options) // 4
        window = self.random.choice((0, 1, 500, 65535)) if self.random.random() < 0.3 else 8000
        sequence, acknowledged = (self.seq[side] + off) & 0xFFFFFFFF, self.seq[1 - side] & 0xFFFFFFFF
        head = struct.pack("!HHIIHHHH", *self._ports(side), sequence, acknowledged if flags & 0x10 else 0,
                           offset << 12 | flags, window, 0, 0)  # fmt: skip
        return self._frame(side, TCP, head + options + data, 16)

    def _frame(self, side: int, kind: int, body: bytes, at: int) -> bytes:
        source, destination = self.ends[side], self.ends[1 - side]
        value = checksum(source + destination + struct.pack("!II", len(body), kind) + body + b"\0" * (len(body) % 2))
        wrong = self.random.random()
        if wrong < 0.04:
            value ^= 0x0101
            self.kinds["wrong checksum"] += 1
        elif wrong < 0.06:
            value = 0
        body = body[:at] + struct.pack("!H", value) + body[at + 2 :]
        if self.version == 4:
            ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0x4000, 64, kind, 0) + source + destination
            check = checksum(ip) if self.random.random() < 0.97 else 1
            head, ethertype = ip[:10] + struct.pack("!H", check) + ip[12:], 0x0800
        else:
            head = struct.pack("!IHBB", 6 << 28, len(body), kind, 64) + source + destination
            ethertype = 0x86DD
        addresses = macs(1 - side)[0] + macs(side)[0]
        frame = addresses + self.tag + struct.pack("!H", ethertype) + head + body
        return frame.ljust(60, b"\0") if self.random.random() < 0.8 else frame
