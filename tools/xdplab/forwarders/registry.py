# SPDX-License-Identifier: Apache-2.0
"""Finding forwarders by name."""

from typing import Any

from xdplab.forwarders.base import Forwarder
from xdplab.model import ForwarderSpec, plugins, validated

GROUP = "xdplab.forwarders"


def forwarder_class(name: str) -> type[Forwarder[Any]]:
    """The class behind a name.

    Raises:
        InputError: no such forwarder.
    """
    found: type[Forwarder[Any]] = plugins.find(GROUP, "forwarder", name)
    return found


def make_forwarder(spec: ForwarderSpec) -> Forwarder[Any]:
    """A forwarder ready to start.

    Raises:
        InputError: unknown name, unknown option or a value of the wrong type.
    """
    cls = forwarder_class(spec.name)
    return cls(validated(cls.options_model, spec.options, f"forwarder {spec.name}"))
