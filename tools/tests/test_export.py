# SPDX-License-Identifier: Apache-2.0
"""`xdplab export`: what other programs read, read by parsers that are not ours; nothing firmer than in the report."""

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from lab import studies
from lab.command import Done
from lab.records import point, run_record, trial

from xdplab.analysis import summarise
from xdplab.analysis.columns import cells_of
from xdplab.analysis.export import ExportRow, unit_of
from xdplab.cli.tables import csv_text
from xdplab.measure import make_method
from xdplab.model import ForwarderSpec, Point, RunRecord, TrialRecord
from xdplab.model.base import one_line
from xdplab.model.digits import spreadsheet_row
from xdplab.report.exports import FORMS
from xdplab.results import RunFolder

DATA = Path(__file__).parent / "data"
STORED = sorted(path.parent for path in DATA.glob("stored*/**/run.json"))
HOSTILE = 'a "b"\\ \n<c> & \x1b[31m,{x="1"} 1\n# EOF'


def exported(form: str, run: RunRecord, trials: list[TrialRecord]) -> bytes:
    return FORMS[form](run, summarise(run, trials))


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def cases(xml: bytes) -> dict[str, Any]:
    suites = JUnitXml.fromstring(xml)
    (suite,) = suites
    found = {case.name: case for case in suite}
    assert suite.tests == len(found)
    return found


@pytest.mark.parametrize("folder", STORED, ids=lambda path: path.name)
def test_a_run_of_each_method_is_read_by_parsers_of_others(folder: Path) -> None:
    run, trials = RunFolder(folder).load(), RunFolder(folder).trials()
    points, rows = summarise(run, trials), table(exported("csv", run, trials).decode())
    assert list(rows[0]) == list(ExportRow.model_fields)
    own = [row for row in rows if not row["part"]]
    declared = [each.key for each in make_method(run.study.method).figures]
    asked = {(each.point_id, key) for each in points for key in declared}
    assert asked <= {(row["point_id"], row["figure"]) for row in own}
    assert len({(row["point_id"], row["part"], row["figure"]) for row in rows}) == len(rows)
    assert all(row["unit"] for row in rows if row["value"])
    assert len(cases(exported("junit", run, trials))) == len(points)
    cells = cells_of(make_method(run.study.method), points)
    assert [
        cell for column in cells.values() for cell in column if cell.startswith("- (")
    ] == []  # of what is not known


#: What a spreadsheet would run, or send somewhere; and numbers, which it shall add up.
FORMULAS = ("=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(A1)", '\t=HYPERLINK("http://192.0.2.1")', "\r=1", "\n=1", "==1")
NUMBERS = ("-5", "+5", "-1e-9", "-.5")


def test_no_text_is_a_formula_and_every_number_is_one() -> None:
    assert spreadsheet_row(FORMULAS) == [f"'{text}" for text in FORMULAS]
    plain = [*NUMBERS, -5, -0.5, None, True, "a=1", "5-4", "", "{}", "µs"]
    assert spreadsheet_row(plain) == plain


def test_a_label_is_no_formula_in_any_table() -> None:
    named = point({"name": "fake", "label": FORMULAS[0]})  # type: ignore[arg-type]
    run, trials = run_record(named), [trial(named, n) for n in range(3)]
    rows = table(exported("csv", run, trials).decode())
    assert {row["forwarder"] for row in rows} == {f"'{FORMULAS[0]}"}
    assert float(rows[0]["loss_ratio"]) == 0
    shown = table(csv_text(make_method(run.study.method), summarise(run, trials)))
    assert [row["forwarder"] for row in shown] == [f"'{FORMULAS[0]}"]


def test_a_figure_is_the_one_of_the_table_with_range_unit_and_doubts(cli: Callable[..., Done], results: Path) -> None:
    for name in ("rfc2544", "breakdown"):
        shutil.copytree(DATA / "stored" / name, results / name)
    shown = {row["forwarder"]: row["ndr_pps"] for row in cli("show", "rfc2544", "--json").json()}
    rows = [row for row in table(cli("export", "rfc2544").out) if row["figure"] == "ndr_pps"]
    assert {row["forwarder"]: float(row["value"]) for row in rows} == shown
    assert {(row["unit"], row["better"], row["n"], row["status"]) for row in rows} == {("frames/s", "more", "3", "ok")}
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    (doubted,) = [row for row in table(cli("export", "breakdown").out) if row["figure"] == "p50_us"]
    assert doubted["doubts"].startswith("the tester sent xsk 8.98 of 20 kpps")


A, SLOW = point("fake"), point("fake:base_latency_us=9.0")


def labelled(text: str) -> Point:
    return A.model_copy(update={"forwarder": ForwarderSpec(name="fake", label=text)})


def test_too_few_samples_are_no_percentile_here_either() -> None:
    run, trials = run_record(A), [trial(A, n, range(1000, 1200)) for n in range(3)]
    (p99,) = [row for row in table(exported("csv", run, trials).decode()) if row["figure"] == "p99_us"]
    assert (p99["value"], p99["low"], p99["n"]) == ("", "", "0")
    assert "too few independent samples" in p99["doubts"]


def test_a_junit_test_passes_only_where_a_run_would() -> None:
    """Exit code 1 and an interrupted run are no green build."""
    gone, broken, lossy, few, late = (labelled(name) for name in ("gone", "broken", "lossy", "few", "late"))
    run = run_record(
        A, gone, broken, lossy, few, late,
        unsupported={gone.id: "no such <card>"}, ended_early="ended by SIGINT", study={"max_loss_ratio": 0.01},
    )  # fmt: skip
    trials = [
        trial(A, 0, [1000] * 500),
        trial(lossy, sent=2),
        trial(few),
        trial(broken),
        trial(broken, 1, status="failed", reason="it broke"),
    ]
    found = {name.split(",")[0]: case for name, case in cases(exported("junit", run, trials)).items()}
    reported = {name: [(type(each), each.message) for each in case.result] for name, case in found.items()}
    assert reported == {
        "fake": [],
        "gone": [(Skipped, "no such <card>")],
        "broken": [(Failure, "it broke")],
        "lossy": [(Failure, "lossy: loss 50 %, the study allows 1 %")],
        "few": [
            (
                Failure,
                "few: none of 1 frames was lost, which shows a loss below 100 % and not 1 %: send more",
            )
        ],
        "late": [(Error, "not measured: ended by SIGINT")],
    }
    assert "p50 1 µs" in found["fake"].system_out


def test_points_that_differ_in_what_is_done_with_a_frame_keep_apart() -> None:
    other = Point.model_validate({**A.model_dump(), "pipeline": "route"})
    run, trials = run_record(A, other), [trial(A), trial(other)]
    rows = table(exported("csv", run, trials).decode())
    assert {row["point_id"]: row["pipeline"] for row in rows} == {A.id: "cross", other.id: str(other.pipeline)}
    names = cases(exported("junit", run, trials))
    assert [name.split(", ", 3)[3:] for name in names] == [[], [f"pipeline={other.pipeline}"]]


def test_words_from_outside_stay_words() -> None:
    bad = labelled(HOSTILE)
    run = run_record(bad, SLOW, unsupported={SLOW.id: HOSTILE})
    rows = table(exported("csv", run, [trial(bad)]).decode())
    assert {row["forwarder"] for row in rows} == {one_line(HOSTILE), SLOW.name}
    (skipped,) = [case.result for case in cases(exported("junit", run, [trial(bad)])).values() if case.result]
    assert "\\x1b[31m" in skipped[0].message


@pytest.mark.parametrize(
    ("key", "unit"),
    [("p50_us", "µs"), ("ndr_pps", "frames/s"), ("mpps", "Mframes/s"), ("requests_per_s", None), ("s_per_round", None)],
)
def test_the_unit_is_what_a_key_ends_with(key: str, unit: str | None) -> None:
    assert unit_of(key) == unit


def test_a_file_is_written_and_what_cannot_be_is_one_line(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run", studies.study_file(tmp_path))
    done = cli("export", "--format", "junit", "-o", tmp_path / "out.xml")
    assert (done.code, done.out) == (0, f"{tmp_path / 'out.xml'}\n")
    assert len(cases((tmp_path / "out.xml").read_bytes())) == 2
    cli("export", "--format", "junit", "-o", tmp_path / "none" / "out.xml").refused("none/out.xml: No such file")
    cli("export", "--format", "xlsx").refused("xlsx", "csv")
