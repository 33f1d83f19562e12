# SPDX-License-Identifier: Apache-2.0
"""Parts found through entry points: ours and those of other packages alike."""

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from xdplab.model.errors import InputError, meant


@lru_cache(maxsize=64)
def _there(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Of what is installed on that path: all packages are read, once and not for each of 20,000 points."""
    return entry_points(group=group)


def entries(group: str) -> list[EntryPoint]:
    """All parts of a group, not yet loaded, by name."""
    return sorted(_there(group, tuple(sys.path)), key=lambda entry: entry.name)


def names(group: str) -> list[str]:
    """All names of a group that a study may use."""
    return [entry.name for entry in entries(group)]


def find(group: str, kind: str, name: str) -> Any:
    """The class behind a name.

    Raises:
        InputError: no such part; tells which there are.
    """
    found = entries(group)
    for entry in found:
        if entry.name == name:
            return entry.load()
    there = [entry.name for entry in found]
    raise InputError(f"{kind} {name!r}: unknown{meant(name, there)}; there are {', '.join(there)}")
