# SPDX-License-Identifier: Apache-2.0
"""The ports of A and C as applications use them: addresses, offloads, MTU, a VLAN; and what their kernels count."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xdplab.api import (
    PointFailed,
    Port,
    Unsupported,
    XdplabError,
    bpf_program,
    is_veth,
    link_mtu,
    napi_on,
    port_offloads,
)
from xdplab_applications import servers
from xdplab_applications.applications.spec import Feature

_READY_S = 5.0
#: What ethtool calls them, in the order in which they can be switched on: a segment needs a checksum.
_SWITCHES: dict[Feature, tuple[str, ...]] = {
    "checksum": ("tx", "sg"),
    "segmentation": ("tso", "gso"),
    "vlan": ("txvlan",),
    "gro": ("gro",),
}
#: What shows that one is on.
_SHOWN: dict[Feature, str] = {
    "checksum": "tx-checksumming",
    "segmentation": "tcp-segmentation-offload",
    "vlan": "tx-vlan-offload",
    "gro": "generic-receive-offload",
}
#: Those of A and C; the rest is of the forwarder's ports.
_OF_ENDS: tuple[Feature, ...] = ("checksum", "segmentation", "vlan")


@dataclass(frozen=True)
class TcpCounts:
    """Counters of the kernels of both ends (RFC 4022, and InCsumErrors of Linux)."""

    segments: int
    retransmitted: int
    #: Segments that arrived with a wrong checksum.
    checksum_errors: int

    @property
    def retransmitted_ratio(self) -> float:
        """Of all segments that left; `segments` are those that were sent for the first time."""
        return self.retransmitted / max(1, self.segments + self.retransmitted)

    def since(self, before: "TcpCounts") -> "TcpCounts":
        """What came after an earlier reading."""
        return TcpCounts(
            self.segments - before.segments,
            self.retransmitted - before.retransmitted,
            self.checksum_errors - before.checksum_errors,
        )


@dataclass(frozen=True)
class Ends:
    """Both ports, those of the forwarder, and what they are set to."""

    client: Port
    server: Port
    #: None where A and C are connected directly.
    forwarders: tuple[Port, ...]
    offloads: tuple[Feature, ...] = ()
    #: 0: as it is.
    mtu: int = 0
    vlan: int | None = None
    #: Offloads that cannot be switched on are left off.
    best_effort: bool = False

    @property
    def ports(self) -> tuple[Port, Port]:
        return self.client, self.server

    @property
    def addresses(self) -> tuple[str, str]:
        return self.client.address or servers.CLIENT, self.server.address or servers.SERVER

    @property
    def server_address(self) -> str:
        return self.addresses[1]

    def why_not(self) -> str | None:
        """None, or why no application can run on them."""
        if self.client.simulated:
            return "the ports are simulated: applications need a kernel at both ends"
        if self.client.host is self.server.host:
            return "both ports are in one namespace, whose kernel would not send frames; another tester has two"
        if not self.forwarders and (left := [each for each in self.offloads if each not in _OF_ENDS]):
            return f"offloads {'+'.join(left)}: of the forwarder's ports, and A and C are connected directly"
        if self.client.address and self.client.lasting:
            return "pipeline openflow needs the embedded testbed: on other ports a killed run would leave its addresses"
        if self.vlan is not None and self.client.lasting:
            return "vlan needs the embedded testbed: on other ports a killed run would leave the tags"
        return None

    @contextlib.contextmanager
    def in_use(self, folder: Path) -> Iterator[None]:
        """Set them up, then restore everything. `folder`: made on both hosts, for what programs write."""
        with contextlib.ExitStack() as stack:
            for port in self.ports:
                port.host.make_folder(folder)
                stack.callback(port.host.remove_folder, folder)
            for port in (*self.ports, *self.forwarders):
                stack.callback(_switch, port, port_offloads(port.host, port.ifname))
            # veth takes frames that XDP redirects only with NAPI; before offloads, for switching it resets them
            redirected_to = [(port.host, port.ifname) for port in self.ports if is_veth(port.host, port.ifname)]
            stack.enter_context(napi_on(redirected_to))
            for number, port in enumerate(self.ports):
                peer = self.ports[1 - number]
                stack.callback(_set_mtu, port, link_mtu(port.host, port.ifname))
                if self.mtu:
                    _set_mtu(port, self.mtu)
                if self.vlan is not None:
                    self._tag(stack, port, folder)
                if port.address:
                    _take_mac(stack, port)
                here, there = self.addresses[number], self.addresses[1 - number]
                port.host.run(["ip", "address", "add", here, "peer", there, "dev", port.ifname])
                stack.callback(_forget_address, port, here, there)
                if port.address:  # what is in between need not know ARP
                    port.host.run(["ip", "neighbour", "add", there, "lladdr", peer.mac, "dev", port.ifname])
            self.set_offloads(self.offloads)
            self.verify()
            yield

    def set_offloads(self, wanted: tuple[Feature, ...]) -> None:
        """Switch on what is wanted, and off what is not."""
        for port, feature in self._switched():
            _switch(port, {_SHOWN[feature]: "on" if feature in wanted else "off"})

    def verify(self) -> None:
        """Check that every offload that is wanted is on.

        Raises:
            Unsupported: a driver has it fixed, or veth has switched it off for the forwarder's XDP program.
        """
        for port, feature in () if self.best_effort else self.unavailable():
            raise Unsupported(
                f"offloads: {_SHOWN[feature]} stays off at {port.ifname}: its driver has it fixed, or it is a "
                "veth whose other end carries an XDP program in native mode"
            )

    def unavailable(self) -> list[tuple[Port, Feature]]:
        """Ports with an offload that was asked for and is off."""
        return [
            (port, feature)
            for port, feature in self._switched()
            if feature in self.offloads and port_offloads(port.host, port.ifname).get(_SHOWN[feature]) != "on"
        ]

    def without_unavailable(self) -> "Ends":
        """The same with the offloads alone that are on at both ports."""
        off = {feature for _, feature in self.unavailable()}
        return replace(self, offloads=tuple(each for each in self.offloads if each not in off))

    def set_mtu(self, mtu: int) -> None:
        for port in self.ports:
            _set_mtu(port, mtu)

    def counts(self) -> TcpCounts:
        """Counters of both kernels as they are now."""
        sums = [0, 0, 0]
        for port in self.ports:
            names, values = re.findall(r"^Tcp: (.*)$", port.host.run(["cat", "/proc/net/snmp"]).stdout, re.MULTILINE)
            found = dict(zip(names.split(), values.split(), strict=True))
            for place, name in enumerate(("OutSegs", "RetransSegs", "InCsumErrors")):
                sums[place] += int(found[name])
        return TcpCounts(*sums)

    def off(self, feature: Feature) -> str:
        """The command that switches an offload off, at one of the two ports that have it."""
        port = next(port for port, each in self._switched() if each == feature)
        return " ".join(
            ["ethtool", "-K", port.ifname, *(word for name in _SWITCHES[feature] for word in (name, "off"))]
        )

    def _switched(self) -> Iterator[tuple[Port, Feature]]:
        """Ports with what may be switched at each; the first of the two is A's, or b0."""
        for feature in _SHOWN:
            for port in self.ports if feature in _OF_ENDS else self.forwarders:
                yield port, feature

    def _tag(self, stack: contextlib.ExitStack, port: Port, folder: Path) -> None:
        """The port speaks in the VLAN only. By programs of tc: not every kernel has interfaces of VLANs."""
        argv = [bpf_program("xdpapp", port.host), "vlan", port.ifname, str(self.vlan)]
        process = port.host.converse(argv, log=folder / f"vlan-{port.role}.log")
        stack.callback(process.stop)
        try:
            ready = process.receive(_READY_S)
        except EOFError:
            ready = None
        if ready is None:
            raise PointFailed(" | ".join(process.log_tail(1)) or "xdpapp vlan: not ready")


def _switch(port: Port, wanted: Mapping[str, str]) -> None:
    """Bring offloads, by their long names, to `on` or `off`, as far as the driver has them."""
    found = port_offloads(port.host, port.ifname)
    for feature, shown in _SHOWN.items():
        value = wanted.get(shown, found.get(shown))
        if value != found.get(shown):
            for name in _SWITCHES[feature]:
                port.host.run(["ethtool", "-K", port.ifname, name, str(value)], check=False)


def _set_mtu(port: Port, mtu: int) -> None:
    if link_mtu(port.host, port.ifname) != mtu:
        try:
            port.host.run(["ip", "link", "set", "dev", port.ifname, "mtu", str(mtu)])
        except XdplabError as exc:
            raise Unsupported(f"mtu {mtu}: {exc}") from None


def _take_mac(stack: contextlib.ExitStack, port: Port) -> None:
    """The address of what the port stands for, which a rule may look at."""
    before = port.host.read(f"/sys/class/net/{port.ifname}/address").strip()
    stack.callback(port.host.run, ["ip", "link", "set", "dev", port.ifname, "address", before])
    port.host.run(["ip", "link", "set", "dev", port.ifname, "address", port.mac])


def _forget_address(port: Port, here: str, there: str) -> None:
    """Whatever else the port has by now is somebody else's."""
    port.host.run(["ip", "address", "delete", here, "peer", there, "dev", port.ifname], check=False)
    port.host.run(["ip", "neighbour", "delete", there, "dev", port.ifname], check=False)
