# SPDX-License-Identifier: Apache-2.0
"""Hugepages, for DPDK programs that are asked to run on them."""

from contextlib import suppress
from typing import Any, ClassVar, Literal

from xdplab.hosts.waiting import comes_true
from xdplab.knobs.base import Knob, KnobContext, whole_number
from xdplab.model import Unsupported, XdplabError
from xdplab.model.study import Scalar

#: How long a program that was killed may take to give its memory back.
_ENDS_S = 2.0
_FOLDER = "/sys/kernel/mm/hugepages/hugepages-2048kB"
_FILE = f"{_FOLDER}/nr_hugepages"
#: Moves pages together where free memory is in pieces (admin-guide/sysctl/vm.rst of the kernel's documents).
_COMPACT, _COMPACTIONS = "/proc/sys/vm/compact_memory", 2


class Hugepages2M(Knob):
    """Number of 2 MiB pages that the kernel keeps for the run, besides those in use when it began."""

    name: ClassVar[str] = "hugepages_2m"
    scope: ClassVar[Literal["port", "system"]] = "system"
    shared: ClassVar[bool] = False

    def __init__(self) -> None:
        self._needed = 0

    def check(self, value: Scalar) -> int:
        return whole_number(self.name, value, 0, 1 << 20)

    def read(self, context: KnobContext) -> int:
        return int(context.host.read(_FILE))

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Reserve until that many are free: pages that others reserved stay, and those that they use are theirs."""
        free, promised = (int(context.host.read(f"{_FOLDER}/{name}_hugepages")) for name in ("free", "resv"))
        present = self.read(context)
        self._needed = present + max(0, int(value) - (free - promised))
        if present < self._needed:
            context.host.write(_FILE, str(self._needed))
        for _ in range(_COMPACTIONS):
            if self.read(context) >= self._needed:
                break
            with suppress(XdplabError):  # a container may have no right to it
                context.host.write(_COMPACT, "1")
            context.host.write(_FILE, str(self._needed))

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """The kernel may find fewer than asked for."""
        present, needed = self.read(context), max(self._needed, int(value))
        if present < needed:
            used = f", of which others use {needed - int(value)}" if needed > int(value) else ""
            found = f"the kernel found memory for {present} of {needed} pages of 2 MiB"
            raise Unsupported(f"hugepages_2m: {found}{used}")

    def restore(self, context: KnobContext, saved: Any) -> None:
        """Give them back, unless somebody has reserved more since.

        Those of a program that was killed are counted until all of its threads have ended.
        """
        if self._needed and self.read(context) > self._needed:
            return
        context.host.write(_FILE, str(saved))
        if not comes_true(lambda: self.read(context) == saved, _ENDS_S):
            raise Unsupported(f"hugepages_2m: {self.read(context)} reserved instead of {saved} before the run")
