# SPDX-License-Identifier: Apache-2.0
"""Studies with several testers: each measures every point, one at a time, and the report says what they differ by."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done
from lab.reading import render
from lab.saboteur import BiasedFake

from xdplab import app
from xdplab.analysis import agreements, answer, summarise
from xdplab.cli.study import ConsoleListener
from xdplab.model import InputError, Missing, RunRecord, TrialRecord
from xdplab.runner import RunOutcome
from xdplab.testbed import Testbed as AnyTestbed
from xdplab.testers import make_tester

TESTERS = ["fake", "biased-fake"]
FAST, SLOW = "fake:base_latency_us=5.0,latency_jitter_ratio=0.0", "fake:base_latency_us=30.0,latency_jitter_ratio=0.0"

pytestmark = pytest.mark.usefixtures("in_process")


def run(results: Path, **changes: object) -> tuple[RunRecord, list[TrialRecord], app.Prepared]:
    study = studies.study(testers=TESTERS, forwarders=[FAST, SLOW], **changes)
    prepared = app.prepare(study)
    with ConsoleListener() as listener:
        folder, outcome = app.run_study(prepared, listener, results)
    assert isinstance(outcome, RunOutcome)
    assert outcome.error is None
    return folder.load(), folder.trials(), prepared


def test_what_a_tester_adds_is_reported_apart_from_what_it_changes(results: Path) -> None:
    record, trials, prepared = run(results, repetitions=3)
    summaries = summarise(record, trials)
    assert [summary.forwarder for summary in summaries] == [
        f"{forwarder}, by {tester}" for forwarder in (FAST, SLOW) for tester in TESTERS
    ]
    (found,) = agreements(record, summaries)
    assert found.direct is not None
    assert found.direct.difference_us == pytest.approx(50, rel=0.02)
    assert [path.path.split(",")[0] for path in found.paths] == [FAST.split(",")[0], SLOW.split(",")[0]]
    for path in found.paths:
        assert path.difference_us == pytest.approx(50, rel=0.02)
        assert path.rest_us == pytest.approx(0, abs=1.5)
        assert path.interval_us is not None
        assert path.interval_us[0] <= path.difference_us <= path.interval_us[1]
    assert any("biased-fake reports 50" in each for each in found.sentences)
    said = answer(record, summaries)
    assert (said.sentence, *said.details) == found.sentences
    page = render(record, trials)
    assert "Do fake and biased-fake agree?" in page
    assert page.count("<figure") == 3  # the direct link, that of the paths, the price
    biased = prepared.testers[1]
    assert isinstance(biased, BiasedFake)
    assert biased.closed >= 2  # after its calibration, and whenever the other one measured
    assert not biased.holds_ports


def test_the_top_load_of_a_lossy_tester_is_what_it_carries_whole(results: Path) -> None:
    record, trials, _ = run(results, repetitions=1, method={"name": "throughput", "preset": "quick", "budget_s": 5})
    calibrations = record.calibrations
    assert calibrations["fake"].lossless_pps is None
    assert calibrations["fake"].ceiling_pps == calibrations["fake"].top_pps
    whole = calibrations["biased-fake"].lossless_pps
    assert whole is not None
    assert 0.7 * BiasedFake.WHOLE_PPS < whole <= BiasedFake.WHOLE_PPS * 1.0001
    for trial in trials:
        if trial.offered_pps and record.points[trial.point_id].tester == "biased-fake":
            assert trial.offered_pps <= whole * 1.0001


def test_a_clause_that_a_tester_cannot_measure_is_left_out_with_the_reason(results: Path) -> None:
    record, trials, _ = run(
        results, repetitions=1, method={"name": "rfc2544", "clauses": ["throughput", "recovery", "back-to-back"]}
    )
    summaries = {(summary.tester, summary.forwarder): summary for summary in summarise(record, trials)}
    ours = summaries["fake", f"{FAST}, by fake"]
    theirs = summaries["biased-fake", f"{FAST}, by biased-fake"]
    assert {*ours.model_dump()["figures"]} - {"directions"} == {"throughput", "back_to_back", "recovery"}
    assert ours.unsupported_clauses == {}
    assert {*theirs.model_dump()["figures"]} - {"directions"} == {"throughput", "back_to_back"}
    assert theirs.unsupported_clauses == {"recovery": "it cannot tell which frame was lost last"}
    assert "Not measured: recovery. it cannot tell" in render(record, trials)


def test_a_tester_that_is_missing_leaves_its_points_out(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(self: BiasedFake, testbed: AnyTestbed) -> str:
        return "biased-fake is not installed; get it there"

    monkeypatch.setattr(BiasedFake, "unsupported", absent, raising=False)
    record, trials, _ = run(results, repetitions=1)
    by_tester = {(summary.tester, summary.status): summary.reason for summary in summarise(record, trials)}
    assert by_tester == {
        ("fake", "ok"): "",
        ("biased-fake", "unsupported"): "tester biased-fake: biased-fake is not installed; get it there",
    }
    assert set(record.calibrations) == {"fake"}
    study = studies.study(tester="biased-fake")
    with ConsoleListener() as listener, pytest.raises(Missing, match=r"tester biased-fake: .*get it there"):
        app.run_study(app.prepare(study), listener, results)


def test_a_run_with_several_testers_can_be_resumed(results: Path, cli: Callable[..., Done], tmp_path: Path) -> None:
    study = studies.study_file(tmp_path, testers=TESTERS, repetitions=2)
    assert cli("run", study).code == 0
    folder = studies.only_run(results)
    before = folder.load().calibrations
    lines = folder.path.joinpath("trials.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    folder.path.joinpath("trials.jsonl").write_text("".join(lines[:5]), encoding="utf-8")
    assert cli("run", "--resume", folder.path).code == 0
    assert folder.load().calibrations == before
    taken = studies.measured(folder.trials())
    assert len(taken) == len(set(taken)) == 2 * 2 * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fake:speed=2", "tester 'fake': takes no options, 'speed' is given"),
        ("trex:mode=fast", "tester trex: mode: .*'fast'"),
        ("trex:modus=low-end", r"tester trex: modus: unknown key; did you mean 'mode'\? \(known here: mode, path"),
        ("trex:mode", "option 'mode' of tester 'trex' is not option=value"),
        ("trex:ports=0", "tester trex: ports: .*'0'"),
    ],
)
def test_bad_options_of_a_tester_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make_tester(text)
    assert "\n" not in str(caught.value)


def test_a_tester_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"study: testers: .*fake is there twice"):
        studies.study(testers=["fake", "fake"])
