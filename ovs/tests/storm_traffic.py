# SPDX-License-Identifier: Apache-2.0
"""Numbered frames of many flows through a switch, and where they came out: what `offload_storm.py` judges by."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from diff_packets import checksum
from frames import Wire

FIRST_PORT = 4096
#: Mark, port of entry, flow, number, when it was sent.
STAMP = struct.Struct("!4sBBxxQQ")
MARK = b"strm"


class Arrival(NamedTuple):
    """A frame that came out.

    Attributes:
        out: Index of the port by which it left the switch.
        entry: Index of the port by which it came in, and the number of its flow there.
        number: Of the frame; no two sent ones have the same.
        sent_ns: Monotonic time before it was sent.
        got_ns: Monotonic time after it was read, late by what the reader was.
    """

    out: int
    entry: tuple[int, int]
    number: int
    sent_ns: int
    got_ns: int


def headers(flow: int) -> bytes:
    """Of a frame of a flow: UDP to a host that is none of the two ends', which only look at it."""
    udp = struct.pack("!HHHH", FIRST_PORT + flow, 9, 8 + STAMP.size, 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + STAMP.size, flow, 0, 64, 17, 0, b"\x0a\x4d\1\1", b"\x0a\x4d\1\2")
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return bytes.fromhex("020000008802020000008801") + b"\x08\0" + head + udp


class Traffic:
    """Sends and reads in a thread of its own, until the end of the context."""

    def __init__(self, wires: Sequence[Wire], flows: int, pps: float) -> None:
        self.wires = wires
        self.flows = flows
        self.pps = pps
        self.sent = 0
        self._came: list[Arrival] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Traffic:
        """Starts it."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.stop()

    def stop(self) -> None:
        """No frame is sent any more."""
        self._over.set()
        self._thread.join()

    def take(self) -> list[Arrival]:
        """What came since the last call."""
        with self._lock:
            came, self._came = self._came, []
        return came

    def _run(self) -> None:
        ready = [headers(flow) for flow in range(self.flows)]
        began = time.monotonic()
        while not self._over.wait(0.001):
            due = min(int((time.monotonic() - began) * self.pps), self.sent + 128)  # a veth's ring takes 256
            for number in range(self.sent, due):
                port, flow = number % len(self.wires), number // len(self.wires) % self.flows
                stamp = STAMP.pack(MARK, port, flow, number, time.monotonic_ns())
                with suppress(OSError):  # the link is down
                    self.wires[port].send(ready[flow] + stamp)
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
                        came.append(Arrival(out, (port, flow), number, sent_ns, time.monotonic_ns()))
            with self._lock:
                self._came += came


class Judge:
    """What no frame may do: come twice, or by a port that its flow did not name all the time that it was under way.

    Attributes:
        judged: Frames that came while it was certain what the flows name.
        overtaken: Frames that came after a later one of their flow, which is told and not judged.
    """

    def __init__(self) -> None:
        self.judged = 0
        self.overtaken = 0
        self._newest: dict[tuple[int, int], int] = {}
        self.wrong: list[str] = []
        self._numbers: set[int] = set()

    def judge(self, came: Sequence[Arrival], since_ns: int | None, named: Mapping[tuple[int, int], int | None]) -> None:
        """Looks at frames that came until now.

        Args:
            came: The frames.
            since_ns: From when on each flow named this port and no other; None: nobody knows.
            named: The port of each flow; none if it is dropped, or is in no table.
        """
        for frame in came:
            if frame.number in self._numbers:
                self.wrong.append(f"frame {frame.number} came twice, the second time by port {frame.out + 1}: {frame}")
            self._numbers.add(frame.number)
            newest = self._newest.get(frame.entry, 0)
            self.overtaken += frame.number < newest
            self._newest[frame.entry] = max(newest, frame.number)
            if since_ns is None or frame.sent_ns <= since_ns:
                continue
            self.judged += 1
            if named[frame.entry] != frame.out:
                late_ms = (frame.sent_ns - since_ns) / 1e6
                port = named[frame.entry]
                says = "drops it" if port is None else f"names port {port + 1}"
                self.wrong.append(
                    f"a frame left by port {frame.out + 1}, {late_ms:.1f} ms after its flow {says}: {frame}"
                )
