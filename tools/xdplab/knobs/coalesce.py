# SPDX-License-Identifier: Apache-2.0
"""Interrupt coalescing (`ethtool -c`, `-C`): how long and for how many frames a card holds an interrupt back."""

import re
from typing import ClassVar

from xdplab.hosts import Host
from xdplab.knobs.ethtool import ABSENT, NumberKnob, SwitchKnob, shown


class _Coalesce(NumberKnob):
    what: ClassVar[str] = "such interrupt coalescing"
    get: ClassVar[str] = "-c"
    put: ClassVar[str] = "-C"
    #: A driver that chooses the times itself refuses others (ice) or overwrites them.
    after: ClassVar[tuple[str, ...]] = ("coalesce_adaptive_rx", "coalesce_adaptive_tx")


#: Time in us that an interrupt for received frames is held back.
CoalesceRxUsecs = _Coalesce.called("coalesce_rx_usecs", field="rx-usecs", argument="rx-usecs")
#: Time in us that an interrupt for sent frames is held back.
CoalesceTxUsecs = _Coalesce.called("coalesce_tx_usecs", field="tx-usecs", argument="tx-usecs")
#: Frames after which a held receive interrupt is raised.
CoalesceRxFrames = _Coalesce.called("coalesce_rx_frames", field="rx-frames", argument="rx-frames")
#: Frames after which a held transmit interrupt is raised.
CoalesceTxFrames = _Coalesce.called("coalesce_tx_frames", field="tx-frames", argument="tx-frames")


class _Adaptive(SwitchKnob):
    what: ClassVar[str] = "adaptive interrupt coalescing"
    half: ClassVar[str]

    def present(self, host: Host, ifname: str) -> str:
        """From the line `Adaptive RX: off  TX: n/a`."""
        line = re.search(r"^Adaptive (.*)$", shown(host, "-c", ifname), re.MULTILINE)
        found = re.search(rf"{self.half}: (\S+)", line.group(1)) if line else None
        return found.group(1) if found else ABSENT

    def arguments(self, ifname: str, value: str) -> list[str]:
        """`-C PORT adaptive-rx on`."""
        return ["-C", ifname, f"adaptive-{self.half.lower()}", value]


#: The driver chooses the receive times itself.
CoalesceAdaptiveRx = _Adaptive.called("coalesce_adaptive_rx", half="RX")
#: The driver chooses the transmit times itself.
CoalesceAdaptiveTx = _Adaptive.called("coalesce_adaptive_tx", half="TX")
