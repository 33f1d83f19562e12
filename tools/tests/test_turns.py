# SPDX-License-Identifier: Apache-2.0
"""Turns: a round's comparison is the median over its turns, the verdict is Student's t over rounds."""

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.claims import LATENCY, OURS, THEIRS, asked
from lab.records import run_record, trial

from xdplab.analysis import compare_points, summarise
from xdplab.analysis.words import verdict
from xdplab.measure.comparison import Comparison
from xdplab.measure.point import PointSummary
from xdplab.model import Point, TrialRecord

Latency = Callable[[int, int], float]


def turns_of(
    point: Point,
    us: Latency,
    rounds: int = 5,
    turns: int = 6,
    lost: Callable[[int, int], bool] = lambda r, t: False,
) -> list[TrialRecord]:
    """Trials of 1,000 frames each, all as late as `us` says of round and turn."""
    return [
        trial(
            point,
            number,
            [] if lost(number, turn) else [round(us(number, turn) * 1000)] * 1000,
            sent=1000,
            turn=turn,
            trial=turn,
        )
        for number in range(rounds)
        for turn in range(turns)
    ]


def compared(ours: Sequence[TrialRecord], theirs: Sequence[TrialRecord]) -> tuple[Comparison, list[PointSummary]]:
    one, other = summarise(run_record(OURS, THEIRS, study=LATENCY), [*ours, *theirs])
    found = compare_points(one, other)
    assert found
    return found, [one, other]


def test_a_round_is_the_median_of_its_turns_whatever_speed_the_machine_has_in_each() -> None:
    """The machine is up to ten times slower from turn to turn, which meets both; medians of each alone would differ."""
    chance = random.Random(1)
    speed = {(number, turn): chance.uniform(1, 10) for number in range(5) for turn in range(6)}
    found, sides = compared(turns_of(OURS, lambda *at: 2 * speed[at]), turns_of(THEIRS, lambda *at: 3 * speed[at]))
    assert (found.sense, found.better, found.blockers) == ("exact", True, ())
    assert found.interval
    assert found.interval.ratio == pytest.approx(1.5, rel=0.03)
    assert found.interval.low
    assert found.interval.high
    assert found.interval.high / found.interval.low < 1.2  # resolution of the histogram
    assert (found.rounds, found.interval.rounds) == (5, 5)
    assert [len(side.by_repetition) for side in sides] == [5, 5]
    assert set(sides[0].by_repetition[0].turns["p50_us"]) == set(range(6))


def test_rounds_that_disagree_decide_nothing() -> None:
    found, _ = compared(turns_of(OURS, lambda r, t: (2, 8)[r % 2]), turns_of(THEIRS, lambda r, t: 4))
    assert found.better is None
    assert found.interval
    assert not found.interval.differs
    assert verdict(found) == "too little to tell: it is so noisy that ten times the rounds would not decide it"


def test_one_wild_turn_moves_nothing() -> None:
    wild: Latency = lambda r, t: 500 if t == 2 else 2  # noqa: E731
    found, sides = compared(turns_of(OURS, wild), turns_of(THEIRS, lambda r, t: 3))
    assert found.better is True
    assert sides[0].value("p50_us") == pytest.approx(2, rel=0.03)
    assert sides[0].repetitions == 5


def test_turns_that_were_not_sent_whole_do_not_hinder_while_they_are_few() -> None:
    """A test suite ran next to two of seven rounds of the main job, and no winner was named at 94.6 of 100 kpps."""

    def short(point: Point, us: float, rounds: set[int]) -> list[TrialRecord]:
        whole = turns_of(point, lambda r, t: us, rounds=7)
        cut = [
            trial(
                point, each.repetition, [round(us * 1000)] * 800, turn=each.turn, trial=each.trial, offered_pps=1000.0
            )
            for each in whole
        ]
        return [part if one.repetition in rounds else one for one, part in zip(whole, cut, strict=True)]

    few, _ = compared(short(OURS, 2, {2, 3}), short(THEIRS, 3, {2, 3}))
    assert few.better is True
    both, _ = compared(short(OURS, 2, {0, 1, 2, 3}), short(THEIRS, 3, {0, 1, 2, 3}))
    assert both.better is True, "both were measured at what the tester could send"
    assert [each.startswith("the tester sent ") for each in both.remarks] == [True, True]
    one, _ = compared(short(OURS, 2, {0, 1, 2, 3}), short(THEIRS, 3, set()))
    assert one.better is None
    assert one.blockers[0].startswith("the tester sent ")


def test_a_percentile_that_is_a_lost_frame_in_most_turns_has_no_ratio() -> None:
    found, _ = compared(turns_of(OURS, lambda r, t: 2), turns_of(THEIRS, lambda r, t: 3, lost=lambda r, t: t < 4))
    assert found.sense == "unknown"
    assert found.blockers
    some, _ = compared(turns_of(OURS, lambda r, t: 2), turns_of(THEIRS, lambda r, t: 3, lost=lambda r, t: t < 2))
    assert some.better is True
    both, _ = compared(
        turns_of(OURS, lambda r, t: 2, lost=lambda r, t: t == 0),
        turns_of(THEIRS, lambda r, t: 3, lost=lambda r, t: t == 0),
    )
    assert both.better is True  # a turn in which both lost all says nothing of either


def test_a_percentile_needs_ten_frames_above_it_in_a_turn() -> None:
    _, sides = compared(turns_of(OURS, lambda r, t: 2), turns_of(THEIRS, lambda r, t: 3))
    assert sides[0].value("p99_us") == pytest.approx(2, rel=0.03)
    assert sides[0].value("p999_us") is None


@pytest.mark.parametrize("apart", [1.0, 1.25])
def test_equal_things_are_seldom_called_different_and_a_quarter_is_found(apart: float) -> None:
    """With the scatter that was measured, of turns and of rounds, and a machine that is half as fast at times."""
    called = 0
    for seed in range(60):
        chance = random.Random(seed)
        noise: dict[tuple[str, int, int], float] = {}
        for number in range(7):
            ends = {side: chance.gauss(0, 0.05) for side in "ab"}
            slow = math.log(2) if chance.random() < 0.3 else 0.0
            for turn in range(6):
                for side in "ab":
                    noise[side, number, turn] = math.exp(ends[side] + slow + chance.gauss(0, 0.15))
        found, _ = compared(
            turns_of(OURS, lambda r, t: 20 * noise["a", r, t], rounds=7),  # noqa: B023
            turns_of(THEIRS, lambda r, t: 20 * apart * noise["b", r, t], rounds=7),  # noqa: B023
        )
        called += found.better is not None
    assert called <= 3 if apart == 1.0 else called >= 45


def test_where_points_cannot_stand_side_by_side_they_take_turns_alone(results: Path, cli: Any, tmp_path: Path) -> None:
    method = {"name": "latency", "duration_s": 0.05, "warmup_s": 0.0, "turns": 4, "light_pps": 1000}
    done = cli("run", studies.study_file(tmp_path, method=method))
    assert "points are measured one after another: its ports are there once" in done.err
    trials = studies.only_run(results).trials()
    taken = [(each.point_id, each.repetition, each.turn, each.clause) for each in trials if each.result]
    assert len(taken) == len(set(taken)) == 2 * 2 * 4 * 2
    assert {each[2] for each in taken} == set(range(4))


def test_turns_are_limited() -> None:
    with pytest.raises(Exception, match=r"method\.turns"):
        asked(method={"name": "latency", "turns": 1000})
