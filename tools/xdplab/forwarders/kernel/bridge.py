# SPDX-License-Identifier: Apache-2.0
"""The Linux bridge, with VLANs and VXLAN."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from xdplab.forwarders.base import Counting, Dut
from xdplab.forwarders.changes import SPARE_LINKS, Change, Changing, add_spare_link, port_change
from xdplab.forwarders.kernel.xdp import start_xdpfwd
from xdplab.forwarders.pods import ON_VETH, Pods, hops
from xdplab.forwarders.process import EventProcess, Instance, InstanceForwarder
from xdplab.forwarders.work import VLAN, VNI, VXLAN_PORT, sides
from xdplab.hosts import Host
from xdplab.hosts.bpf import why_not_built
from xdplab.hosts.kernel import ip_batch
from xdplab.model import Model, PointFailed, Unsupported, do_each
from xdplab.model.pipeline import SIZED

#: Not `br0`, which a machine may have; one for each pair of ports that containers stand between.
_BRIDGES = tuple(f"xdplab{number}" for number in range(SIZED["containers"] + 1))
_BRIDGE = _BRIDGES[0]
_TUNNEL = "xdplab-vxlan"


class BridgeOptions(Model):
    """What else stands on its ports."""

    #: How an XDP program that leaves every frame to the kernel, as an idle filter does, is attached to both ports: what
    #: it costs others. In native mode veth switches segmentation offload off at the other end.
    idle_xdp: Literal["none", "native", "generic"] = "none"


class _Bridge(Instance):
    """One over the ports of a DUT, or one on each side of a container."""

    def __init__(self, dut: Dut) -> None:
        super().__init__("linux-bridge", dut)
        self._pods = Pods(dut)
        self._pass: EventProcess | None = None

    def pass_by_xdp(self, mode: str) -> None:
        """Attach `bpf/xdpfwd --pass` to the tester's ports; before anything else, so that `stop` takes it off last.

        Raises:
            PointFailed: it did not start.
        """
        running, output = start_xdpfwd(self.dut, [port.ifname for port in self.dut.ports], mode, ["--pass"])
        self._pass = EventProcess(self.name, "xdpfwd", self.dut, running, output)
        self._pass.until_ready(5.0)

    def start(self) -> None:
        """`cross`, and a tunnel: a bridge without learning floods every frame, which with two ports is forwarding.

        Raises:
            PointFailed: the kernel refuses it.
            Unsupported: this kernel lacks a part.
        """
        dut, host, kind = self.dut, self.dut.host, self.dut.pipeline.kind
        tagging = ["vlan_filtering", "1", "vlan_default_pvid", "0"] if kind == "vlan" else []
        made = host.run(["ip", "link", "add", _BRIDGE, "type", "bridge", "mcast_snooping", "0", *tagging], check=False)
        if made.returncode and tagging and "not supported" in made.complaint:
            raise Unsupported("this kernel's bridges know no VLANs (CONFIG_BRIDGE_VLAN_FILTERING)")
        if made.returncode:
            raise PointFailed(f"linux-bridge: {made.complaint}")
        ports = [port.ifname for port in dut.ports]
        learning = "on" if kind in ("bridge", "vlan") else "off"
        options = f"learning {learning} hairpin {'on' if dut.hairpin else 'off'}"
        connected = self._connected(ports)
        lines = [f"link add {bridge} type bridge mcast_snooping 0" for bridge in _BRIDGES[1 : len(connected)]]
        for bridge, ends in zip(_BRIDGES, connected, strict=False):
            for ifname in ends:
                lines += [f"link set {ifname} master {bridge}", f"link set {ifname} type bridge_slave {options}"]
            lines.append(f"link set {bridge} up")
        ip_batch(host, lines)
        if kind == "vlan":
            access, trunk = ports
            host.run(["bridge", "vlan", "add", "dev", access, "vid", str(VLAN), "pvid", "untagged"])
            host.run(["bridge", "vlan", "add", "dev", trunk, "vid", str(VLAN)])

    def stop(self) -> None:
        """Remove the bridge; its ports become free."""
        host = self.dut.host
        commands = [["ip", "link", "delete", bridge] for bridge in _BRIDGES[: self.dut.pipeline.pods + 1]]
        if self.dut.pipeline.kind == "vxlan":
            _, there = sides(self.dut)
            commands.append(["ip", "link", "delete", _TUNNEL])
            commands.append(["ip", "neigh", "delete", there.next_hop, "dev", there.ifname])
            commands.append(["ip", "address", "delete", f"{there.address}/32", "dev", there.ifname])
        ends = [self._pods.remove, *([self._pass.stop] if self._pass else [])]
        do_each(self.name, *(partial(host.run, command, check=False) for command in commands), *ends)

    def _connected(self, ports: Sequence[str]) -> Sequence[Sequence[str]]:
        if self.dut.pipeline.kind == "vxlan":
            return [(ports[0], self._tunnel())]
        if not self.dut.pipeline.pods:
            return [ports]
        self._pods.add_links()
        self._pods.fill()
        return hops([ports[0], *self._pods.names, ports[1]])

    def ended(self) -> str | None:
        """Whether a program in a container ended, or that at the ports."""
        return self._pods.ended() or (self._pass.ended() if self._pass else None)

    def log_tail(self) -> tuple[str, ...]:
        return self._pass.log_tail() if self._pass else ()

    def _tunnel(self) -> str:
        """The device that stands for the other side; it learns nothing and asks for no address."""
        _, there = sides(self.dut)
        ends = ["local", there.address, "remote", there.next_hop, "dstport", str(VXLAN_PORT)]
        made = self.dut.host.run(
            ["ip", "link", "add", _TUNNEL, "type", "vxlan", "id", str(VNI), *ends, "nolearning"], check=False
        )
        if made.returncode and "nknown device type" in made.complaint:
            raise Unsupported("this kernel has no VXLAN (CONFIG_VXLAN)")
        if made.returncode:
            raise PointFailed(f"linux-bridge: {made.complaint}")
        lines = [
            f"addr replace {there.address}/32 dev {there.ifname}",
            f"neigh replace {there.next_hop} lladdr {there.peer_mac} dev {there.ifname} nud permanent",
            f"route replace {there.next_hop}/32 dev {there.ifname} src {there.address}",
            f"link set {_TUNNEL} up",
        ]
        ip_batch(self.dut.host, lines)
        return _TUNNEL


class LinuxBridge(InstanceForwarder[BridgeOptions, _Bridge], Counting, Changing):
    """A kernel bridge over the ports: the software switch that every distribution has."""

    name: ClassVar[str] = "linux-bridge"
    plain: ClassVar[str] = "Linux bridge"
    options_model: ClassVar[type[Model]] = BridgeOptions
    own_links: ClassVar[tuple[str, ...]] = (_BRIDGE, _TUNNEL, *SPARE_LINKS)
    changes: ClassVar[tuple[str, ...]] = ("port-added",)
    pipelines: ClassVar[tuple[str, ...]] = ("cross", "bridge", "vlan", "vxlan", *ON_VETH)

    def unsupported(self, dut: Dut) -> str | None:
        """Programs of containers are built; a tunnel's address goes with a namespace of the run."""
        if dut.pipeline.kind == "vxlan" and any(port.lasting for port in dut.ports):
            return "linux-bridge: a tunnel sets host-wide routes, which only go away with a namespace of the run"
        not_built = why_not_built("xdpfwd", dut.host) if self.options.idle_xdp != "none" else None
        return not_built or Pods(dut).missing()

    def start(self, dut: Dut) -> None:
        self.instance = _Bridge(dut)
        if self.options.idle_xdp != "none":
            self.instance.pass_by_xdp(self.options.idle_xdp)
        self.instance.start()

    def change(self, kind: str, count: int) -> Change:
        dut = self.instance.dut
        host, name = dut.host, add_spare_link(dut.host, dut.ports[0]).ifname

        def there() -> int:
            return host.run(["ip", "-br", "link", "show", "master", _BRIDGE]).stdout.count(f"{name}@")

        def add() -> None:
            host.run(["ip", "link", "set", name, "master", _BRIDGE])

        def remove() -> None:
            host.run(["ip", "link", "set", name, "nomaster"], check=False)  # it may be gone; `there` is read back

        return port_change(host, add, remove, there)

    def mode(self) -> dict[str, Any]:
        behind = "" if self.options.idle_xdp == "none" else f" behind XDP_PASS, {self.options.idle_xdp}"
        return {"label": f"kernel bridge{behind}"}

    def counters(self) -> dict[str, Any]:
        return self.instance.link_counters()

    def versions(self, host: Host) -> Mapping[str, str]:
        return {"iproute2": host.run(["ip", "-V"]).stdout.split()[-1]}
