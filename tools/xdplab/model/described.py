# SPDX-License-Identifier: Apache-2.0
"""What sources say of themselves: docstrings, and the `#:` lines above fields and names."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any


def described(model: type) -> dict[str, str]:
    """Field -> the `#:` lines above it, in the class or in the one that it is made from; without sources nothing."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if "__annotations__" in vars(base) and base.__module__ != "pydantic.main":
            found |= {name: text for name, text in _comments(base) if text}
    return found


def told(part: Any) -> str:
    """Docstring of a class or function; of a name without its own (`A = B.called(...)`) the `#:` lines above it."""
    own = inspect.getdoc(part) if vars(part).get("__doc__") else None
    if own or not isinstance(part, type):
        return own or ""
    for module in {vars(base)["__module__"] for base in part.__mro__}:
        there = sys.modules[module]
        name = next((name for name, value in vars(there).items() if value is part), None)
        above = dict(_comments(there)).get(name, "") if name and module.startswith(part.__module__) else ""
        if above:
            return above
    return inspect.getdoc(part) or ""


def _comments(where: Any) -> Iterator[tuple[str, str]]:
    """Name -> the `#:` lines above its assignment."""
    try:
        lines = textwrap.dedent(inspect.getsource(where)).splitlines()
    except (OSError, TypeError):  # no source beside the code
        return
    tree = ast.parse("\n".join(lines))
    first = tree.body[0]
    for node in first.body if isinstance(first, ast.ClassDef) else tree.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", ())
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, _above(lines, node.lineno - 1)


def _above(lines: list[str], number: int) -> str:
    above: list[str] = []
    while number and lines[number - 1].strip().startswith("#:"):
        number -= 1
        above.insert(0, lines[number].strip().removeprefix("#:").strip())
    return " ".join(above)
