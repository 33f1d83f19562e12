# SPDX-License-Identifier: Apache-2.0
"""What docs/architecture.md says of the sources: data flows one way, in no circle, and every file names its licence."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from xdplab.measure import method_class, method_names
from xdplab.measure.figure import COMMON
from xdplab.tools import project_root

ROOT = project_root()
PACKAGE = ROOT / "tools" / "xdplab"
#: A package imports from itself and from those before it, for type checkers too.
ORDER = [
    "model",
    "stats",
    "hosts",
    "testbed",
    "knobs",
    "forwarders",
    "testers",
    "measure",
    "results",
    "runner",
    "analysis",
    "report",
    "methods/shared",
    "methods/NAME",
    "cost",
]
#: Leaves: of those before them they need these only.
NEEDS_ONLY = {
    "stats": {"model"},
    "methods": set[str](),
    "cost": {"model", "hosts", "testbed", "forwarders", "analysis", "measure", "report"},
}
FRONT_ENDS = {"cli", "robot"}
#: What methods put into `PointSummary.figures`.
FIGURES_OF_POINTS = ("tracing", "breakdown", "stages", "function", "throughput", "loss_curve", "cache_misses")
#: Modules of the package itself, below all others: they import nothing of it.
GROUND = {"tools", "__init__"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def home(path: Path) -> str:
    """The package a module belongs to, or its own name directly below xdplab; folders of methods stand apart."""
    first, *rest = path.relative_to(PACKAGE).parts
    if first == "methods" and len(rest) > 1:
        return "methods/shared" if rest[0] == "shared" else "methods/NAME"
    return first.removesuffix(".py")


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


def method_of(module: str) -> str | None:
    """The method whose folder a module is in, or None: `xdplab.methods.latency`."""
    parts = module.split(".")
    inside = len(parts) > 2 and parts[1] == "methods" and (PACKAGE / "methods" / parts[2]).is_dir()
    return parts[2] if inside else None


def imported(path: Path) -> set[str]:
    """Packages of xdplab that a module imports."""
    return {package_of(name) for name in imported_modules(path)} - {"__version__", "xdplab"}


def package_of(module: str) -> str:
    """`xdplab` for the package itself."""
    method = method_of(module)
    if method:
        return "methods/shared" if method == "shared" else "methods/NAME"
    return module.split(".")[:2][-1]


def allowed(package: str) -> set[str]:
    if package in GROUND:
        return set()
    if package in NEEDS_ONLY:
        return {package, *NEEDS_ONLY[package], *GROUND}
    if package in ORDER:
        return {*ORDER[: ORDER.index(package) + 1], *GROUND}
    methods = {"methods/NAME", "methods/shared"}
    if package in ("app", "api"):
        return {*ORDER, *GROUND, "app"} - methods
    assert package in FRONT_ENDS, f"{package} has no place in the order of docs/architecture.md"
    return {*ORDER, *GROUND, "app", package} - methods


def wrong(path: Path) -> set[str]:
    return imported(path) - allowed(home(path))


def test_a_module_imports_only_from_those_to_its_left() -> None:
    """Among them: one front end does not need the other, `api` no front end, and nobody a method by its name."""
    assert {str(path.relative_to(PACKAGE)): found for path in MODULES if (found := wrong(path))} == {}


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


IN_FOLDERS = [path for path in MODULES if home(path) == "methods/NAME"]


def test_the_folder_of_a_method_needs_no_other() -> None:
    own = {path: path.relative_to(PACKAGE / "methods").parts[0] for path in IN_FOLDERS}
    assert len(set(own.values())) >= 4
    others = {
        str(path): {method_of(name) for name in imported_modules(path)} - {None, "shared", own[path]}
        for path in IN_FOLDERS
    }
    assert {path: found for path, found in others.items() if found} == {}


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
    outside = [path for path in MODULES if not home(path).startswith("methods")]
    named = {
        (str(path), node.value) for path in outside for node in ast.walk(tree(path)) if isinstance(node, ast.Constant)
    }
    assert {(path, value) for path, value in named if value in own} == set()


def test_the_front_ends_name_no_part_of_a_method() -> None:
    words = {*FIGURES_OF_POINTS, *method_names()} - {"latency"}
    text = {path: path.read_text(encoding="utf-8") for path in MODULES if home(path) == "robot"}
    assert {(path.name, word) for path, each in text.items() for word in words if f'"{word}"' in each} == set()


def test_such_a_question_is_seen() -> None:
    questions = [
        "x = run.study.method.name == 'latency'",
        "if 'a' != method.name: pass",
        "isinstance(study.method, LatencySpec)",
    ]
    assert [source for source in questions if not asks_which_method(ast.parse(source))] == []


def test_plotting_libraries_wait_until_something_is_drawn() -> None:
    done = "import sys, xdplab.cli.main, xdplab.measure as m; [m.method_class(n) for n in m.method_names()]"
    reported = subprocess.run(
        [sys.executable, "-c", f"{done}; print([n for n in ('sklearn',) if n in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert reported.stdout.strip() == "[]"


def test_the_checker_sees_all_kinds_of_import(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(
        "import xdplab.cli.main\nfrom xdplab import app, __version__\n\ndef f():\n    from xdplab.runner import x\n\n"
        "if TYPE_CHECKING:\n    from xdplab.methods.shared.curve import Curve\n    from xdplab.methods import micro\n",
        encoding="utf-8",
    )
    assert imported(source) == {"cli", "app", "runner", "methods/shared", "methods/NAME"}


def test_the_order_is_one_that_can_be_broken() -> None:
    wrong_ways = {
        "stats": "hosts",
        "measure": "runner",
        "analysis": "report",
        "report": "methods/shared",
        "methods/shared": "methods/NAME",
        "methods": "measure",
        "app": "methods/NAME",
        "api": "methods/shared",
        "cli": "robot",
    }
    assert {left for left, right in wrong_ways.items() if right in allowed(left)} == set()
    right_ways = {
        "measure": "stats",
        "report": "analysis",
        "methods/shared": "report",
        "methods/NAME": "methods/shared",
    }
    assert {left for left, right in right_ways.items() if right not in allowed(left)} == set()


def sources(folder: str) -> list[Path]:
    named = {"Makefile", "setup", "check", "build"}
    kinds = {".py", ".c", ".h", ".yaml", ".yml", ".robot", ".j2", ".sh", ".txt", ".patch", ".conf"}
    skipped = {"build", "__pycache__", "data"}
    found = []
    for path in (ROOT / folder).rglob("*"):
        inside = path.relative_to(ROOT).parts[:-1]
        hidden = any(part in skipped or part.startswith(".") or part.endswith(".egg-info") for part in inside)
        if path.is_file() and not hidden and (path.suffix in kinds or path.name in named):
            found.append(path)
    return found


def test_every_source_file_names_its_licence() -> None:
    at_least = {"tools": 90, "suites": 4, "bpf": 30, "ci": 3}
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
    return any("SPDX-License-Identifier" in line and expected in line for line in head)
