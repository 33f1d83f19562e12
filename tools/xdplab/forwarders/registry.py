# SPDX-License-Identifier: Apache-2.0
"""Finding forwarders by name."""

from typing import Any

from xdplab.forwarders.base import Forwarder
from xdplab.model import ForwarderSpec, InputError, plugins, validated
from xdplab.model.design import as_written

GROUP = "xdplab.forwarders"


def forwarder_class(name: str) -> type[Forwarder[Any]]:
    """The class behind a name.

    Raises:
        InputError: no such forwarder.
    """
    found: type[Forwarder[Any]] = plugins.find(GROUP, "forwarder", name)
    return found


def forwarder_spec(text: str) -> ForwarderSpec:
    """Of `name[:option=value,...]`, as a command line has it.

    Raises:
        InputError: it is not that; whether there is such a forwarder is not looked at.
    """
    try:
        given = ForwarderSpec.parse(text)
    except ValueError as exc:
        raise InputError(str(exc)) from None
    return validated(ForwarderSpec, given, f"forwarder {text}")


def make_forwarder(spec: ForwarderSpec) -> Forwarder[Any]:
    """A forwarder ready to start.

    Raises:
        InputError: unknown name, unknown option or a value of the wrong type.
    """
    cls = forwarder_class(spec.name)
    return cls(validated(cls.options_model, spec.options, f"forwarder {spec.name}"))


def is_direct(spec: ForwarderSpec) -> bool:
    """Whether A and C are on the testbed's direct link, with nothing in between.

    Raises:
        InputError: no such forwarder.
    """
    return not forwarder_class(spec.name).pipelines


def plain_name(spec: ForwarderSpec) -> str:
    """Its label, or what it is in plain words: options that these do not cover stand in parentheses.

    Raises:
        InputError: as `make_forwarder`.
    """
    if spec.label:
        return spec.label
    words, covered = make_forwarder(spec).in_words()
    options = ", ".join(_option_words(key, value) for key, value in spec.options.items() if key not in covered)
    return f"{words} ({options})" if options else words


def _option_words(key: str, value: Any) -> str:
    """`patched` for a build, `burst=8` for others."""
    return str(value) if key == "build" else f"{key}={as_written(value)}"
