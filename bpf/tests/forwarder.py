# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Forward frames between two ports over AF_PACKET, impairing KNOWN frames.

Run inside the network namespace of the ports: forwarder.py IF0 IF1 PLAN.json.
IF0 == IF1 sends every frame back where it came from.  Prints "ready", and at
SIGTERM one JSON line with what it did.  It is slow (a few thousand frames per
second) and exact.

The plan names sequences of the trial (not of the warm-up), for every stream:
drop, duplicate: lists; swap: sequences sent after their successor; delay:
{sequence: seconds}; forge: {sequence: other}, after the frame a copy of it
with another sequence; flip: {sequence: bit}, counted from the frame's end;
capture: number of trial frames per stream to return; added_bytes: as many zeroes go in front of each frame.
trailer_at: where in the frame its trailer is, by default at the end; answer: each frame becomes an answer, with so
many bytes in front of its trailer and ten more at the end.
"""

import heapq
import json
import select
import signal
import socket
import struct
import sys
import time

SOL_PACKET = 263
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23
TP_STATUS_VLAN_VALID = 0x10
ETH_P_ALL = 3
TRAILER = struct.Struct("!HBBIQH")
MAGIC = 0x78D7


def open_port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    port.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    port.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.bind((name, 0))
    port.setblocking(False)
    return port


def receive(port):
    """One frame, with the VLAN tag put back that the kernel moved out of it."""
    frame, ancillary, _, _ = port.recvmsg(16384, 64)
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, *_, tci, tpid = struct.unpack("IIIHHHH", data[:20])
            if status & TP_STATUS_VLAN_VALID:
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def flipped(frame, bit):
    at = len(frame) - 1 - bit // 8
    if at < 14:  # a shorter frame has no such bit; its addresses are left alone
        return frame
    return frame[:at] + bytes([frame[at] ^ 1 << bit % 8]) + frame[at + 1 :]


class Forwarder:
    def __init__(self, names, plan):
        self.ports = [open_port(name) for name in dict.fromkeys(names)]
        self.plan = {key: set(plan.get(key, ())) for key in ("drop", "duplicate", "swap")}
        self.delay = {int(k): v for k, v in plan.get("delay", {}).items()}
        self.forge = {int(k): v for k, v in plan.get("forge", {}).items()}
        self.flip = {int(k): v for k, v in plan.get("flip", {}).items()}
        self.capture = plan.get("capture", 0)
        self.added = bytes(plan.get("added_bytes", 0))
        self.at, self.answer = plan.get("trailer_at"), plan.get("answer")
        self.captured = {}
        self.counts = {"forwarded": 0, "trial": 0}
        self.held = {}
        self.delayed = []

    def send(self, port, frame):
        while True:
            try:
                port.send(self.added + frame)
                return
            except (BlockingIOError, OSError):
                time.sleep(0.0001)

    def answer_to(self, frame, at):
        if self.answer is None:
            return frame
        return frame[:42] + bytes(self.answer) + frame[at : at + TRAILER.size] + bytes(10)

    def handle(self, out, frame):
        at = len(frame) - TRAILER.size if self.at is None else self.at
        magic, stream, epoch, seq, ns, check = TRAILER.unpack(frame[at : at + TRAILER.size])
        if magic != MAGIC or not epoch & 1:
            self.send(out, frame)
            return
        self.counts["trial"] += 1
        frames = self.captured.setdefault(stream, [])
        if len(frames) < self.capture:
            frames.append(frame.hex())
        if seq in self.plan["drop"]:
            return
        if seq in self.plan["swap"]:
            self.held[stream] = frame
            return
        if seq in self.delay:
            heapq.heappush(self.delayed, (time.monotonic() + self.delay[seq], seq, stream, frame, out))
            return
        if seq in self.flip:
            frame = flipped(frame, self.flip[seq])
        frame = self.answer_to(frame, at)
        self.send(out, frame)
        if seq in self.plan["duplicate"]:
            self.send(out, frame)
        if stream in self.held:
            self.send(out, self.held.pop(stream))
        if seq in self.forge:
            # the sum of the trailer stays the same (bpf/common/trailer.h)
            moved = (self.forge[seq] % 0xFFFF - seq % 0xFFFF) % 0xFFFF
            trailer = TRAILER.pack(magic, stream, epoch, self.forge[seq], ns, (check - moved) % 0xFFFF)
            self.send(out, frame[: -TRAILER.size] + trailer)
        self.counts["forwarded"] += 1

    def run(self, stopped):
        while not stopped:
            ready, _, _ = select.select(self.ports, [], [], 0.001 if self.delayed else 0.05)
            for port in ready:
                out = self.ports[-1 - self.ports.index(port)]
                for _ in range(64):
                    try:
                        frame = receive(port)
                    except BlockingIOError:
                        break
                    self.handle(out, frame)
            while self.delayed and self.delayed[0][0] <= time.monotonic():
                *_, frame, out = heapq.heappop(self.delayed)
                self.send(out, frame)


def main():
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    with open(sys.argv[3], encoding="ascii") as plan:
        forwarder = Forwarder(sys.argv[1:3], json.load(plan))
    print("ready", flush=True)
    forwarder.run(stopped)
    print(json.dumps(forwarder.counts | {"captured": forwarder.captured}), flush=True)


main()
