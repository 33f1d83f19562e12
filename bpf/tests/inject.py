# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Run a loaded receiver program on made-up frames, on one CPU.

inject.py CPU PROG_ID EPOCH FIRST STEP COUNT [FLOWS]: sequences FIRST, FIRST + STEP,
... of stream 0, 60 bytes each.  Waits for a line on stdin before it starts.
"""

import ctypes
import os
import platform
import struct
import sys
import time

BPF_PROG_TEST_RUN, BPF_PROG_GET_FD_BY_ID = 10, 13
SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
FRAME_BYTES = 60
PORT = 10000
XDP_DROP = 1
cpu, prog_id, epoch, first, step, count, *flows = map(int, sys.argv[1:])
syscall = ctypes.CDLL(None, use_errno=True).syscall


def bpf(command, attr):
    result = syscall(SYS_BPF, command, attr, len(attr.raw))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


os.sched_setaffinity(0, {cpu})
prog = bpf(BPF_PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("III", prog_id, 0, 0), 16))
frame = ctypes.create_string_buffer(FRAME_BYTES)
# prog_fd, retval, data sizes in and out, data in and out, repeat, duration
attr = ctypes.create_string_buffer(
    struct.pack("IIIIQQII", prog, 0, FRAME_BYTES, 0, ctypes.addressof(frame), 0, 1, 0), 80
)
print("ready", flush=True)
sys.stdin.readline()
for seq in range(first, first + step * count, step):
    now = time.monotonic_ns()
    # with the port that the stream has by default; sums by 16 bits are sums modulo 65535 (bpf/common/trailer.h)
    compensation = 0xFFFF - (PORT + seq % (flows[0] if flows else 1) + epoch + seq + now) % 0xFFFF
    struct.pack_into("!HBBIQH", frame, FRAME_BYTES - 18, 0x78D7, 0, epoch, seq, now, compensation)
    bpf(BPF_PROG_TEST_RUN, attr)
    assert struct.unpack_from("I", attr.raw, 4)[0] == XDP_DROP
