# SPDX-License-Identifier: Apache-2.0
"""What a study may ask of method `applications`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Literal, NamedTuple, Self, get_args

from pydantic import AfterValidator, Field

from xdplab.api import MethodSpec, Scalar

Kind = Literal["bulk", "requests", "connections", "udp", "iperf3", "web", "memcached"]
_MOST_CONNECTIONS = 100
Direction = Literal["forward", "backward", "both"]
Feature = Literal["checksum", "segmentation", "vlan", "gro"]
NO_OFFLOADS = "none"
#: Those that a container's veth is made with (drivers/net/veth.c), as far as its other end lets it.
DEFAULT_OFFLOADS = "default"
_OF_VETH: tuple[Feature, ...] = ("checksum", "segmentation")
#: An MTU.
_FORWARDERS = 0
#: VLAN of offload `vlan`, where the study has none.
_TAG = 10


class Workload(NamedTuple):
    """What the programs do, and over how many connections at the same time."""

    kind: Kind
    connections: int

    @classmethod
    def of(cls, text: str) -> Self:
        """`requests:16`, or `requests` for one connection.

        Raises:
            ValueError: there is no such workload.
        """
        name, _, number = text.partition(":")
        kinds: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
        if name not in kinds:
            raise ValueError(f"{name!r} is none of {', '.join(kinds)}")
        most = 1 if name == "udp" else _MOST_CONNECTIONS
        if number and not (number.isdecimal() and 1 <= int(number) <= most):
            raise ValueError(f"{text!r}: give 1 to {most} connections, as in `requests:16`")
        return cls(kinds[name], int(number or 1))

    def __str__(self) -> str:
        many = f", {self.connections} connections" if self.connections > 1 else ""
        return f"{self.kind}{many}"


def features_of(offloads: str) -> tuple[Feature, ...]:
    """`checksum+segmentation` -> both, and so does `default`; `none` -> ().

    Raises:
        ValueError: one of them is unknown, or stands there twice.
    """
    if offloads == NO_OFFLOADS:
        return ()
    if offloads == DEFAULT_OFFLOADS:
        return _OF_VETH
    known: dict[str, Feature] = {name: name for name in get_args(Feature)}
    asked = offloads.split("+")
    for name in asked:
        if name not in known:
            raise ValueError(
                f"{name!r} is not {NO_OFFLOADS}, {DEFAULT_OFFLOADS}, or some of {', '.join(known)} joined by +"
            )
    if len(set(asked)) < len(asked):
        raise ValueError(f"{offloads!r} has one of them twice")
    return tuple(known[name] for name in asked)


def _known_workload(value: str) -> str:
    Workload.of(value)
    return value


def _known_offloads(value: str) -> str:
    features_of(value)
    return value


class ApplicationsSpec(MethodSpec):
    """Method `applications`: TCP and UDP between programs on A and C, through the forwarder."""

    name: Literal["applications"]
    #: What the programs do, and `:` how many connections there are, in each direction; each is a point. `bulk`,
    #: `requests`, `connections`, `udp`: our own programs, which check every byte. `iperf3`, `web` (nginx and wrk),
    #: `memcached`: where they are installed.
    workloads: tuple[Annotated[str, AfterValidator(_known_workload)], ...] = Field(
        default=("bulk", "requests", "requests:16", "connections:16", "udp"), min_length=1
    )
    #: Of `bulk`: `forward` is from A to C.
    directions: tuple[Direction, ...] = Field(default=("forward",), min_length=1)
    #: What is left to cards, joined by `+`: `checksum` of what A and C send, its `segmentation` (which needs
    #: `checksum`), `vlan` (the tag is metadata of the frame); `gro`: the forwarder's ports merge what they receive.
    #: `default`: checksum and segmentation, as a container's veth has them, but what the other end switches off.
    offloads: tuple[Annotated[str, AfterValidator(_known_offloads)], ...] = Field(default=(NO_OFFLOADS,), min_length=1)
    #: MTU of the ports of A and C, in bytes; none: that of the forwarder's ports.
    mtus: tuple[Annotated[int, Field(ge=68, le=65535)], ...] = ()
    #: The programs speak over this VLAN; None: untagged, but over VLAN 10 with offload `vlan`, which needs a tag.
    vlan: int | None = Field(default=None, ge=1, le=4094)
    #: Size of a request.
    request_bytes: int = Field(default=64, ge=9, le=65507)
    #: Size of an answer.
    answer_bytes: int = Field(default=64, ge=1, le=1 << 30)
    #: Of `udp`: payload sent, in Mbit/s; 0: as fast as it goes.
    udp_mbps: float = Field(default=0.0, ge=0, le=1e6)
    #: Size of a datagram's payload.
    datagram_bytes: int = Field(default=1400, ge=9, le=65507)
    #: Of `bulk`: from one small request next to it to the next, in microseconds.
    probe_us: float = Field(default=1000.0, ge=100, le=1e6)
    #: Length of a trial; wrk runs for whole seconds.
    duration_s: float = Field(default=1.0, ge=0.1, le=3600)
    #: Traffic before it, which is not counted.
    warmup_s: float = Field(default=0.3, ge=0, le=60)
    #: A trial has failed when nothing came through for so long.
    patience_s: float = Field(default=2.0, ge=0.1, le=6)

    def levels(self) -> Iterator[dict[str, Scalar]]:
        """What is a point each: settings that only one value is asked of are left out."""
        for text in self.workloads:
            both_ways = Workload.of(text).kind in ("bulk", "iperf3")
            for direction, offloads, mtu in product(
                self.directions if both_ways else ("forward",), self.offloads, self.mtus or (_FORWARDERS,)
            ):
                found: dict[str, Scalar] = {"workload": text}
                found |= _unless_alone("direction", direction, self.directions)
                found |= _unless_alone("offloads", offloads, self.offloads)
                found |= _unless_alone("mtu", mtu, self.mtus)
                yield found

    def setting(self, levels: Mapping[str, Scalar], name: Literal["direction", "offloads", "mtu"]) -> Scalar:
        """What a point has of it; of `mtu` 0 for that of the forwarder's ports."""
        mtus = self.mtus or (_FORWARDERS,)
        only: dict[str, Sequence[Scalar]] = {"direction": self.directions, "offloads": self.offloads, "mtu": mtus}
        return levels.get(name, only[name][0])

    def tag(self, offloads: Sequence[Feature]) -> int | None:
        """VLAN of a point with these offloads; None: untagged."""
        return self.vlan or (_TAG if "vlan" in offloads else None)


def _unless_alone(name: str, value: Scalar, of: Sequence[Scalar]) -> dict[str, Scalar]:
    return {name: value} if len(of) > 1 else {}
