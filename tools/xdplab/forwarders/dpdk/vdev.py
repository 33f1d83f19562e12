# SPDX-License-Identifier: Apache-2.0
"""Ports of every program on DPDK: its virtual devices net_af_xdp and net_af_packet, or cards with its own drivers.

Source: doc/guides/nics, and doc/guides/linux_gsg/linux_drivers.rst.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from xdplab.forwarders.base import Dut
from xdplab.forwarders.options import Key, RawOptions, fields
from xdplab.testbed import Port
from xdplab.testbed.cards import SHARING, VFIO, bound_driver, why_not_taken, without_iommu

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
