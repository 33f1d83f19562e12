# SPDX-License-Identifier: Apache-2.0
"""Offloads, private flags and MTU of the forwarder's ports; interrupt coalescing and pause frames of their cards.

Interrupt coalescing (`ethtool -c`, `-C`): how long and for how many frames a card holds an interrupt back. Pause frames
(IEEE 802.3x, `ethtool -a`, `-A`): a full receiver stops the sender, and no frame is lost for that.
"""

import re
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.hosts.kernel import pause_on
from xdplab.knobs.base import KnobContext, PortFileKnob, ValueKnob
from xdplab.knobs.ethtool import ABSENT, NumberKnob, SwitchKnob, driver, shown
from xdplab.model import InputError, Unsupported
from xdplab.model.design import Scalar
from xdplab.testbed.port_settings import ipv6_switch


class _Offload(SwitchKnob):
    """An offload under the name of `ethtool -k` and the short one of `ethtool -K`."""

    feature: ClassVar[str]
    short: ClassVar[str]
    what: ClassVar[str] = "such offload that can be changed"

    def present(self, host: Host, ifname: str) -> str:
        """`on` or `off`."""
        found = self._line(host, ifname)
        return found.group(1) if found else ABSENT

    def limit(self, host: Host, ifname: str, value: Scalar) -> str | None:
        """What is fixed stays as it is."""
        found = self._line(host, ifname)
        if found and found.group(2) == "fixed" and found.group(1) != self.wanted(ifname, found.group(1), value):
            return f"{self.feature} is fixed to {found.group(1)}"
        return None

    def arguments(self, ifname: str, value: str) -> list[str]:
        """`-K PORT gro on`."""
        return ["-K", ifname, self.short, value]

    def _line(self, host: Host, ifname: str) -> re.Match[str] | None:
        return re.search(rf"^{self.feature}: (\w+)(?: \[(\w+)\])?", shown(host, "-k", ifname), re.MULTILINE)


#: Generic receive offload; on veth it switches NAPI on as well.
OffloadGro = _Offload.called("offload_gro", feature="generic-receive-offload", short="gro")
#: Large receive offload; XDP needs it off.
OffloadLro = _Offload.called("offload_lro", feature="large-receive-offload", short="lro")
#: TCP segmentation offload.
OffloadTso = _Offload.called("offload_tso", feature="tcp-segmentation-offload", short="tso")
#: Checksums of received frames.
OffloadRxChecksum = _Offload.called("offload_rx_checksum", feature="rx-checksumming", short="rx")
#: Checksums of sent frames.
OffloadTxChecksum = _Offload.called("offload_tx_checksum", feature="tx-checksumming", short="tx")
#: VLAN tags taken off by the card; AF_XDP then does not see them.
OffloadRxVlan = _Offload.called("offload_rx_vlan", feature="rx-vlan-offload", short="rxvlan")
#: Filters for flows, which `flow_steering` needs.
Ntuple = _Offload.called("ntuple", feature="ntuple-filters", short="ntuple")


class PrivateFlag(ValueKnob):
    """A driver's own flag: `legacy-rx=on`, `rx_striding_rq=off`."""

    name: ClassVar[str] = "private_flag"

    def check(self, value: Scalar) -> str:
        """`FLAG=on` or `FLAG=off`."""
        if not re.fullmatch(r"[\w.-]+=(on|off)", str(value)):
            raise InputError(f"knob {self.name}: {value!r} is not FLAG=on or FLAG=off")
        return str(value)

    def unsupported(self, context: KnobContext, value: Scalar) -> str | None:
        """The driver of each port must have that flag."""
        flag = str(value).partition("=")[0]
        for port in context.ports:
            flags = self.present(context.host, port.ifname)
            if flag not in flags:
                there = ", ".join(flags) or "none"
                name = driver(context.host, port.ifname)
                return f"{self.name}: the {name} driver has no private flag {flag} (it has {there})"
        return None

    def present(self, host: Host, name: str) -> dict[str, str]:
        return dict(re.findall(r"^(\S+)\s*: (on|off)$", shown(host, "--show-priv-flags", name), re.MULTILINE))

    def wanted(self, name: str, present: dict[str, str], value: Scalar) -> dict[str, str]:
        flag, _, state = str(value).partition("=")
        return {**present, flag: state}

    def write(self, host: Host, name: str, value: Any) -> None:
        for flag, state in self.present(host, name).items():
            if value.get(flag, state) != state:
                host.run(["ethtool", "--set-priv-flags", name, flag, value[flag]])


class Mtu(PortFileKnob):
    """Largest packet of the forwarder's ports; native XDP without multi-buffer limits it (veth: 3506 bytes)."""

    name: ClassVar[str] = "mtu"
    file: ClassVar[str] = "mtu"
    low: ClassVar[int] = 576
    high: ClassVar[int] = 9000

    def write(self, host: Host, name: str, value: Any) -> None:
        """Write it. IPv6, which goes with an MTU below 1280, comes again with a larger one: ports stay silent."""
        gone = not host.exists(ipv6_switch(name))
        super().write(host, name, value)
        if gone and host.exists(ipv6_switch(name)):
            host.write(ipv6_switch(name), "1")


# Interrupt coalescing.


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


# Pause frames.

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
