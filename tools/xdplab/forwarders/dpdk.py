# SPDX-License-Identifier: Apache-2.0
"""DPDK's own forwarder, testpmd: the datapath without a switch around it; and the ports of every program on DPDK."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from xdplab.forwarders.base import Dut, Forwarder, sockets_in_use
from xdplab.forwarders.options import Key, RawOptions, arguments, fields
from xdplab.forwarders.process import InstanceForwarder, Process
from xdplab.forwarders.xsk.xdpsock import frames_redirected, why_not_counted
from xdplab.hosts import Host, how_to_install
from xdplab.hosts.kernel import thread_ids, thread_use
from xdplab.model import InputError, Model, PointFailed
from xdplab.model.study import OnePortRole
from xdplab.testbed import Port
from xdplab.testbed.cards import SHARING, VFIO, bound_driver, why_not_taken, without_iommu

# Ports of every program on DPDK: its virtual devices net_af_xdp and net_af_packet, or cards with its own drivers.
#
# Source: doc/guides/nics, and doc/guides/linux_gsg/linux_drivers.rst.

#: 2 MiB pages that OVS-DPDK and testpmd are given when asked to run on hugepages.
_HUGEPAGES_2M = 384
_DRIVERS = {"af_xdp": "AF_XDP", "af_packet": "AF_PACKET", "pmd": "DPDK's own driver"}

#: Where EAL's words for it end.
NOT_HAD = "DPDK has no driver for it, or the IOMMU does not remap its interrupts (`dmesg` says so)"


class PortOptions(RawOptions):
    """Which device a port is."""

    raw_places: ClassVar[Mapping[str, str]] = {"devargs": "device arguments of each port"}
    raw_keys: ClassVar[Mapping[str, str]] = {"devargs": "af_xdp"}
    #: The option that gives the program hugepages.
    hugepages_by: ClassVar[str] = "hugepages=true"

    #: `pmd`: DPDK's own driver for the card, which the kernel gets back afterwards (mlx5's stays).
    port: Literal["af_xdp", "af_packet", "pmd"] = "af_xdp"
    #: Of net_af_xdp.
    busy_budget: Annotated[int, Field(ge=0, le=65535), Key("af_xdp", ("busy_budget",))] = 64

    @model_validator(mode="after")
    def _of_this_device(self) -> Self:
        if self.port != "af_xdp" and "busy_budget" in self.model_fields_set:
            raise ValueError(f"busy_budget is of net_af_xdp, and port={self.port} has none")
        if ours := {"iface", "qdisc_bypass"} & {*self.raw_of("devargs")}:
            raise ValueError(f"raw.devargs.{min(ours)}: xdplab gives it itself")
        return self

    def one_buffer(self) -> str:
        """Why not more, for a forwarder on such ports."""
        return {
            "af_xdp": "net_af_xdp opens its sockets for one buffer",
            "af_packet": "net_af_packet has frames of 2,048 bytes in its rings",
        }.get(self.port, "")

    def not_polled(self, sockets: Iterable[Mapping[str, Any]]) -> str | None:
        """None, or why busy polling that was asked for is not done, once frames have come (`sockets` as read)."""
        asked = self.port == "af_xdp" and self.busy_budget > 0 and "busy_budget" in self.model_fields_set
        if not asked or all(sock["napi_id"] for sock in sockets):
            return None
        return (
            f"busy_budget={self.busy_budget} is not in force: the kernel reports no NAPI id for these sockets, also "
            "after traffic, and polls none (from Linux 6.13 on drivers that give their queues no NAPI id, as veth)"
        )

    @property
    def takes_ports(self) -> bool:
        """Whether the kernel has to let go of the ports."""
        return self.port == "pmd"

    def device(self, index: int, port: Port) -> str:
        """Name and arguments of the device of a port, which of DPDK's own driver is the card's address."""
        if self.takes_ports:
            return port.pci
        return self.virtual_device(index, port.ifname)

    def virtual_device(self, index: int, ifname: str) -> str:
        """Name and arguments of the device on an interface."""
        own = {"iface": ifname, **fields(self, self.port), **({} if self.port == "af_xdp" else {"qdisc_bypass": 1})}
        own |= self.raw_of("devargs")
        return ",".join([f"net_{self.port}{index}", *(f"{name}={value}" for name, value in own.items())])

    def device_arguments(self) -> list[str]:
        """Those that are given of a card."""
        return [f"{name}={value}" for name, value in self.raw_of("devargs").items()]

    def buses(self, ports: Sequence[Port]) -> list[str]:
        """Arguments of EAL: no card but these."""
        if not self.takes_ports:
            return ["--no-pci"]
        return [word for port in ports for word in ("-a", ",".join([port.pci, *self.device_arguments()]))]

    def in_words(self, program: str) -> tuple[str, frozenset[str]]:
        """What a program on such ports is in plain words, and the options that these cover."""
        return f"{program} on {_DRIVERS[self.port]}", frozenset({"port"})

    def label(self) -> dict[str, Any]:
        """For the mode: of net_af_packet nothing else says it; net_af_xdp is read from the kernel."""
        return {"label": "dpdk af_packet"} if self.port == "af_packet" else {}

    @property
    def on_hugepages(self) -> bool:
        """Whether the program's memory is on such."""
        raise NotImplementedError

    def unsupported(self, dut: Dut) -> str | None:
        """None, or why DPDK's own driver cannot have the ports."""
        if not self.takes_ports:
            return None
        reason = why_not_taken(dut.host, dut.ports)
        if reason is None and not self.on_hugepages and any(without_iommu(dut.host, port.ifname) for port in dut.ports):
            reason = f"without an IOMMU a card needs physical addresses, which only hugepages have; {self.hugepages_by}"
        return reason and f"port=pmd: {reason}"

    def cards_in_use(self, dut: Dut) -> dict[str, Any]:
        """For the mode: which driver of the kernel has given the cards to the program, or shares them, as it says."""
        if not self.takes_ports:
            return self.label()
        return {"label": _DRIVERS["pmd"], "cards": {port.role: bound_driver(dut.host, port.pci) for port in dut.ports}}

    def not_taken(self, dut: Dut) -> str | None:
        """None, or which port the program cannot have."""
        cards = self.cards_in_use(dut).get("cards", {})
        wrong = ((role, name) for role, name in cards.items() if name not in (VFIO, *SHARING))
        return next((f"port=pmd: {role} has driver {name}" for role, name in wrong), None)


class VdevOptions(PortOptions):
    """And on which pages the program's memory is."""

    hugepages: bool = False

    @property
    def on_hugepages(self) -> bool:
        return self.hugepages

    def required_knobs(self) -> dict[str, int]:
        """Hugepages are reserved and given back by the run."""
        return {"hugepages_2m": _HUGEPAGES_2M} if self.hugepages else {}


PROGRAM = "/usr/bin/dpdk-testpmd"
#: Without hugepages, in MiB; its 32768 mbufs do not fit into 128.
MEMORY_MIB = "192"
#: CPU time of a worker that forwards: before, it has run for less than a millisecond.
_FORWARDING_NS = 3_000_000
_FCS_BYTES = 4
_MODES: dict[OnePortRole, str] = {"rxdrop": "rxonly", "txonly": "txonly", "l2fwd": "macswap"}


def not_installed(host: Host) -> str | None:
    if host.exists(PROGRAM):
        return None
    return f"{PROGRAM} is not installed (package dpdk-dev); `{how_to_install(host)}` installs it"


def workers(host: Host, pid: int, lcore: int) -> list[int]:
    """Threads of a testpmd that forward, of one lcore."""
    name = re.compile(rf"(rte-|lcore-|dpdk-)worker-?{lcore}")  # as DPDK 22.11 and 24.11 call it
    return [tid for tid, each in thread_ids(host, pid).items() if name.fullmatch(each)]


def forwards(host: Host, pid: int, lcore: int) -> bool:
    """Whether a worker has begun: it sleeps until all ports are up, and then polls them without end."""
    return any(thread_use(host, pid, tid).ran_ns > _FORWARDING_NS for tid in workers(host, pid, lcore))


class TestpmdOptions(VdevOptions):
    """Which vdev, on which pages, and its burst."""

    __test__ = False

    raw_places: ClassVar[Mapping[str, str]] = {**VdevOptions.raw_places, "argument": "of testpmd, as --NAME=VALUE"}

    burst: Annotated[int, Field(ge=1, le=512), Key("argument", ("burst",))] = 32


class Testpmd(InstanceForwarder[TestpmdOptions, Process]):
    """`dpdk-testpmd --forward-mode=io` between two net_af_xdp or net_af_packet devices, or two cards."""

    __test__ = False
    name: ClassVar[str] = "testpmd"
    plain: ClassVar[str] = "DPDK testpmd"
    options_model: ClassVar[type[Model]] = TestpmdOptions
    #: What it does with frames, and arguments that go with it.
    forward_mode: str = "io"
    extra: Sequence[str] = ()

    def __init__(self, options: TestpmdOptions) -> None:
        super().__init__(options)
        self.takes_ports = options.takes_ports

    def in_words(self) -> tuple[str, frozenset[str]]:
        return self.options.in_words(self.plain)

    def required_knobs(self) -> dict[str, int]:
        return self.options.required_knobs()

    def in_role(self, role: OnePortRole, frame_bytes: int) -> Forwarder[Any]:
        """Those that it has a forwarding mode for."""
        return TestpmdRole(self.options, role, frame_bytes)

    def unsupported(self, dut: Dut) -> str | None:
        """It must be installed, and be able to have the ports."""
        return not_installed(dut.host) or self.options.unsupported(dut)

    def one_buffer(self) -> str:
        return self.options.one_buffer()

    def start(self, dut: Dut) -> None:
        """Start forwarding on the forwarder's CPU; EAL's main thread keeps house."""
        main = dut.layout.housekeeping[0] if dut.layout.housekeeping else dut.layout.tester_tx
        # nothing is shared with other processes: the socket for that has a path that may be too long
        memory = ["--in-memory"] if self.options.hugepages else ["--no-shconf", "--no-huge", "-m", MEMORY_MIB]
        devices = self.options.buses(dut.ports)
        if not self.takes_ports:
            devices += [f"--vdev={self.options.device(index, port)}" for index, port in enumerate(dut.ports)]
        eal = ["-l", f"{main},{dut.layout.forwarder}", f"--main-lcore={main}", "--no-telemetry"]
        forwarding = [f"--forward-mode={self.forward_mode}", "--auto-start", *arguments(self.options)]
        # what it uses of its memory its pool has touched and the kernel pins (XDP_UMEM_REG); to lock all of it, and the
        # libraries, takes 0.1 s at its start
        forwarding += ["--total-num-mbufs=32768", "--no-mlockall", *self.extra]
        forwarding += [f"--{name}={value}" for name, value in self.options.raw_of("argument").items()]
        running = dut.host.start(
            [PROGRAM, *eal, *memory, f"--file-prefix=xdplab{os.getpid()}", *devices, "--", *forwarding],
            log=dut.rundir / "testpmd.log",
            cpus=sorted({main, dut.layout.forwarder}),
            hold_stdin=True,  # it ends when it reads the end of its standard input
            env={"RUNTIME_DIRECTORY": str(dut.rundir), "LIBXDP_SKIP_DISPATCHER": "1"},
        )
        self.instance = Process(self.name, "dpdk-testpmd", dut, running, grace_s=5.0)
        self.instance.until(self._forwards, 20.0, "its forwarding thread")

    def ineffective(self) -> str | None:
        dut = self.instance.dut
        return self.options.not_taken(dut) or self.options.not_polled(sockets_in_use(self, dut))

    def forwarding_threads(self) -> dict[int, int]:
        dut = self.instance.dut
        return {tid: pid for pid in self.pids() for tid in workers(dut.host, pid, dut.layout.forwarder)}

    def mode(self) -> dict[str, Any]:
        return self.options.cards_in_use(self.instance.dut)

    def versions(self, host: Host) -> Mapping[str, str]:
        done = host.run([PROGRAM, "--version"], check=False) if host.exists(PROGRAM) else None
        match = re.search(r"DPDK ([\w.~+-]+)", done.stdout + done.stderr) if done else None
        return {"dpdk-testpmd": match.group(1) if match else ("installed" if done else "not installed")}

    def _forwards(self) -> bool:
        """Its worker polls.

        Raises:
            PointFailed: it goes on without a card, which it could not have.
        """
        host = self.instance.dut.host
        refused = [line for line in self.log_tail() if re.search(r"Requested device .* cannot be used", line)]
        if refused:
            raise PointFailed(f"{self.name}: {refused[0]}; {NOT_HAD}")
        return any(forwards(host, pid, self.instance.dut.layout.forwarder) for pid in self.pids())


class TestpmdRole(Testpmd):
    """testpmd over net_af_xdp with one port."""

    __test__ = False

    def __init__(self, options: TestpmdOptions, workload: OnePortRole, frame_bytes: int) -> None:
        super().__init__(options)
        if workload not in _MODES:
            raise InputError(f"forwarder {self.name}: it cannot do {workload}")
        self.forward_mode = _MODES[workload]
        self.extra = [f"--txpkts={frame_bytes - _FCS_BYTES}"] if workload == "txonly" else []
        self._workload: OnePortRole = workload

    def unsupported(self, dut: Dut) -> str | None:
        """What it drops must be counted by the kernel."""
        if self.takes_ports and self._workload != "l2fwd":
            return f"{self._workload}: with port=pmd nothing counts its frames: the kernel does not see them"
        return super().unsupported(dut) or why_not_counted(dut, self._workload)

    def start(self, dut: Dut) -> None:
        """As testpmd, and wait until its port is open: no frame that comes through proves it here."""
        super().start(dut)
        if self.options.port == "af_xdp":
            self.instance.until_socket(20.0)

    def frames_received(self) -> int:
        """By the kernel's count of frames that XDP gave to its socket: testpmd prints its own only at the end."""
        return frames_redirected(self.instance.dut)
