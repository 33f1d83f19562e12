# SPDX-License-Identifier: Apache-2.0
"""What docs/architecture.md says of the sources, next to the layers (import-linter, pyproject.toml):
no circle, no question which method it is, and every file names its licence.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from xdplab.measure import method_class, method_names
from xdplab.measure.figure import COMMON
from xdplab.tools import project_root

ROOT = project_root()
PACKAGE = ROOT / "tools" / "xdplab"
MODULES = sorted(PACKAGE.rglob("*.py"))
IN_FOLDERS = [path for path in MODULES if path.parent.parent == PACKAGE / "methods"]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """What a module imports of xdplab, also inside functions and for type checkers."""
    return frozenset(_imported_modules(path))


def _imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            module = node.module or ""
            for each in node.names:  # a module of a package, or a name in a module
                inner = f"{module}.{each.name}"
                yield from [inner if module == "xdplab" or is_module(inner) else module] if ours(module) else ()
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if ours(each.name))


def ours(module: str) -> bool:
    return module == "xdplab" or module.startswith("xdplab.")


def is_module(name: str) -> bool:
    place = PACKAGE.joinpath(*name.split(".")[1:])
    return ours(name) and (place.with_suffix(".py").is_file() or (place / "__init__.py").is_file())


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("xdplab", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def circles(imports: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Modules that reach one another (strongly connected components of more than one, or one that imports itself)."""
    reached = {module: reach(module, imports) for module in imports}
    found: list[set[str]] = []
    for module, there in reached.items():
        if module in there and not any(module in circle for circle in found):
            found.append({other for other in there if module in reached[other]})
    return found


def reach(module: str, imports: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    ahead = list(imports[module])
    while ahead:
        if (one := ahead.pop()) not in found and one in imports:
            found.add(one)
            ahead += imports[one]
    return found


def test_no_module_imports_one_that_imports_it() -> None:
    assert circles({module_name(path): imported_modules(path) - {module_name(path)} for path in MODULES}) == []


def test_a_circle_is_seen_however_long_it_is() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"gone"}}) == [{"a", "b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def asks_which_method(source: ast.Module) -> list[str]:
    """Comparisons of a method's name, and questions for its spec's class."""
    found = []
    for node in ast.walk(source):
        if isinstance(node, ast.Compare):
            sides = [ast.unparse(each) for each in (node.left, *node.comparators)]
            found += [ast.unparse(node) for side in sides if re.search(r"\bmethod(\(\))?\.name$", side)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            text = ast.unparse(node.args[1])
            found += [ast.unparse(node)] if re.search(r"Spec\b", text) and "method" in ast.unparse(node.args[0]) else []
    return found


def test_nobody_outside_its_folder_asks_which_method_it_is() -> None:
    asked = {str(path): asks_which_method(tree(path)) for path in set(MODULES) - set(IN_FOLDERS)}
    assert {path: found for path, found in asked.items() if found} == {}
    templates = [path for path in PACKAGE.rglob("*.j2") if path.parent.parent.name != "methods"]
    assert templates
    assert [path.name for path in templates if "method.name" in path.read_text(encoding="utf-8")] == []


def test_nobody_outside_its_folder_names_the_figure_of_a_method() -> None:
    """Only `COMMON` figures are asked for by name; all others are found by the declarations of their methods."""
    own = {each.key for name in method_names() for each in method_class(name).figures} - {each.key for each in COMMON}
    assert {"ndr_pps", "mpps", "requests_per_s"} <= own
    outside = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] != "methods"]
    named = {
        (str(path), node.value) for path in outside for node in ast.walk(tree(path)) if isinstance(node, ast.Constant)
    }
    assert {(path, value) for path, value in named if value in own} == set()


def test_such_a_question_is_seen() -> None:
    questions = [
        "x = run.study.method.name == 'latency'",
        "if 'a' != method.name: pass",
        "isinstance(study.method, LatencySpec)",
    ]
    assert [source for source in questions if not asks_which_method(ast.parse(source))] == []


def sources(folder: str) -> list[Path]:
    named = {"Makefile", "setup", "check", "build", "export"}
    kinds = {".py", ".c", ".h", ".yaml", ".yml", ".robot", ".j2", ".sh", ".txt", ".conf"}
    skipped = {"build", "__pycache__", "data", "patches"}
    found = []
    for path in (ROOT / folder).rglob("*"):
        inside = path.relative_to(ROOT).parts[:-1]
        hidden = any(part in skipped or part.startswith(".") or part.endswith(".egg-info") for part in inside)
        if path.is_file() and not hidden and (path.suffix in kinds or path.name in named):
            found.append(path)
    return found


def test_every_source_file_names_its_licence() -> None:
    at_least = {"tools": 90, "suites": 4, "bpf": 30, "ci": 3, "ovs": 30}
    found = {folder: sources(folder) for folder in at_least}
    assert {folder for folder, paths in found.items() if len(paths) < at_least[folder]} == set()
    assert [str(path.relative_to(ROOT)) for paths in found.values() for path in paths if not _licence(path)] == []


def _licence(path: Path) -> bool:
    head = path.read_text(encoding="utf-8", errors="replace").splitlines()[:4]
    expected = (
        "GPL-2.0 OR BSD-2-Clause"
        if path.is_relative_to(ROOT / "bpf") and path.suffix != ".py"
        else "SPDX-License-Identifier"
    )
    named = any("SPDX-License-Identifier" in line and expected in line for line in head)
    # in the words of Open vSwitch, whose files have no SPDX line
    return named or (path.is_relative_to(ROOT / "ovs/files") and "Apache License, Version 2.0" in "".join(head))
