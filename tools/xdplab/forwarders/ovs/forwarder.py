# SPDX-License-Identifier: Apache-2.0
"""The OVS forwarders: one daemon, three ways for frames to get in and out, or the kernel's own datapath.

Both directions are one OpenFlow rule each (`in_port=p0,actions=output:p1`), or several (`pipelines`): what is compared
is how frames get in and out of the switch, so nothing may depend on MAC learning.
"""

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, ClassVar, TypeVar

from xdplab.forwarders import node
from xdplab.forwarders.base import Counting, Dut, ProbeTarget, sockets_in_use
from xdplab.forwarders.changes import SPARE_LINKS, Change, Changing
from xdplab.forwarders.options import Setting, settings
from xdplab.forwarders.ovs import openflow, readback
from xdplab.forwarders.ovs.builds import (
    STOCK,
    Build,
    build_facts,
    describe_build,
    find_build,
    known_keys,
    make,
    missing,
)
from xdplab.forwarders.ovs.changes import OvsChanges, no_further_queue
from xdplab.forwarders.ovs.daemon import BRIDGE, Datapath, Ovs
from xdplab.forwarders.ovs.options import OvsAfxdpOptions, OvsDpdkOptions, OvsKey, OvsOptions, UserspaceOptions, keys
from xdplab.forwarders.ovs.pipelines import Tables, rule_hits, rules, rules_met, set_up, tables
from xdplab.forwarders.ovs.readback import MainThread, PmdThreads
from xdplab.forwarders.ovs.topologies import BY_MAIN_THREAD, LINKS, ON_LINKS, Topology, topology_of
from xdplab.forwarders.process import InstanceForwarder
from xdplab.hosts import Host
from xdplab.hosts.kernel import (
    DATAPATH,
    FIX_TUN,
    link_mtu,
    link_names,
    remove_link,
    why_no_tap,
    why_no_zero_copy,
)
from xdplab.model import CpuLayout, Model, Unsupported, XdplabError, do_each
from xdplab.model.pipeline import KINDS

#: Lines that the daemon may have logged until frames come through.
_START_LINES = 5000
VSWITCHD = "/usr/lib/openvswitch-switch/ovs-vswitchd"
#: What shows that the kernel's datapath is there.
_MODULE = "/sys/module/openvswitch"

OvsOptionsT = TypeVar("OvsOptionsT", bound=OvsOptions)


class OvsForwarder(InstanceForwarder[OvsOptionsT, Ovs], Counting, Changing):
    """What all OVS forwarders share; a subclass says how a port is made and which threads forward."""

    pipelines: ClassVar[tuple[str, ...]] = tuple(kind for kind in KINDS if kind != "vhost-user")
    changes: ClassVar[tuple[str, ...]] = ("rules", "rule-stream", "hit-rule", "port-added")
    #: Path of the stock build's daemon; Debian keeps the DPDK one next to the plain one.
    daemon: ClassVar[str] = VSWITCHD
    package: ClassVar[str] = "openvswitch-switch"
    start_timeout_s: ClassVar[float] = 20.0
    datapath: ClassVar[Datapath] = "netdev"
    own_links: ClassVar[tuple[str, ...]] = ("ovs-netdev", BRIDGE, *SPARE_LINKS, *LINKS)

    def __init__(self, options: OvsOptionsT) -> None:
        super().__init__(options)
        self._tables = Tables([])
        self._topology: Topology | None = None
        #: Rules of a node that the first frames have met.
        self._met: list[str] = []

    def build(self, host: Host) -> Build:
        return find_build(self.options.build, self.daemon, host)

    def make(self, note: Callable[[str], None]) -> None:
        make(self.options.build, note)

    @abstractmethod
    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """Name of port `index` in OVS and the columns of its Interface row (`type=...`, `options:...`)."""

    @abstractmethod
    def threads(self, layout: CpuLayout) -> MainThread:
        """Which of its threads forward."""

    def main_cpus(self, dut: Dut) -> tuple[int, ...]:
        """CPUs of the daemon's threads that do not place themselves."""
        forwards = dut.pipeline.kind in BY_MAIN_THREAD
        return (dut.layout.forwarder,) if forwards else self.threads(dut.layout).daemon_cpus

    def daemon_settings(self, dut: Dut) -> list[str]:
        """More `other_config` items set before the daemon starts."""
        return []

    def daemon_env(self, dut: Dut) -> dict[str, str]:
        # Without a libxdp dispatcher the port's program is the only one: one call less per frame, the same everywhere.
        return {"LIBXDP_SKIP_DISPATCHER": "1"}

    def unsupported(self, dut: Dut) -> str | None:
        """The CPUs and the build must be there; the build must know every option and make tap devices."""
        reason = self.threads(dut.layout).refusal() or missing(dut.host, self.build(dut.host), self.package)
        reason = reason or topology_of(dut, redirects=self.redirects).missing()
        reason = reason or (node.missing(dut.pipeline) if dut.pipeline.file else None)
        if reason:
            return reason
        without = why_no_tap(dut.host) if self.datapath == "netdev" else None
        if without:
            return f"Open vSwitch makes a tap device for each bridge, and {without}: {FIX_TUN}"
        return self.option_of_another_build(dut.host) or self._raw_twice(dut)

    def _raw_twice(self, dut: Dut) -> str | None:
        """Which raw option xdplab writes itself."""
        columns = {"interface": self.interface(0, dut)[1], "other_config": self._daemon_columns(dut)}
        columns["options"] = columns["interface"]
        for place, named in self.options.raw.items():
            before = {"options": "options:", "interface": "other_config:"}.get(place, "")
            ours = {item.partition("=")[0] for item in columns.get(place, ())}
            if twice := next((name for name in named if before + name in ours), None):
                return f"raw.{place}.{twice}: xdplab sets it itself here"
        return None

    def _daemon_columns(self, dut: Dut) -> list[str]:
        """`KEY=VALUE` of the daemon's other_config."""
        threads = self.threads(dut.layout)
        return [*self.daemon_settings(dut), *threads.settings, *self.columns(dut.host, "Open_vSwitch")]

    def _raw(self, place: str, before: str = "") -> list[str]:
        """The same of raw options; quoted, because `row` of `daemon` takes what is quoted for a text as it is."""
        return [f"{before}{name}={json.dumps(value)}" for name, value in self.options.raw_of(place).items()]

    def build_gap(self, host: Host) -> str | None:
        """Which program of its build is not there, or which option the build does not know."""
        return missing(host, self.build(host), self.package) or self.option_of_another_build(host)

    def rules_between(self, here: str, there: str) -> list[str]:
        """Of pipeline cross, for what comes in by one port and leaves by the other, as its options say."""
        return rules(here, there, self.options)

    def option_of_another_build(self, host: Host) -> str | None:
        """Which option the build does not know."""
        for setting in settings(self.options, OvsKey):
            if self._key(host, setting) is None:
                brings = f"; patch {setting.key.patch} of ovs/ brings it" if setting.key.patch else ""
                return (
                    f"{setting.field}={setting.text}: OVS build {self.options.build!r} "
                    f"({build_facts(host, self.build(host))['version']}) has no "
                    f"{setting.key.mark or setting.key.names[0]}{brings}"
                )
        return None

    def start(self, dut: Dut) -> None:
        """Database, daemon, flows; each step is checked."""
        ovs = self.instance = Ovs(self.name, dut, self.build(dut.host), self.start_timeout_s)
        wanted = [*self._daemon_columns(dut), *self._raw("other_config")]
        topology = self._topology = topology_of(dut, redirects=self.redirects)
        whole = replace(dut, ports=(*dut.ports, *topology.links()))
        raw = [*self._raw("options", "options:"), *self._raw("interface", "other_config:")]
        own = [self.interface(index, whole) for index in range(len(whole.ports))]
        ports = [*((name, [*columns, *raw]) for name, columns in own), *topology.ports()]
        if dut.pipeline.file:
            numbers = [port.port for port in node.node_of(dut.pipeline).ports]
            ports = [(name, [*row, f"ofport_request={n}"]) for (name, row), n in zip(ports, numbers, strict=True)]
        ovs.start(ports, wanted, self.main_cpus(dut), self.daemon_env(dut), self.datapath, self.own_links)
        topology.connect(ovs)
        further = [name for name, _ in ports[len(dut.ports) :]]
        self._tables = tables(dut, (ovs.names[0], ovs.names[-1]), self.options, further)
        set_up(ovs, self._tables)

    def stop(self) -> None:
        """And what its topology has made."""
        do_each(self.name, super().stop, *([self._topology.remove] if self._topology is not None else []))

    def forwarding_threads(self) -> dict[int, int]:
        """As `threads` says, and the main thread where its topology has ports of it."""
        ovs = self.instance
        main = {pid: pid for pid in ovs.pids} if ovs.dut.pipeline.kind in BY_MAIN_THREAD else {}
        return main | self.threads(ovs.dut.layout).forwarding(ovs)

    def counters(self) -> dict[str, Any]:
        """Statistics of each port, events of netdev-afxdp (`coverage`), and where threads met frames (`lookups`)."""
        ovs = self.instance
        ports = openflow.port_counters(ovs.exchange(openflow.ASK))
        ports.pop(BRIDGE, None)
        coverage = readback.coverage_totals(ovs.control("coverage/show"))
        return {**ports, "coverage": coverage, **ovs.lookups.read(ovs.control)}

    def frames_lost(self) -> dict[str, int]:
        """By reason, by rule that drops, and by table without a rule for them."""
        ovs = self.instance
        ovs.control("revalidator/wait")  # the datapath's counts are taken over
        rules = readback.rules_without_output(ovs.ofctl("dump-flows"))
        return {**rules, **readback.misses(ovs.ofctl("dump-tables")), **readback.drops(ovs.control("coverage/show"))}

    def rule_count(self) -> tuple[int, int]:
        """In all tables. Those of a node may learn others, which are no fault."""
        there, given = openflow.rules_there(self.instance.exchange), len(self._tables.flows)
        return (there if self._tables.counted else min(there, given)), given

    def rule_hits(self) -> dict[str, int]:
        return rule_hits(self.instance, self._tables)

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """Rules that make a megaflow of each flow look at it in pipeline cross."""
        own_flows = kind == "new-flows" and self.options.rules != "ports"
        return None if own_flows else super().cannot_change(kind, dut)

    def change(self, kind: str, count: int) -> Change:
        return OvsChanges(self.instance, self._tables.flows, self.interface).change(kind, count)

    def flows_met(self) -> int | None:
        """Lookups that missed every megaflow, or connections that are known."""
        if self.options.rules != "ports":
            return readback.datapath_lookups(self.instance.control("dpctl/show"))["missed"]
        output = self.instance.control("dpctl/ct-get-nconns").strip()
        return int(output) if output.isdigit() else None

    def mode(self) -> dict[str, Any]:
        """What the build is, what each port shows of itself, and which core polls which queue."""
        facts = build_facts(self.instance.host, self.build(self.instance.host))
        build = {key: facts[key] for key in ("name", "version", "key") if key in facts}
        places = [place.model_dump() for place in readback.queues(self.instance)]
        rules = self._rules_of_node()
        return {"build": build, "ovs": self._shown(), "rxqs": places, **rules}

    def _rules_of_node(self) -> dict[str, Any]:
        """For the mode: which they are, and those that the proof's frames have met, by which datapaths are compared."""
        pipeline = self.instance.dut.pipeline
        if not pipeline.file:
            return {}
        self._met = self._met or rules_met(self.instance)
        return {"rules": {**node.facts(pipeline), "met": self._met}}

    def ineffective(self) -> str | None:
        """The first option that OVS took silently and does not show to be in force."""
        host, shown = self.instance.host, self._shown()
        log = "\n".join(self.instance.log_tail(_START_LINES))
        for setting in settings(self.options, OvsKey):
            key, name, text = setting.key, self._key(host, setting) or "", setting.text
            ports = shown if key.place == "options" else {}
            wrong = [f"{port}: {why}" for port, has in ports.items() if (why := key.wrong(text, has, name))]
            if not key.logged(text, log):
                wrong.append("the daemon's log does not say that it took it")
            if key.proven_by and (why := getattr(self, key.proven_by)()):
                wrong.append(why)
            if wrong:
                return f"{setting.field}={text} is not in force: {wrong[0]}"
        return self._raw_other(shown)

    def _raw_other(self, shown: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Which raw option a port shows with another value."""
        for name, value in self.options.raw_of("options").items():
            for port, has in shown.items():
                if has.get(name, value) != value:
                    return f"raw.options.{name}={value} is not in force: {port}: {name} is {has[name]}, not {value}"
        return None

    def unproven(self) -> tuple[str, ...]:
        """All but those that each port shows under their names."""
        shown = self._shown() if self.options.raw else {}
        seen = {
            f"raw.options.{name}"
            for name in self.options.raw_of("options")
            if shown and all(name in has for has in shown.values())
        }
        return tuple(name for name in super().unproven() if name not in seen)

    def misplaced(self) -> str | None:
        """Proof of `rxq_affinity`: None, or which queue is polled elsewhere."""
        return self.threads(self.instance.dut.layout).misplaced(readback.queues(self.instance))

    def versions(self, host: Host) -> Mapping[str, str]:
        """Version of the build that the options name (and of DPDK, when it is linked in), under that name."""
        program = FilePath(self.daemon).name
        name = program if self.options.build == STOCK else f"{program} ({self.options.build})"
        return {name: describe_build(host, self.build(host))}

    def _key(self, host: Host, setting: Setting[OvsKey]) -> str | None:
        """The key under which the build knows an option, or None."""
        known = self._known(host)
        return next((name for name in setting.key.names if name in known and setting.key.mark in ("", *known)), None)

    def _known(self, host: Host) -> frozenset[str]:
        return known_keys(host, self.build(host), frozenset({readback.SHOW, *keys(self.options_model)}))

    def columns(self, host: Host, column: str) -> list[str]:
        """`KEY=VALUE` of all options of a column."""
        return [
            f"{self._key(host, each)}={each.text}"
            for each in settings(self.options, OvsKey)
            if each.key.place == column
        ]

    def _affinity(self, dut: Dut) -> list[str]:
        return [f"other_config:{item.replace('+', ',')}" for item in self.columns(dut.host, "other_config")]

    def _shown(self) -> dict[str, dict[str, Any]]:
        return readback.ports_shown(self.instance, patched=readback.SHOW in self._known(self.instance.host))


class OvsAfxdp(OvsForwarder[OvsAfxdpOptions]):
    """Open vSwitch with netdev-afxdp ports, polled by a PMD thread on the forwarder's CPU, or by its main thread."""

    name: ClassVar[str] = "ovs-afxdp"
    plain: ClassVar[str] = "OVS on AF_XDP"
    options_model: ClassVar[type[Model]] = OvsAfxdpOptions
    changes: ClassVar[tuple[str, ...]] = (*OvsForwarder.changes, "queue-added")

    def __init__(self, options: OvsAfxdpOptions) -> None:
        super().__init__(options)
        self.redirects = bool(options.flow_offload)

    def threads(self, layout: CpuLayout) -> MainThread:
        return PmdThreads(self.options, layout) if self.options.type == "afxdp" else MainThread(layout)

    def in_words(self) -> tuple[str, frozenset[str]]:
        flows = ", flows in XDP" if self.options.flow_offload else ""
        return f"{self.plain}{flows}", frozenset({"flow_offload"} if flows else ())

    def describe(self) -> str:
        """Which core pays for an offloaded flow."""
        return (
            "Frames of offloaded flows are forwarded by an XDP program where they arrive, and no PMD thread sees them: "
            "the core of the receiving NAPI pays. On a card that is the core of the queue's interrupt; on veth it is "
            "the sender's, unless its NAPI has a thread, and the rate is what that core both sends and forwards."
            if self.options.flow_offload
            else super().describe()
        )

    def unsupported(self, dut: Dut) -> str | None:
        """Zero-copy needs a driver that has it; veth has not."""
        ports = [port.ifname for port in dut.ports] if self.options.xdp_mode == "native-with-zerocopy" else []
        return why_no_zero_copy(dut.host, *ports) or super().unsupported(dut)

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """A queue that is added must be there."""
        if kind == "queue-added" and self.options.type == "afxdp-nonpmd":
            return f"change queue-added: type={self.options.type} shows no queues"
        reason = super().cannot_change(kind, dut)
        return no_further_queue(dut, self.options.n_rxq) if kind == "queue-added" and not reason else reason

    def one_buffer(self) -> str:
        return "" if self.options.multi_buffer else "its XDP program and sockets take one buffer; multi_buffer=true"

    def required_knobs(self) -> dict[str, int]:
        """Hugepages for the UMEMs are reserved and given back by the run."""
        if self.options.umem_hugepages != "2M":
            return {}
        return {"hugepages_2m": 2 * self.options.n_rxq * -(-self.options.umem_bytes // (2 << 20))}

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """An afxdp interface under the name of the kernel's."""
        columns = [f"options:{item}" for item in self.columns(dut.host, "options")]
        return dut.ports[index].ifname, [f"type={self.options.type}", *columns, *self._affinity(dut)]

    def not_offloaded(self) -> str | None:
        """Proof of `flow_offload`: flows must have forwarded frames of each port, or none without it."""
        frames = readback.offloaded(self.counters())
        return readback.not_offloaded(self.instance, bool(self.options.flow_offload), frames, self._shown())

    def mode(self) -> dict[str, Any]:
        """With the offload also how many frames of each port have met an offloaded flow up to now."""
        flows = {"xdp_flows": readback.offloaded(self.counters())} if self.options.flow_offload else {}
        return {**super().mode(), **flows}

    def monotonic(self, counters: dict[str, Any]) -> dict[str, Any]:
        """All but how many flows and masks are offloaded now."""
        return {
            name: {key: value for key, value in each.items() if key not in readback.OFFLOADED_NOW}
            for name, each in counters.items()
        }

    def probes(self, dut: Dut) -> ProbeTarget:
        """The USDT probes of our patches, in the one thread that forwards."""
        threads = self.forwarding_threads()
        if len(threads) != 1:
            raise Unsupported(f"{self.name}: {len(threads)} threads forward; the probes are followed through one")
        ((tid, pid),) = threads.items()
        return ProbeTarget(self.build(dut.host).vswitchd, pid, tid, dut.ports[0].ifname)


class OvsAfpacket(OvsForwarder[UserspaceOptions]):
    """The same daemon and datapath with system ports: AF_PACKET, served by the main thread."""

    name: ClassVar[str] = "ovs-afpacket"
    plain: ClassVar[str] = "OVS on AF_PACKET"
    options_model: ClassVar[type[Model]] = UserspaceOptions

    def threads(self, layout: CpuLayout) -> MainThread:
        return MainThread(layout)

    def describe(self) -> str:
        return (
            "OVS on AF_PACKET reads frames one recvmmsg at a time (lib/netdev-linux.c); DPDK's net_af_packet uses the "
            "memory-mapped ring. What is slow in the former is that use of AF_PACKET, not AF_PACKET by itself."
        )

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        return dut.ports[index].ifname, ["type=system"]

    def mode(self) -> dict[str, Any]:
        """System ports of a netdev datapath use recvmmsg on AF_PACKET sockets (lib/netdev-linux.c)."""
        return {"label": "af_packet", **super().mode()}


class OvsKernel(OvsForwarder[OvsOptions]):
    """The kernel's datapath (module openvswitch): softirqs forward, and the daemon sees a flow's first frame."""

    name: ClassVar[str] = "ovs-kernel"
    plain: ClassVar[str] = "OVS in the kernel"
    options_model: ClassVar[type[Model]] = OvsOptions
    datapath: ClassVar[Datapath] = "system"
    own_links: ClassVar[tuple[str, ...]] = (DATAPATH, BRIDGE, *SPARE_LINKS, *LINKS)
    #: A tunnel of this datapath is routed by the host, outside the bridge, and an internal port is no tap device.
    pipelines: ClassVar[tuple[str, ...]] = tuple(
        kind for kind in KINDS if kind not in ("vxlan", "taps", "vhost-user", "vxlan-link", "geneve-link")
    )

    def threads(self, layout: CpuLayout) -> MainThread:
        """The main thread, which keeps house."""
        return MainThread(layout)

    def unsupported(self, dut: Dut) -> str | None:
        """The module must be loaded: it stays loaded after a run, so a run does not load it."""
        if not dut.host.exists(_MODULE):
            found = dut.host.run(["modprobe", "--dry-run", "openvswitch"], check=False).returncode == 0
            how = "`modprobe openvswitch` loads it" if found else "and none is installed for this kernel"
            return f"the kernel's module openvswitch is not loaded, {how}"
        return super().unsupported(dut)

    def stop(self) -> None:
        """A daemon that was killed leaves the datapath, with its ports; so does one that had it not to itself."""
        dut = self._instance.dut if self._instance else None

        def remove_datapath() -> None:
            if dut is not None and DATAPATH in link_names(dut.host):
                ours = {*self.own_links, *(port.ifname for port in dut.ports)}
                if why := remove_link(dut.host, DATAPATH, ours):
                    raise XdplabError(f"{dut.host.name}: {why}")

        do_each(self.name, super().stop, remove_datapath)

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """A port of the kernel's datapath."""
        return dut.ports[index].ifname, ["type=system"]

    def forwarding_threads(self) -> dict[int, int]:
        return {}

    def counters(self) -> dict[str, Any]:
        """Statistics of each port, and look-ups of the datapath."""
        ovs = self.instance
        ports = openflow.port_counters(ovs.exchange(openflow.ASK))
        ports.pop(BRIDGE, None)
        return {**ports, "datapath": readback.datapath_lookups(ovs.control("dpctl/show"))}

    def mode(self) -> dict[str, Any]:
        """What the build is; the kernel's view of XDP has nothing of it."""
        facts = build_facts(self.instance.host, self.build(self.instance.host))
        build = {key: facts[key] for key in ("name", "version") if key in facts}
        return {"label": "kernel datapath", "build": build, **self._rules_of_node()}


#: Memory of EAL in MiB. Without hugepages little: every page costs start-up time. On hugepages a limit as well: OVS
#: would take all pages for one mempool in several pieces, over which net_af_xdp of DPDK 22.11 makes one UMEM (ENOMEM).
#: From DPDK 24.11 on a mempool that does not fit is ENOBUFS, and OVS tries no smaller one: all 262,144 mbufs must fit.
_DPDK_MIB, _DPDK_24_MIB, _DPDK_HUGE_MIB = 256, 1024, 512


class OvsDpdk(OvsForwarder[OvsDpdkOptions]):
    """Open vSwitch with DPDK ports: virtual devices net_af_xdp or net_af_packet, or cards."""

    name: ClassVar[str] = "ovs-dpdk"
    plain: ClassVar[str] = "OVS-DPDK"
    options_model: ClassVar[type[Model]] = OvsDpdkOptions
    daemon: ClassVar[str] = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    package: ClassVar[str] = "openvswitch-switch-dpdk"
    start_timeout_s: ClassVar[float] = 40.0
    pipelines: ClassVar[tuple[str, ...]] = tuple(KINDS)

    def __init__(self, options: OvsDpdkOptions) -> None:
        super().__init__(options)
        self.takes_ports = options.takes_ports

    def threads(self, layout: CpuLayout) -> MainThread:
        return PmdThreads(self.options, layout)

    def free_buffers(self) -> int | None:
        return readback.free_mbufs(self.instance.control("netdev-dpdk/get-mempool-info"))

    def in_words(self) -> tuple[str, frozenset[str]]:
        return self.options.in_words(self.plain)

    def unsupported(self, dut: Dut) -> str | None:
        """The build must have DPDK in it."""
        reason = super().unsupported(dut)
        if reason is None and "DPDK" not in build_facts(dut.host, self.build(dut.host))["version"]:
            return f"OVS build {self.options.build!r} is built without DPDK"
        if self.takes_ports and dut.pipeline.kind in ON_LINKS:
            return f"pipeline {dut.pipeline}: with port=pmd a port is a card, and the links of this pipeline are not"
        umem_size_correct = self.options.hugepages or self.options.port != "af_xdp" or self._dpdk(dut.host) >= (24, 7)
        if reason is None and dut.pipeline.kind in ("taps", "vhost-user") and not umem_size_correct:
            return (
                f"pipeline {dut.pipeline}: without hugepages net_af_xdp of this DPDK, which is older than 24.07, takes "
                "its UMEM for smaller than it is, and the kernel refuses what is sent from its end; hugepages=true"
            )
        return reason or self.options.unsupported(dut)

    def one_buffer(self) -> str:
        return self.options.one_buffer()

    def _dpdk(self, host: Host) -> tuple[int, ...]:
        """Release of the DPDK that is linked in."""
        release = re.search(r"DPDK (\d+)\.(\d+)", build_facts(host, self.build(host))["version"])
        return (int(release[1]), int(release[2])) if release else (0, 0)

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """There is no card to spare."""
        if kind == "port-added" and self.takes_ports:
            return "change port-added: with port=pmd a port is a card, and none is to spare"
        return super().cannot_change(kind, dut)

    def ineffective(self) -> str | None:
        """Also cards that it should have, and busy polling of its sockets."""
        dut = self.instance.dut
        idle = self.options.not_taken(dut) or self.options.not_polled(sockets_in_use(self, dut))
        return idle or super().ineffective()

    def required_knobs(self) -> dict[str, int]:
        return self.options.required_knobs()

    def daemon_env(self, dut: Dut) -> dict[str, str]:
        """EAL's run directory goes where ours is removed."""
        return {**super().daemon_env(dut), "RUNTIME_DIRECTORY": str(dut.rundir)}

    def daemon_settings(self, dut: Dut) -> list[str]:
        """EAL, no card but ours. OVS 3.1 adds --in-memory without --legacy-mem; EAL 22.11 refuses it with --no-huge."""
        mib = _DPDK_24_MIB if self._dpdk(dut.host) >= (24, 0) else _DPDK_MIB
        buses = " ".join(self.options.buses(dut.ports))
        # a card without an IOMMU has physical addresses, which EAL then chooses itself
        addresses = "" if self.takes_ports else " --iova-mode=va"
        memory = (
            [
                f"dpdk-socket-mem={_DPDK_HUGE_MIB}",
                f"dpdk-socket-limit={_DPDK_HUGE_MIB}",
                f"dpdk-extra={buses}{addresses}",
            ]
            if self.options.hugepages
            else [f"dpdk-extra=--no-shconf --no-huge --legacy-mem -m {mib} {buses}"]
        )
        lcores = sum(1 << cpu for cpu in self.main_cpus(dut)[:1])
        return ["dpdk-init=true", f"dpdk-lcore-mask={lcores:#x}", *memory]

    def interface(self, index: int, dut: Dut) -> tuple[str, list[str]]:
        """A dpdk interface on a virtual device bound to the kernel's, whose MTU it would set to 1500 unless asked."""
        port = dut.ports[index]
        mtu = port.mtu if self.takes_ports else link_mtu(dut.host, port.ifname)
        return f"p{index}", [
            "type=dpdk",
            f"options:dpdk-devargs={self.options.device(index, port)}",
            "options:n_rxq=1",
            f"options:n_rxq_desc={self.options.n_rxq_desc}",
            f"mtu_request={mtu}",
            *self._affinity(dut),
        ]

    def mode(self) -> dict[str, Any]:
        return {**self.options.cards_in_use(self.instance.dut), **super().mode()}
