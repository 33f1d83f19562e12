# SPDX-License-Identifier: Apache-2.0
"""Pause frames (IEEE 802.3x, `ethtool -a`, `-A`): a full receiver stops the sender, and no frame is lost for that."""

import re
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.hosts.kernel import pause_on
from xdplab.knobs.base import KnobContext
from xdplab.knobs.ethtool import ABSENT, SwitchKnob, shown
from xdplab.model import Unsupported
from xdplab.model.design import Scalar

_FIELDS = {"autoneg": "Autonegotiate", "rx": "RX", "tx": "TX"}


class Pause(SwitchKnob):
    """Sent and obeyed, or neither. What a port has is its three settings: `autoneg`, `rx` and `tx`."""

    name: ClassVar[str] = "pause"
    what: ClassVar[str] = "pause frames"
    after: ClassVar[tuple[str, ...]] = ("channels", "rx_ring", "tx_ring")  # some drivers reset them with these

    def present(self, host: Host, ifname: str) -> Any:
        """`{"autoneg": "on", "rx": "on", "tx": "off"}`, or `ABSENT`."""
        text = shown(host, "-a", ifname)
        found = {
            field: match.group(1)
            for field, title in _FIELDS.items()
            if (match := re.search(rf"^{title}:\s*(on|off)$", text, re.MULTILINE))
        }
        return found if found.keys() == _FIELDS.keys() else ABSENT

    def wanted(self, name: str, present: Any, value: Scalar) -> Any:
        """Off is off also where both ends would negotiate it; to be on, they may."""
        return {"autoneg": "off", "rx": "off", "tx": "off"} if not value else {**present, "rx": "on", "tx": "on"}

    def arguments(self, ifname: str, value: Any) -> list[str]:
        """`-A PORT autoneg off rx off tx off`."""
        return ["-A", ifname, *(word for field, state in value.items() for word in (field, state))]

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """All three; the other two where the driver negotiates them or not by its link mode alone (i40e, ice)."""
        for name, present in self.read(context).items():
            wanted = self.wanted(name, present, value)
            try:
                if present != wanted:
                    self.write(context.host, name, wanted)
            except Unsupported:
                self.write(context.host, name, {**wanted, "autoneg": present["autoneg"]})

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """Off where neither is in force."""
        for name, present in self.read(context).items():
            on = pause_on(shown(context.host, "-a", name))
            if present == ABSENT or on != bool(value):
                raise Unsupported(f"{self.name}: {name} has {present} after {'on' if value else 'off'} was set")
