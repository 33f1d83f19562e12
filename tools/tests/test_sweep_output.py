# SPDX-License-Identifier: Apache-2.0
"""A sweep as a user meets it: the command, JSON, the report, and what it costs to have it installed."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import records, studies
from lab.command import Done

from dev.simulate import simulate
from xdplab.analysis.sweep import SweepAnalysis, analyse_sweep
from xdplab.results import RunFolder


@pytest.fixture(scope="module")
def analyses() -> list[SweepAnalysis]:
    """What was found, which takes three seconds."""
    return []


@pytest.fixture
def run(results: Path, analyses: list[SweepAnalysis], monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A simulated run on disk, analysed once for all tests; one configuration could not be measured."""
    made = simulate("mlx5", 1)
    missing = made.trials[-1].point_id

    def once(*given: Any) -> Any:
        if not analyses:
            analyses.extend(analyse_sweep(*given))
        return list(analyses)

    monkeypatch.setattr("xdplab.analysis.sweep.analyse_sweep", once)
    folder = RunFolder(results / "simulated")
    folder.path.mkdir(parents=True)
    folder.head(made.run.model_copy(update={"unsupported": {missing: "no <b>such</b> thing here"}}))
    lines = [trial.model_dump_json() for trial in made.trials if trial.point_id != missing]
    (folder.path / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def test_the_command_prints_what_matters(run: RunFolder, cli: Callable[..., Done]) -> None:
    done = cli("analyse", "simulated")
    assert done.code == 0
    for words in (
        "What matters: poll_receiver (",
        "not measured: 1: no <b>such</b> thing here",
    ):
        assert words in done.out
    assert not re.search(r"\de[+-]\d", done.out)  # numbers as a person reads them
    (found,) = cli("analyse", "simulated", "--json").json()
    assert len(found["configurations"]) == 255


def test_the_report_of_a_sweep_has_the_sections_and_no_curve_per_point(
    run: RunFolder, cli: Callable[..., Done]
) -> None:
    assert cli("report", "simulated").code == 0
    html = run.report.read_text(encoding="utf-8")
    for words in (
        "Which setting matters: round trip latency",
        "Effect of each setting",
        "no &lt;b&gt;such&lt;/b&gt; thing here",
        "Analysis of variance",
    ):
        assert words in html
    assert len(html) < 1_000_000


def test_too_few_configurations_and_other_methods_are_refused(
    tmp_path: Path, results: Path, cli: Callable[..., Done]
) -> None:
    cli("run", studies.study_file(tmp_path, repetitions=1))
    cli("analyse", "latest").refused("too few configurations: 2 were measured on one path and traffic, 6 are needed")
    folder = RunFolder(results / "rfc")
    folder.path.mkdir()
    folder.head(records.run_record(records.point(), study={"method": {"name": "rfc2544"}}))
    cli("analyse", "rfc").refused("method rfc2544")


@pytest.mark.parametrize("wrong", ["nothing/mlx5", "understanding-delays-afxdp/e1000", "../../x/mlx5", "mlx5"])
def test_a_published_table_that_is_not_there_is_refused_before_anything_runs(
    wrong: str, tmp_path: Path, cli: Callable[..., Done]
) -> None:
    cli("run", studies.study_file(tmp_path, sweep={"published": [wrong]})).refused("sweep.published", wrong)
