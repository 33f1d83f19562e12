# SPDX-License-Identifier: Apache-2.0
"""Frames of a proof on both sides at once: sent, taken in, and compared to the byte with what must come out."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdplab.forwarders.work import VXLAN_PORT
from xdplab.hosts.frames import FrameProbe
from xdplab.model import Pipeline, PointFailed

_ANSWER_S = 5.0
#: Silence of a port: before the other is looked at, and after which nothing comes late, once what must is there.
_SOON_S, _LATE_S = 0.01, 0.05
#: Frames that are sent at once: a socket of a port with as little room as the kernel gives it takes them in.
_BURST = 48
_ICMP, _UDP = 1, 17
_DF = 2
#: Of a tunnel's outer header: what is compared instead of what its sender may choose.
SETTLED_TTL, _SETTLED_PORT = 64, 49152


@dataclass(frozen=True)
class Frame:
    """One that is sent, and where it must come out in which form; nowhere when `out` is empty."""

    what: str
    #: Index of the side that sends it.
    side: int
    data: bytes
    #: Side -> the forms of which it must have one.
    out: dict[int, tuple[bytes, ...]] = field(default_factory=dict)


class Missing(PointFailed):
    """Nothing came out of a frame where something must."""

    def __init__(self, text: str, frame: Frame, side: int) -> None:
        """`side`: where it must come out."""
        super().__init__(text)
        self.frame = frame
        self.side = side


def in_tunnel(inner: Any, src_mac: str, dst_mac: str, src: str, dst: str, vni: int) -> Any:
    """A packet of scapy in VXLAN (RFC 7348 section 5)."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.layers.vxlan import VXLAN

    outer = IP(src=src, dst=dst, ttl=SETTLED_TTL, flags=_DF, id=0) / UDP(
        sport=_SETTLED_PORT, dport=VXLAN_PORT, chksum=0
    )
    return Ether(src=src_mac, dst=dst_mac) / outer / VXLAN(flags=8, vni=vni) / inner


def settled(data: bytes) -> bytes:
    """A frame as it is compared: in VXLAN, with values of our own for what the sender may choose.

    That is the outer UDP source port (a hash of the inner frame), whether there is a UDP checksum (the right one, or
    zero), and of IPv4 the identification, DF and TTL. A frame with a wrong length or checksum outside stays as it is.
    """
    if data[12:14] != b"\x08\x00" or data[23:24] != bytes([_UDP]) or data[36:38] != VXLAN_PORT.to_bytes(2, "big"):
        return data
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    packet = Ether(data)
    ip, udp = packet[IP], packet[UDP]
    del ip.len, ip.chksum, udp.len
    if udp.chksum:
        del udp.chksum
    if bytes(packet) != data or int(ip.flags) & ~_DF or ip.frag:
        return data
    ip.ttl, ip.id, ip.flags, udp.sport, udp.chksum = SETTLED_TTL, 0, _DF, _SETTLED_PORT, 0
    return bytes(packet)


def exchange(
    probes: Sequence[FrameProbe],
    frames: Sequence[Frame],
    pipeline: Pipeline,
    settle: Callable[[bytes], bytes] = settled,
) -> list[tuple[int, bytes]]:
    """Sends a round; what came out. `settle`: a frame in the form in which it is compared.

    Raises:
        Missing: one did not come out at all.
        PointFailed: another thing came out than must.
    """
    wanted = [(frame, side, forms) for frame in frames for side, forms in frame.out.items()]
    came = _come_out(probes, frames)
    unexpected = Counter((side, settle(data)) for side, data in came)
    for frame, side, forms in wanted:
        found = next((form for form in forms if unexpected[side, form]), None)
        if found is None:
            what = f"{pipeline}: {frame.what} sent on side {frame.side}"
            if any(payload(data) == payload(forms[0]) for _, data in came):
                raise PointFailed(f"{what}: {_difference(side, forms, came)}")
            text = f"{what}: nothing of it came out; on side {side} it must be {forms[0].hex()}"
            raise Missing(text, frame, side)
        unexpected[side, found] -= 1
    for (side, data), number in unexpected.items():
        if number:
            sent = next((each.what for each in frames if payload(each.data) == payload(data)), "something else")
            raise PointFailed(f"{pipeline}: {sent} came out on side {side}, where it must not ({number}): {data.hex()}")
    return came


def repeated(
    probes: Sequence[FrameProbe], missing: Missing, times: int, settle: Callable[[bytes], bytes] = settled
) -> int:
    """Sends one frame so often; how many came out where and as they must."""
    frame, came = missing.frame, list[tuple[int, bytes]]()
    for at in range(0, times, _BURST):
        for _ in range(min(_BURST, times - at)):
            probes[frame.side].send(frame.data)
        deadline = time.monotonic() + _ANSWER_S
        while _take_in(probes, came, _LATE_S, deadline) and time.monotonic() < deadline:
            continue
    forms = frame.out[missing.side]
    return sum(1 for side, data in came if side == missing.side and settle(data) in forms)


def _come_out(probes: Sequence[FrameProbe], frames: Sequence[Frame]) -> list[tuple[int, bytes]]:
    """Sends burst by burst; frames on each side, until nothing came any more after as many as must."""
    came: list[tuple[int, bytes]] = []
    due = 0
    for burst in (frames[at : at + _BURST] for at in range(0, len(frames), _BURST)):
        for frame in burst:
            probes[frame.side].send(frame.data)
        due += sum(len(frame.out) for frame in burst)
        deadline = time.monotonic() + _ANSWER_S
        while len(came) < due and time.monotonic() < deadline:
            _take_in(probes, came, _SOON_S, deadline)
        if len(came) < due:
            return came
    deadline = time.monotonic() + _ANSWER_S
    while _take_in(probes, came, _LATE_S, deadline) and time.monotonic() < deadline:
        continue
    return came


def _take_in(probes: Sequence[FrameProbe], came: list[tuple[int, bytes]], timeout_s: float, deadline: float) -> bool:
    """What each probe tells of until it is silent for so long; whether there was any."""
    before = len(came)
    for side, probe in enumerate(probes):
        while data := probe.receive(timeout_s):
            if not _complaint(data):
                came.append((side, data))
            if time.monotonic() >= deadline:
                break
    return len(came) > before


def _complaint(data: bytes) -> bool:
    """An ICMP message that quotes one of our frames: a router may say that it does not forward it (RFC 1812)."""
    return data[12:14] == b"\x08\x00" and data[23] == _ICMP


def payload(data: bytes) -> bytes:
    """Mark and number of a frame: no two have the same."""
    return data[-22:-8]


def _difference(side: int, forms: Sequence[bytes], came: Sequence[tuple[int, bytes]]) -> str:
    """In which form a frame came."""
    same = [(at, data) for at, data in came if payload(data) == payload(forms[0])]
    forms_seen = ", ".join(f"on side {at} as {data.hex()}" for at, data in same)
    return f"it came out {forms_seen}; it must be on side {side} as {forms[0].hex()}"
