# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Print how many programs are at the tcx ingress hook of IFNAME.

bpf(BPF_PROG_QUERY) by hand: Debian 12's bpftool and libbpf do not know tcx.
Prints 0 on kernels before 6.6.
"""

import ctypes
import platform
import socket
import struct
import sys

BPF_PROG_QUERY = 16
BPF_TCX_INGRESS = 46
SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]

ifindex = socket.if_nametoindex(sys.argv[1])
ids = (ctypes.c_uint32 * 16)()
attr = ctypes.create_string_buffer(
    struct.pack("IIIIQIIQQQQ", ifindex, BPF_TCX_INGRESS, 0, 0, ctypes.addressof(ids), 16, 0, 0, 0, 0, 0)
)
libc = ctypes.CDLL(None, use_errno=True)
failed = libc.syscall(SYS_BPF, BPF_PROG_QUERY, attr, ctypes.sizeof(attr) - 1)
print(0 if failed else struct.unpack_from("I", attr.raw, 24)[0])
