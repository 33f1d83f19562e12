# SPDX-License-Identifier: Apache-2.0
"""VPP in a run directory of its own; what it does with frames is set by `pipelines`.

VPP is an optional program, found by the option `vpp`, by XDPLAB_VPP or on PATH. It is started from the template
`vpp/startup.conf.j2` and then driven through its API; each change is read back before the next.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any, ClassVar, TypeVar

from xdplab.forwarders.base import Counting, Dut
from xdplab.forwarders.changes import (
    SPARE_LINKS,
    Change,
    Changing,
    Step,
    add_spare_link,
    count_differs,
    port_change,
    spare_addresses,
)
from xdplab.forwarders.process import InstanceForwarder
from xdplab.forwarders.vpp import pipelines, remote
from xdplab.forwarders.vpp.control import VppControl, VppRefused
from xdplab.forwarders.vpp.options import VppOptions
from xdplab.forwarders.vpp.pipelines import PIPELINES
from xdplab.forwarders.vpp.process import OLDEST, Interface, Vpp, find_vpp, installed_version, numbers
from xdplab.forwarders.work import sides
from xdplab.hosts import Host, SshHost
from xdplab.model import PointFailed, Unsupported
from xdplab.model.plugins import lacking

#: vl_api_rx_mode_t of vnet/interface_types.api.
_RX_MODES = {"polling": 1, "interrupt": 2, "adaptive": 3}
_ADMIN_UP, _LINK_UP = 1, 2
#: FD.io's Debian package of VPP and most plugins.
_PACKAGE = "vpp-plugin-core"

VppOptionsT = TypeVar("VppOptionsT", bound=VppOptions)


class VppForwarder(InstanceForwarder[VppOptionsT, Vpp], Counting, Changing):
    """What all VPP forwarders share; a subclass says how a port becomes an interface."""

    pipelines: ClassVar[tuple[str, ...]] = PIPELINES
    changes: ClassVar[tuple[str, ...]] = ("rule-stream", "hit-rule")
    own_links: ClassVar[tuple[str, ...]] = SPARE_LINKS
    #: The plugin that makes the interfaces, and FD.io's Debian package that it comes in.
    plugin: ClassVar[str]
    package: ClassVar[str] = _PACKAGE
    #: The message that makes an interface; a VPP without it has not got the plugin.
    creates: ClassVar[str] = ""
    #: How a connection to a VPP of this machine is made; `python tools/dev record` and tests put theirs here.
    connect: Callable[[str, str], VppControl] = staticmethod(VppControl)

    def __init__(self, options: VppOptionsT) -> None:
        super().__init__(options)
        self._mode: dict[str, Any] = {}

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

    def unsupported(self, dut: Dut) -> str | None:
        """The program must be there, and a CPU for each worker."""
        program, reason = find_vpp(dut.host, self.options.vpp, self.package)
        if program is None:
            return reason
        if lacks := lacking("vpp"):
            return f"VPP's API: {lacks}"
        if len(self._worker_cpus(dut)) < self.options.workers:
            return (
                f"workers={self.options.workers}: a CPU of its own is needed for each; there are "
                f"{len(self._worker_cpus(dut))} besides those of the tester and of VPP's main thread"
            )
        return None

    def program(self, host: Host) -> str:
        """Path of VPP.

        Raises:
            Unsupported: it is not there.
        """
        program, reason = find_vpp(host, self.options.vpp, self.package)
        if program is None:
            raise Unsupported(reason)
        return program

    def start(self, dut: Dut) -> None:
        """Process, API, interfaces, pipeline; each is read back."""
        vpp = self.instance = self._started(self.program(dut.host), dut)
        try:
            vpp.wait()
        except PointFailed:
            if vpp.complaint(f"unknown input `{self.plugin} "):
                raise Unsupported(f"this VPP has no {self.plugin} plugin (FD.io's package {self.package})") from None
            raise
        vpp.connect(partial(remote.connect, dut.host, vpp.link_log) if isinstance(dut.host, SshHost) else self.connect)
        control = vpp.control
        version = str(control.call("show_version")["version"])
        if numbers(version) < OLDEST:
            raise Unsupported(
                f"VPP {version} is older than {OLDEST[0]}.{OLDEST[1]:02}; "
                f"install a newer {self.package}, or name one with the option vpp=PATH"
            )
        if self.creates and not control.has(self.creates):
            raise Unsupported(f"VPP {version} has no {self.plugin} plugin (FD.io's package {self.package})")
        self.require(control, version)
        pipelines.require(control, dut.pipeline.kind, version, _PACKAGE)
        indexes = self.attach(control, dut)
        vpp.interfaces = [
            Interface(port.ifname, index, vpp.row(index)["interface_name"])
            for port, index in zip(dut.ports, indexes, strict=True)
        ]
        for interface in vpp.interfaces:
            self._set_up(interface)
        pipelines.set_up(control, dut, indexes)
        self._mode = {"version": version, "interfaces": self._read_back()}

    def require(self, control: VppControl, version: str) -> None:
        """Check what the options need of this version.

        Raises:
            Unsupported: it has not got it.
        """

    def forwarding_threads(self) -> dict[int, int]:
        """The workers, or the main thread when there are none."""
        return self.instance.threads(r"vpp_wk_\d+" if self.options.workers else "vpp_main")

    def mode(self) -> dict[str, Any]:
        """What VPP said of itself and its interfaces when it had been set up."""
        return {"vpp": self._mode}

    def counters(self) -> dict[str, Any]:
        """Packets in and out of each interface and what went wrong, by the statistics segment; what nodes cost."""
        vpp, control = self.instance, self.instance.control
        control.call("control_ping")  # the segment can be read for long after VPP has died
        found: dict[str, Any] = {each.name: control.interface_statistics(each.index) for each in vpp.interfaces}
        return {**found, "errors": control.errors(), **vpp.nodes.read(control.cli)}

    def free_buffers(self) -> int:
        """Of all pools. VPP 26.10 loses some 510 at each deletion of an AF_XDP interface."""
        return self.instance.control.free_buffers()

    def rule_hits(self) -> dict[str, int]:
        """Of access lists, and of the policer."""
        control, dut = self.instance.control, self.instance.dut
        return pipelines.metered(control) if dut.pipeline.kind == "meter" else pipelines.rule_hits(control, dut)

    def cannot_change(self, kind: str, dut: Dut) -> str | None:
        """There is a rule that the traffic meets where it is routed."""
        if kind == "hit-rule" and dut.pipeline.kind != "route":
            return f"change hit-rule: pipeline {dut.pipeline} has no route in {self.name}"
        return super().cannot_change(kind, dut)

    def change(self, kind: str, count: int) -> Change:
        return VppChanges(self.instance, self.attach, self.detach).change(kind, count)

    def versions(self, host: Host) -> Mapping[str, str]:
        """Version of the VPP that the option names, or that is found without it."""
        program, _ = find_vpp(host, self.options.vpp, _PACKAGE)
        return {f"vpp {self.options.vpp}".rstrip(): installed_version(host, program) if program else "not installed"}

    def complaint(self, word: str) -> str:
        """What VPP's log says about it, for an error code that does not."""
        return self.instance.complaint(word)

    def _started(self, program: str, dut: Dut) -> Vpp:
        variables = self.variables(dut)
        return Vpp(dut, program, sorted({variables["main_cpu"], *variables["worker_cpus"]}), variables, self.detach)

    def variables(self, dut: Dut) -> dict[str, Any]:
        """Of `vpp/startup.conf.j2`, but those of the run directory."""
        main = dut.layout.housekeeping[0] if self.options.workers else dut.layout.forwarder
        workers = self._worker_cpus(dut)[: self.options.workers]
        return {
            "buffers": self.options.buffer_count,
            "page_size": self.options.page_size,
            "main_cpu": main,
            "worker_cpus": workers,
            "plugins": [self.plugin, *pipelines.plugins(dut.pipeline.kind)],
            "vdevs": [],
            "cards": {},
            "raw": self.options.raw_of("startup"),
            **self.startup(dut),
        }

    def _worker_cpus(self, dut: Dut) -> list[int]:
        """The forwarder's CPU, then those that neither the tester nor VPP's main thread uses."""
        taken = {dut.layout.tester_tx, dut.layout.forwarder, dut.layout.dut_napi, *dut.layout.housekeeping[:1]}
        return [dut.layout.forwarder, *(cpu for cpu in dut.layout.housekeeping[1:] if cpu not in taken)]

    def _set_up(self, interface: Interface) -> None:
        """Admin state and receive mode, queues spread over the workers."""
        vpp, control = self.instance, self.instance.control
        control.call("sw_interface_set_flags", sw_if_index=interface.index, flags=_ADMIN_UP)
        flags = vpp.row(interface.index)["flags"]
        if not flags & _ADMIN_UP:
            raise PointFailed(f"{self.name}: {interface.name} was set up and is down")
        wanted = _RX_MODES[self.options.rx_mode]
        try:
            control.call("sw_interface_set_rx_mode", sw_if_index=interface.index, queue_id_valid=False, mode=wanted)
        except VppRefused as exc:
            raise Unsupported(f"rx_mode={self.options.rx_mode}: {exc}; {self.complaint('mode')}") from None
        for queue in vpp.queues(interface) if self.options.workers > 1 else ():
            worker = queue["queue_id"] % self.options.workers
            control.call(
                "sw_interface_set_rx_placement",
                sw_if_index=interface.index,
                queue_id=queue["queue_id"],
                worker_id=worker,
                is_main=False,
            )
        queues = vpp.queues(interface)
        if len(queues) != self.options.n_rxq:
            raise Unsupported(f"n_rxq={self.options.n_rxq}: VPP made {len(queues)} queues on {interface.ifname}")
        if {queue["mode"] for queue in queues} != {wanted}:
            raise Unsupported(f"rx_mode={self.options.rx_mode}: VPP took it and did not switch: {queues}")

    def _read_back(self) -> list[dict[str, Any]]:
        """Per interface: name, device, link, where each queue is received how, and what VPP prints of it."""
        vpp = self.instance
        names = {number: name for name, number in _RX_MODES.items()}
        found = []
        for interface in vpp.interfaces:
            row = vpp.row(interface.index)
            hardware = vpp.control.cli(f"show hardware-interfaces {interface.name}")
            self.confirm(interface, hardware)
            queues = [
                {"queue": each["queue_id"], "worker": each["worker_id"], "mode": names[each["mode"]]}
                for each in vpp.queues(interface)
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


# VPP, changed while frames run through it, by its API. It has no transaction of several routes.

#: Routes of a round: to remove one of 1,000 took VPP 26.10 6 ms, one of 25 1 ms; rounds follow one another in a trial.
_OF_A_ROUND = 25


class VppChanges:
    """The changes of a VPP."""

    def __init__(
        self,
        vpp: Vpp,
        attach: Callable[[VppControl, Dut], list[int]],
        detach: Callable[[VppControl, Interface], None],
    ) -> None:
        """Args: the VPP, and how an interface of it is made and removed (`VppForwarder`)."""
        self._vpp = vpp
        self._control = vpp.control
        self._attach = attach
        self._detach = detach

    def change(self, kind: str, count: int) -> Change:
        """Routes in a message each, the routes in use, or an interface."""
        if kind == "port-added":
            return self._port()
        if kind == "hit-rule":
            return self._same_routes()
        control = self._control
        routes = [f"{IPv4Address(each)}/32" for each in spare_addresses(min(count, _OF_A_ROUND))]

        def to(add: bool) -> None:
            for route in routes:
                pipelines.drop(control, route, add=add)

        def there() -> int:
            return sum(_there(control, route) for route in {routes[0], routes[-1]})

        asked = len({routes[0], routes[-1]})
        steps = [
            Step(name, len(routes), partial(to, add), count_differs("of the first and the last route", left, there))
            for name, add, left in (("installed", True, asked), ("removed", False, 0))
        ]

        def undo() -> None:
            if there():
                to(False)

        return Change(steps, undo, often=True)

    def _same_routes(self) -> Change:
        """Each replaced by one over the same neighbour that differs in its preference alone."""
        control, indexes = self._control, [each.index for each in self._vpp.interfaces]
        both = list(zip(sides(self._vpp.dut), indexes, strict=True))

        def to(preference: int) -> None:
            for side, index in both:
                pipelines.route(control, side, index, preference)

        def seen(preference: int) -> Callable[[], int]:
            return lambda: sum(_preference(control, str(side.network)) == preference for side, _ in both)

        steps = [
            Step(name, len(both), partial(to, preference), count_differs("new routes", len(both), seen(preference)))
            for name, preference in (("replaced", 1), ("replaced-back", 0))
        ]
        return Change(steps, lambda: to(0), often=True)

    def _port(self) -> Change:
        control, dut = self._control, self._vpp.dut
        spare = add_spare_link(dut.host, dut.ports[0])
        made: list[Interface] = []

        def add() -> None:
            (index,) = self._attach(control, replace(dut, ports=(spare,)))
            made.append(Interface(spare.ifname, index, self._vpp.row(index)["interface_name"]))

        def remove() -> None:
            while made:
                self._detach(control, made.pop())

        def there() -> int:
            return len(control.dump("sw_interface_dump")) - before

        before = len(control.dump("sw_interface_dump"))
        return port_change(dut.host, add, remove, there)


def _found(control: VppControl, route: str) -> dict[str, Any] | None:
    try:
        return dict(control.call("ip_route_lookup", table_id=0, exact=1, prefix=route)["route"])
    except VppRefused:
        return None


def _there(control: VppControl, route: str) -> bool:
    return _found(control, route) is not None


def _preference(control: VppControl, route: str) -> int | None:
    found = _found(control, route)
    return int(found["paths"][0]["preference"]) if found and found["paths"] else None
