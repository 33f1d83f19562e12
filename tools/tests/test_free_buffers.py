# SPDX-License-Identifier: Apache-2.0
"""Buffers that a forwarder keeps after they are needed: what is shown, and when it is doubted."""

from itertools import pairwise

import pytest
from lab.records import point, run_record, trial

from xdplab.analysis import answer, compare_points, summarise
from xdplab.analysis.doubts import doubts_of_one, remarks_of_one
from xdplab.analysis.trace import derivation
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, TrialRecord

OURS, THEIRS = point("fake"), point("xdp")


def measured(*free: int) -> tuple[RunRecord, list[TrialRecord]]:
    """Three repetitions of two forwarders, of which one reads `free` before and after the trials of each."""
    own = [
        trial(OURS, number, [1000] * 2000).model_copy(update={"trial": at, "free_buffers": ends})
        for number in range(3) for at, ends in enumerate(pairwise(free))
    ]  # fmt: skip
    return run_record(OURS, THEIRS), own + [trial(THEIRS, number, [1000] * 2000) for number in range(3)]


def point_of(*free: int) -> PointSummary:
    return summarise(*measured(*free))[0]


@pytest.mark.parametrize(
    ("free", "found"),
    [((12_000, 11_488, 8_928), (12_000, 8_928)), ((12_000, 12_100), None), ((12_000, 12_000, 12_000), None)],
)
def test_the_fall_over_all_trials_of_a_repetition_is_shown(
    free: tuple[int, ...], found: tuple[int, int] | None
) -> None:
    assert point_of(*free).free_buffers == found


def test_buffers_that_come_back_in_part_do_not_hide_the_fall() -> None:
    run, trials = measured(12_000, 11_000, 10_500)
    some = [each.model_copy(update={"free_buffers": (11_500, 8_000)}) if each.trial else each for each in trials]
    assert summarise(run, some)[0].free_buffers == (12_000, 8_000)


def test_another_start_begins_with_all_of_them() -> None:
    run, trials = measured(12_000, 11_000, 8_000)
    fresh = [each.model_copy(update={"free_buffers": (12_000, 11_900)}) if each.trial else each for each in trials]
    assert summarise(run, fresh)[0].free_buffers == (12_000, 11_000)


def test_few_are_not_worth_a_word_many_are_a_remark_and_too_many_a_doubt() -> None:
    said = "fake's free buffers fell from 12,000 to {} within a repetition"
    assert [*remarks_of_one(point_of(12_000, 11_700), "p50_us")] == []
    fewer = point_of(12_000, 8_928)
    assert [*remarks_of_one(fewer, "p50_us")] == [said.format("8,928")]
    assert [*doubts_of_one(fewer, "p50_us")] == []
    comparison = compare_points(*summarise(*measured(12_000, 8_928)))
    assert (comparison.blockers, comparison.remarks.count(said.format("8,928"))) == ((), 1)
    doubts = [*doubts_of_one(point_of(12_000, 2_900), "p50_us")]
    assert doubts == [f"{said.format('2,900')}: later trials may have run out of receive buffers"]
    assert [*remarks_of_one(point_of(12_000, 2_900), "p50_us")] == []


def test_each_trial_tells_its_own() -> None:
    run, trials = measured(12_000, 11_488, 11_488)
    points = summarise(run, trials)
    lines = [
        line for line in derivation(run, points[0], trials[:6], answer(run, points, trials)) if "free buff" in line
    ]
    assert len(lines) == 3, "of each repetition the first trial, in which they fell"
    assert all("; free buffers 12,000 to 11,488; " in line for line in lines)
