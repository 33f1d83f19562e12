# SPDX-License-Identifier: Apache-2.0
"""What all models share: frozen, no unknown keys, errors that fit on one line, fields described where they stand."""

import ast
import functools
import inspect
import re
import reprlib
import sys
import textwrap
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from xdplab.model.errors import InputError, meant

#: Version of every file xdplab writes; raised when a reader of the old form would misread the new one.
SCHEMA_VERSION = 4
#: Earlier versions -> what reads them.
READ_BY = {1: "0.1.0", 2: "0.1.0", 3: "at commit 52f83189"}

_M = TypeVar("_M", bound=BaseModel)
_T = TypeVar("_T")

#: Characters that make a terminal or a page show something else than is there: all controls but tab and newline, and
#: those that change the direction of writing.
_DECEIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    r"""The text with what would act on a terminal made visible (`\x1b`)."""
    return _DECEIVING.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    r"""The same, with newlines and tabs made visible too (`\n`)."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


#: Text that comes from outside (logs, files, hosts) and is shown to people.
Shown = Annotated[str, AfterValidator(plain)]
#: The same in one line: a newline would make a row of its own in a table.
OneLine = Annotated[str, AfterValidator(one_line)]


def _dated(text: str) -> str:
    if datetime.fromisoformat(text).utcoffset() is None:
        raise ValueError("a time with its offset from UTC is expected")
    return text


#: ISO 8601, as it was written.
Moment = Annotated[str, AfterValidator(_dated)]
#: Frames, ns, times that something happened: never below zero.
Count = Annotated[int, Field(ge=0)]
#: Frames per second, s: never below zero.
Amount = Annotated[float, Field(ge=0)]


class Model(BaseModel):
    """Base of all configuration and result models."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Each field with the `#:` lines above it."""
        found = handler(schema)
        descriptions, properties = described(cls), handler.resolve_ref_schema(found).get("properties", {})
        for name, field in cls.model_fields.items():
            if (
                name in descriptions and (field.alias or name) in properties
            ):  # a model may write itself in a way of its own
                properties[field.alias or name]["description"] = descriptions[name]
        return found


class OneOrMany:
    """Mark of a list for which one value may stand, or of a design for which its name may: so its schema says it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """What is written in a file; what is read back is always the whole."""
        found = handler(schema)
        if handler.mode == "serialization":
            return found
        names = found.get("discriminator", {}).get("mapping")
        return {"anyOf": [{"enum": [*names]} if names else found["items"], found]}


def _many(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def _distinct(values: tuple[_T, ...]) -> tuple[_T, ...]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{value} is there twice")
    return values


#: Of a list: no value stands there twice.
Distinct = AfterValidator(_distinct)
#: A list for which one value may stand.
Many = Annotated[tuple[_T, ...], BeforeValidator(_many), OneOrMany]


def _key(location: tuple[Any, ...], data: Any) -> str:
    """The dotted key of the file that an error is about; members of unions, which pydantic names too, are left out."""
    parts: list[str] = []
    for number, part in enumerate(location, start=1):
        here = isinstance(data, Mapping) and part in data
        if here or (isinstance(data, list | tuple) and isinstance(part, int) and part < len(data)):
            data = data[part]
        elif number < len(location) or not isinstance(data, Mapping | list | tuple):
            continue
        parts.append(str(part))  # the last part may be a key or an item that is missing
    return ".".join(parts)


def flat(value: Any, key: str = "") -> dict[str, Any]:
    """Dotted keys and values of what is nested."""
    if not isinstance(value, dict):
        return {key: value}
    parts = (flat(inner, f"{key}.{name}" if key else str(name)) for name, inner in value.items())
    return {name: each for part in parts for name, each in part.items()}


def validated(model: type[_M], data: Mapping[str, Any], where: str) -> _M:
    """Build `model` from `data`.

    Raises:
        InputError: one line naming `where`, the first offending key, its value and what was expected.
    """
    try:
        made = model.model_validate(dict(data))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        key = _key(first["loc"], data) or "(top level)"
        if first["type"] == "extra_forbidden":
            known = sorted(field.alias or name for name, field in model.model_fields.items())
            problem = "unknown key"
            if "." not in key:
                problem += f"{meant(key, known)} (known here: {', '.join(known)})"
        else:
            # reprlib looks at a part only: aliases of YAML may stand for more than fits into memory
            problem = f"{first['msg']} (got {reprlib.repr(first['input']):.80})"
        raise InputError(" ".join(plain(f"{where}: {key}: {problem}").split())) from None
    for key in _truths(data, made):
        raise InputError(plain(f"{where}: {key}: a number is expected, not true or false"))
    return made


def _truths(given: Any, made: Any) -> Iterator[str]:
    """Dotted keys at which pydantic has made a number of true or false: `repetitions: true` would be one repetition."""
    if isinstance(given, Mapping):
        there = made if isinstance(made, Mapping) else {f.alias or n: getattr(made, n) for n, f in _fields(made)}
        pairs = [(key, value, there.get(key)) for key, value in given.items()]
    elif isinstance(given, list | tuple) and isinstance(made, list | tuple):
        pairs = [(str(number), *both) for number, both in enumerate(zip(given, made, strict=False))]
    else:
        return
    for key, value, became in pairs:
        if isinstance(value, bool) and isinstance(became, int | float) and not isinstance(became, bool):
            yield str(key)
        yield from (f"{key}.{inner}" for inner in _truths(value, became))


def _fields(made: Any) -> Any:
    return type(made).model_fields.items() if isinstance(made, BaseModel) else ()


# What sources say of themselves: docstrings, and the `#:` lines above fields and names.


def described(model: type) -> dict[str, str]:
    """Field -> the `#:` lines above it, in the class or in the one that it is made from; without sources nothing."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if "__annotations__" in vars(base) and base.__module__ != "pydantic.main":
            found |= {name: text for name, text in _comments(base).items() if text}
    return found


def document(part: Any) -> str:
    """Docstring of a module, class or function, or of what it is made from; without the paragraph of its errors."""
    return (inspect.getdoc(part) or "").partition("\n\nRaises:")[0].strip()


def above(module: str, name: str) -> str:
    """The `#:` lines above a name of a module."""
    return _comments(sys.modules[module]).get(name, "")


@functools.cache
def _comments(where: Any) -> dict[str, str]:
    """Name -> the `#:` lines above its assignment."""
    try:
        lines = textwrap.dedent(inspect.getsource(where)).splitlines()
    except (OSError, TypeError):  # no source next to the code
        return {}
    tree, found = ast.parse("\n".join(lines)), {}
    first = tree.body[0]
    for node in first.body if isinstance(first, ast.ClassDef) else tree.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", ())
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = _above(lines, node.lineno - 1)
    return found


def _above(lines: list[str], number: int) -> str:
    above: list[str] = []
    while number and lines[number - 1].strip().startswith("#:"):
        number -= 1
        above.insert(0, lines[number].strip().removeprefix("#:").strip())
    return " ".join(above)


# Files that somebody else may have written are read up to a limit: no file, and no line without end, fills memory.

MIB = 1 << 20
#: Of run.json, of a line of trials.jsonl (usual: 3 KiB), and of that file.
HEAD_BYTES, LINE_BYTES, JOURNAL_BYTES = 64 * MIB, 16 * MIB, 4096 * MIB
#: Of a study, a testbed, a description; and of the rules that it names.
YAML_BYTES, RULES_BYTES = MIB, 64 * MIB


def read_text(path: Path, limit: int) -> str:
    """A whole file of UTF-8.

    Raises:
        InputError: it has more than `limit` bytes.
        OSError, UnicodeDecodeError: as `Path.read_text`.
    """
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"{path}: more than the {limit // MIB} MiB that such a file may have")
    return data.decode("utf-8")


def whole_lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Lines with their ends; a last one without is left out.

    Raises:
        InputError: a line, or the file, is longer than one of a journal.
    """
    number = size = 0
    while line := file.readline(LINE_BYTES + 1):
        number, size = number + 1, size + len(line)
        if len(line) > LINE_BYTES or size > JOURNAL_BYTES:
            what = "a line" if len(line) > LINE_BYTES else "a file"
            limit = LINE_BYTES if len(line) > LINE_BYTES else JOURNAL_BYTES
            raise InputError(f"{path}:{number}: {what} of more than {limit // MIB} MiB, which no journal has")
        if line.endswith(b"\n"):
            yield line
