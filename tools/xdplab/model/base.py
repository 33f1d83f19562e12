# SPDX-License-Identifier: Apache-2.0
"""What all models share: frozen, no unknown keys, errors that fit on one line."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from xdplab.model.errors import InputError

#: Version of every file xdplab writes; raised when a reader of the old form would misread the new one.
SCHEMA_VERSION = 1

_M = TypeVar("_M", bound=BaseModel)


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
            problem = f"{first['msg']} (got {first['input']!r:.80})"
        raise InputError(f"{where}: {key}: {problem}") from None
