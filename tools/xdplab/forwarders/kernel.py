# SPDX-License-Identifier: Apache-2.0
"""Forwarders inside the kernel: XDP_REDIRECT and the Linux bridge. They run where NAPI runs."""

import signal
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, ClassVar, Literal

from xdplab.forwarders.base import Dut, Forwarder, NoOptions
from xdplab.forwarders.changes import SPARE_LINKS, Change, add_spare_link, port_change
from xdplab.forwarders.process import Program, json_lines, wait_until
from xdplab.forwarders.work import VLAN, VNI, VXLAN_PORT, sides
from xdplab.hosts import Host
from xdplab.hosts.kernel import link_counters
from xdplab.model import Model, PointFailed, Unsupported
from xdplab.tools import bpf_program, not_built

#: Not `br0`, which a machine may have.
_BRIDGE = "xdplab0"
_TUNNEL = "xdplab-vxlan"


class XdpOptions(Model):
    """Where the XDP program is attached."""

    mode: Literal["native", "generic"] = "native"


class XdpForwarder(Program[XdpOptions]):
    """`bpf/xdpfwd`: redirect between the ports by a devmap; XDP_TX on `hairpin`."""

    name: ClassVar[str] = "xdp"
    program: ClassVar[str] = "xdpfwd"
    options_model: ClassVar[type[Model]] = XdpOptions
    redirects: bool = True
    cumulative: ClassVar[bool] = True

    def __init__(self, options: XdpOptions) -> None:
        super().__init__(options)
        self._host: Host | None = None
        self._output = FilePath()
        self._roles: tuple[str, ...] = ()

    def supported(self, dut: Dut) -> str | None:
        """The program must be built."""
        return None if bpf_program("xdpfwd") else not_built("xdpfwd")

    def start(self, dut: Dut) -> None:
        """Attach and wait for the ready line."""
        program = bpf_program("xdpfwd")
        assert program is not None
        self._host, self._output = dut.host, dut.rundir / "xdpfwd.out"
        self._roles = tuple(port.role for port in dut.ports)
        names = [f"--if{index}={port.ifname}" for index, port in enumerate(dut.ports)]
        flags = ["--hairpin"] if dut.hairpin else []
        self._running = dut.host.start(
            [dut.host.program(program), *names, f"--mode={self.options.mode}", *flags],
            log=dut.rundir / "xdpfwd.log",
            stdout=self._output,
            cpus=dut.layout.housekeeping,
        )

        self._until(lambda: bool(self._events()), 5.0, "ready line of xdpfwd")

    def pids(self) -> tuple[int, ...]:
        """Its frames are forwarded in softirqs, and not by the loader."""
        return ()

    def counters(self) -> dict[str, Any]:
        """Port -> frames that came in (`rx`), that it sent on to the other port, and that this one did not take."""
        if self._running is None:
            return {}
        before = len(self._events())
        self._running.signal(signal.SIGUSR1)
        wait_until(lambda: len(self._events()) > before or self.crashed() is not None, 1.0, "xdp: counters of xdpfwd")
        told = {name: values for name, values in self._events()[-1].items() if isinstance(values, list)}
        return {role: {name: values[i] for name, values in told.items()} for i, role in enumerate(self._roles)}

    def why_silent(self) -> str:
        """It says so when a port drops all that it is given."""
        self.counters()
        return "".join(f": {line}" for line in self.log_tail()[-1:])

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """The project's own program."""
        return {"xdpfwd": "built" if bpf_program("xdpfwd") else "not built"}

    def _events(self) -> list[dict[str, Any]]:
        assert self._host is not None
        return json_lines(self._host, self._output)


class LinuxBridge(Forwarder[NoOptions]):
    """A kernel bridge over the ports: the software switch that every distribution has."""

    name: ClassVar[str] = "linux-bridge"
    cumulative: ClassVar[bool] = True
    own_links: ClassVar[tuple[str, ...]] = (_BRIDGE, _TUNNEL, *SPARE_LINKS)
    changes: ClassVar[tuple[str, ...]] = ("port-added",)
    pipelines: ClassVar[tuple[str, ...]] = ("cross", "bridge", "vlan", "vxlan")

    def __init__(self, options: NoOptions) -> None:
        super().__init__(options)
        self._dut: Dut | None = None

    def supported(self, dut: Dut) -> str | None:
        """A tunnel gives a port an address, which goes with a namespace of the run."""
        if dut.pipeline.kind == "vxlan" and any(port.lasting for port in dut.ports):
            return "linux-bridge: a tunnel takes routes of a whole host, which only a namespace of the run loses again"
        return None

    def start(self, dut: Dut) -> None:
        """`cross`, and a tunnel: a bridge without learning floods every frame, which with two ports is forwarding."""
        self._dut = dut
        host, kind = dut.host, dut.pipeline.kind
        tagging = ["vlan_filtering", "1", "vlan_default_pvid", "0"] if kind == "vlan" else []
        made = host.run(["ip", "link", "add", _BRIDGE, "type", "bridge", "mcast_snooping", "0", *tagging], check=False)
        if made.returncode and tagging and "not supported" in made.complaint:
            raise Unsupported("this kernel's bridges know no VLANs (CONFIG_BRIDGE_VLAN_FILTERING)")
        if made.returncode:
            raise PointFailed(f"{self.name}: {made.complaint}")
        ports = [port.ifname for port in dut.ports]
        learning = "off" if kind in ("cross", "vxlan") else "on"
        options = f"learning {learning} hairpin {'on' if dut.hairpin else 'off'}"
        lines = []
        for ifname in ports if kind != "vxlan" else [ports[0], self._tunnel(dut)]:
            lines += [f"link set {ifname} master {_BRIDGE}", f"link set {ifname} type bridge_slave {options}"]
        host.run(["ip", "-batch", "-"], stdin="\n".join([*lines, f"link set {_BRIDGE} up"]) + "\n")
        if kind == "vlan":
            access, trunk = ports
            host.run(["bridge", "vlan", "add", "dev", access, "vid", str(VLAN), "pvid", "untagged"])
            host.run(["bridge", "vlan", "add", "dev", trunk, "vid", str(VLAN)])

    def stop(self) -> None:
        """Remove the bridge; its ports become free."""
        if self._dut is None:
            return
        dut, self._dut = self._dut, None
        dut.host.run(["ip", "link", "delete", _BRIDGE], check=False)
        if dut.pipeline.kind == "vxlan":
            _, there = sides(dut)
            dut.host.run(["ip", "link", "delete", _TUNNEL], check=False)
            dut.host.run(["ip", "neigh", "delete", there.next_hop, "dev", there.ifname], check=False)
            dut.host.run(["ip", "address", "delete", f"{there.address}/32", "dev", there.ifname], check=False)

    def _tunnel(self, dut: Dut) -> str:
        """The device that stands for the other side; it learns nothing and asks for no address."""
        _, there = sides(dut)
        ends = ["local", there.address, "remote", there.next_hop, "dstport", str(VXLAN_PORT)]
        made = dut.host.run(
            ["ip", "link", "add", _TUNNEL, "type", "vxlan", "id", str(VNI), *ends, "nolearning"], check=False
        )
        if made.returncode and "nknown device type" in made.complaint:
            raise Unsupported("this kernel has no VXLAN (CONFIG_VXLAN)")
        if made.returncode:
            raise PointFailed(f"{self.name}: {made.complaint}")
        lines = [
            f"addr replace {there.address}/32 dev {there.ifname}",
            f"neigh replace {there.next_hop} lladdr {there.peer_mac} dev {there.ifname} nud permanent",
            f"route replace {there.next_hop}/32 dev {there.ifname} src {there.address}",
            f"link set {_TUNNEL} up",
        ]
        dut.host.run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
        return _TUNNEL

    def change(self, kind: str, count: int) -> Change:
        """A port that is added."""
        assert self._dut is not None
        host, name = self._dut.host, add_spare_link(self._dut.host, self._dut.ports[0]).ifname

        def there() -> int:
            return host.run(["ip", "-br", "link", "show", "master", _BRIDGE]).stdout.count(f"{name}@")

        def add() -> None:
            host.run(["ip", "link", "set", name, "master", _BRIDGE])

        def remove() -> None:
            host.run(["ip", "link", "set", name, "nomaster"], check=False)  # it may be gone; `there` is read back

        return port_change(host, add, remove, there)

    def mode(self) -> dict[str, Any]:
        """It forwards skbs."""
        return {"label": "kernel bridge"}

    def counters(self) -> dict[str, Any]:
        """Interface counters of the ports."""
        if self._dut is None:
            return {}
        return {port.role: link_counters(self._dut.host, port.ifname) for port in self._dut.ports}

    @classmethod
    def versions(cls, host: Host) -> Mapping[str, str]:
        """The kernel's."""
        return {"iproute2": host.run(["ip", "-V"]).stdout.split()[-1]}
