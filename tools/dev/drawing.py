# SPDX-License-Identifier: Apache-2.0
"""The drawing at the top of docs/architecture.md, made of the imports: which package needs which."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from xdplab.tools import project_root

#: Drawn as one: below all others, or the package itself.
_GROUND = {"tools", "__init__"}


def drawing() -> str:
    """One line a package, those that need most on top: what it imports and does not get by way of another of these."""
    needs = _needs(project_root() / "tools" / "xdplab")
    depth = {name: _depth(name, needs) for name in needs}
    rows = sorted(needs, key=lambda name: (-depth[name], name))
    wide = max(map(len, rows))
    lines = [
        f"{name:<{wide}}  {'─▶ ' + '  '.join(sorted(_direct(name, needs))) if needs[name] else ''}" for name in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _needs(package: Path) -> dict[str, set[str]]:
    """Package -> those that any of its modules imports, also inside functions and for type checkers."""
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).parts[0].removesuffix(".py")
        if name not in _GROUND:
            own = found.setdefault(name, set())
            own |= {each for each in _imported(path) if each != name}
    return {name: own & found.keys() for name, own in found.items()}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "xdplab":
            _, *rest = (node.module or "").split(".")
            yield from rest[:1] or [each.name for each in node.names]


def _depth(name: str, needs: Mapping[str, set[str]]) -> int:
    return 1 + max((_depth(each, needs) for each in needs[name]), default=-1)


def _direct(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    return {each for each in needs[name] if not any(each in _reached(other, needs) for other in needs[name] - {each})}


def _reached(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    return set().union(needs[name], *(_reached(each, needs) for each in needs[name]))
