# SPDX-License-Identifier: Apache-2.0
"""Commits of Linux whose price was found: where a table shows it, the page names them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xdplab_cost.run import Cell

#: Instructions per frame; a change of fewer is not said to be a commit's.
_LEAST = 40


@dataclass(frozen=True)
class Known:
    """A commit between two kernels.

    Attributes:
        since: The release of Linux that has it first.
        functions: `WHERE:FUNCTION` of a cell: those that it adds, or makes longer or shorter.
        commit: Of Linus Torvalds' tree.
        words: What it does for each frame. Someone has read it in the kernel's code and in that of the guest.
    """

    since: tuple[int, int]
    functions: tuple[str, ...]
    commit: str
    words: str

    @property
    def name(self) -> str:
        """With the release that has it first."""
        return f"{self.commit} (Linux {self.since[0]}.{self.since[1]})"

    def price(self, old: Cell, new: Cell) -> float:
        """Instructions per frame of its functions, above the tester alone."""
        return sum(new.functions.get(each, 0.0) - old.functions.get(each, 0.0) for each in self.functions)


KNOWN = (
    Known(
        (6, 18),
        ("kernel:_find_first_bit", "kernel:_find_next_bit", "kernel:skb_defer_free_flush"),
        "5628f3fe3b16",
        "skb_defer_free_flush() goes through the possible NUMA nodes (for_each_node), in net_rx_action() before each "
        "NAPI's poll and once after the last. They are few; what costs is the search for the next one in a mask of as "
        "many bits as the kernel was built for, 1,024 in Debian's. The kernel test robot reported it for another "
        "load: 20.1 % fewer messages of sockperf over UDP.",
    ),
)


def between(old: Cell, new: Cell) -> Iterator[tuple[Known, float]]:
    """Those between the kernels of two cells of a forwarder, with their price."""
    for known in KNOWN:
        price = known.price(old, new)
        before, after = _release(old), _release(new)
        if before and after and before < known.since <= after and abs(price) >= _LEAST:
            yield known, price


def _release(cell: Cell) -> tuple[int, ...]:
    """Of Linux, from the version of the kernel's package, image or source: 6.1, 7.3; () where there is none."""
    found = re.findall(r"(\d+)\.(\d+)\.\d+", cell.kernel_package)
    return tuple(int(digits) for digits in found[-1]) if found else ()
