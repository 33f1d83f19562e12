# SPDX-License-Identifier: Apache-2.0
"""What is installed: parts found through entry points, ours and those of other packages alike, and extras."""

import sys
import sysconfig
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from xdplab.model.errors import InputError, Missing, meant


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


# Libraries that only some parts need, and that an installation may lack: the extras of pyproject.toml.

Extra = Literal["sheet", "ssh", "sweeps", "vpp"]
#: Extra of pyproject.toml -> the module that is imported, and the library that has it.
_LIBRARIES: dict[Extra, tuple[str, str]] = {
    "sheet": ("weasyprint", "weasyprint"),
    "ssh": ("asyncssh", "asyncssh"),
    "sweeps": ("sklearn", "scikit-learn"),
    "vpp": ("vpp_papi", "vpp-papi"),
}


def lacking(extra: Extra) -> str | None:
    """None, or which library is not installed and what installs it."""
    module, library = _LIBRARIES[extra]
    if find_spec(module) is not None:
        return None
    return f"the Python library {library} is not installed; {_pip_install()} 'xdplab[{extra}]' installs it"


def _pip_install() -> str:
    """`pip install`, with the switch that it needs for the Python of a distribution (PEP 668)."""
    managed = sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file()
    return "pip install --break-system-packages" if managed else "pip install"


def need(extra: Extra, who: str) -> None:
    """Be sure that it is there.

    Raises:
        Missing: it is not; says for whom it is needed.
    """
    reason = lacking(extra)
    if reason:
        raise Missing(f"{who}: {reason}")
