# SPDX-License-Identifier: Apache-2.0
"""Study and testbed files, and what a run made of them."""

import json
from pathlib import Path
from typing import Any

import yaml

from xdplab.model import StudySpec, TestbedSpec, TrialRecord, validated
from xdplab.results import RunFolder

FAKE: dict[str, Any] = {
    "schema": 1,
    "name": "fake-study",
    "testbed": "fake",
    "tester": "fake",
    "forwarders": ["fake", "fake:base_latency_us=9.0"],
    "method": {"name": "latency", "duration_s": 0.05, "warmup_s": 0.0},
    "traffic": {"probe_pps": 20000},
    "repetitions": 2,
}


def study_file(folder: Path, **changes: Any) -> Path:
    """A fake study with some keys replaced."""
    path = folder / f"{changes.get('name', FAKE['name'])}.yaml"
    path.write_text(yaml.safe_dump({**FAKE, **changes}, sort_keys=False), encoding="utf-8")
    return path


def study(**changes: Any) -> StudySpec:
    return validated(StudySpec, {**FAKE, **changes}, "study")


def a_testbed(kind: str = "fake", **changes: Any) -> TestbedSpec:
    return validated(TestbedSpec, {"name": "t", "kind": kind, **changes}, "testbed")


def only_run(results: Path) -> RunFolder:
    (path,) = [path for path in results.iterdir() if path.is_dir() and not path.is_symlink()]
    return RunFolder(path)


def lines(results: Path) -> list[dict[str, Any]]:
    """Whole journal lines of the only run so far; empty before there is one."""
    found = list(results.glob("*/trials.jsonl"))
    paths = {path.resolve() for path in found}
    text = paths.pop().read_text(encoding="utf-8") if paths else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def measured(trials: list[TrialRecord]) -> list[tuple[str, int]]:
    """(point, repetition) of every trial that has a result."""
    return [(trial.point_id, trial.repetition) for trial in trials if trial.result and trial.purpose == "measure"]
