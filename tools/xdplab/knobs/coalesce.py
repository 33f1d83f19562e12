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


class CoalesceRxUsecs(_Coalesce):
    """Time in us that an interrupt for received frames is held back."""

    name: ClassVar[str] = "coalesce_rx_usecs"
    field: ClassVar[str] = "rx-usecs"
    argument: ClassVar[str] = "rx-usecs"
    summary: ClassVar[str] = "time (us) that a receive interrupt is held back"


class CoalesceTxUsecs(_Coalesce):
    """Time in us that an interrupt for sent frames is held back."""

    name: ClassVar[str] = "coalesce_tx_usecs"
    field: ClassVar[str] = "tx-usecs"
    argument: ClassVar[str] = "tx-usecs"
    summary: ClassVar[str] = "time (us) that a transmit interrupt is held back"


class CoalesceRxFrames(_Coalesce):
    """Frames after which a held receive interrupt is raised."""

    name: ClassVar[str] = "coalesce_rx_frames"
    field: ClassVar[str] = "rx-frames"
    argument: ClassVar[str] = "rx-frames"
    summary: ClassVar[str] = "frames after which a receive interrupt is raised"


class CoalesceTxFrames(_Coalesce):
    """Frames after which a held transmit interrupt is raised."""

    name: ClassVar[str] = "coalesce_tx_frames"
    field: ClassVar[str] = "tx-frames"
    argument: ClassVar[str] = "tx-frames"
    summary: ClassVar[str] = "frames after which a transmit interrupt is raised"


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


class CoalesceAdaptiveRx(_Adaptive):
    """The driver chooses the receive times itself."""

    name: ClassVar[str] = "coalesce_adaptive_rx"
    half: ClassVar[str] = "RX"
    summary: ClassVar[str] = "adaptive receive coalescing (on, off)"


class CoalesceAdaptiveTx(_Adaptive):
    """The driver chooses the transmit times itself."""

    name: ClassVar[str] = "coalesce_adaptive_tx"
    half: ClassVar[str] = "TX"
    summary: ClassVar[str] = "adaptive transmit coalescing (on, off)"
