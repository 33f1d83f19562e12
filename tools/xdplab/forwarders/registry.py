# SPDX-License-Identifier: Apache-2.0
"""Finding forwarders by name, ours and those of other packages."""

from importlib.metadata import entry_points
from typing import Any

from xdplab.forwarders.base import Forwarder
from xdplab.model import ForwarderSpec, InputError, validated

GROUP = "xdplab.forwarders"


def forwarder_names() -> list[str]:
    """All names that a study may use."""
    return sorted(entry.name for entry in entry_points(group=GROUP))


def forwarder_class(name: str) -> type[Forwarder[Any]]:
    """The class behind a name.

    Raises:
        InputError: no such forwarder.
    """
    for entry in entry_points(group=GROUP, name=name):
        loaded: type[Forwarder[Any]] = entry.load()
        return loaded
    raise InputError(f"forwarder {name!r}: unknown; there are {', '.join(forwarder_names())}")


def make_forwarder(spec: ForwarderSpec) -> Forwarder[Any]:
    """A forwarder ready to start.

    Raises:
        InputError: unknown name, unknown option or a value of the wrong type.
    """
    cls = forwarder_class(spec.name)
    return cls(validated(cls.options_model, spec.options, f"forwarder {spec.name}"))
