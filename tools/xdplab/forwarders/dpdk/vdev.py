# SPDX-License-Identifier: Apache-2.0
"""DPDK's virtual devices net_af_xdp and net_af_packet (doc/guides/nics): the ports of every program on DPDK."""

from typing import Annotated, Any, Literal

from pydantic import Field

from xdplab.forwarders.options import Key, fields
from xdplab.model import Model

#: 2 MiB pages that OVS-DPDK and testpmd are given when asked to run on hugepages.
_HUGEPAGES_2M = 384
_DRIVERS = {"af_xdp": "AF_XDP", "af_packet": "AF_PACKET"}


class PortOptions(Model):
    """Which device a port is."""

    port: Literal["af_xdp", "af_packet"] = "af_xdp"
    #: Of net_af_xdp.
    busy_budget: Annotated[int, Field(ge=0, le=65535), Key("af_xdp", ("busy_budget",))] = 64

    def device(self, index: int, ifname: str) -> str:
        """Name and arguments of the device on an interface."""
        own = {"iface": ifname, **fields(self, self.port), **({} if self.port == "af_xdp" else {"qdisc_bypass": 1})}
        return ",".join([f"net_{self.port}{index}", *(f"{name}={value}" for name, value in own.items())])

    def in_words(self, program: str) -> tuple[str, frozenset[str]]:
        """What a program on such ports is in plain words, and the options that these cover."""
        return f"{program} on {_DRIVERS[self.port]}", frozenset({"port"})

    def label(self) -> dict[str, Any]:
        """For the mode: of net_af_packet nothing else says it; net_af_xdp is read from the kernel."""
        return {"label": "dpdk af_packet"} if self.port == "af_packet" else {}


class VdevOptions(PortOptions):
    """And on which pages the program's memory is."""

    hugepages: bool = False

    def required_knobs(self) -> dict[str, int]:
        """Hugepages are reserved and given back by the run."""
        return {"hugepages_2m": _HUGEPAGES_2M} if self.hugepages else {}
