# SPDX-License-Identifier: Apache-2.0
"""Proof of the path: before anything is measured, frames must come through in every direction."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from xdplab.forwarders import Dut, Forwarder
from xdplab.forwarders.work import VXLAN_PORT
from xdplab.hosts.frames import FrameProbe
from xdplab.model import Path, Pipeline, Point, PointFailed, StreamSpec, TrialResult, TrialSpec, Unsupported
from xdplab.runner.frame_ends import FRAMES, FRAMES_PPS, where_frames_end
from xdplab.testbed import TesterPorts

#: Of the proof's trials on cards, one after another: a link may be down for a while after a tester's sockets and
#: programs have come (igb: 0.4 s), which each trial brings again.
_PROOF_WARMUPS_S = (0.0, 1.0, 2.0)
#: For how long frames are sent before it is asked what is in force, one after another until it is: an offload takes
#: flows, which the first frames make, and ports that can send for XDP, which a veth can while the tester's program is
#: at its peer. Open vSwitch has to notice both, which takes seconds on a slow machine.
_PROOFS_S = (0.02, 0.02, 0.2, 1.0, 3.0)
#: How long frames are waited for: at first, and where a program that gets little CPU holds them, of which none may be
#: among those of the other direction. Guests whose CPUs are emulated take 0.1 s for a frame.
_THROUGH_S, _ALL_THROUGH_S = 0.05, 0.5


def prove(
    point: Point,
    forwarder: Forwarder[Any],
    send: Callable[[TrialSpec], TrialResult],
    *,
    dut: Dut,
    tester: TesterPorts,
    lasting: bool,
) -> None:
    """Frames come through and options are in force, some of them only once there were frames.

    Raises:
        PointFailed: see `prove_path`.
        Unsupported: an option is not in force.
    """
    for duration_s in _PROOFS_S:
        prove_path(point, forwarder, send, dut=dut, tester=tester, lasting=lasting, duration_s=duration_s)
        idle = forwarder.ineffective()
        if idle is None:
            return
    raise Unsupported(idle)


def _directions(point: Point, forwarder: Forwarder[Any]) -> tuple[Literal["forward", "backward"], ...]:
    both = point.path is Path.THROUGH and not point.pipeline.one_way and not forwarder.one_way
    return ("forward", "backward") if both else ("forward",)


def prove_path(
    point: Point,
    forwarder: Forwarder[Any],
    send: Callable[[TrialSpec], TrialResult],
    *,
    dut: Dut,
    tester: TesterPorts,
    lasting: bool,
    duration_s: float = _PROOFS_S[0],
) -> None:
    """`lasting`: its ports are cards, or others that are there after the run; `duration_s`: of each trial.

    Raises:
        PointFailed: no frame came, in some direction; with where frames ended.
    """
    traffic = point.traffic
    streams = tuple(
        StreamSpec(
            kind="load",
            pps=1000,
            frame_bytes=traffic.smallest,
            direction=direction,
            **{**traffic.headers, "flows": 1},
        )
        for direction in _directions(point, forwarder)
    )
    deadline: float | None = None  # from the first trial on: some testers start a program with it
    again = False
    warmups_s = _PROOF_WARMUPS_S if lasting else (0.0,)
    for warmup_s in itertools.chain(warmups_s, itertools.repeat(warmups_s[-1])):
        drain_s = _ALL_THROUGH_S if deadline else _THROUGH_S
        spec = TrialSpec(streams=streams, duration_s=duration_s, drain_s=drain_s, warmup_s=warmup_s)
        result = send(spec)
        deadline = deadline or time.monotonic() + forwarder.silent_s
        silent = [stream.direction for stream in result.streams if not stream.received]
        if not silent:
            return
        ended = forwarder.crashed()
        tried = warmup_s == warmups_s[-1]
        if ended or (tried and time.monotonic() > deadline):
            if ended:
                raise PointFailed(ended)
            marked = {"pps": FRAMES_PPS, "count": FRAMES}
            asked = [stream.model_copy(update=marked) for stream in streams if stream.direction in silent]
            once = {"streams": tuple(asked), "duration_s": 1.1 * FRAMES / FRAMES_PPS, "drain_s": _ALL_THROUGH_S}
            once_more = spec.model_copy(update=once)
            why = where_frames_end(forwarder, dut, tester, send, once_more)
            if not why and not again:  # all of these came through
                again = True
                continue
            raise PointFailed(
                f"{forwarder.name}: no frame came through {' or '.join(silent)} within {forwarder.silent_s:g} s"
                f"{f'; {why}' if why else ''}"
            )


# Frames of a proof on both sides at once: sent, taken in, and compared to the byte with what must come out.

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
