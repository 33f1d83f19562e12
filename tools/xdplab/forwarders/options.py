# SPDX-License-Identifier: Apache-2.0
"""Options that are declared once: a field with its type, default and the `#:` line that documents it, and its `Key`.

The key says what a program calls the option and where it takes it; from there its forwarder writes database columns,
command lines, device arguments and API messages, and asks for what proves that the option is in force.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import AfterValidator, field_validator, model_validator

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
