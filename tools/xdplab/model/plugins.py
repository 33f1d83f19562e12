# SPDX-License-Identifier: Apache-2.0
"""Parts found through entry points: ours and those of other packages alike."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from xdplab.model.errors import InputError, meant


def entries(group: str) -> list[EntryPoint]:
    """All parts of a group, not yet loaded, by name."""
    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def names(group: str) -> list[str]:
    """All names of a group that a study may use."""
    return [entry.name for entry in entries(group)]


def find(group: str, kind: str, name: str) -> Any:
    """The class behind a name.

    Raises:
        InputError: no such part; tells which there are.
    """
    for entry in entry_points(group=group, name=name):
        return entry.load()
    there = names(group)
    raise InputError(f"{kind} {name!r}: unknown{meant(name, there)}; there are {', '.join(there)}")
