# SPDX-License-Identifier: Apache-2.0
"""Network functions: which, in which mode, with what in their tables: the options of forwarder `nf`."""

from typing import Any, Literal

from pydantic import field_validator

from xdplab.model.base import Model
from xdplab.model.design import Scalar

NfFunction = Literal["router", "checksummer", "macswap", "firewall", "load_balancer"]
#: What becomes of the traffic: it is dropped, passes through, a share is dropped; local: requests to a memcached on the
#: same machine; web, job: what an nginx or a computing job on its core does while the firewall drops a flood.
NfTraffic = Literal["dropped", "pass-through", "mixed", "local", "web", "job"]
#: Where a function runs: XDP program; AF_XDP application that spins, sleeps in poll(), or polls the driver; and
#: `combined`: the verdict is the XDP program's, with the application's sockets open.
NfMode = Literal["xdp", "af_xdp", "af_xdp-poll", "af_xdp-bp", "combined", "combined-poll", "combined-bp"]

#: Options of `bpf/xsk` that make the mode.
MODE_OPTIONS: dict[NfMode, dict[str, Scalar]] = {
    "xdp": {"place": "xdp"},
    "af_xdp": {"place": "af_xdp"},
    "af_xdp-poll": {"place": "af_xdp", "wait": "poll"},
    "af_xdp-bp": {"place": "af_xdp", "busy_poll_us": 20, "busy_poll_budget": 64, "prefer_busy_poll": True},
    "combined": {"place": "combined"},
    "combined-poll": {"place": "combined", "wait": "poll"},
    "combined-bp": {"place": "combined", "busy_poll_us": 20, "busy_poll_budget": 64, "prefer_busy_poll": True},
}

#: Functions whose table has a size worth sweeping.
TABLES: frozenset[NfFunction] = frozenset({"router", "firewall", "load_balancer"})

#: Functions that leave addresses alone, so that the stack of this machine takes their frames.
KEEP_ADDRESSES: frozenset[NfFunction] = frozenset({"checksummer", "firewall"})


class NfPoint(Model):
    """One function (or chain) in one mode with one set of sizes."""

    #: The function, or those of a chain in their order.
    functions: tuple[NfFunction, ...] = ("macswap",)
    #: Where it runs.
    mode: NfMode = "xdp"
    #: What its modes are compared within.
    group: str = ""
    #: Entries of its table.
    table_entries: int = 1000
    #: Rounds of some 40 cycles that each frame costs more.
    work_iterations: int = 0
    #: Dependent reads that each frame costs more.
    work_lookups: int = 0
    #: Size of the array that they read.
    work_bytes: int = 1 << 24
    #: Of its AF_XDP sockets.
    rx_ring: int = 2048
    #: Queues of each port, each with a core of its own.
    cores: int = 1
    #: Ways of the last-level cache that the card writes into; 0: as it is.
    ddio_ways: int = 0
    #: Queues that the ports are set to have; 0: as they are.
    channels: int = 0
    #: Of traffic `mixed`: share of the flows that the firewall in front denies.
    drop_percent: int = 0
    #: Of traffic `web` and `job`: frames per second that the firewall drops meanwhile.
    flood_pps: float = 0

    @field_validator("functions", mode="before")
    @classmethod
    def _chain(cls, value: Any) -> Any:
        return value.split("+") if isinstance(value, str) else value

    @property
    def title(self) -> str:
        """`router, af_xdp-poll`."""
        return f"{self.group or '+'.join(self.functions)}, {self.mode}"

    def options(self) -> dict[str, Scalar]:
        """As options of forwarder `nf`."""
        dumped: dict[str, Scalar] = self.model_dump(mode="json", exclude_defaults=True)
        return {**dumped, "functions": "+".join(self.functions), "mode": self.mode}

    @property
    def knobs(self) -> dict[str, int]:
        """Settings of the machine and its ports that make the point."""
        ways = {"ddio_ways": self.ddio_ways} if self.ddio_ways else {}
        return {**ways, **({"channels": self.channels} if self.channels else {})}
