# SPDX-License-Identifier: Apache-2.0
"""Libraries that only some parts need, and that an installation may lack: the extras of pyproject.toml."""

import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from xdplab.model.errors import Missing

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
