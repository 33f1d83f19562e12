# SPDX-License-Identifier: Apache-2.0
"""`xdplab.api`: a run as objects and as a table; all that gates and third-party parts need."""

import ast
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.contributing import examples

import xdplab
from xdplab import api
from xdplab.tools import project_root

GATES = sorted((project_root() / "suites" / "pytest").glob("test_*.py"))
#: Modules of our own packages beside the core.
BESIDE = sorted((project_root() / "tools").glob("xdplab_*/**/*.py"))
EXAMPLES = {name: text for name, text in examples().items() if name.endswith(".py")}


def imported(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found |= {f"{module}.{each.name}" for each in node.names} if module == "xdplab" else {module}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return {name for name in found if name.startswith("xdplab")}


@pytest.mark.parametrize(
    "source",
    [*EXAMPLES.values(), *(path.read_text(encoding="utf-8") for path in GATES)],
    ids=[*EXAMPLES, *(path.name for path in GATES)],
)
def test_gates_and_third_parties_import_nothing_else(source: str) -> None:
    assert imported(source) == {"xdplab.api"}


def test_packages_beside_the_core_import_nothing_else() -> None:
    beside = {path.relative_to(project_root() / "tools").parts[0] for path in BESIDE}
    assert {f"xdplab_{name}" for name in ("applications", "changes", "cost", "delays", "timeline")} <= beside
    named = {path: imported(path.read_text(encoding="utf-8")) for path in BESIDE}
    ours = {path: {name for name in found if name.partition(".")[0] == "xdplab"} for path, found in named.items()}
    assert {path for path, found in ours.items() if found - {"xdplab.api"}} == set()


def test_what_is_promised_is_typed() -> None:
    assert (Path(xdplab.__file__).parent / "py.typed").is_file()


def test_a_study_is_measured_and_its_run_loaded_as_objects_and_as_a_table(tmp_path: Path) -> None:
    study = api.read_study(studies.study_file(tmp_path), {"repetitions": 3})
    made = api.measure(study)
    assert made.outcome is not None
    assert made.outcome.error is None
    found = api.load()
    assert [point.point_id for point in found.points] == [point.id for point in api.points(study)]
    assert found.answer.sentence == made.answer.sentence

    def table(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
        return {key: [row[key] for row in rows] for key in rows[0]}

    frame = found.frame(table)
    assert frame["p50_us"] == [point.p50_us for point in found.points]
    assert "by_repetition" not in frame
    with pytest.raises(api.InputError, match=r"no run\.json"):
        api.load("nowhere")
