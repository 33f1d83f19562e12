# SPDX-License-Identifier: Apache-2.0
"""Network functions: which, in which mode, with what in their tables; a matrix that becomes cases of a socket study."""

import itertools
from typing import Annotated, Literal

from pydantic import Field, field_validator

from xdplab.model.base import Model
from xdplab.model.study import Scalar

NfFunction = Literal["router", "checksummer", "macswap", "firewall", "load_balancer"]
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

Entries = Annotated[int, Field(ge=1, le=1_000_000)]


class NfMatrix(Model):
    """Functions x modes x table sizes x added work. `firewall+load_balancer` is a chain."""

    functions: tuple[str, ...] = Field(min_length=1)
    modes: tuple[NfMode, ...] = Field(min_length=1)
    #: Entries of the access list, sessions, routes: as many flows, up to 160,000, are in the traffic.
    table_entries: tuple[Entries, ...] = (1000,)
    #: Rounds of some 40 cycles per frame.
    work_iterations: tuple[Annotated[int, Field(ge=0, le=4096)], ...] = (0,)
    #: Dependent reads per frame in an array of `work_bytes`.
    work_lookups: tuple[Annotated[int, Field(ge=0, le=1024)], ...] = (0,)
    work_bytes: int = Field(default=1 << 24, ge=64, le=1 << 30)
    #: Of workload `mixed`, which is that of chains that begin with a firewall: flows that it denies.
    drop_percents: tuple[Annotated[int, Field(ge=0, le=100)], ...] = (0, 50, 100)
    #: Frames per second that the firewall drops while a web server or a job runs on its core (workloads web, job).
    flood_pps: tuple[Annotated[float, Field(ge=0, le=1e8)], ...] = (0,)
    #: Of the AF_XDP sockets.
    rx_rings: tuple[Annotated[int, Field(ge=8, le=32768)], ...] = (2048,)
    #: Queues of each port, each with a core of its own; flows are spread over them by the card.
    cores: tuple[Annotated[int, Field(ge=1, le=16)], ...] = (1,)
    #: Ways of the last-level cache that the card writes into; 0: as it is.
    ddio_ways: tuple[Annotated[int, Field(ge=0, le=11)], ...] = (0,)

    @field_validator("functions")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        known = NfFunction.__args__  # type: ignore[attr-defined]
        for name in itertools.chain.from_iterable(chain.split("+") for chain in value):
            if name not in known:
                raise ValueError(f"{name!r} is none of {', '.join(known)}")
        return value

    def points(self) -> list["NfPoint"]:
        """All of them; a size that a function has no table for, and work of none, is not told apart."""
        found: dict[str, NfPoint] = {}
        work = itertools.product(self.table_entries, self.work_iterations, self.work_lookups)
        machine = itertools.product(self.rx_rings, self.ddio_ways, self.cores)
        for ((entries, iterations, lookups), (ring, ways, cores)), chain, mode in itertools.product(
            list(itertools.product(work, machine)), self.functions, self.modes
        ):
            functions: tuple[NfFunction, ...] = tuple(chain.split("+"))  # type: ignore[arg-type]
            tables = not TABLES.isdisjoint(functions)
            group = [chain]
            group += [f"{entries} entries"] if tables and self.table_entries != (1000,) else []
            group += [f"{iterations} iterations"] if self.work_iterations != (0,) else []
            group += [f"{lookups} reads"] if self.work_lookups != (0,) else []
            group += [f"ring {ring}"] if self.rx_rings != (2048,) else []
            group += [f"{ways} DDIO ways" if ways else "DDIO as it is"] if self.ddio_ways != (0,) else []
            group += [f"{cores} cores"] if self.cores != (1,) else []
            point = NfPoint(
                functions=functions,
                mode=mode,
                group=", ".join(group),
                table_entries=entries if tables else 1,
                work_iterations=iterations,
                work_lookups=lookups,
                work_bytes=self.work_bytes,
                rx_ring=ring,
                cores=cores,
                ddio_ways=ways,
                channels=cores if self.cores != (1,) else 0,
            )
            found.setdefault(point.title, point)
        return list(found.values())


class NfPoint(Model):
    """One function (or chain) in one mode with one set of sizes."""

    functions: tuple[NfFunction, ...]
    mode: NfMode
    #: What its modes are compared within.
    group: str
    table_entries: int = 1000
    work_iterations: int = 0
    work_lookups: int = 0
    work_bytes: int = 1 << 24
    rx_ring: int = 2048
    cores: int = 1
    ddio_ways: int = 0
    #: Queues that the ports are set to have; 0: as they are.
    channels: int = 0
    #: Of workload `mixed`.
    drop_percent: int = 0
    #: Of workloads `web` and `job`.
    flood_pps: float = 0

    @property
    def title(self) -> str:
        """`router, af_xdp-poll`."""
        return f"{self.group}, {self.mode}"

    @property
    def knobs(self) -> dict[str, Scalar]:
        """Settings of the machine and its ports that make the point."""
        ways = {"ddio_ways": self.ddio_ways} if self.ddio_ways else {}
        return {**ways, **({"channels": self.channels} if self.channels else {})}
