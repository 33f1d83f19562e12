# SPDX-License-Identifier: Apache-2.0
"""Tables, pictures, exports and Robot's log say no more than the analysis does."""

import csv
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab.claims import searched, with_repetitions
from lab.reading import a_run, render
from lab.records import encoded, point, run_record, trial
from robot.api import SkipExecution

from xdplab import robot
from xdplab.analysis import summarise
from xdplab.analysis.columns import figure_column, range_columns, rows_of
from xdplab.analysis.documents import reproduction
from xdplab.cli.tables import csv_text
from xdplab.measure import LimitedBy, Measured, figure, make_method
from xdplab.measure.distribution import Distribution
from xdplab.measure.point import PointSummary
from xdplab.model import TestbedSpec, TrialRecord
from xdplab.model.digits import loss_over
from xdplab.model.published import published_figure
from xdplab.model.run import LAB_IN_A_BOX as LAB
from xdplab.report.chart import distribution_chart
from xdplab.report.exports import FORMS
from xdplab.report.html import describe
from xdplab.report.page import Place, fixed, kpps
from xdplab.report.pictures import rate_chart
from xdplab.results import RunFolder
from xdplab_timeline.stages import stage_rows
from xdplab_timeline.tracing import tracing_answer, tracing_part

A, B = point("fake:seed=1"), point("fake:seed=2")
STORED = Path(__file__).parent / "data" / "stored"
#: Of a hundred samples of a trial one lies above p99.
HUNDRED = [*range(1000, 1099), 50_000]


def stored(name: str) -> tuple[RunFolder, list[PointSummary]]:
    folder = RunFolder(STORED / name)
    return folder, summarise(folder.load(), folder.trials())


def seen(html: str) -> str:
    """What a reader sees, scripts and pictures apart."""
    html = re.sub(r"<(script|style|svg)\b.*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_a_percentile_that_is_not_carried_is_shown_nowhere() -> None:
    (few,) = summarise(run_record(A), [trial(A, n, HUNDRED) for n in range(3)])
    (many,) = summarise(run_record(A), [trial(A, n, HUNDRED * 4) for n in range(3)])
    for one, known in ((few, False), (many, True)):
        shown = [figure_column(figure("p99_us")), *range_columns(figure("p99_us"))]
        found = [each.of(one) for each in shown] + [one.p99_us]
        assert [value is not None for value in found] == [known] * 4
    assert describe(trial(A, 0, HUNDRED)) == "p50 1.05 us, lost 0 of 100"
    assert "p99" in describe(trial(A, 0, HUNDRED * 12))


def test_a_stage_has_a_p99_where_ten_frames_lie_above_it() -> None:
    def of(values: list[int]) -> float | None:
        stage = {"count": len(values), "min_ns": 1000, "max_ns": 2000, "mean_ns": 1500.0, "rms_ns": 1.0}
        reported = {name: {**stage, "hdr": encoded(values)} for name in ("driver", "stack", "complete")}
        stamps = {"hardware": 0, "software": len(values), "unstamped": 0}
        figures = {"text": "", "stages": reported, "stamps": stamps}
        return stage_rows([trial(A, 0, values, figures=figures)])["complete"].p99_us

    assert of(HUNDRED) is None
    assert of(HUNDRED * 12) is not None


def lossy(one: TrialRecord) -> TrialRecord:
    """The same, a tenth of its frames lost."""
    if one.result is None:
        return one
    streams = [each.model_copy(update={"received": round(0.9 * each.sent)}) for each in one.result.streams]
    streams = [each.model_copy(update={"lost": each.sent - each.received}) for each in streams]
    return one.model_copy(update={"result": one.result.model_copy(update={"streams": tuple(streams)})})


def test_what_tracing_costs_is_not_said_of_lost_frames() -> None:
    folder, _ = stored("tracing")
    run, trials = folder.load(), [lossy(each) for each in folder.trials()]
    points = summarise(run, trials)
    sentence = tracing_answer(points, 10).text()
    assert "of the frames were lost" in sentence
    page = seen(render(run, trials))
    for text in (sentence, page, *tracing_part(points, "bpf").lines):
        assert not re.search(r"\d \([\d.,-]+ to [\d.,]+\), undecided", text)
    assert page.count("undecided") >= 3  # of the cost at p50, next to the published one


def test_what_probes_cost_is_not_said_of_two_rounds() -> None:
    folder, _ = stored("breakdown")
    run, trials = folder.load(), folder.trials()
    few = [each for each in trials if each.result is None or each.trial < 4]
    assert "undecided" not in seen(render(run, trials))
    assert "undecided" in seen(render(run, few))


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Robot's log and console say."""
    lines: list[str] = []
    for name in ("info", "console", "write"):
        monkeypatch.setattr(robot.logger, name, lambda text, **_: lines.append(text))
    return lines


def test_robot_says_no_ratio_that_may_not_be_said(reported: list[str]) -> None:
    folder, points = stored("rfc2544")
    document, wanted = published_figure("xsknf-measurements/pass-through")
    names = (wanted.ratios[0].of, wanted.ratios[0].to)
    alike = {"knobs": points[0].knobs, "levels": points[0].levels, "setting": points[0].setting}
    both = []
    for name, one in zip(names, points, strict=False):
        values = [each.value("ndr_pps") for each in one.by_repetition]
        both.append(searched(one, values, doubt="it wavered").model_copy(update={"forwarder": name, **alike}))
    run = folder.load()
    (row,) = reproduction(document, wanted, run, both).rows
    assert row.mpps == {}
    assert row.missing
    assert all("it wavered" in why for why in row.missing.values())
    suite = robot.XdplabLibrary()
    suite.read = a_run(run, both)
    with pytest.raises(SkipExecution, match=r"\(2\.07\): .*: it wavered"):
        suite.published_figure_stands_beside_ours("xsknf-measurements/pass-through")
    assert any("(2.07): " in line and "it wavered" in line for line in reported)
    assert not any(re.search(r"\d \([\d.]+ to [\d.]+\)", line) for line in reported)


def test_robot_passes_nothing_that_has_no_figure(reported: list[str]) -> None:
    folder, points = stored("rfc2544")
    gone = {"status": "not measured", "reason": "not come to it", "repetitions": 0, "by_repetition": ()}
    suite = robot.XdplabLibrary()
    suite.read = a_run(folder.load(), [points[0].model_copy(update=gone)])
    for asked, name in ((suite.case_was_measured, points[0].forwarder), (suite.work_was_measured, "cross")):
        with pytest.raises(AssertionError, match="not measured: not come to it"):
            asked(name)
    weight = {"p": 1.2345678901e-87, "why": "", "undecided": False, "matters": True}
    one = SimpleNamespace(factor="busy", verdict="matters", **weight)
    suite.read = a_run(folder.load(), points, sweeps=[SimpleNamespace(title="t", importance=[one])])
    suite.case_was_measured(points[0].forwarder)
    assert not any("{'" in line for line in reported)
    suite.setting_matters("busy")
    assert reported[-1] == "busy: matters, p < 0.0001"


def limited(one: PointSummary, by: LimitedBy, at_most: float | None = None, **given: Any) -> PointSummary:
    """The point with another limit of its NDR."""
    values = [given.get("ndr_pps", each.value("ndr_pps")) for each in one.by_repetition]
    return searched(one, values, by, **({} if at_most is None else {"high": at_most}))


def rates() -> tuple[RunFolder, list[PointSummary]]:
    """At least, below, between, not known, exact, not looked for."""
    folder, (one, *_) = stored("rfc2544")
    absent = [each.model_copy(update={"figures": {}}) for each in one.by_repetition]
    found = [
        limited(one, "tester"),
        limited(one, "below-minimum", 2000.0, ndr_pps=0.0),
        limited(one, "budget", 1_500_000.0),
        limited(one, "forwarder", ndr_pps=None),
        limited(one, "forwarder"),
        with_repetitions(one, absent),
    ]
    return folder, [each.model_copy(update={"point_id": str(number)}) for number, each in enumerate(found)]


def test_csv_and_json_keep_that_a_rate_is_a_bound() -> None:
    folder, points = rates()
    method = make_method(folder.load().study.method)
    rows = list(csv.DictReader(csv_text(method, points).splitlines()))
    assert [row["ndr_pps_bound"] for row in rows] == ["at least", "below", "within", "not known", "exact", ""]
    assert [row["ndr_pps_below"] for row in rows] == ["", "2000.0", "1500000.0", "", "", ""]
    (row,) = rows_of(method, [limited(points[4], "forwarder").model_copy(update={"failed": 1, "reason": "it died"})])
    assert "failed in 1 of 3 repetitions: it died" in row["doubts"]
    assert rows_of(method, points)[4]["doubts"] == ""


def test_exports_say_of_a_rate_what_the_table_says() -> None:
    folder, points = rates()
    run = folder.load()
    rows = [
        row for row in csv.DictReader(FORMS["csv"](run, points).decode().splitlines()) if row["figure"] == "ndr_pps"
    ]
    assert [row["text"].split(" (")[0] for row in rows] == [
        "at least 1,238 kpps", "below 2 kpps", "1,238 to 1,500 kpps", "not known", "1,238 kpps", ""
    ]  # fmt: skip
    assert [row["searched"] for row in rows] == ["true"] * 5 + ["false"]
    lines = [line for line in FORMS["junit"](run, points).decode().splitlines() if rows[0]["name"] in line]
    for row, line in zip(rows, lines, strict=False):
        assert f"{row['name']} {row['text']}" in line
    assert len(lines) == 5


def test_a_row_has_what_the_table_says() -> None:
    (one, *_), mpps = stored("functions")[1], figure("mpps")
    took_all = [
        each.model_copy(
            update={"figures": {"mpps": Measured(value=each.value("mpps"), high=math.inf, limited_by="tester")}}
        )
        for each in one.by_repetition
    ]
    length = figure_column(mpps).of(one)
    exact, bound = ("median", ["x"]), ("a bound", [f"x (at least {length:.4g})"])
    for drawn, shown in ((one, exact), (with_repetitions(one, took_all), bound)):
        chart = rate_chart([drawn], mpps, {drawn.point_id: "x"})
        (series,) = chart.series
        assert series.x == [pytest.approx(length)]
        assert (series.name, chart.y.names) == shown


@pytest.mark.parametrize("name", ["micro", "stages", "functions"])
def test_frames_that_are_not_to_come_back_are_not_lost(name: str) -> None:
    found = [one for one in stored(name)[1] if one.repetitions]
    dropped = [one for one in found if name == "stages" or {"rxdrop", "dropped"} & set(one.levels.values())]
    assert {one.loss_ratio for one in dropped} == {None}
    assert all(one.loss_ratio is not None for one in found if one.levels.get("workload") == "l2fwd")
    assert all((one.quantity == "wire to application") is (name == "stages") for one in found)


def test_the_distribution_goes_to_the_slowest_frame() -> None:
    for values, least in ((HUNDRED, 0.01), ([1000] * 200_000 + [3000, 9000], 1e-5), ([1000] * 5, 0.2)):
        found = distribution_chart("t", {"a": Distribution.merged([encoded(values)])}, "")
        (curve,) = found.series
        assert curve.x[-1] == pytest.approx(max(values) / 1000, rel=0.002)
        assert (min(curve.y), curve.y[-1]) == pytest.approx((least, least))  # type: ignore[type-var]
        assert list(curve.x) == sorted(curve.x)
        assert "single frames and no percentile" in found.note


def test_a_place_is_called_what_its_record_says() -> None:
    simulated = Place(run_record(A))
    assert not any("veth" in words for words in (simulated.inline, simulated.line_rate, simulated.caveat))
    ports = {role: {"host": "dut", "ifname": f"eth{n}"} for n, role in enumerate(("a0", "b0", "b1", "c0"))}
    lab = {"name": "lab", "kind": "hosts", "hosts": {"dut": {"address": "192.0.2.1"}}, "ports": ports}
    unknown = Place(run_record(A, testbed=TestbedSpec.model_validate(lab)))
    assert not unknown.virtual
    assert unknown.caveat == "figures of these machines; what their ports are was not recorded"
    there = unknown.run.environment.model_copy(update={"machine": LAB})
    emulated = unknown.run.model_copy(update={"environment": there})
    assert Place(emulated).where == "on emulated machines"
    assert Place(emulated).caveat == f"emulated ({LAB}): figures of QEMU, not of machines or network cards"
    assert f"emulated ({LAB})" in seen(render(emulated, []))
    assert "asked for 3 rounds" in seen(render(run_record(A, study={"repetitions": 3}, ended_early="Ctrl-C"), []))


def test_a_number_has_the_same_digits_in_the_report_and_is_zero_only_where_it_is() -> None:
    _, points = rates()
    rate = points[4].by_repetition[0].value("ndr_pps")
    assert kpps(rate) == figure_column(figure("ndr_pps")).shown(points[4]) == "1,238"
    assert (fixed(0.004), fixed(-0.001), fixed(0.0), fixed(1.5)) == ("0.004", "-0.001", "0.00", "1.50")


@pytest.mark.parametrize(
    ("mean", "rounds", "said"),
    [
        (0.041, [0.0, 0.124, 0.0], "4.1 % (0 to 12.4 %)"),
        (0.041, [0.02, 0.04, 0.063], "4.1 % (2 to 6.3 %)"),
        (0.041, [0.04, 0.041, 0.042], "4.1 %"),
        (0.041, [0.041], "4.1 %"),
        (0.0, [0.0, 0.0], "0"),
        (None, [], "-"),
    ],
)
def test_a_loss_of_some_rounds_only_is_shown_with_its_range(mean: float | None, rounds: list[float], said: str) -> None:
    assert loss_over(mean, rounds) == said
