# SPDX-License-Identifier: Apache-2.0
"""Frames for profiles that are loaded by hand, from the same builder that xdplab's testers use."""

import os
import sys

_TESTERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "xdplab", "testers")
sys.path.insert(0, _TESTERS)  # packets.py imports nothing of xdplab, and works with the scapy that TRex brings

from packets import Headers, build  # noqa: E402

sys.path.remove(_TESTERS)

#: Sizes (FCS counted) and shares of the simple IMIX, 7 : 4 : 1.
IMIX = ((64, 7 / 12), (570, 4 / 12), (1518, 1 / 12))


def description(kind, pg_id, size, pps, direction=0, flows=1, vlan=None, ip=4, delay_us=0.0):
    """A stream between the ports of a pair, as `streams.make_stream` takes it; direction 1 is the way back."""
    near, far = ("198.18.0.1", "198.19.0.1") if ip == 4 else ("2001:2::1", "2001:2:1::1")
    addresses = (near, far) if direction == 0 else (far, near)
    macs = ("02:00:00:00:00:01", "02:00:00:00:00:02")[:: 1 if direction == 0 else -1]
    headers = Headers(macs[0], macs[1], addresses[0], addresses[1], 10000, 20000, ip=ip, vlan=vlan)
    return {
        "kind": kind,
        "pg_id": pg_id,
        "frame": build(headers, size, udp_checksum=False).hex(),
        "pps": pps,
        "count": 0,
        "delay_us": delay_us,
        "flows": flows,
        "flow_offset": headers.flow_offset,
    }
