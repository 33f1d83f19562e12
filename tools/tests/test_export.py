# SPDX-License-Identifier: Apache-2.0
"""`xdplab export`: what other programs read, read by parsers that are not ours; nothing firmer than in the report."""

import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from lab import studies
from lab.command import Done
from lab.records import point, run_record, trial
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from xdplab.analysis import summarise
from xdplab.analysis.tables.export import ExportRow, split_key
from xdplab.cli.tables import csv_text
from xdplab.measure import make_method
from xdplab.model import ForwarderSpec, Point, RunRecord, TrialRecord
from xdplab.model.base import one_line
from xdplab.model.cells import spreadsheet_row
from xdplab.report.exports import FORMS
from xdplab.report.exports.followers import append_row
from xdplab.results import RunFolder

DATA = Path(__file__).parent / "data"
STORED = sorted(path.parent for path in DATA.glob("stored*/**/run.json"))
HOSTILE = 'a "b"\\ \n<c> & \x1b[31m,{x="1"} 1\n# EOF'

Samples = dict[str, list[tuple[dict[str, str], float]]]


def exported(form: str, run: RunRecord, trials: list[TrialRecord]) -> bytes:
    return FORMS[form](run, summarise(run, trials))


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def metrics(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert not family.unit or family.name.endswith(f"_{family.unit}")
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


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
    found = metrics(exported("openmetrics", run, trials).decode())
    assert len(found["xdplab_run_info"]) == 1
    assert len([1 for labels, value in found["xdplab_status"] if value]) == len(points)
    known = sum(bool(row["value"]) for row in rows)
    figures = [each for name, each in found.items() if not re.search("_(low|high|below)(_|$)", name)]
    assert sum("bound" in labels for each in figures for labels, _ in each) == known > 0
    assert len(cases(exported("junit", run, trials))) == len(points)


#: What a spreadsheet would run, or send somewhere; and numbers, which it shall add up.
FORMULAS = ("=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(A1)", '\t=HYPERLINK("http://192.0.2.1")', "\r=1", "\n=1", "==1")
NUMBERS = ("-5", "+5", "-1e-9", "-.5")


def test_no_text_is_a_formula_and_every_number_is_one() -> None:
    assert spreadsheet_row(FORMULAS) == [f"'{text}" for text in FORMULAS]
    plain = [*NUMBERS, -5, -0.5, None, True, "a=1", "5-4", "", "{}", "µs"]
    assert spreadsheet_row(plain) == plain


def test_a_label_is_no_formula_in_any_table(tmp_path: Path) -> None:
    named = point({"name": "fake", "label": FORMULAS[0]})  # type: ignore[arg-type]
    run, trials = run_record(named), [trial(named, n) for n in range(3)]
    rows = table(exported("csv", run, trials).decode())
    assert {row["forwarder"] for row in rows} == {f"'{FORMULAS[0]}"}
    assert float(rows[0]["loss_ratio"]) == 0
    shown = table(csv_text(make_method(run.study.method), summarise(run, trials)))
    assert [row["forwarder"] for row in shown] == [f"'{FORMULAS[0]}"]
    for row in (["1", "-2"], ["=1", "-3"]):
        append_row(tmp_path / "x.csv", ["time", FORMULAS[1]], row)
    assert (tmp_path / "x.csv").read_text() == "time,'+1+1\n1,-2\n'=1,-3\n"


def test_a_figure_is_the_one_of_the_table_with_range_unit_and_doubts(cli: Callable[..., Done], results: Path) -> None:
    for name in ("rfc2544", "breakdown"):
        shutil.copytree(DATA / "stored" / name, results / name)
    shown = {row["forwarder"]: row["ndr_pps"] for row in cli("show", "rfc2544", "--json").json()}
    rows = [row for row in table(cli("export", "rfc2544").out) if row["figure"] == "ndr_pps"]
    assert {row["forwarder"]: float(row["value"]) for row in rows} == shown
    assert {(row["unit"], row["better"], row["n"], row["status"]) for row in rows} == {("frames/s", "more", "3", "ok")}
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    (doubted,) = [row for row in table(cli("export", "breakdown").out) if row["figure"] == "p50_us"]
    assert doubted["doubts"].startswith("xsk was sent 8.98 of 20 kpps")
    ((labels, value),) = metrics(cli("export", "breakdown", "--format", "openmetrics").out)["xdplab_p50_seconds"]
    assert (labels["doubtful"], value) == ("yes", pytest.approx(float(doubted["value"]) / 1e6))


A, SLOW = point("fake"), point("fake:base_latency_us=9.0")


def labelled(text: str) -> Point:
    return A.model_copy(update={"forwarder": ForwarderSpec(name="fake", label=text)})


def test_too_few_samples_are_no_percentile_here_either() -> None:
    run, trials = run_record(A), [trial(A, n, range(1000, 1200)) for n in range(3)]
    (p99,) = [row for row in table(exported("csv", run, trials).decode()) if row["figure"] == "p99_us"]
    assert (p99["value"], p99["low"], p99["n"]) == ("", "", "0")
    assert "too few independent samples" in p99["doubts"]
    assert "xdplab_p99_seconds" not in metrics(exported("openmetrics", run, trials).decode())


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
    assert len(metrics(exported("openmetrics", run, trials).decode())["xdplab_p50_seconds"]) == 2
    names = cases(exported("junit", run, trials))
    assert [name.split(", ", 3)[3:] for name in names] == [[], [f"pipeline={other.pipeline}"]]


def test_words_from_outside_stay_words() -> None:
    bad = labelled(HOSTILE)
    run = run_record(bad, SLOW, unsupported={SLOW.id: HOSTILE})
    rows = table(exported("csv", run, [trial(bad)]).decode())
    assert {row["forwarder"] for row in rows} == {one_line(HOSTILE), SLOW.name}
    found = metrics(exported("openmetrics", run, [trial(bad)]).decode())
    assert [labels["forwarder"] for labels, _ in found["xdplab_p50_seconds"]] == [one_line(HOSTILE)]
    (skipped,) = [case.result for case in cases(exported("junit", run, [trial(bad)])).values() if case.result]
    assert "\\x1b[31m" in skipped[0].message


@pytest.mark.parametrize(
    ("key", "stem", "base"),
    [
        ("p50_us", "p50", "seconds"),
        ("ndr_pps", "ndr", "frames_per_second"),
        ("mpps", "", "frames_per_second"),
        ("requests_per_s", "requests_per_s", None),
        ("s_per_round", "s_per_round", None),
    ],
)
def test_the_unit_is_what_a_key_ends_with(key: str, stem: str, base: str | None) -> None:
    found, unit = split_key(key)
    assert (found, unit and unit.base) == (stem, base)


def test_a_file_is_written_and_what_cannot_be_is_one_line(
    cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("run", studies.study_file(tmp_path))
    done = cli("export", "--format", "junit", "-o", tmp_path / "out.xml")
    assert (done.code, done.out) == (0, f"{tmp_path / 'out.xml'}\n")
    assert len(cases((tmp_path / "out.xml").read_bytes())) == 2
    cli("export", "--format", "junit", "-o", tmp_path / "none" / "out.xml").refused("none/out.xml: No such file")
    cli("export", "--format", "xlsx").refused("xlsx", "csv")
    cli("export", "--format", "parquet").refused("name a file with -o FILE")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    cli("export", "--format", "parquet", "-o", tmp_path / "x").refused("pip install 'xdplab[parquet]'")
    assert not (tmp_path / "x").exists()


def test_parquet_holds_the_same_table_with_types_and_descriptions() -> None:
    pytest.importorskip("pyarrow", reason="the extra xdplab[parquet] is not installed: 55 MB that no other test needs")
    from pyarrow import parquet

    run, trials = RunFolder(DATA / "stored-run").load(), RunFolder(DATA / "stored-run").trials()
    found = parquet.read_table(io.BytesIO(exported("parquet", run, trials)))
    rows = table(exported("csv", run, trials).decode())
    assert found.column_names == list(rows[0])
    assert [each.as_py() for each in found["value"]] == [float(row["value"]) if row["value"] else None for row in rows]
    assert str(found.schema.field("n").type) == "int64"
    assert b"Median of the repetitions" in found.schema.field("value").metadata[b"description"]
    assert json.loads(found["knobs"][0].as_py()) == {}
