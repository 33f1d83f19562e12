# SPDX-License-Identifier: Apache-2.0
"""Finding methods by name, and figures by their key: ours and those of other packages alike."""

import sys
from functools import cache
from typing import Any

from xdplab.measure.figure import COMMON, Figure
from xdplab.measure.method import Method
from xdplab.model import InputError, MethodSpec, plugins
from xdplab.model.study import GROUP

#: Name -> class of those that were asked for: of most runs one, and what the others import takes 0.1 s.
_asked_for: dict[str, type[Method[Any]]] = {}


def method_names() -> list[str]:
    """All names that a study may use; several may be of one method."""
    return plugins.names(GROUP)


def method_class(name: str) -> type[Method[Any]]:
    """The class behind a name.

    Raises:
        InputError: no such method.
    """
    found: type[Method[Any]] = plugins.find(GROUP, "method", name)
    _asked_for[name] = found
    return found


def make_method(spec: MethodSpec) -> Method[Any]:
    """The method that a study asks for."""
    return method_class(spec.name)(spec)


def figure(key: str) -> Figure:
    """What a figure is.

    Raises:
        InputError: no method has it.
    """
    found = find_figure(key)
    if found is None:
        raise InputError(f"figure {key!r}: no method that is installed has it")
    return found


def find_figure(key: str) -> Figure | None:
    """The same; None of a value that nothing is compared by."""
    asked_for = [*COMMON, *(each for method in _asked_for.values() for each in method.figures)]
    return next((each for each in asked_for if each.key == key), None) or _figures(tuple(sys.path)).get(key)


@cache
def _figures(where: tuple[str, ...]) -> dict[str, Figure]:
    """Of all methods that these folders hold.

    Raises:
        InputError: a key is not the same figure in two methods.
    """
    found = {each.key: each for each in COMMON}
    for method in dict.fromkeys(method_class(name) for name in method_names()):
        for each in method.figures:
            if found.setdefault(each.key, each) != each:
                raise InputError(f"method {method.name}: figure {each.key!r} is another one of another method")
    return found
