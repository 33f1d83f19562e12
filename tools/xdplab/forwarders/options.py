# SPDX-License-Identifier: Apache-2.0
"""Options that are declared once: a field with its type, default and the `#:` line that documents it, and its `Key`.

The key says what a program calls the option and where it takes it; from there its forwarder writes database columns,
command lines, device arguments and API messages, and asks for what proves that the option is in force.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from xdplab.model import Model
from xdplab.model.design import RAW, as_written


@dataclass(frozen=True)
class Key:
    """Where a program takes an option, and what it calls it."""

    #: A column of a database, a message of an API, `argument` of a command line, `devargs`: as its forwarder has it.
    place: str
    #: The first name that a program knows is used: names change between versions.
    names: tuple[str, ...]
    #: The value as the program takes it; default: as it is.
    value: Callable[[Any], Any] = lambda value: value

    def documented(self) -> str:
        """What `xdplab explain` adds to the field's `#:` line."""
        return ""


def when_given(check: Callable[[Any], Any]) -> AfterValidator:
    """A check of a value that may be left out (None)."""
    return AfterValidator(lambda value: value if value is None else check(value))


class RawOptions(Model):
    """Options of a program that xdplab has none for: passed on, and *unproven* unless a port shows them."""

    #: Place -> where the program takes what is given for it, in words.
    raw_places: ClassVar[Mapping[str, str]] = {}
    #: Place -> what the keys of our own options call it, where that is another name.
    raw_keys: ClassVar[Mapping[str, str]] = {}
    #: Options that xdplab has no name for, as `raw.PLACE.NAME=VALUE`; values are passed on as they are, and are said to
    #: be unproven unless a port shows them under their names.
    raw: dict[str, dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _of_flat_names(cls, given: Any) -> Any:
        """`raw.PLACE.NAME: VALUE` -> `raw: {PLACE: {NAME: VALUE}}`."""
        found: dict[str, Any] = {}
        for name, value in given.items() if isinstance(given, dict) else ():
            first, *more = name.split(".", 2)
            if first == RAW and len(more) == 2:
                found.setdefault(RAW, {}).setdefault(more[0], {})[more[1]] = value
            elif first == RAW and more:
                raise ValueError(f"{name}: raw.PLACE.NAME is expected, PLACE one of {', '.join(cls.raw_places)}")
            else:
                found[name] = value
        return found if isinstance(given, dict) else given

    @field_validator("raw", mode="before")
    @classmethod
    def _as_text(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not all(isinstance(named, dict) for named in raw.values()):
            return raw
        return {place: {name: as_written(value) for name, value in named.items()} for place, named in raw.items()}

    @model_validator(mode="after")
    def _of_known_places(self) -> Self:
        for place, named in self.raw.items():
            if place not in self.raw_places:
                known = ", ".join(f"raw.{each} ({where})" for each, where in self.raw_places.items())
                raise ValueError(f"raw.{place}: there is only {known}")
            for field, key in declared(type(self), Key):
                if key.place == self.raw_keys.get(place, place) and (twice := {*key.names} & {*named}):
                    raise ValueError(f"raw.{place}.{twice.pop()}: it has an option here, {field}")
        return self

    def raw_of(self, place: str) -> dict[str, str]:
        """Name -> value of one place."""
        return self.raw.get(place, {})

    @property
    def raw_names(self) -> tuple[str, ...]:
        """`raw.PLACE.NAME` of all."""
        return tuple(f"{RAW}.{place}.{name}" for place, named in self.raw.items() for name in named)


def raw_names(options: Model | None) -> tuple[str, ...]:
    return options.raw_names if isinstance(options, RawOptions) else ()


KeyT = TypeVar("KeyT", bound=Key)


@dataclass(frozen=True)
class Setting(Generic[KeyT]):
    """An option that has a value."""

    field: str
    key: KeyT
    value: Any

    @property
    def text(self) -> str:
        """The value in a file or on a command line."""
        return as_written(self.value)


def declared(model: type[Model], kind: type[KeyT]) -> Iterator[tuple[str, KeyT]]:
    """Field and key of each option of a model that has a key of a kind, in the order of the model."""
    for field, info in model.model_fields.items():
        yield from ((field, key) for key in info.metadata if isinstance(key, kind))


def settings(options: Model, kind: type[KeyT]) -> Iterator[Setting[KeyT]]:
    for field, key in declared(type(options), kind):
        given = getattr(options, field)
        if given is not None:
            yield Setting(field, key, key.value(given))


def fields(options: Model, place: str) -> dict[str, Any]:
    """Of one place: name in the program -> value."""
    return {each.key.names[0]: each.value for each in settings(options, Key) if each.key.place == place}


def arguments(options: Model) -> list[str]:
    """Of a command line: `--burst=32`; of a truth value `--poll`, or nothing."""
    found = [(f"--{name}", value) for name, value in fields(options, "argument").items()]
    return [name if value is True else f"{name}={value}" for name, value in found if value is not False]


# Options of a socket of `bpf/xsk` that forwarder and tester have in common.


def power_of_two(value: int) -> int:
    """A validator of ring sizes."""
    if value & (value - 1):
        raise ValueError("should be a power of two")
    return value


RingSize = Annotated[int, Field(ge=8, le=32768), AfterValidator(power_of_two)]


#: What a program tells of a socket again when it counts: up to Linux 6.12 the first frame brings its NAPI id.
LATER = ("napi_id", "busy_poll_active")


class SocketOptions(Model):
    """Under the names that they have in `bpf/xsk` (`mode` is its `xdp_mode`)."""

    backend: Literal["af_xdp", "af_packet"] = "af_xdp"
    mode: Literal["native", "generic"] = "native"
    bind: Literal["auto", "copy", "zero-copy"] = "auto"
    rx_ring: RingSize = 2048
    tx_ring: RingSize = 2048
    fill_ring: RingSize = 2048
    completion_ring: RingSize = 2048
    #: Chunks of a UMEM; 0: enough for all rings.
    frames: int = Field(default=0, ge=0, le=4_194_304)
    chunk_bytes: int = Field(default=4096, ge=2048, le=4096)
    headroom: int = Field(default=0, ge=0, le=3584)
    unaligned: bool = False
    need_wakeup: bool = True
    #: What the thread does when there is nothing to do.
    wait: Literal["spin", "poll"] = "spin"
    #: The system calls that wake the kernel.
    wake_rx: Literal["recvfrom", "poll", "none"] = "recvfrom"
    wake_tx: Literal["sendto", "poll", "none"] = "sendto"
    busy_poll_us: int = Field(default=0, ge=0, le=1_000_000)
    #: 0: the kernel's.
    busy_poll_budget: int = Field(default=0, ge=0, le=65_535)
    prefer_busy_poll: bool = False
    #: Frames that one system call sends in copy mode (Linux 6.17); 0: the kernel's 32.
    tx_skb_budget: int = Field(default=0, ge=0, le=32768)
    packet_version: Literal[2, 3] = 2
    qdisc_bypass: bool = True
    #: TPACKET_V3 hands a block over when it is full or after this time.
    block_timeout_ms: int = Field(default=1, ge=1, le=10_000)
    policy: Literal["other", "fifo", "rr"] = "other"
    priority: int = Field(default=1, ge=1, le=99)

    @model_validator(mode="before")
    @classmethod
    def _version_from_text(cls, value: Any) -> Any:
        """On a command line `packet_version` is text; a Literal takes only the number."""
        if isinstance(value, dict) and value.get("packet_version") in ("2", "3"):
            return {**value, "packet_version": int(value["packet_version"])}
        return value

    @model_validator(mode="after")
    def _budget_in_range(self) -> Self:
        if self.tx_skb_budget and not 32 <= self.tx_skb_budget <= self.tx_ring:
            raise ValueError("tx_skb_budget should be 0, or from 32 to tx_ring")
        return self

    @property
    def wants_tx_skb_budget(self) -> bool:
        """Whether the kernel is asked for one (AF_PACKET has none: the program refuses it)."""
        return self.tx_skb_budget > 0 and self.backend == "af_xdp"

    def not_in_force(self, sockets: Iterable[Mapping[str, Any]]) -> str | None:
        """Why what was asked for does not work, though the kernel took it; `sockets` as reported once frames have come.

        Busy polling may be set on a socket that the kernel never polls.
        """
        if self.busy_poll_us and not any(sock["busy_poll_active"] for sock in sockets):
            return (
                f"busy_poll_us={self.busy_poll_us} is not in force: the kernel reports no NAPI id for these sockets, "
                "also after traffic (since Linux 6.13 those of veth, ixgbe and i40e have none)"
            )
        return None
