# SPDX-License-Identifier: Apache-2.0
"""What docs/architecture.md says of the sources: data flows one way, every file names its licence, short modules."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xdplab.measure import method_class, method_names
from xdplab.tools import project_root

ROOT = project_root()
PACKAGE = ROOT / "tools" / "xdplab"
ORDER = [
    "model",
    "hosts",
    "testbed",
    "knobs",
    "forwarders",
    "testers",
    "methods",
    "runner",
    "results",
    "analysis",
    "report",
    "methods/NAME",
]
FRONT_ENDS = {"cli", "robot"}
#: A benchmark of the search of a method.
MAY_KNOW_A_METHOD = {"cli/dev/bench_search.py"}
#: The face of a method names types of all layers that the method spans.
FACES = {"methods/base.py", "methods/column.py", "methods/figure.py"}
#: What methods put into `PointSummary.figures`.
FIGURES_OF_POINTS = ("tracing", "breakdown", "stages", "function", "throughput", "loss_curve", "cache_misses")
#: Modules of the package itself, below all others: they import nothing of it.
GROUND = {"tools", "__init__"}
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 320  # "about 300 lines"


def home(path: Path) -> str:
    """The package a module belongs to, or its own name directly below xdplab; the folder of a method stands apart."""
    first, *rest = path.relative_to(PACKAGE).parts
    return "methods/NAME" if first == "methods" and len(rest) > 1 else first.removesuffix(".py")


def imported_modules(path: Path, *, all_of_it: bool = False) -> Iterator[str]:
    """What a module imports of xdplab, also inside functions; what is for type checkers only with `all_of_it`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types and not all_of_it:
            continue
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = [node.module or ""] if node.module != "xdplab" else [f"xdplab.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("xdplab.") and name != "xdplab.__version__")


def method_of(module: str) -> str | None:
    """The method whose folder a module is in, or None: `xdplab.methods.latency.columns`."""
    parts = module.split(".")
    inside = len(parts) > 2 and parts[1] == "methods" and (PACKAGE / "methods" / parts[2]).is_dir()
    return parts[2] if inside else None


def imported(path: Path) -> Iterator[str]:
    """Packages of xdplab that a module imports."""
    for name in imported_modules(path, all_of_it=not is_face(path)):
        yield "methods/NAME" if method_of(name) else name.split(".")[1]


def is_face(path: Path) -> bool:
    return path.is_relative_to(PACKAGE) and path.relative_to(PACKAGE).as_posix() in FACES


def allowed(package: str) -> set[str]:
    if package in GROUND:
        return set()
    if package in ORDER:
        return {*ORDER[: ORDER.index(package) + 1], *GROUND}
    if package in ("app", "api"):
        return {*ORDER, *GROUND, "app"} - {"methods/NAME"}
    assert package in FRONT_ENDS, f"{package} has no place in the order of docs/architecture.md"
    return {*ORDER, *GROUND, "app", package} - {"methods/NAME"}


def wrong(path: Path) -> set[str]:
    known = {"methods/NAME"} if path.relative_to(PACKAGE).as_posix() in MAY_KNOW_A_METHOD else set()
    return set(imported(path)) - allowed(home(path)) - known


@pytest.mark.parametrize(
    "path", [path for path in MODULES if home(path) != "robot"], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_a_module_imports_only_from_those_to_its_left(path: Path) -> None:
    assert wrong(path) == set()


def test_one_front_end_does_not_need_the_other() -> None:
    assert {path.name: wrong(path) for path in MODULES if home(path) == "robot" and wrong(path)} == {}


IN_FOLDERS = [path for path in MODULES if home(path) == "methods/NAME"]


def test_the_folder_of_a_method_needs_no_other() -> None:
    own = {path: path.relative_to(PACKAGE / "methods").parts[0] for path in IN_FOLDERS}
    assert len(set(own.values())) >= 4
    others = {
        str(path): {method_of(name) for name in imported_modules(path)} - {None, own[path]} for path in IN_FOLDERS
    }
    assert {path: found for path, found in others.items() if found} == {}


def asks_which_method(source: str) -> list[str]:
    """Comparisons of a method's name, and questions for its spec's class."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [ast.unparse(each) for each in (node.left, *node.comparators)]
            found += [ast.unparse(node) for side in sides if re.search(r"\bmethod(\(\))?\.name$", side)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            text = ast.unparse(node.args[1])
            found += [ast.unparse(node)] if re.search(r"Spec\b", text) and "method" in ast.unparse(node.args[0]) else []
    return found


def test_nobody_outside_its_folder_asks_which_method_it_is() -> None:
    asked = {str(path): asks_which_method(path.read_text(encoding="utf-8")) for path in set(MODULES) - set(IN_FOLDERS)}
    assert {path: found for path, found in asked.items() if found} == {}
    templates = [path for path in PACKAGE.rglob("*.j2") if path.parent.parent.name != "methods"]
    assert templates
    assert [path.name for path in templates if "method.name" in path.read_text(encoding="utf-8")] == []


def test_nobody_outside_its_folder_names_the_figure_of_a_method() -> None:
    """Percentiles are everybody's; what else a method has is told by its declaration."""
    own = {each.key for name in method_names() for each in method_class(name).figures} - {"p50_us", "p99_us", "p999_us"}
    assert {"ndr_pps", "mpps", "requests_per_s"} <= own
    outside = [path for path in MODULES if not home(path).startswith("methods")]
    code = {str(path): ast.unparse(ast.parse(path.read_text(encoding="utf-8"))) for path in outside}
    assert {(path, key) for path, text in code.items() for key in own if repr(key) in text} == set()


def test_the_front_ends_name_no_part_of_a_method() -> None:
    words = {*FIGURES_OF_POINTS, *method_names()} - {"latency"}
    text = {path: path.read_text(encoding="utf-8") for path in MODULES if home(path) == "robot"}
    assert {(path.name, word) for path, each in text.items() for word in words if f'"{word}"' in each} == set()


@pytest.mark.parametrize(
    "source",
    ["x = run.study.method.name == 'latency'", "if 'a' != method.name: pass", "isinstance(study.method, LatencySpec)"],
)
def test_such_a_question_is_seen(source: str) -> None:
    assert asks_which_method(source)


def test_plotting_libraries_wait_until_something_is_drawn() -> None:
    done = "import sys, xdplab.cli.main, xdplab.methods as m; [m.method_class(n) for n in m.method_names()]"
    told = subprocess.run(
        [sys.executable, "-c", f"{done}; print([n for n in ('matplotlib', 'sklearn') if n in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == "[]"


def test_the_checker_sees_all_kinds_of_import(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(
        "import xdplab.cli.main\nfrom xdplab import app, __version__\n\ndef f():\n    from xdplab.runner import x\n",
        encoding="utf-8",
    )
    assert set(imported(source)) == {"cli", "app", "runner"}


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


@pytest.mark.parametrize(
    ("folder", "at_least"),
    [
        ("tools", 90),
        ("suites", 4),
        ("bpf", 30),
        ("ci", 3),
    ],
)
def test_every_source_file_names_its_licence(folder: str, at_least: int) -> None:
    found = sources(folder)
    assert len(found) >= at_least
    assert [str(path.relative_to(ROOT)) for path in found if not _licence(path)] == []


def _licence(path: Path) -> bool:
    head = path.read_text(encoding="utf-8", errors="replace").splitlines()[:4]
    expected = (
        "GPL-2.0 OR BSD-2-Clause"
        if path.is_relative_to(ROOT / "bpf") and path.suffix != ".py"
        else "SPDX-License-Identifier"
    )
    return any("SPDX-License-Identifier" in line and expected in line for line in head)


@pytest.mark.parametrize("folder", ["tools/xdplab", "tools/tests"])
def test_modules_fit_on_two_screens(folder: str) -> None:
    lengths = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}
