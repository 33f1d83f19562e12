# SPDX-License-Identifier: Apache-2.0
"""Frames for profiles that are loaded by hand, from the same builder that xdplab's testers use."""

import ipaddress
import os
import sys

_TESTERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "xdplab", "testers")
sys.path.insert(0, _TESTERS)  # packets.py imports nothing of xdplab, and works with the scapy that TRex brings

from packets import Headers, build  # noqa: E402

sys.path.remove(_TESTERS)

#: Sizes (FCS counted) and shares of the simple IMIX, 7 : 4 : 1.
IMIX = ((64, 7 / 12), (570, 4 / 12), (1518, 1 / 12))


def description(
    kind,
    pg_id,
    size,
    pps,
    direction=0,
    flows=1,
    vlan=None,
    ip=4,
    delay_us=0.0,
    sources=1,
    targets=1,
    seed=None,
    **marks,
):
    """A stream between the ports of a pair, as `streams.make_stream` takes it; direction 1 is the way back.

    `flows`: ports of each pair of addresses; `marks`: `outer_vlan`, `pcp`, `dscp`.
    """
    near, far = ("198.18.0.1", "198.19.0.1") if ip == 4 else ("2001:2::1", "2001:2:1::1")
    addresses = (near, far) if direction == 0 else (far, near)
    macs = ("02:00:00:00:00:01", "02:00:00:00:00:02")[:: 1 if direction == 0 else -1]
    headers = Headers(macs[0], macs[1], addresses[0], addresses[1], 10000, 20000, ip=ip, vlan=vlan, **marks)
    width = {4: 4, 6: 16}[ip]
    changing = {
        name: {"offset": headers.flow_offset - 4 - width * before, "values": _values(first, count)}
        for name, first, count, before in (
            ("targets", headers.dst_ip, targets, 0),
            ("sources", headers.src_ip, sources, 1),
        )
        if count > 1
    }
    if seed is not None:
        changing["seed"] = seed
    return {
        "kind": kind,
        "pg_id": pg_id,
        "frame": build(headers, size, udp_checksum=False).hex(),
        "pps": pps,
        "count": 0,
        "delay_us": delay_us,
        "flows": flows,
        "flow_offset": headers.flow_offset,
        "ip_offset": headers.flow_offset - 20 if ip == 4 and sources * targets > 1 else None,
        **changing,
    }


def _values(first, count):
    low = int(ipaddress.ip_address(first)) & 0xFFFFFFFF
    return list(range(low, low + count))
