# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Frames that left before a run began are not of it, though its epoch may be theirs: there are 128."""

import sys
import time

from conftest import clean, counts, only
from test_drain import PPS, TESTERS, trial

#: A trial that lasts until a program beside it has started, also on a busy machine.
LONG_S = 2.0
FRAMES = int(LONG_S * PPS)
#: One of each epoch, of stream 0, 60 bytes; argv: interface, departure in ns, and what is wrong with their sum.
SEND_OLD = """
import socket, struct, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind((sys.argv[1], 0))
for epoch in range(256):
    seq, sent = 70000, int(sys.argv[2])
    compensation = (0xFFFF - (10000 + epoch + seq + sent) % 0xFFFF + int(sys.argv[3])) % 0xFFFF
    trailer = struct.pack("!HBBIQH", 0x78D7, 0, epoch, seq, sent, compensation)
    port.send(bytes(12) + b"\\x08\\x00" + bytes(28) + trailer)
"""


@TESTERS
def test_frames_of_any_epoch(direct, tester):
    before = time.monotonic_ns()
    with trial(direct, tester, 0.3, duration_s=LONG_S) as result:
        time.sleep(0.3)
        direct.exec("a", sys.executable, "-c", SEND_OLD, "a0", before, 0)
        ended = time.monotonic_ns()
        got = result(whole=True)
    assert counts(only(got)) == clean(FRAMES)
    assert only(got)["damaged"] == 0
    seen = got["ports"][1] if tester == "xdpgen" else got
    assert seen["earlier"] == seen["other"] == 256
    assert 0 < seen["earlier_ns"] < ended - before


@TESTERS
def test_frames_of_this_run_that_are_none_of_its_own(direct, tester):
    """With time, epoch and stream of one, but another sum: one of the 256, for a trial has one epoch."""
    with trial(direct, tester, 0.3, duration_s=LONG_S) as result:
        time.sleep(0.3)
        direct.exec("a", sys.executable, "-c", SEND_OLD, "a0", time.monotonic_ns(), 1)
        got = result()
    assert counts(got) == clean(FRAMES)
    assert got["damaged"] == 1
