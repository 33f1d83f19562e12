# SPDX-License-Identifier: Apache-2.0
"""VPP in a run directory of its own; what it does with frames is set by `vpp_pipelines`.

VPP is an optional program, found by the option `vpp`, by XDPLAB_VPP or on PATH. It is started from the template
`vpp/startup.conf.j2` and then driven through its API; each change is read back before the next.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from xdplab.forwarders import vpp_filters, vpp_pipelines
from xdplab.forwarders.base import Dut, Forwarder
from xdplab.forwarders.vpp_control import VppControl, VppRefused
from xdplab.forwarders.vpp_options import VppOptions
from xdplab.forwarders.vpp_process import VppProcess
from xdplab.forwarders.vpp_program import OLDEST, find_vpp, installed_version, numbers, rendered
from xdplab.forwarders.vpp_runtime import NodeCounts
from xdplab.hosts import Host, SshHost
from xdplab.model import PointFailed, Unsupported

#: vl_api_rx_mode_t of vnet/interface_types.api.
_RX_MODES = {"polling": 1, "interrupt": 2, "adaptive": 3}
_ADMIN_UP, _LINK_UP = 1, 2


@dataclass(frozen=True)
class Interface:
    """A port inside VPP."""

    ifname: str
    index: int
    name: str


VppOptionsT = TypeVar("VppOptionsT", bound=VppOptions)


class VppForwarder(Forwarder[VppOptionsT]):
    """What all VPP forwarders share; a subclass says how a port becomes an interface."""

    cumulative: ClassVar[bool] = True
    pipelines: ClassVar[tuple[str, ...]] = vpp_pipelines.PIPELINES
    #: The plugin that makes the interfaces, and FD.io's Debian package that it comes in.
    plugin: ClassVar[str]
    package: ClassVar[str] = "vpp-plugin-core"
    #: The message that makes an interface; a VPP without it has not got the plugin.
    creates: ClassVar[str] = ""
    #: How a connection is made; `python tools/dev record` and tests put theirs here.
    connect: Callable[[str, str], VppControl] = staticmethod(VppControl)

    def __init__(self, options: VppOptionsT) -> None:
        super().__init__(options)
        self._dut: Dut | None = None
        self._process: VppProcess | None = None
        self._control: VppControl | None = None
        self._interfaces: list[Interface] = []
        self._mode: dict[str, Any] = {}
        self._nodes = NodeCounts()

    @abstractmethod
    def attach(self, control: VppControl, dut: Dut) -> list[int]:
        """Make an interface of each port; returns their sw_if_index in the order of the ports.

        Raises:
            Unsupported: this VPP or this port cannot do what the options ask for.
            PointFailed: it failed.
        """

    def confirm(self, interface: Interface, hardware: str) -> None:
        """Compare with the options what VPP prints of an interface (`show hardware-interfaces`).

        Raises:
            Unsupported: an option was taken and is not in force.
        """

    def detach(self, control: VppControl, interface: Interface) -> None:
        """Remove an interface, so that nothing stays on its port."""

    def startup(self, dut: Dut) -> dict[str, Any]:
        """More variables of `vpp/startup.conf.j2`."""
        return {}

    def required_knobs(self) -> dict[str, int]:
        """Hugepages for the buffers, reserved and given back by the run; 2,560 bytes are more than one takes."""
        pages = self.options.buffer_count * 2560 // (2 << 20) + 8
        return {"hugepages_2m": pages} if self.options.page_size == "2M" else {}

    def supported(self, dut: Dut) -> str | None:
        """The program must be there and within reach, and a CPU for each worker."""
        if isinstance(dut.host, SshHost):
            return f"VPP on {dut.host.name}: its API and statistics are sockets of that machine; run xdplab there"
        program, reason = find_vpp(dut.host, self.options.vpp, self.package)
        if program is None:
            return reason
        if len(self._worker_cpus(dut)) < self.options.workers:
            return (
                f"workers={self.options.workers}: a CPU of its own is needed for each; there are "
                f"{len(self._worker_cpus(dut))} besides those of the tester and of VPP's main thread"
            )
        return None

    def start(self, dut: Dut) -> None:
        """Process, API, interfaces, cross-connect; each is read back."""
        self._dut, self._nodes = dut, NodeCounts()
        program, reason = find_vpp(dut.host, self.options.vpp, self.package)
        if program is None:
            raise PointFailed(f"{self.name}: {reason}")
        self._process = self._started(program, dut)
        try:
            self._process.wait()
        except PointFailed:
            if self.complaint(f"unknown input `{self.plugin} "):
                raise Unsupported(f"this VPP has no {self.plugin} plugin (FD.io's package {self.package})") from None
            raise
        self._control = self._process.connected(self.connect)
        version = str(self._control.call("show_version")["version"])
        if numbers(version) < OLDEST:
            raise Unsupported(
                f"VPP {version} is older than {OLDEST[0]}.{OLDEST[1]:02}; "
                f"install a newer {self.package}, or name one with the option vpp=PATH"
            )
        if self.creates and not self._control.has(self.creates):
            raise Unsupported(f"VPP {version} has no {self.plugin} plugin (FD.io's package {self.package})")
        self.require(self._control, version)
        vpp_pipelines.require(self._control, dut.pipeline.kind, version, VppForwarder.package)
        indexes = self.attach(self._control, dut)
        self._interfaces = [
            Interface(port.ifname, index, self._read(index)["interface_name"])
            for port, index in zip(dut.ports, indexes, strict=True)
        ]
        for interface in self._interfaces:
            self._set_up(interface)
        vpp_pipelines.set_up(self._control, dut, [each.index for each in self._interfaces])
        self._mode = {"version": version, "interfaces": self._read_back(), "cli": self._commands()}

    def require(self, control: VppControl, version: str) -> None:
        """Check what the options need of this version.

        Raises:
            Unsupported: it has not got it.
        """

    def stop(self) -> None:
        """Interfaces first, so that XDP programs go with them, then the process, then its shared memory."""
        control, self._control = self._control, None
        if control is not None:
            if self.crashed() is None:
                try:
                    for interface in self._interfaces:
                        self.detach(control, interface)
                except (PointFailed, Unsupported):
                    pass  # the process ends now; the run takes off and verifies what it left on the ports
            control.close()
        self._interfaces = []
        if self._process is not None:
            self._process.stop()
            self._process = None

    def crashed(self) -> str | None:
        """Whether VPP ended."""
        return self._process.ended() if self._process else None

    def pids(self) -> tuple[int, ...]:
        """The one process."""
        return (self._process.pid,) if self._process else ()

    def forwarding_threads(self) -> dict[int, int]:
        """The workers, or the main thread when there are none."""
        if self._process is None:
            return {}
        name = r"vpp_wk_\d+" if self.options.workers else "vpp_main"
        return dict.fromkeys(self._process.threads(name), self._process.pid)

    def mode(self) -> dict[str, Any]:
        """What VPP said of itself and its interfaces when it had been set up, and the CLI commands that do the same."""
        return {"vpp": self._mode}

    def counters(self) -> dict[str, Any]:
        """Packets in and out of each interface and what went wrong, by the statistics segment; what nodes cost."""
        assert self._control is not None
        self._control.call("control_ping")  # the segment can be read for long after VPP has died
        found: dict[str, Any] = {each.name: self._control.interface_statistics(each.index) for each in self._interfaces}
        return {**found, "errors": self._control.errors(), **self._nodes.read(self._control.cli)}

    def rule_hits(self) -> dict[str, int]:
        """Of access lists, and of the policer."""
        assert self._control is not None
        assert self._dut is not None
        if self._dut.pipeline.kind == "meter":
            return vpp_pipelines.metered(self._control)
        return vpp_filters.rule_hits(self._control, self._dut)

    def log_tail(self) -> tuple[str, ...]:
        """Its last lines."""
        return self._process.log_tail() if self._process else ()

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """Version of the VPP that is found without an option."""
        return _version_of("", host)

    def versions_asked_for(self, host: Host) -> Mapping[str, str]:
        """Version of the VPP that the option names."""
        return _version_of(self.options.vpp, host)

    def complaint(self, word: str) -> str:
        """What VPP's log says about it, for an error code that does not."""
        return self._process.complaint(word) if self._process else ""

    def _started(self, program: str, dut: Dut) -> VppProcess:
        main = dut.layout.housekeeping[0] if self.options.workers else dut.layout.forwarder
        workers = self._worker_cpus(dut)[: self.options.workers]
        variables = {
            "buffers": self.options.buffer_count,
            "page_size": self.options.page_size,
            "main_cpu": main,
            "worker_cpus": workers,
            "plugins": [self.plugin, *vpp_pipelines.plugins(dut.pipeline.kind)],
            "vdevs": [],
            **self.startup(dut),
        }
        return VppProcess(dut, program, sorted({main, *workers}), variables)

    def _worker_cpus(self, dut: Dut) -> list[int]:
        """The forwarder's CPU, then those that neither the tester nor VPP's main thread uses."""
        taken = {dut.layout.tester_tx, dut.layout.forwarder, dut.layout.dut_napi, *dut.layout.housekeeping[:1]}
        return [dut.layout.forwarder, *(cpu for cpu in dut.layout.housekeeping[1:] if cpu not in taken)]

    def _set_up(self, interface: Interface) -> None:
        """Admin state and receive mode, queues spread over the workers."""
        control = self._control
        assert control is not None
        control.call("sw_interface_set_flags", sw_if_index=interface.index, flags=_ADMIN_UP)
        flags = self._read(interface.index)["flags"]
        if not flags & _ADMIN_UP:
            raise PointFailed(f"{self.name}: {interface.name} was set up and is down")
        wanted = _RX_MODES[self.options.rx_mode]
        try:
            control.call("sw_interface_set_rx_mode", sw_if_index=interface.index, queue_id_valid=False, mode=wanted)
        except VppRefused as exc:
            raise Unsupported(f"rx_mode={self.options.rx_mode}: {exc}; {self.complaint('mode')}") from None
        for queue in self._queues(interface) if self.options.workers > 1 else ():
            worker = queue["queue_id"] % self.options.workers
            control.call(
                "sw_interface_set_rx_placement",
                sw_if_index=interface.index,
                queue_id=queue["queue_id"],
                worker_id=worker,
                is_main=False,
            )
        queues = self._queues(interface)
        if len(queues) != self.options.n_rxq:
            raise Unsupported(f"n_rxq={self.options.n_rxq}: VPP made {len(queues)} queues on {interface.ifname}")
        if {queue["mode"] for queue in queues} != {wanted}:
            raise Unsupported(f"rx_mode={self.options.rx_mode}: VPP took it and did not switch: {queues}")

    def _read(self, index: int) -> dict[str, Any]:
        """VPP's own row of an interface."""
        assert self._control is not None
        rows = self._control.dump("sw_interface_dump", sw_if_index=index)
        found = [row for row in rows if row["sw_if_index"] == index]
        if not found:
            raise PointFailed(f"{self.name}: VPP made interface {index} and does not know it")
        return found[0]

    def _queues(self, interface: Interface) -> list[dict[str, Any]]:
        assert self._control is not None
        return self._control.dump("sw_interface_rx_placement_dump", sw_if_index=interface.index)

    def _read_back(self) -> list[dict[str, Any]]:
        """Per interface: name, device, link, where each queue is received how, and what VPP prints of it."""
        assert self._control is not None
        names = {number: name for name, number in _RX_MODES.items()}
        found = []
        for interface in self._interfaces:
            row = self._read(interface.index)
            hardware = self._control.cli(f"show hardware-interfaces {interface.name}")
            self.confirm(interface, hardware)
            queues = [
                {"queue": each["queue_id"], "worker": each["worker_id"], "mode": names[each["mode"]]}
                for each in self._queues(interface)
            ]
            found.append(
                {
                    "name": interface.name,
                    "port": interface.ifname,
                    "device": row["interface_dev_type"],
                    "link_up": bool(row["flags"] & _LINK_UP),
                    "rx_queues": queues,
                    "hardware": [line.strip() for line in hardware.splitlines() if line.strip()],
                }
            )
        return found

    def _commands(self) -> list[str]:
        rows = [{"ifname": each.ifname, "name": each.name} for each in self._interfaces]
        made = rendered("forward.cli.j2", plugin=self.plugin, interfaces=rows, options=self.options).split("\n")
        assert self._dut is not None
        return [*made, *vpp_pipelines.commands(self._dut, [each.name for each in self._interfaces])]


def _version_of(option: str, host: Host) -> dict[str, str]:
    program, _ = find_vpp(host, option, VppForwarder.package)
    return {f"vpp {option}".rstrip(): installed_version(host, program) if program else "not installed"}
