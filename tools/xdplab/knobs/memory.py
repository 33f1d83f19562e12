# SPDX-License-Identifier: Apache-2.0
"""Hugepages, for DPDK programs that are asked to run on them."""

from typing import Any, ClassVar, Literal

from xdplab.hosts.waiting import comes_true
from xdplab.knobs.base import Knob, KnobContext, whole_number
from xdplab.model import Unsupported
from xdplab.model.study import Scalar

#: How long a program that was killed may take to give its memory back.
_ENDS_S = 2.0
_FILE = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


class Hugepages2M(Knob):
    """Number of 2 MiB pages that the kernel keeps reserved."""

    name: ClassVar[str] = "hugepages_2m"
    scope: ClassVar[Literal["port", "system"]] = "system"

    def check(self, value: Scalar) -> int:
        """A number of pages."""
        return whole_number(self.name, value, 0, 1 << 20)

    def read(self, context: KnobContext) -> int:
        """Pages reserved now."""
        return int(context.host.read(_FILE))

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Reserve at least that many: pages that others reserved stay."""
        if self.read(context) < int(value):
            context.host.write(_FILE, str(value))

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """The kernel may find fewer than asked for."""
        present = self.read(context)
        if present < int(value):
            raise Unsupported(f"hugepages_2m: the kernel found memory for {present} of {value} pages of 2 MiB")

    def restore(self, context: KnobContext, saved: Any) -> None:
        """Give them back; those of a program that was killed are counted until all of its threads have ended."""
        context.host.write(_FILE, str(saved))
        if not comes_true(lambda: self.read(context) == saved, _ENDS_S):
            raise Unsupported(f"hugepages_2m: {self.read(context)} reserved instead of {saved} before the run")
