# SPDX-License-Identifier: Apache-2.0
"""What DESIGN.md and STYLE.md say of the sources: data flows one way, every file names its licence, short modules."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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
]
FRONT_ENDS = {"cli", "robot"}
#: Modules of the package itself, below all others: they import nothing of it.
GROUND = {"tools", "__init__"}
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 320  # "about 300 lines"


def home(path: Path) -> str:
    """The package a module belongs to, or its own name directly below xdplab."""
    first, *_ = path.relative_to(PACKAGE).parts
    return first.removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Packages of xdplab that a module imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = [node.module or ""] if node.module != "xdplab" else [f"xdplab.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("xdplab.") and name != "xdplab.__version__")


def allowed(package: str) -> set[str]:
    if package in GROUND:
        return set()
    if package in ORDER:
        return {*ORDER[: ORDER.index(package) + 1], *GROUND}
    if package == "app":
        return {*ORDER, *GROUND}
    assert package in FRONT_ENDS, f"{package} has no place in the order of DESIGN.md"
    return {*ORDER, *GROUND, "app", package}


def wrong(path: Path) -> set[str]:
    return set(imported(path)) - allowed(home(path))


@pytest.mark.parametrize(
    "path", [path for path in MODULES if home(path) != "robot"], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_a_module_imports_only_from_those_to_its_left(path: Path) -> None:
    assert wrong(path) == set()


def test_one_front_end_does_not_need_the_other() -> None:
    assert {path.name: wrong(path) for path in MODULES if home(path) == "robot" and wrong(path)} == {}


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
        pytest.param(
            "ci",
            3,
        ),
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
