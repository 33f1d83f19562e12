#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which interface hears which: frames of the experimental EtherType 0x88b5 that carry a text.

    cable_probe.py listen SECONDS IFNAME...   prints "ready", then one JSON line per interface and word: {"on", "word"}
    cable_probe.py send WORD IFNAME           sends three

Standard library only: it is also run on remote hosts.
"""

import json
import select
import socket
import sys
import time

ETHERTYPE = 0x88B5  # IEEE Std 802: local experimental EtherType 1
MARK = b"xdplab-cable:"


def listen(seconds: float, names: "list[str]") -> None:
    sockets = {}
    for name in names:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        sock.bind((name, ETHERTYPE))
        sockets[sock] = name
    print("ready", flush=True)
    heard = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for sock in select.select(list(sockets), [], [], max(0.0, deadline - time.monotonic()))[0]:
            data, address = sock.recvfrom(2048)
            if address[2] == socket.PACKET_OUTGOING or not data[14:].startswith(MARK):
                continue
            word = data[14 + len(MARK) :].rstrip(b"\0")[:64].decode("ascii", "replace")
            if (sockets[sock], word) not in heard:
                heard.add((sockets[sock], word))
                print(json.dumps({"on": sockets[sock], "word": word}), flush=True)


def send(word: str, name: str) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((name, 0))
        source = sock.getsockname()[4][:6]
        frame = b"\xff" * 6 + source + ETHERTYPE.to_bytes(2, "big") + MARK + word.encode()
        for _ in range(3):
            sock.send(frame.ljust(60, b"\0"))


if __name__ == "__main__":
    try:
        if sys.argv[1] == "listen":
            listen(float(sys.argv[2]), sys.argv[3:])
        else:
            send(sys.argv[2], sys.argv[3])
    except OSError as exc:
        sys.exit(f"cable_probe: {exc.strerror}")
