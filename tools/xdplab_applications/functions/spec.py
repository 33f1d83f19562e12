# SPDX-License-Identifier: Apache-2.0
"""What a study may ask of method `functions`: a matrix that becomes forwarders."""

import itertools
from typing import Annotated, Literal

from pydantic import Field, field_validator

from xdplab.api import ForwarderSpec, MethodSpec, NfMode, PointFigures, Published
from xdplab_applications.functions.nf import KEEP_ADDRESSES, TABLES, NfFunction, NfPoint, NfTraffic

Entries = Annotated[int, Field(ge=1, le=1_000_000)]


class FunctionFigures(PointFigures):
    """Which function it is, and misses of the last-level cache on its core."""

    #: With all its sizes.
    function: NfPoint | None = None
    #: Of each repetition next to a server or a job: their number, or why it is not known.
    cache_misses: tuple[str, ...] = ()


class FunctionsSpec(MethodSpec):
    """Method `functions`: functions x modes x table sizes x added work, each a forwarder `nf`, at kinds of traffic.

    `firewall+load_balancer` is a chain.
    """

    name: Literal["functions"]
    #: What becomes of the frames; each is a point.
    traffic: tuple[NfTraffic, ...] = Field(default=("dropped", "pass-through", "mixed"), min_length=1)

    #: Functions, and chains of them.
    functions: tuple[str, ...] = Field(min_length=1)
    #: Where they run.
    modes: tuple[NfMode, ...] = Field(min_length=1)
    #: Entries of the access list, sessions, routes: as many flows, up to 160,000, are in the traffic.
    table_entries: tuple[Entries, ...] = (1000,)
    #: Rounds of some 40 cycles per frame.
    work_iterations: tuple[Annotated[int, Field(ge=0, le=4096)], ...] = (0,)
    #: Dependent reads per frame in an array of `work_bytes`.
    work_lookups: tuple[Annotated[int, Field(ge=0, le=1024)], ...] = (0,)
    #: Size of that array.
    work_bytes: int = Field(default=1 << 24, ge=64, le=1 << 30)
    #: Of traffic `mixed`, which is that of chains that begin with a firewall: flows that it denies.
    drop_percents: tuple[Annotated[int, Field(ge=0, le=100)], ...] = (0, 50, 100)
    #: Frames per second that the firewall drops while a web server or a job runs on its core (traffic web, job).
    flood_pps: tuple[Annotated[float, Field(ge=0, le=1e8)], ...] = (0,)
    #: Of the AF_XDP sockets.
    rx_rings: tuple[Annotated[int, Field(ge=8, le=32768)], ...] = (2048,)
    #: Queues of each port, each with a core of its own; flows are spread over them by the card.
    cores: tuple[Annotated[int, Field(ge=1, le=16)], ...] = (1,)
    #: Ways of the last-level cache that the card writes into; 0: as it is.
    ddio_ways: tuple[Annotated[int, Field(ge=0, le=11)], ...] = (0,)

    #: Length of a trial.
    duration_s: float = Field(default=1.0, ge=0.05, le=3600)
    #: Traffic before it, which is not counted.
    warmup_s: float = Field(default=0.2, ge=0.05, le=60)
    #: What others found, to stand next to ours.
    published: Published | None = None

    @field_validator("functions")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        known = NfFunction.__args__  # type: ignore[attr-defined]
        for name in itertools.chain.from_iterable(chain.split("+") for chain in value):
            if name not in known:
                raise ValueError(f"{name!r} is none of {', '.join(known)}")
        return value

    def points(self) -> list[NfPoint]:
        """All of them; a size that a function has no table for, and work of none, count as equal."""
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

    def cases(self) -> dict[str, tuple[NfPoint, tuple[NfTraffic, ...]]]:
        """Title -> the point, and the kinds of traffic that are its."""
        made: dict[str, tuple[NfPoint, tuple[NfTraffic, ...]]] = {}
        for point in self.points():
            if "firewall" not in point.functions[:-1]:
                local: tuple[NfTraffic, ...] = ("local",) if KEEP_ADDRESSES.issuperset(point.functions) else ()
                made[point.title] = (point, ("dropped", "pass-through", *local))
                if point.functions == ("firewall",):
                    flooded = [self._of(point, f"next to {pps:.0f} pps", flood_pps=pps) for pps in self.flood_pps]
                    made |= {each.title: (each, ("web", "job")) for each in flooded}
                continue
            # what the firewall lets through goes on
            mixed = [self._of(point, f"{share} % dropped", ", ", drop_percent=share) for share in self.drop_percents]
            made |= {each.title: (each, ("mixed",)) for each in mixed}
        return {
            title: (point, kinds) for title, (point, own) in made.items()
            if (kinds := tuple(kind for kind in self.traffic if kind in own))
        }  # fmt: skip

    def forwarders(self) -> tuple[ForwarderSpec, ...]:
        return tuple(
            ForwarderSpec(name="nf", options=point.options(), label=title) for title, (point, _) in self.cases().items()
        )

    @staticmethod
    def _of(point: NfPoint, words: str, between: str = " ", **changes: float) -> NfPoint:
        return point.model_copy(update={**changes, "group": f"{point.group}{between}{words}"})
