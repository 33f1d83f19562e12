# SPDX-License-Identifier: Apache-2.0
"""Which tests may run next to which: the groups that the two folders of tests give to pytest-xdist."""

import ast
from pathlib import Path
from typing import Any

from xdplab.tools import project_root

TESTS = Path(__file__).parent
OF_BPF = project_root() / "bpf" / "tests"


def stated(folder: Path, name: str) -> Any:
    """The value of a constant of a conftest.py."""
    for node in ast.parse((folder / "conftest.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{folder}: no {name}")


def imports(path: Path) -> set[str]:
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.module or "" for node in tree if isinstance(node, ast.ImportFrom)}


def test_the_files_that_groups_name_are_there() -> None:
    assert {name for name in stated(TESTS, "BESIDE") if not (TESTS / name).is_file()} == set()
    assert {name for name in stated(OF_BPF, "TIMED") if not (OF_BPF / name).is_file()} == set()


def test_no_test_that_runs_beside_others_has_a_testbed() -> None:
    """A run holds the CPUs of the machine: a second one next to it is refused. Hosts of `lab.bench` have their own."""
    assert {name for name in stated(TESTS, "BESIDE") if "lab.rooted" in imports(TESTS / name)} == set()
