# SPDX-License-Identifier: Apache-2.0
"""Which XDP program an interface carries, asked of rtnetlink without starting a program; also in a named namespace."""

import ctypes
import os
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

from xdplab.hosts.netdev_probe import attribute, attributes

_CLONE_NEWNET = 0x40000000
_RTM_GETLINK, _NLM_F_REQUEST, _NLMSG_ERROR = 18, 1, 2
#: linux/if_link.h
_IFLA_IFNAME, _IFLA_XDP, _IFLA_XDP_ATTACHED, _IFLA_XDP_PROG_ID = 3, 43, 2, 4
_libc = ctypes.CDLL(None, use_errno=True)


def attached(netns: str | None, ifname: str) -> tuple[int, int] | None:
    """Attach mode (`enum xdp_attached`) and program id; None when it carries none. `netns` None: the one we are in.

    Raises:
        OSError: there is no such interface, or no such namespace.
    """
    if netns is None:
        return _attached(ifname)
    with ThreadPoolExecutor(max_workers=1) as pool:  # a thread of its own, which ends there
        return pool.submit(_attached_in, netns, ifname).result()


def _attached_in(netns: str, ifname: str) -> tuple[int, int] | None:
    fd = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        if _libc.setns(fd, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return _attached(ifname)
    finally:
        os.close(fd)


def _attached(ifname: str) -> tuple[int, int] | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        body = bytes(16) + attribute(_IFLA_IFNAME, ifname.encode() + b"\0")
        sock.send(struct.pack("=IHHII", 16 + len(body), _RTM_GETLINK, _NLM_F_REQUEST, 1, 0) + body)
        answer = sock.recv(1 << 16)
    if struct.unpack_from("=IH", answer)[1] == _NLMSG_ERROR:
        error = -struct.unpack_from("=i", answer, 16)[0]
        raise OSError(error, os.strerror(error))
    xdp = attributes(attributes(answer[32:]).get(_IFLA_XDP, b""))
    if _IFLA_XDP_PROG_ID not in xdp:
        return None
    return xdp[_IFLA_XDP_ATTACHED][0], struct.unpack("=I", xdp[_IFLA_XDP_PROG_ID])[0]
