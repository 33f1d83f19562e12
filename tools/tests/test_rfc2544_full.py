# SPDX-License-Identifier: Apache-2.0
"""The RFC's own durations, shortened: the time is announced, a run is resumed, the report lists deviations, a PDF."""

import hashlib
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab.command import Done
from lab.studies import a_testbed, only_run, study
from test_robot_suite import robot

from xdplab import app
from xdplab.analysis.run import Run
from xdplab.methods.rfc2544.report import deviations
from xdplab.model import InputError, StudySpec
from xdplab.report.sheet import drawing, sheet
from xdplab.runner import make_plan
from xdplab.runner.refusals import _no_clause
from xdplab.testers import make_tester
from xdplab.tools import project_root

SHORT = {"FORWARDERS": "fake fake:seed=2", "FRAME_SIZES": "64 128", "PRESET": "quick", "BUDGET": "2"}


def full() -> StudySpec:
    return app.read_study(app.find_study("rfc2544-full.yaml"), {})


def test_it_keeps_to_the_times_of_the_rfc_and_tells_hours_beforehand() -> None:
    found = deviations(full().method, full())  # type: ignore[arg-type]
    assert [each.partition(":")[0] for each in found] == ["§11", "§12", "§23", "§26.2", "§26.6"]
    assert not [each for each in found if "instead of" in each]
    plan = make_plan(full(), a_testbed("embedded"), make_tester("xdpgen"))
    assert plan.seconds() > 24 * 3600


def test_a_short_run_lists_each_deviation_and_goes_on_however_it_has_ended(tmp_path: Path, results: Path) -> None:
    code, tests = robot(tmp_path, "rfc2544-full.robot", **SHORT)
    assert code == 0, tests
    run = only_run(results)
    html = unescape(run.report.read_text(encoding="utf-8"))
    read = Run.of(run)
    said = read.method.remarks(read.record)
    assert len(said) >= 8
    assert [each for each in said if f"<li>{each}</li>" not in html] == []
    assert any("§26.2" in each and "0.8 s instead of 120 s; 2 repetitions instead of 20" in each for each in said)
    journal = run.path / "trials.jsonl"
    whole = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    journal.write_text("".join(whole[: len(whole) // 2]), encoding="utf-8")  # as kill -9 leaves it
    code, tests = robot(tmp_path, "rfc2544-full.robot", RESUME="latest", TESTBED="", TESTER="")
    assert code == 0, tests
    assert only_run(results).path == run.path
    assert len(run.trials()) == len(whole)
    assert run.load().resumed


def test_a_run_of_another_study_is_not_gone_on_with(tmp_path: Path) -> None:
    assert robot(tmp_path, FORWARDERS="fake")[0] == 0
    code, tests = robot(tmp_path, "rfc2544-full.robot", RESUME="latest", TESTER="")
    assert code != 0
    assert any("is of study latency, and this suite runs rfc2544-full" in why for _, why in tests.values())


@pytest.mark.parametrize(("method", "word"), [("reset", "gap between two"), ("recovery", "which frame was lost")])
def test_a_clause_that_trex_has_no_figures_for_is_refused_with_the_reason(method: str, word: str) -> None:
    tester: Any = make_tester("trex:server=192.0.2.9")
    plan = make_plan(study(forwarders=["xdp"], method={"name": method}), a_testbed("embedded"), tester)
    pool: Any = SimpleNamespace(of=lambda _: tester)
    reason = _no_clause(plan.points[0], plan, pool)
    assert reason is not None
    assert reason.startswith(f"{method} (RFC 2544 section 26): TRex does not")
    assert word in reason
    pool.of = lambda _: make_tester("xdpgen")
    assert _no_clause(plan.points[0], plan, pool) is None


def test_readme_names_what_trex_leaves_out() -> None:
    text = (project_root() / "README.md").read_text(encoding="utf-8")
    assert "all six clauses of RFC 2544 §26 (with TRex four: without §26.5 and §26.6)" in text


def test_a_sheet_has_what_was_tested_with_results_deviations_and_checksums(tmp_path: Path, results: Path) -> None:
    assert robot(tmp_path, "rfc2544-full.robot", **SHORT)[0] == 0
    run = only_run(results)
    html = unescape(sheet(Run.of(run), operator="<b>A. Smith</b>"))
    for name in ("run.json", "trials.jsonl"):
        assert hashlib.sha256((run.path / name).read_bytes()).hexdigest() in html
    record = run.load()
    assert [each for each in Run.of(run).method.remarks(record) if each not in html] == []
    for heading in ("What was tested", "Results", "Deviations", "Settings", "Machine and cards", "Versions"):
        assert f"<h2>{heading}</h2>" in html
    assert record.environment.kernel in html
    assert re.search(r"operator: <b><b>A. Smith</b></b>", html)  # it is escaped; unescaped here
    assert [box.name for box in drawing(record)] == ["A", "B", "C"]
    assert sheet(Run.of(run), operator="<i>").count("&lt;i&gt;") == 1


def test_the_pages_are_one_to_three(tmp_path: Path, results: Path, cli: Callable[..., Done]) -> None:
    weasyprint = pytest.importorskip("weasyprint", reason="needs weasyprint to make pages")
    assert robot(tmp_path, "rfc2544-full.robot", **SHORT)[0] == 0
    run = only_run(results)
    done = cli("report", run.path, "--sheet", "--operator", "A. Smith")
    assert done.code == 0, done.err
    assert done.out.strip() == str(run.path / "sheet.pdf")
    assert (run.path / "sheet.pdf").read_bytes().startswith(b"%PDF-")
    assert 1 <= len(weasyprint.HTML(string=sheet(Run.of(run))).render().pages) <= 3


def test_a_sheet_has_clauses_that_have_figures_of_their_own_alone(tmp_path: Path, results: Path) -> None:
    robot(tmp_path, "rfc2544-full.robot", **{**SHORT, "CLAUSES": "reset"})
    page = sheet(Run.of(only_run(results)))
    assert "<b>By clause</b>" in page
    assert ": reset: " in page


def test_a_run_without_figures_has_no_sheet(tmp_path: Path, results: Path, cli: Callable[..., Done]) -> None:
    robot(tmp_path, FORWARDERS="fake:unsupported_reason=no_such_card fake:fail_to_start=true")
    with pytest.raises(InputError, match="nothing was measured, so there is nothing to sign"):
        sheet(Run.of(only_run(results)))
    cli("report", "latest", "--operator", "A. Smith").refused("report: --operator is of the sheet; give --sheet")
