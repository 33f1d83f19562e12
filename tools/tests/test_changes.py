# SPDX-License-Identifier: Apache-2.0
"""Method `changes` on simulated boxes: what a change costs; changes that fail, do not happen, miss the traffic."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.records import each_figure, point, result, run_record, stream, trial
from test_robot_suite import robot

import xdplab_changes
from xdplab import app
from xdplab.analysis import answer, summarise
from xdplab.analysis.columns import figure_text, rows_of
from xdplab.analysis.export import row_of
from xdplab.cli.study import ConsoleListener
from xdplab.measure import make_method
from xdplab.model import InputError, TrialRecord, TrialResult, TrialSpec
from xdplab.testers.fake import FakeTester
from xdplab_changes import WITHOUT, Changes, ChangesSpec
from xdplab_changes.figures import GAP, repetition_figures

CHANGES: dict[str, Any] = {"name": "changes"}


def measured(results: Path, **changes: Any) -> dict[tuple[str, str], Any]:
    """(forwarder, change) -> its summary, of a simulated study of 10,000 frames per second."""
    given = {"method": CHANGES, "traffic": {"probe_pps": 10_000}, "repetitions": 3, "answer": None, **changes}
    with ConsoleListener() as listener:
        folder, _ = app.run_study(app.prepare(studies.study(**given)), listener, results)
    found = summarise(folder.load(), folder.trials())
    return {(each.forwarder, str(each.levels["change"])): each for each in found}


def values(summary: Any, key: str) -> list[float]:
    return [one.figures[key].value for one in summary.by_repetition]


def test_a_forwarder_that_blocks_for_100_ms_is_found_out_to_the_ms(results: Path) -> None:
    slow = {"name": "fake", "label": "slow", "options": {"change_blocks_s": 0.1, "change_us": 50, "change_slows": 4}}
    found = measured(results, forwarders=["fake", slow], answer=["fake", "slow"])
    for kind in ("rules", "rule-stream", "hit-rule", "port-added", "restart"):
        assert values(found["slow", kind], "blocked_us") == pytest.approx([100_000.0] * 3, abs=1000)
        assert values(found["slow", kind], "gap_us") == pytest.approx([100_000.0] * 3, abs=1000)
        assert values(found["slow", kind], "lost_frames") == [1000] * 3
        assert values(found["fake", kind], "lost_frames") == values(found["fake", kind], "blocked_us") == [0] * 3
    for kind in ("rules", "rule-stream"):
        assert values(found["slow", kind], "installed_per_s") == pytest.approx([20_000.0] * 3)
        assert values(found["fake", kind], "removed_per_s") == pytest.approx([100_000.0] * 3)
    assert found["slow", "rules"].p50_us > 2 * found["slow", "rules"].by_clause[WITHOUT].p50_us
    assert found["slow", "rules"].by_clause[WITHOUT].loss_ratio == 0
    for name in ("fake", "slow"):
        assert found[name, "queue-added"].reason == (
            "fake: change queue-added: it can do rules, rule-stream, hit-rule, port-added, new-flows, restart"
        )
    folder = studies.only_run(results)
    reported = answer(folder.load(), list(found.values()), folder.trials()).text()
    assert "Rules (rules installed): fake 5 times as much" in reported
    assert "Restart (longest gap): fake at least " in reported  # it lost nothing: its gap is a bound
    html = folder.report.read_text(encoding="utf-8")
    assert "below 0.1" in html
    assert "slow, rules" in html
    assert "times as" not in html.partition("<table")[2]  # a ratio of one figure under the head of another


def test_what_is_lost_without_a_change_as_well_is_no_changes(results: Path, cli: Callable[..., Done]) -> None:
    leaky = {"name": "fake", "label": "leaky", "options": {"loss_floor": 0.005, "change_blocks_s": 0.001}}
    slow = {"name": "fake", "label": "slow", "options": {"change_blocks_s": 0.1}}
    kinds = {**CHANGES, "kinds": ["hit-rule"]}
    found = measured(results, forwarders=[leaky, slow], answer=["leaky", "slow"], method=kinds)
    one = found["leaky", "hit-rule"]
    assert values(one, "lost_without_frames") == [50] * 3
    assert values(one, "blocked_us") == [None] * 3
    assert {each.figures["gap_us"].doubt for each in one.by_repetition} == {
        "frames were lost without the change as well"
    }
    reported = answer(studies.only_run(results).load(), list(found.values()))
    assert "No statement about hit-rule (longest gap): leaky: frames were lost without the change" in reported.text()
    out = cli("show", "latest", "--results", str(results)).out
    assert "change=hit-rule: longest gap ?: frames were lost without the change as well" in out


def test_with_no_frame_lost_on_either_side_nobody_is_ahead(results: Path) -> None:
    quick = {"name": "fake", "label": "quick", "options": {"seed": 1}}
    found = measured(
        results, forwarders=["fake", quick], answer=["fake", "quick"], method={**CHANGES, "kinds": ["hit-rule"]}
    )
    assert (
        "No statement about hit-rule: neither lost a frame"
        in answer(studies.only_run(results).load(), list(found.values())).text()
    )


def test_the_answer_says_that_there_are_other_settings(results: Path) -> None:
    slow = {"name": "fake", "label": "slow", "options": {"change_us": 50}}
    kinds = {**CHANGES, "kinds": ["rules"]}
    measured(results, forwarders=["fake", slow], answer=["fake", "slow"], method=kinds, frame_bytes=[64, 512])
    folder = studies.only_run(results)
    reported = answer(folder.load(), summarise(folder.load(), folder.trials())).text()
    assert "Rules (rules installed): fake 5 times as much" in reported
    assert reported.endswith("  Each at the first of 2 settings; the table has the others.")


def test_each_frame_of_a_new_flow_is_one_by_the_forwarders_own_count(results: Path) -> None:
    blind = {"name": "fake", "label": "blind", "options": {"change_ignored": True}}
    found = measured(results, forwarders=["fake", blind], method={**CHANGES, "kinds": ["new-flows"]}, repetitions=1)
    assert values(found["fake", "new-flows"], "new_flows_per_s") == [10_000]
    assert found["fake", "new-flows"].by_clause[WITHOUT].samples == 10_000
    assert "the flows were not new to it: only 0 of 10000 frames" in found["blind", "new-flows"].reason
    trials = studies.only_run(results).trials()
    asked = {trial.clause: trial.asked.streams[0].new_flows for trial in trials if trial.asked}
    assert asked == {WITHOUT: False, "new-flows": True}


def test_more_new_flows_than_there_are_ports_are_refused(tmp_path: Path, cli: Callable[..., Done]) -> None:
    path = studies.study_file(tmp_path, method={**CHANGES, "kinds": ["new-flows"]}, traffic={"probe_pps": 60_000})
    cli("run", path).refused("new flows: 60,000 in a trial are more than the 55,535 of 1 pairs of addresses")


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("change_ignored", "the change was accepted but did not happen: 0 rules are there, not 1000"),
        ("change_crashes", "fake was ended by its option"),
    ],
)
def test_a_change_that_does_not_happen_fails_its_point_and_no_other(
    results: Path, monkeypatch: pytest.MonkeyPatch, option: str, why: str
) -> None:
    monkeypatch.setattr(xdplab_changes, "_SEEN_S", 0.01)
    bad = {"name": "fake", "label": "bad", "options": {option: True}}
    found = measured(results, forwarders=["fake", bad], method={**CHANGES, "kinds": ["rules"]}, repetitions=1)
    assert found["bad", "rules"].status in ("failed", "partial")
    assert why in found["bad", "rules"].reason
    assert not values_of(found["bad", "rules"], "installed_per_s")
    assert {found[key].status for key in found if key != ("bad", "rules")} == {"ok"}


def values_of(summary: Any, key: str) -> list[float]:
    return [one.figures[key].value for one in summary.by_repetition if key in one.figures]


def test_a_frame_that_arrives_twice_fails_the_point(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = FakeTester.run

    def twice(self: FakeTester, context: Any, asked: TrialSpec) -> TrialResult:
        reported = real(self, context, asked)
        streams = tuple(each.model_copy(update={"duplicated": 2 * (asked.warmup_s > 0)}) for each in reported.streams)
        return reported.model_copy(update={"streams": streams})

    monkeypatch.setattr(FakeTester, "run", twice)
    found = measured(results, forwarders=["fake"], method={**CHANGES, "kinds": ["rules"]}, repetitions=1)
    assert found["fake", "rules"].faults == ("delivered 4 frames twice",)


def test_what_a_tester_cannot_have_measured_costs_its_point_alone(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender had waited -40 ms for a CPU: clocks of an emulated guest's CPUs differ."""
    real = FakeTester.run

    def less_than_nothing(self: FakeTester, context: Any, asked: TrialSpec) -> TrialResult:
        reported = real(self, context, asked).model_dump()
        return TrialResult(**{**reported, "run_delay_ns": -40_091_302 if asked.warmup_s == 0.05 else 0})

    slow = {"name": "fake", "label": "slow"}
    method = {"name": "latency", "duration_s": 0.1, "warmup_s": 0.05}
    monkeypatch.setattr(FakeTester, "run", less_than_nothing)
    with ConsoleListener() as listener:
        given = studies.study(forwarders=["fake", slow], answer=None, method=method, repetitions=1)
        folder, _ = app.run_study(app.prepare(given), listener, results)
    reasons = [trial.reason for trial in folder.trials() if trial.status == "failed"]
    words = "fake: impossible value in its report: run_delay_ns: Input should be greater than or equal to 0"
    assert reasons == [f"{words} (got -40091302)"] * 2


def changed(kind: str = "rules", lost: int = 0, figures: dict[str, Any] | None = None, **fields: Any) -> TrialRecord:
    """10,000 frames in a second, so many of which were lost; `figures`: what differs from a change of no steps."""
    of_stream = {key: fields.pop(key) for key in ("longest_gap_ns", "trailing_lost") if key in fields}
    one = stream([1000] * (10_000 - lost), sent=10_000, **of_stream)
    made = {} if kind == "restart" else {"text": "", "rounds": 1, "steps": {}, **(figures or {})}
    return trial(point(), clause=kind, result=result(one, **fields), figures=made)


def test_the_suites_own_part_of_a_restart_is_not_the_forwarders() -> None:
    found = repetition_figures(changed("restart", 3000, longest_gap_ns=300_000_000, restart_own_ns=50_000_000))
    assert (found.value("gap_us"), found.value("blocked_us")) == pytest.approx((250_000.0, 250_000.0))


def test_nothing_is_said_of_the_time_in_which_the_tester_stood_still() -> None:
    """With no frame lost a gap is below the longest time between two frames that were sent."""
    found = [repetition_figures(changed("hit-rule", longest_gap_ns=1)), repetition_figures(changed("hit-rule"))]
    record = changed("hit-rule")
    assert record.result is not None
    stood = record.model_copy(update={"result": record.result.model_copy(update={"longest_gap_ns": 20_000_000})})
    found.append(repetition_figures(stood))
    assert [one.value("gap_us") for one in found] == pytest.approx([100.0, 100.0, 20_000.0])
    assert {one.figures["gap_us"].limited_by for one in found} == {"below-minimum"}


HIT = point().model_copy(update={"levels": {"change": "hit-rule"}})


def gaps(*trials: TrialRecord) -> Any:
    """A summary of trials that lost as many frames."""
    run = run_record(HIT, study={"method": CHANGES})
    (at,) = run.points
    (found,) = summarise(run, [
        each.model_copy(update={"repetition": number, "point_id": at}) for number, each in enumerate(trials)
    ])  # fmt: skip
    return found


def changed_so(lost: int) -> TrialRecord:
    return changed("hit-rule", lost, **({"longest_gap_ns": 100_000 * (lost + 1)} if lost else {}))


@pytest.mark.parametrize(
    ("lost", "words", "bound", "below"),
    [
        ((0, 0, 49), "below 0.1", "below", 100.0),
        ((0, 49, 59), "5", "exact", None),
        ((0, 49), "2.5 to 2.55", "within", 2550.0),
        ((39, 49, 59), "5", "exact", None),
    ],
)
def test_a_bound_of_a_gap_is_reported_wherever_the_gap_is(
    lost: tuple[int, ...], words: str, bound: str, below: float | None
) -> None:
    """Of three the median is a bound where two are."""
    point_of = gaps(*(changed_so(each) for each in lost))
    method = make_method(run_record(study={"method": CHANGES}).study.method)
    assert figure_text(point_of, GAP) == words
    (row,) = rows_of(method, [point_of])
    assert (row["gap_us_bound"], row["gap_us_below"]) == (bound, pytest.approx(below) if below else None)
    assert row_of(point_of, GAP)["text"].startswith(f"{words} ms")
    assert row_of(point_of, GAP)["below"] == (pytest.approx(below) if below else None)


def test_a_doubted_gap_is_marked() -> None:
    stood = changed_so(49)
    assert stood.result is not None
    stood = stood.model_copy(update={"result": stood.result.model_copy(update={"longest_gap_ns": 4_000_000})})
    (column,) = (each for each in Changes.columns if each.key == GAP.key)
    assert column.shown(gaps(stood)) == "5 ?"


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"steps": {}}, "steps: installed is missing"),
        ({"steps": {"installed": {"count": 1, "s": "x"}}}, "steps.installed.s: Input should be a valid number"),
        ({"rounds": 0}, "rounds: Input should be greater than or equal to 1"),
    ],
)
def test_a_journal_with_other_steps_is_reported_in_a_line(figures: dict[str, Any], words: str) -> None:
    record = changed("rules", figures=figures)
    with pytest.raises(
        InputError, match=re.escape(f"trials.jsonl, point {record.point_id}, repetition 0, rules: {words}")
    ):
        repetition_figures(record)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": {**CHANGES, "kinds": ["rules", "rules"]}}, "kinds: Value error, rules is there twice"),
        (
            {"loads": [{"load_pps": 1000}, {"load_pps": 1000, "departures": "burst:100"}]},
            "departures: burst:100: method changes derives gaps from the time between two frames",
        ),
        ({"traffic": {"load_pps": 1000, "departures": "poisson"}}, "departures: poisson: method changes derives"),
    ],
)
def test_what_cannot_be_measured_so_is_refused(
    tmp_path: Path, cli: Callable[..., Done], given: dict[str, Any], words: str
) -> None:
    cli("run", studies.study_file(tmp_path, **{"method": CHANGES, "traffic": {"probe_pps": 1000}, **given})).refused(
        words
    )


def test_what_a_change_costs_is_reported_for_one_of_several() -> None:
    steps = {"installed": {"count": 4000, "s": 0.1}, "removed": {"count": 4000, "s": 0.05}}
    found = repetition_figures(changed("rules", 400, {"rounds": 4, "steps": steps}, longest_gap_ns=20_000_000))
    assert each_figure(found, "value") == pytest.approx(
        {"lost_frames": 400, "gap_us": 20_000, "blocked_us": 10_000, "change_us": 37_500, "installed_per_s": 40_000,
         "removed_per_s": 80_000}
    )  # fmt: skip


def test_rates_of_another_number_of_rules_are_doubted() -> None:
    """VPP takes 25 at a time, for to remove one of 1,000 takes it longer."""
    steps = {name: {"count": 100, "s": 0.1} for name in ("installed", "removed")}
    record = changed("rule-stream", figures={"rounds": 4, "steps": steps})
    why = "25 rules at a time, not 1,000"
    assert each_figure(repetition_figures(record, rules=1000), "doubt") == {
        "installed_per_s": why,
        "removed_per_s": why,
    }
    assert each_figure(repetition_figures(record, rules=25), "doubt") == {}
    (found,) = Changes(ChangesSpec(name="changes", rules=1000)).repetition_figures([record])
    assert found.figures["installed_per_s"].doubt == why


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ({"longest_gap_ns": 10_000_000, "restart_own_ns": 50_000_000}, "frames came through meanwhile"),
        ({"longest_gap_ns": 30_000_000}, "the tester itself sent nothing for 20 ms"),
        ({}, "frames arrived on several CPUs at once, so the gaps between them are not known"),
    ],
)
def test_a_gap_that_is_not_the_forwarders_is_no_fact(reported: dict[str, Any], why: str) -> None:
    record = changed("restart", 300, **reported)
    assert record.result is not None
    stalled = record.model_copy(update={"result": record.result.model_copy(update={"longest_gap_ns": 20_000_000})})
    assert each_figure(repetition_figures(stalled), "doubt") == {"gap_us": why}
    whole = run_record(point(), study={"method": CHANGES})
    assert each_figure(summarise(whole, [stalled])[0].by_repetition[0], "doubt") == {"gap_us": why}


def test_a_forwarder_that_is_not_back_when_the_trial_ends_was_away_for_as_long_at_least() -> None:
    """Of 10,000 frames a second the last 3,750 did not come; 50 ms of that are the suite's."""
    record = changed("restart", 3750, trailing_lost=3750, longest_gap_ns=7, restart_own_ns=50_000_000)
    found = repetition_figures(record)
    assert found.figures["gap_us"].text(per=1e3, unit=" ms") == "at least 325 ms"
    assert found.figures["gap_us"].doubt == ""
    assert found.value("blocked_us") is None
    silent = repetition_figures(changed("restart", 10_000, trailing_lost=10_000))
    assert each_figure(silent, "doubt") == {"gap_us": "no frame came through after the change"}


def test_the_suite_has_a_row_for_each_change(tmp_path: Path) -> None:
    asked = {"FORWARDERS": "fake", "PIPELINE": "cross", "KINDS": "rules queue-added restart", "DURATION": "0.5"}
    code, tests = robot(tmp_path, "changes.robot", **asked)
    assert code == 0
    for name in ("Rules In One Transaction", "Restart", "Latency Beside The Change"):
        assert tests[name][0] == "PASS"
    reason = (
        "unsupported: fake: change queue-added: it can do rules, rule-stream, hit-rule, port-added, new-flows, restart"
    )
    assert tests["Queue Added"] == ("SKIP", reason)
    assert tests["Port Added"] == ("SKIP", "port-added is not part of this study")
