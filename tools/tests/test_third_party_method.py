# SPDX-License-Identifier: Apache-2.0
"""The method of CONTRIBUTING.md, of another distribution: its folder and one line, and no file of ours knows of it."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done, environment, xdplab
from lab.contributing import package

SPREAD = {"name": "acme-spread"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    folder, _ = package(tmp_path / "acme")
    return environment({}, [folder])


def study(tmp_path: Path, **changes: object) -> Path:
    return studies.study_file(tmp_path, method=SPREAD, answer=["fake", "fake:base_latency_us=9.0"], **changes)


def test_the_table_of_a_foreign_method_is_on_the_terminal_in_html_json_and_csv(
    tmp_path: Path, env: dict[str, str]
) -> None:
    done = xdplab("run", study(tmp_path, repetitions=4), env=env)
    assert done.complaints == []
    assert done.out.startswith("fake is ")  # the answer goes by its figure
    assert any(line.startswith("forwarder ") and "p99 less p50, us" in line for line in done.out.splitlines())
    rows = {row["forwarder"]: row for row in json.loads(xdplab("show", "--json", env=env).out)}
    assert 0 < rows["fake"]["spread_us"] < rows["fake:base_latency_us=9.0"]["spread_us"]
    table = list(csv.DictReader(io.StringIO(xdplab("show", "--csv", env=env).out)))
    assert [float(row["spread_us"]) for row in table] == [row["spread_us"] for row in rows.values()]
    html = studies.only_run(tmp_path / "results").report.read_text(encoding="utf-8")
    assert ">p99 less p50, µs</th>" in html
    assert f">{rows['fake']['spread_us']:.3g}</b>" in html


def test_its_runs_are_compared_by_its_figure(tmp_path: Path, env: dict[str, str]) -> None:
    for _ in range(2):
        assert xdplab("run", study(tmp_path, repetitions=4), env=env).code == 0
    first, second = sorted(path.name for path in (tmp_path / "results").iterdir() if not path.is_symlink())
    found = json.loads(xdplab("compare", first, second, "--json", env=env).out)["comparisons"][0]["points"]
    assert [point["spread_us"]["metric"] for point in found] == ["spread_us"] * 2
    assert "p50_us" not in found[0]


def test_without_the_distribution_its_study_and_its_run_are_refused_in_one_line(
    tmp_path: Path, env: dict[str, str], cli: Callable[..., Done]
) -> None:
    assert xdplab("run", study(tmp_path), env=env).code == 0
    cli("run", study(tmp_path)).refused(
        "method: Value error, name should be one of 'applications', 'back-to-back'", "acme-spread"
    )
    cli("show").refused("name should be one of", "run.json")


def test_sources_that_are_newer_than_what_is_installed_say_so(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xdplab.model.plugins.entries", lambda _: [])
    cli("run", study(tmp_path)).refused("no method is installed", "run ci/setup")


def test_a_key_of_its_spec_is_checked(tmp_path: Path, env: dict[str, str]) -> None:
    path = studies.study_file(tmp_path, method={**SPREAD, "length_s": 1})
    xdplab("run", path, env=env).refused("method.length_s: unknown key")
