# SPDX-License-Identifier: Apache-2.0
"""One finding of the doctor."""

from typing import Literal

from xdplab.model import Model, Shown


class Check(Model):
    """One thing that was looked at.

    `missing`: no run without it. `optional`: absent, and only some rows need it. `advice`: runs work, and their numbers
    are worse or less certain than they could be.
    """

    name: str
    state: Literal["ok", "optional", "advice", "missing"]
    found: Shown
    fix: Shown = ""
    #: Host of the testbed file, where it has any.
    host: str = ""

    def line(self) -> str:
        """`ok       b kernel: 6.18`."""
        where = f"{self.host} " if self.host else ""
        return f"{self.state:<9}{where}{self.name}: {self.found}" + (f"   -> {self.fix}" if self.fix else "")


def check(
    name: str,
    good: bool,
    found: str,
    fix: str,
    *,
    required: bool = True,
    host: str = "",
    otherwise: Literal["optional", "advice"] = "optional",
) -> Check:
    """A finding; `otherwise`: its state when it is not good and not required."""
    state = "ok" if good else "missing" if required else otherwise
    return Check(name=name, state=state, found=found, fix="" if good else fix, host=host)
