# SPDX-License-Identifier: Apache-2.0
"""Libraries that only some parts need, and that an installation may lack: the extras of pyproject.toml."""

from importlib.util import find_spec
from typing import Literal

from xdplab.model.errors import InputError

Extra = Literal["ssh", "sweeps", "vpp"]
#: Extra of pyproject.toml -> the module that is imported, the library that has it, and Debian's package of that.
_LIBRARIES: dict[Extra, tuple[str, str, str]] = {
    "ssh": ("asyncssh", "asyncssh", "python3-asyncssh"),
    "sweeps": ("sklearn", "scikit-learn", "python3-sklearn"),
    "vpp": ("vpp_papi", "vpp-papi", ""),
}


def lacking(extra: Extra) -> str | None:
    """None, or which library is not installed and what installs it."""
    module, library, debian = _LIBRARIES[extra]
    if find_spec(module) is not None:
        return None
    either = f", or {debian} of Debian 13," if debian else ""
    return f"the Python library {library} is not installed; pip install 'xdplab[{extra}]'{either} installs it"


def need(extra: Extra, who: str) -> None:
    """Be sure that it is there.

    Raises:
        InputError: it is not; says for whom it is needed.
    """
    reason = lacking(extra)
    if reason:
        raise InputError(f"{who}: {reason}")
