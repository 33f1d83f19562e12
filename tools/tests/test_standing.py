# SPDX-License-Identifier: Apache-2.0
"""The sentence of a micro-benchmark: who is ahead, what limits, or why that is undecided; the same everywhere."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab import micro_records as micro
from lab.command import Done
from lab.reading import a_run
from robot.api import SkipExecution

from xdplab.analysis import answer, summarise
from xdplab.measure.comparison import Answer
from xdplab.model import Disturbance, TrialRecord
from xdplab.robot import XdplabLibrary

TWO = micro.study(("one", "two", "three"), method={"name": "micro", "workloads": ["rxdrop", "l2fwd"]})
STAGES = micro.study(("one", "two"), method={"name": "stages", "rates_pps": [128, 5000]})


def rates(
    of: Mapping[str, Sequence[float]], spec: Mapping[str, Any] = TWO, at: Mapping[str, str] | None = None, **more: Any
) -> list[TrialRecord]:
    levels = at or {"workload": "rxdrop"}
    points = {case: micro.point(spec, case, **levels) for case in of}
    return [
        micro.trial(points[case], value * 1e6, repetition=n, **more)
        for case, values in of.items()
        for n, value in enumerate(values)
    ]


def reported(trials: Sequence[TrialRecord], spec: Mapping[str, Any] = TWO) -> Answer:
    run = micro.run(spec)
    return answer(run, summarise(run, trials), trials)


def test_who_is_ahead_is_reported_with_the_ratio_to_the_next() -> None:
    found = reported(rates({"one": [2.0, 2.1, 1.9, 2.0], "two": [4.0, 3.8, 4.2, 4.0], "three": [1, 1, 1, 1]}))
    assert found.decided
    assert found.sentence == (
        "rxdrop: two is ahead with 4 Mpps, 2 times as much as one (99 % interval 1.58 to 2.54), the next."
    )


def test_overlapping_repetitions_are_too_little_to_tell() -> None:
    overlapping = {"one": [2.0, 2.1, 1.9, 3.9], "two": [4.0, 3.8, 4.2, 4.0]}
    words = "two (4 Mpps) and one (2.05 Mpps): too little to tell: about 3 more rounds would decide it."
    assert reported(rates(overlapping)).sentence == f"xdplab names no winner: {words}"
    found = reported(rates({**overlapping, "three": [1, 1, 1, 1]}))
    words = "undecided between two (4 Mpps) and one (2.05 Mpps); two is ahead of three (1 Mpps)."
    assert found == Answer(sentence=f"rxdrop: {words}", decided=True)


def test_no_measurable_difference_lies_within_a_tenth() -> None:
    alike = {"one": [1.0, 1.02, 1.0, 0.99], "two": [1.0, 1.02, 0.99, 1.01], "three": [0.5] * 4}
    found = reported(rates(alike))
    words = "rxdrop: no measurable difference between two (1 Mpps) and one (1 Mpps)."
    assert found == Answer(sentence=words, decided=True)
    narrow = {**TWO, "equivalence_margin": 0.02}
    assert not reported(rates({name: alike[name] for name in ("one", "two")}, narrow), narrow).decided


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_repetitions_name_nobody(count: int) -> None:
    found = reported(rates({"one": [1.0] * count, "two": [12_000.0] * 5}))
    words = f"xdplab names no winner: {count} of the 3 rounds that an interval needs: raise --repetitions."
    assert found == Answer(sentence=words, decided=False)


def test_who_took_all_that_was_sent_is_not_put_behind() -> None:
    limited = rates({"one": [0.645, 0.644, 0.646, 0.645]}, sent_pps=0.645e6)
    free = rates({"two": [2.0, 2.1, 1.9, 2.0]})
    found = reported([*limited, *free])
    words = "one (at least 0.645 Mpps) kept up with all that the tester sent, so the tester was the limit."
    assert found == Answer(sentence=f"xdplab names no winner: {words}", decided=False)
    assert not reported(
        [*limited[:2], *rates({"one": [0.645] * 4})[2:], *free]
    ).decided  # also where it was so in half of them
    fastest = reported([*rates({"one": [3.0] * 4}, sent_pps=3.01e6), *free])
    assert fastest.sentence.startswith(
        "rxdrop: one is ahead with at least 3 Mpps, the tester sent no more, at least 1.33 times as much as two"
    )


def test_points_that_failed_or_have_too_few_rounds_are_named_and_rank_nowhere() -> None:
    few = rates({"one": [9.0] * 2})
    others = rates({"two": [2.0] * 4, "three": [1.0] * 4})
    failed = micro.trial(micro.point(TWO, "two", workload="l2fwd"), None, status="failed", reason="it fell over")
    found = reported([*few, *others, failed])
    why = "2 of the 3 rounds that an interval needs: raise --repetitions"
    # nobody is ahead of one whose median is better, however little is known of it
    assert found.sentence == "rxdrop: undecided between two (2 Mpps) and one (9 Mpps); two is ahead of three (1 Mpps)."
    assert found.details == (f"No statement about one: {why}.", "Failed: l2fwd: two.")
    slower = reported([*rates({"one": [0.5] * 2}), *others])
    assert slower.sentence == (
        "rxdrop: two is ahead with 2 Mpps, 2 times as much as three (99 % interval 2 to 2), the next."
    )
    alike = rates({"two": [2.0] * 4, "three": [2.0] * 4})
    found = reported([*few, *alike])
    assert found == Answer(sentence=f"xdplab names no winner: two (2 Mpps) and one (9 Mpps): {why}.", decided=False)
    alone = reported([*few, *rates({"two": [2.0] * 4})])
    assert alone == Answer(sentence=f"xdplab names no winner: {why}.", decided=False)


def test_rounds_of_one_are_none_with_those_of_another() -> None:
    later = [one.model_copy(update={"repetition": one.repetition + 2}) for one in rates({"two": [1.9] * 4})]
    found = reported([*rates({"one": [1.0] * 4}), *later])
    assert not found.decided
    assert "2 of the 3 rounds that an interval needs" in found.sentence


def test_one_that_failed_once_is_ahead_of_nobody() -> None:
    trials = rates({"one": [1.0] * 5, "two": [2.0] * 4})
    fell = micro.trial(
        micro.point(TWO, "two", workload="rxdrop"), None, repetition=4, status="failed", reason="it fell"
    )
    found = reported([*trials, fell])
    assert not found.decided
    assert "two failed in 1 of 5 repetitions: it fell" in found.sentence


def test_a_repetition_that_the_machine_slowed_moves_no_median_and_counts() -> None:
    """A trial stalled for most of its time became the reported median."""
    taken = Disturbance(stalled_share=0.9, steal_share={}, run_delay_share=0.0)
    slow = rates({"two": [0.1]}, disturbance=taken)
    rest = [one.model_copy(update={"repetition": one.repetition + 1}) for one in rates({"two": [4.0] * 4})]
    found = reported([*rates({"one": [2.0] * 5}), *slow, *rest])
    assert found.sentence.startswith("xdplab names no winner: two (4 Mpps) and one (2 Mpps): too little to tell")


def test_rates_are_reported_for_themselves_and_less_latency_is_ahead() -> None:
    stages = [
        micro.staged(micro.point(STAGES, case, rate_pps=rate), [us * 1000] * 5, repetition=n)
        for case, us in (("one", 20), ("two", 30))
        for rate in (128.0, 5000.0)
        for n in range(4)
    ]
    found = reported(stages, STAGES)
    assert found.sentence == (
        "Ahead in stages at 128 frames per second: one; in stages at 5,000 frames per second: one."
    )
    assert list(found.details) == [
        f"stages at {rate} frames per second: one is ahead with 20 µs, p50, 1.5 times as fast as two "
        f"(99 % interval {spread}), the next."
        for rate, spread in (("128", "1.5 to 1.5"), ("5,000", "1.5 to 1.5"))
    ]


def test_the_median_of_a_stage_is_no_finer_than_its_histogram() -> None:
    """One bucket apart in each round is one and the same."""
    stages = [
        micro.staged(micro.point(STAGES, case, rate_pps=128.0), [ns] * 5, repetition=n)
        for case, ns in (("one", 20_000), ("two", 20_016))
        for n in range(4)
    ]
    assert reported(stages, STAGES).sentence.startswith("stages at 128 frames per second: no measurable difference")


def test_modes_are_compared_within_a_function_only() -> None:
    spec = micro.functions(functions=["router", "macswap"], traffic=["dropped"])
    mpps = {"router, xdp": 2.0, "router, af_xdp": 1.0, "macswap, xdp": 30.0, "macswap, af_xdp": 40.0}
    trials = rates({case: [value] * 4 for case, value in mpps.items()}, spec, {"traffic": "dropped"})
    found = reported(trials, spec)
    assert found.sentence == "Ahead in dropped of router: xdp; in dropped of macswap: af_xdp."
    (details,) = found.details
    assert "dropped: of router xdp is ahead with 2 Mpps, 2 times as much as af_xdp" in details
    assert "; of macswap af_xdp is ahead with 40 Mpps, 1.33 times as much as xdp" in details


def test_many_places_are_counted_in_one_sentence() -> None:
    spec = {**STAGES, "method": {"name": "stages", "rates_pps": [100 + n for n in range(9)]}}
    trials = [
        micro.staged(micro.point(spec, case, rate_pps=100.0 + rate), [us * 1000] * 5, repetition=n)
        for rate in range(9)
        for case, us in (("one", 20), ("two", 40 if rate else 5))
        for n in range(4)
    ]
    assert reported(trials, spec).sentence == "Ahead, of 9 comparisons: one in 8, two in 1."
    noisy = [
        micro.staged(micro.point(spec, case, rate_pps=100.0 + rate), [round(us * 1000 * times)] * 5, repetition=n)
        for rate in range(9)
        for case, us in (("one", 20), ("two", 40 if rate else 5))
        for n in range(4)
        for times in [(1, 4, 0.2, 1)[n] if case == "two" and rate > 2 else 1]
    ]
    assert reported(noisy, spec).sentence == "Ahead, of 9 comparisons: one in 2, two in 1, unknown in 6."


def test_places_where_the_first_is_undecided_are_counted_and_no_name_stands_for_two() -> None:
    undecided = {"one": [2.0, 2.1, 1.9, 3.9], "two": [4.0, 3.8, 4.2, 4.0], "three": [1, 1, 1, 1]}
    there = rates(undecided, at={"workload": "l2fwd"})
    found = reported([*rates({"one": [2.0] * 4, "two": [4.0] * 4}), *there])
    assert found.sentence == "Ahead in rxdrop: two; in 1 more the first is undecided, see below."
    nowhere = reported([*rates(undecided), *there])
    assert nowhere.sentence == (
        "In none of 2 comparisons is one ahead of all others; the best of each is ahead of 1 other, named below."
    )
    assert nowhere.decided
    assert len(nowhere.details) == 2


def test_one_case_and_none() -> None:
    assert reported(rates({"one": [1.0] * 4})).sentence == (
        "xdplab names no winner: no two cases of one workload were measured."
    )
    nothing = micro.trial(micro.point(TWO, "one"), None, status="unsupported", reason="no")
    assert reported([nothing]).sentence == "Nothing was measured."


@pytest.mark.parametrize("count", [2, 4])
def test_it_is_the_same_on_the_console_in_the_report_and_for_robot(
    count: int, cli: Callable[..., Done], results: Path
) -> None:
    trials = rates({"one": [11_300.0] * count, "two": [0.01] * count})
    folder = micro.store(results, TWO, trials)
    found = reported(trials)
    out = cli("show").out
    assert found.sentence in " ".join(out.split())
    assert "e+" not in out
    assert cli("report").code == 0
    assert f'<p class="answer">{found.sentence}</p>' in folder.report.read_text(encoding="utf-8")
    library = XdplabLibrary()
    library.read = a_run(folder.load(), answer=found)
    if count < 4:
        with pytest.raises(SkipExecution, match=found.sentence):
            library.question_was_answered()
    else:
        assert library.question_was_answered() == found.sentence
        assert "1,130,000 times" in found.sentence
