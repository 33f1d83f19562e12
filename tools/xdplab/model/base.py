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


def validated(model: type[_M], data: Mapping[str, Any], where: str) -> _M:
    """Build `model` from `data`.

    Raises:
        InputError: one line naming `where`, the first offending key, its value and what was expected.
    """
    try:
        return model.model_validate(dict(data))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "(top level)"
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(model.model_fields))
            problem = f"unknown key (known here: {known})" if "." not in key else "unknown key"
        else:
            problem = f"{first['msg']} (got {first['input']!r:.80})"
        raise InputError(f"{where}: {key}: {problem}") from None
