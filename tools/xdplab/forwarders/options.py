# SPDX-License-Identifier: Apache-2.0
"""Options that are declared once: a field with its type, default and the `#:` line that documents it, and its `Key`.

The key says what a program calls the option and where it takes it; from there its forwarder writes database columns,
command lines, device arguments and API messages, and asks for what proves that the option is in force.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import AfterValidator

from xdplab.model import Model
from xdplab.model.design import as_written


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
