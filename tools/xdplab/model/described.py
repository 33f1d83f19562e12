# SPDX-License-Identifier: Apache-2.0
"""What sources say of themselves: docstrings, and the `#:` lines above fields and names."""

import ast
import functools
import inspect
import sys
import textwrap
from typing import Any


def described(model: type) -> dict[str, str]:
    """Field -> the `#:` lines above it, in the class or in the one that it is made from; without sources nothing."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if "__annotations__" in vars(base) and base.__module__ != "pydantic.main":
            found |= {name: text for name, text in _comments(base).items() if text}
    return found


def document(part: Any) -> str:
    """Docstring of a module, class or function, or of what it is made from; without the paragraph of its errors."""
    return (inspect.getdoc(part) or "").partition("\n\nRaises:")[0].strip()


def above(module: str, name: str) -> str:
    """The `#:` lines above a name of a module."""
    return _comments(sys.modules[module]).get(name, "")


@functools.cache
def _comments(where: Any) -> dict[str, str]:
    """Name -> the `#:` lines above its assignment."""
    try:
        lines = textwrap.dedent(inspect.getsource(where)).splitlines()
    except (OSError, TypeError):  # no source next to the code
        return {}
    tree, found = ast.parse("\n".join(lines)), {}
    first = tree.body[0]
    for node in first.body if isinstance(first, ast.ClassDef) else tree.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", ())
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = _above(lines, node.lineno - 1)
    return found


def _above(lines: list[str], number: int) -> str:
    above: list[str] = []
    while number and lines[number - 1].strip().startswith("#:"):
        number -= 1
        above.insert(0, lines[number].strip().removeprefix("#:").strip())
    return " ".join(above)
