# SPDX-License-Identifier: Apache-2.0
"""Offloads, private flags and MTU of the forwarder's ports."""

import json
import re
from typing import Any, ClassVar

from xdplab.hosts import Host
from xdplab.knobs.base import EachKnob, KnobContext, whole_number
from xdplab.knobs.ethtool import ABSENT, SwitchKnob, driver, shown
from xdplab.model import InputError, Unsupported
from xdplab.model.design import Scalar


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
        fixed = found is not None and found.group(2) == "fixed"
        return (
            f"{self.feature} is fixed to {found.group(1)}"
            if found and fixed and found.group(1) != self.text(value)
            else None
        )

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


class PrivateFlag(EachKnob):
    """A driver's own flag: `legacy-rx=on`, `rx_striding_rq=off`."""

    name: ClassVar[str] = "private_flag"

    def check(self, value: Scalar) -> str:
        """`FLAG=on` or `FLAG=off`."""
        if not re.fullmatch(r"[\w.-]+=(on|off)", str(value)):
            raise InputError(f"knob {self.name}: {value!r} is not FLAG=on or FLAG=off")
        return str(value)

    def supported(self, context: KnobContext, value: Scalar) -> str | None:
        """The driver of each port must have that flag."""
        flag = str(value).partition("=")[0]
        for port in context.ports:
            flags = self._flags(context.host, port.ifname)
            if flag not in flags:
                there = ", ".join(flags) or "none"
                name = driver(context.host, port.ifname)
                return f"{self.name}: the {name} driver has no private flag {flag} (it has {there})"
        return None

    def read(self, context: KnobContext) -> dict[str, dict[str, str]]:
        """Interface name -> flag -> state."""
        return {port.ifname: self._flags(context.host, port.ifname) for port in context.ports}

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Set it on each port."""
        flag, _, state = str(value).partition("=")
        for port in context.ports:
            context.host.run(["ethtool", "--set-priv-flags", port.ifname, flag, state])

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """Ask each port."""
        flag, _, state = str(value).partition("=")
        for ifname, flags in self.read(context).items():
            if flags.get(flag) != state:
                raise Unsupported(f"{self.name}: {ifname} has {flag}={flags.get(flag)} after {value} was set")

    def restore_one(self, context: KnobContext, ifname: str, flags: Any) -> None:
        """Set those back that differ."""
        for flag, state in self._flags(context.host, ifname).items():
            if flags.get(flag, state) != state:
                context.host.run(["ethtool", "--set-priv-flags", ifname, flag, flags[flag]])
        if self._flags(context.host, ifname) != flags:
            raise Unsupported(f"{self.name}: the flags of {ifname} could not be set back to {flags}")

    @staticmethod
    def _flags(host: Host, ifname: str) -> dict[str, str]:
        return dict(re.findall(r"^(\S+)\s*: (on|off)$", shown(host, "--show-priv-flags", ifname), re.MULTILINE))


class Mtu(EachKnob):
    """Largest packet of the forwarder's ports; native XDP without multi-buffer limits it (veth: 3506 bytes)."""

    name: ClassVar[str] = "mtu"

    def check(self, value: Scalar) -> int:
        """Between the smallest of IPv4 and the largest of any card."""
        return whole_number(self.name, value, 576, 9000)

    def read(self, context: KnobContext) -> dict[str, int]:
        """Interface name -> MTU."""
        return {port.ifname: self._mtu(context.host, port.ifname) for port in context.ports}

    def apply(self, context: KnobContext, value: Scalar) -> None:
        """Set each port."""
        for port in context.ports:
            context.host.run(["ip", "link", "set", "dev", port.ifname, "mtu", str(value)])

    def verify(self, context: KnobContext, value: Scalar) -> None:
        """Ask each port."""
        for ifname, present in self.read(context).items():
            if present != value:
                raise Unsupported(f"{self.name}: {ifname} has {present} after {value} was set")

    def restore_one(self, context: KnobContext, ifname: str, value: Any) -> None:
        """Set what was there."""
        context.host.run(["ip", "link", "set", "dev", ifname, "mtu", str(value)])
        if self._mtu(context.host, ifname) != value:
            raise Unsupported(f"{self.name}: {ifname} could not be set back to {value}")

    @staticmethod
    def _mtu(host: Host, ifname: str) -> int:
        (link,) = json.loads(host.run(["ip", "-json", "link", "show", "dev", ifname]).stdout)
        return int(link["mtu"])
