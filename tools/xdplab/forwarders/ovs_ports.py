# SPDX-License-Identifier: Apache-2.0
"""The OVS forwarders: one daemon, three ways for frames to get in and out."""

import re
from typing import Any, ClassVar, Literal

from pydantic import Field

from xdplab.forwarders.base import Dut, NoOptions
from xdplab.forwarders.ovs import OvsForwarder
from xdplab.model import Model


class OvsAfxdpOptions(Model):
    """Interface options of netdev-afxdp (vswitch.xml of OVS 3.1)."""

    xdp_mode: Literal["best-effort", "native-with-zerocopy", "native", "generic"] = "native"
    use_need_wakeup: bool = True
    n_rxq: int = Field(default=1, ge=1, le=16)


class OvsAfxdp(OvsForwarder[OvsAfxdpOptions]):
    """Open vSwitch with netdev-afxdp ports, polled by a PMD thread on the forwarder's CPU."""

    name: ClassVar[str] = "ovs-afxdp"
    options_model: ClassVar[type[Model]] = OvsAfxdpOptions
    summary: ClassVar[str] = "Open vSwitch, AF_XDP ports (netdev-afxdp), PMD thread"

    def supported(self, dut: Dut) -> str | None:
        """Zero-copy needs a driver that has it; veth has not."""
        if self.options.xdp_mode == "native-with-zerocopy":
            for port in dut.ports:
                driver = dut.host.run(["ethtool", "-i", port.ifname]).stdout
                if "driver: veth" in driver:
                    return f"zero-copy: the veth driver of port {port.ifname} has no NETDEV_XDP_ACT_XSK_ZEROCOPY"
        return super().supported(dut)

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """An afxdp interface under the name of the kernel's."""
        options = self.options
        return dut.ports[index].ifname, [
            "type=afxdp",
            f"options:xdp-mode={options.xdp_mode}",
            f"options:use-need-wakeup={str(options.use_need_wakeup).lower()}",
            f"options:n_rxq={options.n_rxq}",
        ]

    def daemon_settings(self, dut: Dut) -> list[str]:
        """One PMD thread on the forwarder's CPU."""
        return [f"pmd-cpu-mask={1 << dut.layout.forwarder:#x}"]

    def mode(self) -> dict[str, Any]:
        """What `dpctl/show` says of each port."""
        shown = re.findall(r"port \d+: (\S+) \(afxdp: (.*)\)", self._appctl("dpctl/show"))
        return {"ovs": {name: dict(item.split("=", 1) for item in text.split(", ")) for name, text in shown}}


class OvsAfpacket(OvsForwarder[NoOptions]):
    """The same daemon and datapath with system ports: AF_PACKET, served by the main thread."""

    name: ClassVar[str] = "ovs-afpacket"
    summary: ClassVar[str] = "Open vSwitch, AF_PACKET ports (userspace datapath, main thread)"

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """A system interface."""
        return dut.ports[index].ifname, ["type=system"]

    def daemon_cpus(self, dut: Dut) -> tuple[int, ...]:
        """The main thread forwards, so it gets the forwarder's CPU."""
        return (dut.layout.forwarder,)

    def forwarding_threads(self) -> dict[int, int]:
        """The main thread."""
        return {pid: pid for pid in self.pids()}

    def mode(self) -> dict[str, Any]:
        """System ports of a netdev datapath use recvmmsg on AF_PACKET sockets (lib/netdev-linux.c)."""
        return {"label": "af_packet"}


class OvsDpdkOptions(Model):
    """Ports of OVS-DPDK: which vdev, and on which pages."""

    port: Literal["af_xdp", "af_packet"] = "af_xdp"
    hugepages: bool = False
    busy_budget: int = Field(default=64, ge=0, le=65535)
    n_rxq_desc: int = Field(default=2048, ge=64, le=4096)


#: 2 MiB pages that OVS-DPDK and testpmd are given when asked to run on hugepages.
HUGEPAGES_2M = 384
#: Memory of EAL in MiB. Without hugepages little, for every page costs start-up time. On hugepages a limit as well: OVS
#: would take all pages for one mempool in several pieces, over which net_af_xdp of DPDK 22.11 makes one UMEM (ENOMEM).
_DPDK_MIB, _DPDK_HUGE_MIB = 256, 512


class OvsDpdk(OvsForwarder[OvsDpdkOptions]):
    """Open vSwitch with DPDK ports over virtual devices: net_af_xdp or net_af_packet."""

    name: ClassVar[str] = "ovs-dpdk"
    options_model: ClassVar[type[Model]] = OvsDpdkOptions
    summary: ClassVar[str] = "Open vSwitch, DPDK ports (net_af_xdp or net_af_packet), PMD thread"
    daemon: ClassVar[str] = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    package: ClassVar[str] = "openvswitch-switch-dpdk"
    start_timeout_s: ClassVar[float] = 40.0

    def required_knobs(self) -> dict[str, int]:
        """Hugepages are reserved and given back by the run."""
        return {"hugepages_2m": HUGEPAGES_2M} if self.options.hugepages else {}

    def daemon_env(self, dut: Dut) -> dict[str, str]:
        """EAL's run directory goes where ours is removed."""
        return {**super().daemon_env(dut), "RUNTIME_DIRECTORY": str(dut.rundir)}

    def daemon_settings(self, dut: Dut) -> list[str]:
        """EAL without PCI. OVS 3.1 adds --in-memory unless told --legacy-mem; EAL 22.11 refuses it with --no-huge."""
        memory = (
            [
                f"dpdk-socket-mem={_DPDK_HUGE_MIB}",
                f"dpdk-socket-limit={_DPDK_HUGE_MIB}",
                "dpdk-extra=--no-pci --iova-mode=va",
            ]
            if self.options.hugepages
            else [f"dpdk-extra=--no-huge --legacy-mem -m {_DPDK_MIB} --no-pci"]
        )
        lcores = sum(1 << cpu for cpu in dut.layout.housekeeping[:1])
        return [
            "dpdk-init=true",
            f"dpdk-lcore-mask={lcores:#x}",
            f"pmd-cpu-mask={1 << dut.layout.forwarder:#x}",
            *memory,
        ]

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """A dpdk interface on a virtual device bound to the kernel's."""
        ifname = dut.ports[index].ifname
        devargs = {
            "af_xdp": f"net_af_xdp{index},iface={ifname},busy_budget={self.options.busy_budget}",
            "af_packet": f"net_af_packet{index},iface={ifname},qdisc_bypass=1",
        }[self.options.port]
        return f"p{index}", [
            "type=dpdk",
            f"options:dpdk-devargs={devargs}",
            "options:n_rxq=1",
            f"options:n_rxq_desc={self.options.n_rxq_desc}",
        ]

    def mode(self) -> dict[str, Any]:
        """For net_af_packet nothing else says it; net_af_xdp is read from the kernel."""
        return {"label": "dpdk af_packet"} if self.options.port == "af_packet" else {}
