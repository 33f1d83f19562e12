# SPDX-License-Identifier: Apache-2.0
"""From trial records to one row per point: which trials count, what its status is, and why."""

import math
from typing import Any

import pytest
from lab.records import point, result, run_record, stream, trial

from xdplab.analysis import answer, summarise
from xdplab.analysis.summary import trials_used
from xdplab.measure import make_method
from xdplab.measure.point import PointSummary
from xdplab.model import Disturbance, Point, TrialRecord
from xdplab.model.study import default_method
from xdplab.stats import MIN_ROUNDS

A, B = point("fake:seed=1"), point("fake:seed=2")


def row(*trials: TrialRecord, at: Point = A, **run: Any) -> PointSummary:
    (found,) = [each for each in summarise(run_record(A, B, **run), trials) if each.point_id == at.id]
    return found


def test_figures_are_medians_over_repetitions_of_each_ones_percentile() -> None:
    found = row(*(trial(A, n, [us * 1000] * 10) for n, us in enumerate((5, 1, 3))))
    assert found.p50_us == pytest.approx(3, rel=0.002)
    assert (found.min_us, found.max_us) == (1, 5)
    assert (found.samples, found.repetitions, found.status, found.reason) == (30, 3, "ok", "")


def test_what_the_machine_took_away_excludes_nothing() -> None:
    taken = Disturbance(stalled_share=0.4, steal_share={1: 0.3}, run_delay_share=0.0)
    slow = trial(A, 0, [50_000] * 10, sent=20, disturbance=taken)
    others = [trial(A, n, [2_000] * 10) for n in (1, 2)]
    found = row(slow, *others)
    assert (found.p50_us, found.loss_ratio) == (pytest.approx(2, rel=0.002), pytest.approx(10 / 40))
    assert (found.repetitions, found.status, found.reason) == (3, "ok", "")
    assert trials_used(make_method(default_method()), [slow, *others]) == [slow, *others]
    alone = row(slow)
    assert (alone.status, alone.p50_us) == ("ok", pytest.approx(50, rel=0.002))


@pytest.mark.parametrize(
    ("trials", "run", "status", "reason"),
    [
        ([], {}, "not measured", "no trial of it yet"),
        ([], {"ended_early": "ended by SIGINT"}, "not measured", "ended by SIGINT"),
        ([], {"unsupported": {A.id: "no such card"}}, "unsupported", "no such card"),
        ([trial(A, 0, status="failed", reason="it broke")], {}, "failed", "it broke"),
        ([trial(A, 0), trial(A, 1, status="failed", reason="it broke")], {}, "partial", "it broke"),
        ([trial(A, 0, status="unsupported", reason="no pages")], {}, "unsupported", "no pages"),
    ],
)
def test_status_and_reason(trials: list[TrialRecord], run: dict[str, Any], status: str, reason: str) -> None:
    found = row(*trials, **run)
    assert (found.status, found.reason) == (status, reason)


def test_the_most_frequent_reason_is_reported() -> None:
    reasons = ["rare", "often", "often"]
    assert row(*(trial(A, n, status="failed", reason=why) for n, why in enumerate(reasons))).reason == "often"


def test_points_keep_to_their_own_trials_in_the_order_of_the_study() -> None:
    found = summarise(run_record(B, A), [trial(A, 0, [1000]), trial(B, 0, [4000])])
    assert [each.point_id for each in found] == [B.id, A.id]
    assert [each.p50_us for each in found] == pytest.approx([4, 1], rel=0.002)


def test_loss_is_lost_over_sent_and_unsent_frames_are_the_testers() -> None:
    unsent = stream([1000] * 90, sent=100, intended=200, skipped=100)
    found = row(trial(A, 0, result=result(unsent)))
    assert found.loss_ratio == pytest.approx(0.1)
    assert found.tester_limited
    assert not row(trial(A, 0, [1000] * 100)).tester_limited


def test_frames_that_fell_into_a_stall_of_the_sender_were_not_offered() -> None:
    stalled = result(stream([1000] * 95, sent=95, intended=100, skipped=5), stalled_ns=100_000_000)
    assert row(trial(A, 0, result=stalled)).tester_limited


def test_a_point_that_lost_everything_has_loss_and_no_latency() -> None:
    found = row(trial(A, 0, [], sent=100))
    assert (found.loss_ratio, found.p50_us, found.samples, found.status) == (1.0, math.inf, 0, "ok")


def test_steps_of_a_search_and_figures_are_no_measurements() -> None:
    found = row(trial(A, 0, [9_000], purpose="search"), trial(A, 0, [2_000]), trial(A, 0, purpose="end", result=None))
    assert (found.repetitions, found.samples) == (1, 1)
    assert found.p50_us == pytest.approx(2, rel=0.002)


def several(at: Point, us: float, repetitions: int = 5) -> list[TrialRecord]:
    return [trial(at, n, [int(us * (1 + n / 50) * 1000)] * 9) for n in range(repetitions)]


def sentence(*trials: TrialRecord, **run: Any) -> str:
    record = run_record(A, B, study={"answer": ("fake:seed=1", "fake:seed=2")}, **run)
    return answer(record, summarise(record, trials)).sentence


def test_the_answer_names_the_faster_one_whichever_was_asked_first() -> None:
    ours = sentence(*several(A, 1), *[trial(B, n, [1000 * (10 + n * n)] * 9) for n in range(5)])
    assert ours.startswith("At 0.009 kpps fake (seed=1) is ")
    assert "times as fast as fake (seed=2)" in ours
    theirs = sentence(*[trial(A, n, [1000 * (10 + n * n)] * 9) for n in range(5)], *several(B, 1))
    assert theirs.startswith("At 0.009 kpps fake (seed=2) is ")
    low, high = theirs.split("99 % interval ")[1].split(")")[0].split(" to ")
    assert 1 < float(low) < float(high)


def test_the_answer_does_not_claim_what_it_cannot() -> None:
    few = [trial(B, n, [9000 + 50 * n]) for n in range(MIN_ROUNDS - 1)]
    assert f"{MIN_ROUNDS - 1} of the {MIN_ROUNDS} rounds" in sentence(*several(A, 1, MIN_ROUNDS - 1), *few)
    assert (
        sentence(*several(A, 1), trial(B, 0, status="failed", reason="it broke"))
        == "No answer: fake:seed=2 was not measured (it broke)."
    )
    assert "never measured in the same round" in sentence(trial(A, 0), trial(B, 1))
    noisy = [trial(B, n, [1000 * us]) for n, us in enumerate((1, 3, 1, 2, 1))]
    said = sentence(*[trial(A, n, [1000 * us]) for n, us in enumerate((2, 1, 3, 1, 2))], *noisy)
    assert (
        "too little to tell between fake (seed=1) and fake (seed=2): it is so noisy that ten times the rounds would"
        in said
    )
    steadier = [trial(B, n, [us]) for n, us in enumerate((1000, 1200, 1000, 1000, 1000))]
    assert "fake (seed=1) and fake (seed=2): about 2 more rounds would decide it" in sentence(
        *[trial(A, n, [us]) for n, us in enumerate((1200, 1200, 1300, 1200, 1400))], *steadier
    )
    record = run_record(A)
    assert answer(record, summarise(record, [])).sentence == "No answer: this run has no two forwarders to compare."
    swept = run_record(*(point("fake:seed=1", probe_pps=1000.0 + n) for n in range(6)))
    assert "`xdplab analyse`" in answer(swept, summarise(swept, [])).sentence


def test_options_that_a_label_hides_are_reported_where_the_study_sweeps_them() -> None:
    labelled = [
        Point.model_validate(
            {**point().model_dump(), "forwarder": {"name": "fake", "label": "one", "options": {"seed": n}}}
        )
        for n in (1, 2)
    ]
    study = {"forwarders": [{"name": "fake", "label": "one"}], "options": {"fake": {"seed": [1, 2]}}}
    found = summarise(run_record(*labelled, study=study), [trial(each) for each in labelled])
    assert [each.options for each in found] == [{"seed": 1}, {"seed": 2}]
    assert [each.options for each in summarise(run_record(*labelled), [trial(each) for each in labelled])] == [{}, {}]
