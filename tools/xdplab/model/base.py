# SPDX-License-Identifier: Apache-2.0
"""What all models share: frozen, no unknown keys, errors that fit on one line."""

import re
import reprlib
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from xdplab.model.errors import InputError

#: Version of every file xdplab writes; raised when a reader of the old form would misread the new one.
SCHEMA_VERSION = 1

_M = TypeVar("_M", bound=BaseModel)

#: Characters that make a terminal or a page show something else than is there: all controls but tab and newline, and
#: those that change the direction of writing.
_DECEIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    r"""The text with what would act on a terminal made visible (`\x1b`)."""
    return _DECEIVING.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


#: Text that comes from outside (logs, files, hosts) and is shown to people.
Shown = Annotated[str, AfterValidator(plain)]


class Model(BaseModel):
    """Base of all configuration and result models."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


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
        return model.model_validate(dict(data))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        key = _key(first["loc"], data) or "(top level)"
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(model.model_fields))
            problem = f"unknown key (known here: {known})" if "." not in key else "unknown key"
        else:
            # reprlib looks at a part only: aliases of YAML may stand for more than fits into memory
            problem = f"{first['msg']} (got {reprlib.repr(first['input']):.80})"
        raise InputError(" ".join(plain(f"{where}: {key}: {problem}").split())) from None
