# SPDX-License-Identifier: Apache-2.0
"""Frames of each queue of an interface, by what its driver counts (`ethtool -S`)."""

import re
from collections.abc import Mapping
from typing import Literal

from xdplab.hosts.base import Host
from xdplab.model import MissingProgram

Way = Literal["rx", "tx"]
#: Way -> queue -> frames.
QueueFrames = Mapping[Way, Mapping[int, int]]
#: `rx_queue_0_packets` (igb, ixgbe, ice, veth), `rx-0.packets` (i40e), `rx0_packets` (mlx5, and virtio_net of newer
#: kernels); `queue_0_rx_cnt` (ena), `[0]: rx_ucast_packets` (bnxt).
_NAMES = (
    re.compile(r"(?P<way>rx|tx)(?:_queue_|-|q#?)?(?P<queue>\d+)[._](?P<what>\w+)"),
    re.compile(r"(?:queue_|rvec_|q|\[)(?P<queue>\d+)(?:\]: |_)(?P<way>rx|tx)_(?P<what>\w+)"),
)
#: What is counted in frames, whatever became of them: mlx5 counts those that XDP takes under other names than the rest.
_FRAMES = re.compile(r"packet|pkt|cnt$|xmit$|redirect|xdp_drop")


def driver_counters(host: Host, ifname: str) -> dict[str, int]:
    """Name -> value of what the driver counts; nothing where it counts nothing by itself."""
    try:
        shown = host.run(["ethtool", "-S", ifname], check=False).stdout
    except MissingProgram:
        return {}
    return {name: int(value) for name, value in re.findall(r"^\s+(\S.*?):\s+(\d+)$", shown, re.MULTILINE)}


def by_queue(counters: Mapping[str, int]) -> dict[Way, dict[int, int]]:
    """Frames of each queue; a way that the driver does not count is left out. Of several counters, the largest."""
    found: dict[Way, dict[int, int]] = {}
    for name, value in counters.items():
        match = next(filter(None, (pattern.fullmatch(name) for pattern in _NAMES)), None)
        if match and _FRAMES.search(match["what"]):
            of_way = found.setdefault("rx" if match["way"] == "rx" else "tx", {})
            queue = int(match["queue"])
            of_way[queue] = max(of_way.get(queue, 0), value)
    return found


def moved(before: QueueFrames, after: QueueFrames) -> dict[Way, dict[int, int]]:
    """What queues have counted in between, without those that have counted nothing."""
    return {
        way: {queue: more for queue, now in queues.items() if (more := now - before.get(way, {}).get(queue, 0))}
        for way, queues in after.items()
    }
