# SPDX-License-Identifier: Apache-2.0
"""Forwarder `nf`, role `nf` of `bpf/xsk`: network functions as XDP program, as AF_XDP application, or as both."""

from typing import Any, ClassVar, Literal

from pydantic import field_validator

from xdplab.api import (
    Dut,
    Model,
    NfMode,
    Scalar,
    StreamSpec,
    XskForwarder,
    XskOptions,
    is_veth,
    pipeline_prefixes,
    pipeline_sides,
    validated,
)

NfFunction = Literal["router", "checksummer", "macswap", "firewall", "load_balancer"]
#: What becomes of the traffic: it is dropped, passes through, a share is dropped; local: requests to a memcached on the
#: same machine; web, job: what an nginx or a computing job on its core does while the firewall drops a flood.
NfTraffic = Literal["dropped", "pass-through", "mixed", "local", "web", "job"]

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


#: By workload, flows that a firewall denies, in percent; `mixed` has its own.
_DENIED: dict[NfTraffic, int] = {"dropped": 100, "pass-through": 0, "local": 0, "web": 100, "job": 100}

#: xdpgen: flows of a stream, and streams (address pairs) of a trial.
_FLOWS_PER_PAIR, _PAIRS = 10_000, 16
#: What does pipeline `route`.
_ROUTER: tuple[NfFunction, ...] = ("router",)
#: Flows enough for a card to spread over its queues.
_SPREAD_FLOWS = 1000


class XskFunctions(XskForwarder):
    """One network function, or a chain of them, between two ports."""

    name: ClassVar[str] = "nf"
    options_model: ClassVar[type[Model]] = NfPoint
    pipelines: ClassVar[tuple[str, ...]] = ("cross", "route")
    #: All modes of a function pay for the receiver that XDP_REDIRECT needs.
    redirects: bool = True
    #: Two million entries in the kernel take some seconds.
    ready_s: ClassVar[float] = 60.0

    def __init__(self, point: NfPoint, workload: NfTraffic = "pass-through", frame_bytes: int = 64) -> None:
        self._place = str(MODE_OPTIONS[point.mode]["place"])
        sockets = {key: value for key, value in MODE_OPTIONS[point.mode].items() if key != "place"}
        rings = {"rx_ring": point.rx_ring, "fill_ring": point.rx_ring}
        super().__init__(validated(XskOptions, {**sockets, **rings}, f"forwarder nf: {point.title}"))
        self._point = point
        self._workload = workload
        self._frame_bytes = frame_bytes
        self._routes = 0
        #: Where an application that takes all frames sends those of the local stack; set before it is started.
        self.stack_port: str | None = None

    @property
    def point(self) -> NfPoint:
        """Which function, in which mode, with what in its tables."""
        return self._point

    def in_words(self) -> tuple[str, frozenset[str]]:
        return self._point.title, frozenset(XskOptions.model_fields)

    def in_traffic(self, traffic: NfTraffic, frame_bytes: int) -> "XskFunctions":
        """The same for traffic of which this becomes."""
        return XskFunctions(self._point, traffic, frame_bytes)

    def required_knobs(self) -> dict[str, int]:
        """Ways of the cache, and queues."""
        return {**super().required_knobs(), **self._point.knobs}

    def unsupported(self, dut: Dut) -> str | None:
        """Several cores need CPUs, and a driver that spreads flows over queues; a router is the function `router`."""
        if dut.pipeline.kind == "route" and (reason := self._not_the_router()):
            return f"pipeline {dut.pipeline}: {reason}"
        cores, free = self._point.cores, len(self._cpus(dut))
        if cores > free:
            return f"{cores} cores: the tester leaves {free} of this machine's {len(dut.host.cpus)} CPUs"
        for port in dut.ports if cores > 1 else ():
            if is_veth(dut.host, port.ifname):
                return f"{cores} cores: veth gives all frames of a sender to one queue of {port.ifname}"
        return super().unsupported(dut)

    def _not_the_router(self) -> str | None:
        """What was asked for that the pipeline has of its own."""
        given = self._point.model_fields_set
        if "functions" in given and self._point.functions != _ROUTER:
            return f"{self.name} does it with functions=router, not {'+'.join(self._point.functions)}"
        if own := sorted(given & {"table_entries", "drop_percent", "flood_pps"}):
            return f"it has rules of its own: leave out {', '.join(own)}"
        if self._workload != "pass-through":
            return f"frames pass through it, not so in traffic {self._workload}"
        return None

    def idle_cores(self) -> str | None:
        """Asked after traffic: None, or that queues had no frame, so that fewer cores than asked for did the work."""
        if not self.takes_all or self._point.cores == 1:
            return None
        sockets = self.counters()["sockets"]
        first = [sock for sock in sockets if sock["ifname"] == sockets[0]["ifname"]]
        idle = [sock["queue"] for sock in first if not sock["rx"]]
        if not idle:
            return None
        return f"{self._point.cores} cores: no frame came in at queue {idle[0]} of {first[0]['ifname']}"

    def _cpus(self, dut: Dut) -> list[int]:
        """Those that may each have a queue: the forwarder's first, none of the tester's."""
        layout = dut.layout
        taken = {layout.forwarder, *((*layout.tx_cpus, layout.tester_rx) if dut.tester_here else ())}
        return [layout.forwarder, *(cpu for cpu in dut.host.cpus if cpu not in taken)]

    @property
    def takes_all(self) -> bool:
        """Whether no frame comes past the application."""
        return self._place == "af_xdp"

    @property
    def _flows(self) -> int:
        """As many as entries; where a share of them is denied, at least a hundred."""
        if self._workload == "mixed":
            return min(-(-self._point.table_entries // 100) * 100, _FLOWS_PER_PAIR * _PAIRS)
        least = _SPREAD_FLOWS if self._point.channels else 1
        return min(max(self._point.table_entries, least), _FLOWS_PER_PAIR * _PAIRS)

    def streams(self) -> tuple[StreamSpec, ...]:
        """Traffic whose flows are those of the tables: as fast as the tester sends, or the flood."""
        pairs = -(-self._flows // _FLOWS_PER_PAIR)
        return tuple(
            StreamSpec(
                kind="load",
                pps=self._point.flood_pps / pairs or None,
                frame_bytes=self._frame_bytes,
                flows=min(_FLOWS_PER_PAIR, self._flows - pair * _FLOWS_PER_PAIR),
                pair=pair,
            )
            for pair in range(pairs)
        )

    def frames_dropped(self) -> int:
        """By its own count, up to now, in the kernel and in user space."""
        return sum(int(half["dropped"]) for half in self.counters()["nf"].values())

    def _configuration(self, dut: Dut) -> dict[str, Any]:
        asked = {**super()._configuration(dut), "role": "nf", "trace": None}
        asked.pop("touch")
        if self._point.cores > 1:
            asked |= {"queues": self._point.cores, "cpus": self._cpus(dut)[: self._point.cores]}
        if self.stack_port:
            asked["ports"] = [*asked["ports"], {"ifname": self.stack_port}]
        work = {key: getattr(self._point, key) for key in ("work_iterations", "work_lookups", "work_bytes")}
        tables = self._router(dut) if dut.pipeline.kind == "route" else self._functions(dut)
        return {**asked, "nf": {**tables, **work, "place": self._place}}

    def _router(self, dut: Dut) -> dict[str, Any]:
        """Its routes, as the pipeline has them; what is not to be routed is the stack's, or nobody's."""
        both = pipeline_sides(dut)
        routes = [
            {"prefix": str(each), "hop": side.index} for side in both for each in pipeline_prefixes(dut.pipeline, side)
        ]
        self._routes = len(routes)
        return {
            "functions": list(_ROUTER),
            "own_address": True,
            "routes": len(routes),
            "route_list": routes,
            "next_hops": [{"mac": side.peer_mac, "port": side.index} for side in both],
        }

    def rule_count(self) -> tuple[int, int] | None:
        """Routes that the kernel has taken, where it routes."""
        tables = self._ready()["nf"]["xdp"] if self._routes else None
        return (int(tables["routes"]), self._routes) if tables else None

    def _functions(self, dut: Dut) -> dict[str, Any]:
        """Tables and verdict so that the workload's frames are dropped or come through."""
        point, workload = self._point, self._workload
        filters = "firewall" in point.functions
        denied = _DENIED.get(workload, point.drop_percent) if filters else 0
        entries = max(point.table_entries, self._flows)
        in_kernel = 1 if self._place == "combined" and len(point.functions) > 1 else None
        then = (
            "local" if workload in ("local", "web") else "drop" if workload == "dropped" and not filters else "forward"
        )
        far = {"mac": "02:00:00:00:00:01", "ip": "198.51.100.1", "port": len(dut.ports) - 1}
        return {
            "functions": list(point.functions),
            # of a chain only the first is the kernel's, and what passes it is handed on
            "xdp_functions": in_kernel,
            "then": then,
            "stack_port": self.stack_port is not None,
            "acl_entries": entries,
            "sessions": entries,
            "routes": entries,
            "drop_percent": denied,
            "flows": self._flows,
            "flows_per_pair": _FLOWS_PER_PAIR,
            "next_hops": [far],
        }
