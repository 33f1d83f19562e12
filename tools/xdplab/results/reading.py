# SPDX-License-Identifier: Apache-2.0
"""Reading a run folder: run.json, and the whole lines of trials.jsonl, of this version or refused in one line."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from xdplab.model import SCHEMA_VERSION, InputError, Model

_M = TypeVar("_M", bound=Model)


def read_head(folder: Path) -> dict[str, Any]:
    """run.json as it stands there.

    Raises:
        InputError: not a run folder.
    """
    path = folder / "run.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise InputError(f"{folder}: not a run folder: {path.name}: {exc}") from None
    if not isinstance(data, dict):
        raise InputError(f"{folder}: not a run folder: {path.name}: no object")
    return data


def head_as(model: type[_M], data: dict[str, Any], folder: Path) -> _M:
    """run.json as a model.

    Raises:
        InputError: another schema version, or what the model does not take.
    """
    path = folder / "run.json"
    _check_version(data.get("schema_version"), str(path))
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        raise InputError(f"{path}: {first_error(exc)}") from None


def read_trials(path: Path, model: type[_M]) -> list[_M]:
    """All whole lines: a last one that kill -9 cut off is left out, and before the first trial there is no file.

    Raises:
        InputError: another line cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    lines.pop()  # what stands behind the last newline: nothing, or half a line
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            record = model.model_validate_json(line)
        except ValidationError as exc:
            raise InputError(f"{path}:{number}: not a trial record: {first_error(exc)}") from None
        _check_version(getattr(record, "schema_version", None), f"{path}:{number}")
        found.append(record)
    return found


def _check_version(found: Any, where: str) -> None:
    if found != SCHEMA_VERSION:
        raise InputError(f"{where}: schema version {found}, this xdplab reads {SCHEMA_VERSION}")


def first_error(exc: ValidationError) -> str:
    """What is wrong first, and where."""
    error = exc.errors(include_url=False)[0]
    return ": ".join(filter(None, (".".join(map(str, error["loc"])), error["msg"])))
