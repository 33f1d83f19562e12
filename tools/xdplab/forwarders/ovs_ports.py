# SPDX-License-Identifier: Apache-2.0
"""The OVS forwarders: one daemon, three ways for frames to get in and out."""

import re
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from xdplab.forwarders.base import Dut, ProbeTarget
from xdplab.forwarders.ovs_builds import build_facts
from xdplab.forwarders.ovs_changes import OvsChanging, no_further_queue
from xdplab.forwarders.ovs_options import OvsAfxdpOptions, OvsDpdkOptions, OvsOptions, PmdOptions, cpu_set
from xdplab.hosts.kernel import link_mtu, why_no_zero_copy
from xdplab.model import CpuLayout, Model, Unsupported, XdplabError

#: Of a port (custom statistics): frames that offloaded flows forwarded or dropped, and those left to the socket, which
#: met none, or were not understood, or may not be sent so.
OFFLOADED, LEFT = "xdp_flow_packets", ("xdp_flow_misses", "xdp_flow_undecided", "xdp_flow_unsendable")
#: What tells of the offload: of 3.1.0, and of 4.0.0.
_OFFLOAD_SHOW = ("netdev-offload-xdp/show", "dpif/offload/show")
#: Of a port: why there may be none (status).
_WHY_NOT = ("xdp-flows", "xdp-flow-output")

PmdOptionsT = TypeVar("PmdOptionsT", bound=PmdOptions)


class OvsPmd(OvsChanging[PmdOptionsT]):
    """What forwarders with PMD threads share: on which CPUs they poll."""

    def supported(self, dut: Dut) -> str | None:
        """The CPUs must be there, and be neither the tester's nor NAPI's."""
        asked, there = self._pmd_cpus(dut), (dut.layout.forwarder, *_spare(dut.layout))
        if len(asked) < (self.options.pmd_cores or 1) or not set(asked) <= set(there):
            wanted = (
                f"pmd_cpus={self.options.pmd_cpus}" if self.options.pmd_cpus else f"pmd_cores={self.options.pmd_cores}"
            )
            return (
                f"{wanted}: PMD threads may use CPU {'/'.join(map(str, there))} here, "
                f"the others are taken ({dut.layout.describe()})"
            )
        return super().supported(dut)

    def daemon_settings(self, dut: Dut) -> list[str]:
        """PMD threads on their CPUs."""
        return [f"pmd-cpu-mask={sum(1 << cpu for cpu in self._pmd_cpus(dut)):#x}"]

    def _pmd_cpus(self, dut: Dut) -> tuple[int, ...]:
        if self.options.pmd_cpus is not None:
            return cpu_set(self.options.pmd_cpus)
        return (dut.layout.forwarder, *_spare(dut.layout))[: self.options.pmd_cores or 1]

    def _affinity(self, dut: Dut) -> list[str]:
        return [f"other_config:{item.replace('+', ',')}" for item in self._columns(dut.host, "other_config")]

    def misplaced(self) -> str | None:
        """Queues must be polled where the affinity says."""
        assert self.options.rxq_affinity is not None
        wanted = dict(pair.split(":") for pair in re.split("[+,]", self.options.rxq_affinity))
        for place in self.mode()["rxqs"]:
            core = wanted.get(str(place["queue"]), str(place["core"]))
            if core != str(place["core"]):
                return f"queue {place['queue']} of {place['port']} is polled on CPU {place['core']}"
        return None


def _spare(layout: CpuLayout) -> tuple[int, ...]:
    """CPUs that keep house and carry nothing of the path."""
    return tuple(cpu for cpu in layout.housekeeping if cpu not in (layout.tester_tx, layout.dut_napi, layout.tester_rx))


class OvsAfxdp(OvsPmd[OvsAfxdpOptions]):
    """Open vSwitch with netdev-afxdp ports, polled by a PMD thread on the forwarder's CPU, or by its main thread."""

    name: ClassVar[str] = "ovs-afxdp"
    options_model: ClassVar[type[Model]] = OvsAfxdpOptions
    changes: ClassVar[tuple[str, ...]] = (*OvsChanging.changes, "queue-added")

    def __init__(self, options: OvsAfxdpOptions) -> None:
        super().__init__(options)
        self.redirects = bool(options.flow_offload)

    def describe(self) -> str:
        """Which core pays for an offloaded flow, and what else the row may differ in."""
        return (
            "Frames of offloaded flows are forwarded by an XDP program where they arrive, and no PMD thread sees them: "
            "the core of the receiving NAPI pays. On a card that is the core of the queue's interrupt; on veth it is "
            "the sender's, unless its NAPI has a thread, and the rate is what that core sends and forwards together. "
            f"Rows of another build than {self.build.name} differ in that, too; with flow_offload=false it is the same."
            if self.options.flow_offload
            else super().describe()
        )

    def supported(self, dut: Dut) -> str | None:
        """Zero-copy needs a driver that has it; veth has not."""
        if self.options.xdp_mode == "native-with-zerocopy":
            reason = next(filter(None, (why_no_zero_copy(dut.host, port.ifname) for port in dut.ports)), None)
            if reason:
                return reason
        return super().supported(dut)

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """A queue that is added must be there."""
        if kind == "queue-added" and self._by_main_thread:
            return f"change queue-added: type={self.options.type} shows no queues"
        reason = super().cannot_change(kind, dut)
        return no_further_queue(dut, self.options.n_rxq) if kind == "queue-added" and not reason else reason

    def required_knobs(self) -> dict[str, int]:
        """Hugepages for the UMEMs are reserved and given back by the run."""
        if self.options.umem_hugepages != "2M":
            return {}
        return {"hugepages_2m": 2 * self.options.n_rxq * -(-self.options.umem_bytes // (2 << 20))}

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """An afxdp interface under the name of the kernel's."""
        columns = [f"options:{item}" for item in self._columns(dut.host, "options")]
        return dut.ports[index].ifname, [f"type={self.options.type}", *columns, *self._affinity(dut)]

    def mode(self) -> dict[str, Any]:
        """With the offload also how many frames of each port have met an offloaded flow up to now."""
        return {**super().mode(), **({"xdp_flows": self._offloaded()} if self.options.flow_offload else {})}

    def growing(self, counters: dict[str, Any]) -> dict[str, Any]:
        """All but how many flows and masks are offloaded now."""
        now = ("xdp_flow_n_flows", "xdp_flow_n_masks")
        return {name: {key: value for key, value in each.items() if key not in now} for name, each in counters.items()}

    def daemon_cpus(self, dut: Dut) -> tuple[int, ...]:
        """Without PMD threads the main thread forwards, so it gets the forwarder's CPU."""
        return (dut.layout.forwarder,) if self._by_main_thread else super().daemon_cpus(dut)

    def forwarding_threads(self) -> dict[int, int]:
        """The PMD threads, or the main thread."""
        return {pid: pid for pid in self.pids()} if self._by_main_thread else super().forwarding_threads()

    def probes(self, dut: Dut) -> ProbeTarget:
        """The USDT probes of our patches, in the one thread that forwards."""
        threads = self.forwarding_threads()
        if len(threads) != 1:
            raise Unsupported(f"{self.name}: {len(threads)} threads forward; the probes are followed through one")
        ((tid, pid),) = threads.items()
        return ProbeTarget(self.build.vswitchd, pid, tid, dut.ports[0].ifname)

    def not_offloaded(self) -> str | None:
        """Offloaded flows must have forwarded frames of each port, or none without the offload."""
        asked = self.options.flow_offload
        assert self._dut is not None
        offloaded, sending = self._offloaded(), 1 if asked and self._dut.pipeline.one_way else None
        for port, told in list(self._told().items())[:sending]:
            frames = offloaded.get(port, 0)
            if bool(frames) != asked:
                seen = f"{frames} frames of {port} met an offloaded flow"
                if asked and (refused := self._refused(port)):
                    seen += f"; refused: {refused}"
                return seen + "".join(
                    f"; {key} is {told[key]}" for key in _WHY_NOT if asked and told.get(key, "on") != "on"
                )
        return None

    def _refused(self, port: str) -> str:
        """What of the flows of a port the offload does not do, in its own words."""
        told = ""
        for command in _OFFLOAD_SHOW:
            with suppress(XdplabError):  # "is not a valid command"
                told += self._control(command)
        found = re.search(rf'"{re.escape(port)}": {{.*?"refused": {{(.*?)}}', told, re.DOTALL)
        return ", ".join(re.findall(r'"([^"]+)":', found[1])) if found else ""

    def _offloaded(self) -> dict[str, int]:
        return {port: told[OFFLOADED] for port, told in self.counters().items() if OFFLOADED in told}

    @property
    def _by_main_thread(self) -> bool:
        return self.options.type == "afxdp-nonpmd"


class OvsAfpacket(OvsChanging[OvsOptions]):
    """The same daemon and datapath with system ports: AF_PACKET, served by the main thread."""

    name: ClassVar[str] = "ovs-afpacket"
    options_model: ClassVar[type[Model]] = OvsOptions

    def describe(self) -> str:
        """What is slow in it."""
        return (
            "OVS on AF_PACKET reads frames one recvmmsg at a time (lib/netdev-linux.c); DPDK's net_af_packet uses the "
            "memory-mapped ring. What is slow in the former is that use of AF_PACKET, not AF_PACKET by itself."
        )

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
        return {"label": "af_packet", **super().mode()}


#: 2 MiB pages that OVS-DPDK and testpmd are given when asked to run on hugepages.
HUGEPAGES_2M = 384
#: Memory of EAL in MiB. Without hugepages little, for every page costs start-up time. On hugepages a limit as well: OVS
#: would take all pages for one mempool in several pieces, over which net_af_xdp of DPDK 22.11 makes one UMEM (ENOMEM).
_DPDK_MIB, _DPDK_HUGE_MIB = 256, 512


class OvsDpdk(OvsPmd[OvsDpdkOptions]):
    """Open vSwitch with DPDK ports over virtual devices: net_af_xdp or net_af_packet."""

    name: ClassVar[str] = "ovs-dpdk"
    options_model: ClassVar[type[Model]] = OvsDpdkOptions
    daemon: ClassVar[str] = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    package: ClassVar[str] = "openvswitch-switch-dpdk"
    start_timeout_s: ClassVar[float] = 40.0

    def supported(self, dut: Dut) -> str | None:
        """The build must have DPDK in it."""
        reason = super().supported(dut)
        if reason is None and "DPDK" not in build_facts(dut.host, self.build)["version"]:
            return f"OVS build {self.build.name!r} is built without DPDK"
        return reason

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
            *super().daemon_settings(dut),
            *memory,
        ]

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """A dpdk interface on a virtual device bound to the kernel's, whose MTU it would set to 1500 unless asked."""
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
            f"mtu_request={link_mtu(dut.host, ifname)}",
            *self._affinity(dut),
        ]

    def mode(self) -> dict[str, Any]:
        """For net_af_packet nothing else says it; net_af_xdp is read from the kernel."""
        label = {"label": "dpdk af_packet"} if self.options.port == "af_packet" else {}
        return {**label, **super().mode()}
