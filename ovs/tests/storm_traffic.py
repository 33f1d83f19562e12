# SPDX-License-Identifier: Apache-2.0
"""Numbered frames of many flows through a switch, where they came out and how: what the storms judge by."""

from __future__ import annotations

import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from diff_packets import checksum
from frames import Wire
from lab import StormError

FIRST_PORT = 4096
#: Mark, port of entry, flow, number, when it was sent.
STAMP = struct.Struct("!4sBBxxQQ")
MARK = b"strm"
MOST_PORTS = 4
TAG = 10  # VLAN ID of flows that are sent with a tag
HEADERS = struct.Struct("!BBHHHBBH4s4sHHHH")


class Shape(NamedTuple):
    """What a pipeline may change in a frame: the destination, VLAN IDs, TTL and the source address."""

    dst: bytes = bytes.fromhex("020000008802")
    tags: tuple[int, ...] = ()
    ttl: int = 64
    src: bytes = b"\x0a\x4d\1\1"


class Arrival(NamedTuple):
    """A frame that came out.

    Attributes:
        out: Index of the port by which it left the switch.
        entry: Index of the port by which it came in, and the number of its flow there.
        number: Of the frame; no two sent ones have the same.
        sent_ns: Monotonic time before it was sent.
        got_ns: Monotonic time after it was read, late by what the reader was.
        shape: How it looked; in words, if that is no way in which one was sent.
    """

    out: int
    entry: tuple[int, int]
    number: int
    sent_ns: int
    got_ns: int
    shape: Shape | str


class Named(NamedTuple):
    """What the rules name for a flow.

    Attributes:
        ports: Indices of those by which its frames may leave, each frame by each at most once.
        most: By how many of them at most.
        shape: How it leaves; None: as it likes.
    """

    ports: frozenset[int] = frozenset()
    most: int = 1
    shape: Shape | None = None


def headers(flow: int, size: int = 0, tagged: bool = False) -> bytes:
    """Of a frame of a flow, with `size` bytes behind the stamp: UDP to a host that is none of the ends'."""
    length = 28 + STAMP.size + size
    addresses = (Shape().src, b"\x0a\x4d\1\2")
    head = HEADERS.pack(0x45, 0, length, flow, 0, 64, 17, 0, *addresses, FIRST_PORT + flow, 9, length - 20, 0)
    head = head[:10] + struct.pack("!H", checksum(head[:20])) + head[12:]
    tag = struct.pack("!HH", 0x8100, TAG) if tagged else b""
    return Shape().dst + bytes.fromhex("020000008801") + tag + b"\x08\0" + head


def filler(number: int, size: int) -> bytes:
    """What is behind the stamp of a frame."""
    return bytes([number % 255 + 1]) * size


def look(frame: bytes, at: int) -> Shape | str:
    """How a frame looks that has its stamp there; what is wrong with it, in words."""
    _, _, flow, number, _ = STAMP.unpack_from(frame, at)
    tags, start = [], 12
    while frame[start : start + 2] == b"\x81\0":
        tags.append(int.from_bytes(frame[start + 2 : start + 4], "big") & 0xFFF)
        start += 4
    start += 2
    if frame[start - 2 : start] != b"\x08\0" or at != start + HEADERS.size:
        return f"its headers are {frame[:at].hex()}"
    head = HEADERS.unpack_from(frame, start)
    length = len(frame) - start
    if checksum(frame[start : start + 20]) or (head[0], head[2], head[6]) != (0x45, length, 17):
        return f"its IP header is {frame[start : start + 20].hex()}, of {length} bytes"
    translated = head[8] != Shape().src  # source NAT takes another port when a connection that ends has this one
    if head[11:] != (9, length - 20, 0) or (head[10] != FIRST_PORT + flow and not translated):
        return f"its UDP header is {frame[start + 20 : at].hex()}, of {length - 20} bytes"
    body = frame[at + STAMP.size :]
    if body != filler(number, len(body)):
        return f"its payload is {body.hex()}"
    return Shape(frame[:6], tuple(tags), head[5], head[8])


class Traffic:
    """Sends and reads in a thread of its own, until the end of the context."""

    def __init__(
        self, wires: Sequence[Wire], flows: int, pps: float, sizes: Sequence[int] = (0,), tagged: bool = False
    ) -> None:
        """Frames with these sizes behind the stamp in turns; `tagged`: every other flow has a VLAN tag."""
        self.wires = wires
        self.flows = flows
        self.pps = pps
        self.sizes = sizes
        self.tagged = tagged
        self.paused = False
        self.sent = 0
        self._came: list[Arrival] = []
        self._ended_by: Exception | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Traffic:
        """Starts it."""
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Ends it; raises as `stop` does, unless something else was raised."""
        self._end()
        if kind is None:
            self._fail()

    def stop(self) -> None:
        """No frame is sent any more; raises StormError when reading or sending had failed."""
        self._end()
        self._fail()

    def _end(self) -> None:
        self._over.set()
        self._thread.join()

    def _fail(self) -> None:
        if self._ended_by is not None:
            raise StormError(f"no more traffic: {self._ended_by}") from self._ended_by

    def take(self) -> list[Arrival]:
        """What came since the last call; raises StormError when reading or sending has failed."""
        self._fail()
        with self._lock:
            came, self._came = self._came, []
        return came

    def _run(self) -> None:
        try:
            self._carry()
        except Exception as error:
            self._ended_by = error

    def _carry(self) -> None:
        ready = {
            (flow, size): headers(flow, size, self.tagged and flow % 2 == 1)
            for flow in range(self.flows)
            for size in self.sizes
        }
        began = time.monotonic()
        while not self._over.wait(0.001):
            due = min(int((time.monotonic() - began) * self.pps), self.sent + 128)  # a veth's ring takes 256
            due = self.sent if self.paused else due
            for number in range(self.sent, due):
                turn, port = divmod(number, len(self.wires))
                flow, size = turn % self.flows, self.sizes[turn // self.flows % len(self.sizes)]
                stamp = STAMP.pack(MARK, port, flow, number, time.monotonic_ns())
                with suppress(OSError):  # the link is down
                    self.wires[port].send(ready[flow, size] + stamp + filler(number, size))
            self.sent = due
            if self.sent < int((time.monotonic() - began) * self.pps) - 1000:  # nobody catches up after a pause
                began = time.monotonic() - self.sent / self.pps
            self._read()

    def _read(self) -> None:
        for out, wire in enumerate(self.wires):
            came = []
            with suppress(OSError):  # the link is down
                for frame in wire.receive():
                    at = frame.find(MARK)
                    if at >= 0 and len(frame) >= at + STAMP.size:
                        _, port, flow, number, sent_ns = STAMP.unpack_from(frame, at)
                        shape = look(frame, at)
                        came.append(Arrival(out, (port, flow), number, sent_ns, time.monotonic_ns(), shape))
            with self._lock:
                self._came += came


class Judge:
    """What no frame may do: be damaged, come twice, or as its flow did not name it all the time that it was under way.

    Attributes:
        judged: Frames that came while it was certain what the flows name, by the port that they left by.
        overtaken: Frames that came after a later one of their flow, which is told and not judged: a flow that is
            offloaded overtakes what its port's queues hold after 10 ms (Documentation/intro/install/afxdp.rst).
        most_overtaken: Of one flow between two changes.
    """

    def __init__(self, most: int = 1) -> None:
        """`most`: by how many ports a frame may leave that was under way during a change."""
        self.most = most
        self.judged: Counter[int] = Counter()
        self.overtaken = 0
        self.most_overtaken = 0
        self._overtaken: Counter[tuple[int, int, int]] = Counter()
        self._since_ns: int | None = None
        self._newest: dict[tuple[int, int, int], int] = {}
        self.wrong: list[str] = []
        self._seen: set[tuple[int, int]] = set()

    def judge(self, came: Sequence[Arrival], since_ns: int | None, named: Mapping[tuple[int, int], Named]) -> None:
        """Looks at frames that came until now.

        Args:
            came: The frames.
            since_ns: From when on each flow named these ports and no others; None: nobody knows.
            named: What is named for each flow.
        """
        if since_ns != self._since_ns:
            self._since_ns = since_ns
            self._overtaken.clear()
        for frame in came:
            self._count(frame)
            if since_ns is None or frame.sent_ns <= since_ns:
                continue
            self.judged[frame.out] += 1
            says = named[frame.entry]
            if frame.out not in says.ports:
                late_ms = (frame.sent_ns - since_ns) / 1e6
                ports = " and ".join(f"port {port + 1}" for port in sorted(says.ports))
                words = f"names {ports}" if ports else "drops it"
                self.wrong.append(
                    f"a frame left by port {frame.out + 1}, {late_ms:.1f} ms after its flow {words}: {frame}"
                )
            elif self._times(frame) > says.most:
                self.wrong.append(f"frame {frame.number} came {self._times(frame)} times, not {says.most}: {frame}")
            elif says.shape is not None and frame.shape != says.shape:
                self.wrong.append(f"a frame that should look like {says.shape}: {frame}")

    def _count(self, frame: Arrival) -> None:
        if isinstance(frame.shape, str):
            self.wrong.append(f"damaged: {frame.shape}: {frame}")
        before = self._times(frame)
        if before >= self.most or (frame.number, frame.out) in self._seen:
            self.wrong.append(f"frame {frame.number} came twice, the second time by port {frame.out + 1}: {frame}")
        self._seen.add((frame.number, frame.out))
        way = (*frame.entry, frame.out)
        newest = self._newest.get(way, 0)
        if frame.number < newest:
            self.overtaken += 1
            self._overtaken[way] += 1
            self.most_overtaken = max(self.most_overtaken, self._overtaken[way])
        self._newest[way] = max(newest, frame.number)

    def _times(self, frame: Arrival) -> int:
        return sum((frame.number, port) in self._seen for port in range(MOST_PORTS))
