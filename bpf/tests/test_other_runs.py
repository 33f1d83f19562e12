# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames that left before a run began are not of it, though its epoch may be theirs: there are 128."""

import sys
import time

from conftest import clean, counts
from test_drain import FRAMES, TESTERS, trial

#: One of each epoch, of stream 0, 60 bytes; argv: interface, departure in ns.
SEND_OLD = """
import socket, struct, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind((sys.argv[1], 0))
for epoch in range(256):
    trailer = struct.pack("!HBBIQH", 0x78D7, 0, epoch, 70000, int(sys.argv[2]), 0)
    port.send(bytes(12) + b"\\x08\\x00" + bytes(28) + trailer)
"""


@TESTERS
def test_frames_of_any_epoch(direct, tester):
    before = time.monotonic_ns()
    with trial(direct, tester, 0.3) as result:
        time.sleep(0.3)
        direct.exec("a", sys.executable, "-c", SEND_OLD, "a0", before)
        assert counts(result()) == clean(FRAMES)
