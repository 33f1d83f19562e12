# SPDX-License-Identifier: Apache-2.0
"""`xdplab schema` next to what is shipped, what was stored and what a run writes: the files fit, others do not."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from lab import studies
from lab.command import Done

from xdplab import api
from xdplab.analysis.columns import schema_of_rows
from xdplab.model import RunRecord, StudySpec, TestbedSpec, TrialRecord
from xdplab.tools import project_root

SUITES = project_root() / "suites"
STORED = sorted(path.parent for path in (Path(__file__).parent / "data").glob("stored*/**/trials.jsonl"))


@functools.cache
def validator(schema: str) -> Draft202012Validator:
    Draft202012Validator.check_schema(json.loads(schema))
    return Draft202012Validator(json.loads(schema))


def wrong(schema: dict[str, Any], data: Any) -> list[str]:
    found = validator(json.dumps(schema)).iter_errors(data)
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message:.200}" for each in found]


STUDY, TESTBED = StudySpec.model_json_schema(), TestbedSpec.model_json_schema()


@pytest.mark.parametrize(("schema", "folder"), [(STUDY, "studies"), (TESTBED, "testbeds")], ids=["studies", "testbeds"])
def test_each_shipped_file_fits(schema: dict[str, Any], folder: str) -> None:
    files = [*SUITES.glob(f"{folder}/*.yaml")]
    assert files
    misfits = {path.name: wrong(schema, yaml.safe_load(path.read_text("utf-8"))) for path in files}
    assert {name: found for name, found in misfits.items() if found} == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"repetitions": 0},
        {"path": "around"},
        {"colour": "red"},
        {"design": "complete"},
        {"knobs": {"mtu": {}}},
        {"forwarders": [7]},
        {"method": {"name": "latency", "colour": "red"}},
    ],
    ids=str,
)
def test_what_is_refused_does_not_fit(changes: dict[str, Any]) -> None:
    assert wrong(STUDY, studies.FAKE) == []
    assert wrong(STUDY, {**studies.FAKE, **changes})
    with pytest.raises(api.InputError):
        studies.study(**changes)


def test_fields_are_described(cli: Callable[..., Done]) -> None:
    found = cli("schema").json()
    assert set(found) == {"StudySpec", "TestbedSpec", "RunRecord", "TrialRecord", "show --json"}
    for schema in found.values():
        for name, model in {"": schema, **schema.get("$defs", {})}.items():
            bare = [key for key, field in model.get("properties", {}).items() if "description" not in field]
            assert bare == [], name


@pytest.mark.parametrize("folder", STORED, ids=lambda path: path.name)
def test_stored_runs_fit(folder: Path) -> None:
    """As they were written then, and as `show --json` tells them now."""
    head = json.loads((folder / "run.json").read_text("utf-8"))
    assert wrong(RunRecord.model_json_schema(mode="serialization"), head) == []
    lines = (folder / "trials.jsonl").read_text("utf-8").splitlines()
    every = {"type": "array", "items": (trial := TrialRecord.model_json_schema(mode="serialization"))}
    assert wrong({**every, "$defs": trial["$defs"]}, [json.loads(line) for line in lines]) == []
    rows = api.load(folder).rows()
    assert wrong(schema_of_rows(), json.loads(json.dumps(rows))) == []
    assert wrong(schema_of_rows(), [{**rows[0], "p50_us": "fast"}])
