# SPDX-License-Identifier: Apache-2.0
"""Which pools of 2 MiB pages to write, whether the memory is there, and whose they are: filters of the role hugepages.

Pools are written by path. vm.nr_hugepages is the pool of the *default* size: with default_hugepagesz=1G, 512 are 512
GiB (Documentation/admin-guide/mm/hugetlbpage.rst).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

_POOL = "hugepages/hugepages-2048kB/nr_hugepages"
_MACHINE = f"/sys/kernel/mm/{_POOL}"
_NODE = "/sys/devices/system/node/node{}/"
_PAGE_MIB = 2
_HOST_MEMINFO = "/proc/meminfo"
_HOST_FREE = ("MemAvailable",)
#: A node has no MemAvailable: these are free, or what the kernel gives up without writing anything.
_NODE_FREE = ("MemFree", "Inactive(file)")


def hugepages_plan(lines: Iterable[str], wanted: int, nodes: Iterable[int], leave_mib: int) -> dict[str, Any]:
    """What to write, and why not.

    Args:
        lines: `grep --with-filename` of /proc/meminfo, of the nodes' meminfo, and of each nr_hugepages
        wanted: 2 MiB pages to have at least: of the host, or of each node in `nodes`
        nodes: NUMA nodes by number; none: wherever the kernel finds memory
        leave_mib: MiB of available memory that stay for everything else

    Returns:
        pools: paths of the pools that are asked for; write: those with fewer pages; before: path -> pages, node by
        node, which is what to put back; refused: a line that says why it cannot be done, or nothing
    """
    readings = [line.partition(":")[::2] for line in lines]
    pages = {path: int(text) for path, text in readings if path.endswith(_POOL)}
    pools = [f"{_NODE.format(node)}{_POOL}" for node in nodes] or [_MACHINE]
    write = [path for path in pools if int(wanted) > pages.get(path, 0)]
    each = [path for path in pages if path != _MACHINE]  # a kernel without NUMA has none
    return {
        "pools": pools,
        "write": write,
        "before": {path: pages[path] for path in sorted(each or pages)},
        "refused": _refused(readings, pages, {path: int(wanted) for path in write}, int(leave_mib)),
    }


def hugepages_theirs(now: dict[str, int], found: dict[str, int], was_set: dict[str, int]) -> bool:
    """Whether somebody has changed their number since: it is neither what was found nor what provisioning set.

    In all, because a boot may share them out among nodes in another way. `was_set` is empty after an attempt that was
    cut off.
    """
    return bool(was_set) and sum(now.values()) not in (sum(found.values()), sum(was_set.values()))


def _refused(readings: list[tuple[str, str]], pages: dict[str, int], wanted: dict[str, int], leave_mib: int) -> str:
    for path in wanted:
        if path not in pages:
            return f"no {path}: this host has no such NUMA node, or its kernel no 2 MiB pages"
    need_mib = {path: (number - pages[path]) * _PAGE_MIB for path, number in wanted.items()}
    asks = [("the host", _HOST_MEMINFO, sum(need_mib.values()), leave_mib)]
    for path in need_mib:
        if path != _MACHINE:
            node = path.removesuffix(_POOL)
            asks.append((f"NUMA {node.split('/')[-2]}", f"{node}meminfo", need_mib[path], 0))
    for place, file, need, leave in asks:
        free = _free_mib(readings, file)
        if need > free - leave:
            kept = f", of which xdplab_hugepages_leave_mib keeps {leave}" if leave else ""
            return (
                f"2 MiB pages for {need} MiB more, and {place} has {free} MiB to give{kept}: "
                f"lower xdplab_hugepages_2m ({next(iter(wanted.values()))})"
            )
    return ""


def _free_mib(readings: list[tuple[str, str]], path: str) -> int:
    """Memory to give of a node, or of the whole host, in MiB."""
    found = re.findall(r"(\S+): +(\d+) kB", " ".join(text for each, text in readings if each == path))
    names = _HOST_FREE if path == _HOST_MEMINFO else _NODE_FREE
    return sum(int(kib) for name, kib in found if name in names) >> 10


class FilterModule:
    """What Ansible asks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name in templates -> function."""
        return {"hugepages_plan": hugepages_plan, "hugepages_theirs": hugepages_theirs}
