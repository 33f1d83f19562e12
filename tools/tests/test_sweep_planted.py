# SPDX-License-Identifier: Apache-2.0
"""What is said of settings whose effects are known: one dominating, one middle, three idle; quiet, noisy, disturbed."""

from typing import Any

import numpy as np
import pytest
from lab import records
from robot.api import SkipExecution
from test_sweep_parts import factorial, table
from threadpoolctl import threadpool_limits

from xdplab.analysis import answer
from xdplab.analysis.sweep import Importance, SweepAnalysis, analyse_sweep, sweep_sentence
from xdplab.analysis.sweep.anova import anova
from xdplab.analysis.sweep.importance import EFFECT, importances
from xdplab.analysis.sweep.rules import find_rules
from xdplab.analysis.sweep.table import tables
from xdplab.cli.dev.planted import DOMINATING, EFFECTS, IDLE, MIDDLE, planted
from xdplab.robot.library import XdplabLibrary


def analysed(seed: int, **changes: Any) -> SweepAnalysis:
    (found,) = analyse_sweep(*planted(seed, **changes))
    return found


def judged(seed: int, **changes: Any) -> dict[str, Importance]:
    """What is said of the settings, the most important first, without groups and rules."""
    (whole,) = tables(*planted(seed, **changes))
    with threadpool_limits(1):  # as analyse_sweep has it
        return {each.factor: each for each in importances(whole, anova(whole))}


@pytest.mark.parametrize("outliers_above_us", [None, 200.0])
@pytest.mark.parametrize("seed", range(8))
def test_the_order_is_right_with_and_without_outliers(seed: int, outliers_above_us: float | None) -> None:
    found = analysed(seed, outliers_above_us=outliers_above_us)
    assert [each.factor for each in found.importance if each.matters] == [DOMINATING, MIDDLE]
    assert [each.factor for each in found.importance[:2]] == [DOMINATING, MIDDLE]
    assert {each.factor for each in found.importance if each.verdict == "no effect seen"} == set(IDLE)
    assert found.summary[0].startswith(f"What matters, most first: {DOMINATING}, {MIDDLE}; no effect seen of ")
    assert found.summary[0].endswith(" would have been seen.")
    assert found.advice.default_us == pytest.approx(450, rel=0.15)
    assert found.advice.reached_us == pytest.approx(10, rel=0.15)
    assert {change.factor for change in found.advice.changes} == {DOMINATING, MIDDLE}
    assert bool(found.outliers) == (outliers_above_us is not None)


def test_the_summary_tells_the_rule_of_the_outliers_and_where_they_are_left_out() -> None:
    found = analysed(0, outliers_above_us=200.0)
    assert len(found.clustering.labels) == 16
    assert found.summary[-1] == (
        "16 of 32 configurations are outliers (median above the kernel's own path (200 µs)); they are those with not "
        "dominating; only the groups leave them out."
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_slow_level_that_is_noisy_hides_no_other_setting(seed: int) -> None:
    """Logarithms alone miss the middle setting here, and so does a forest on configurations it has not seen."""
    found = judged(seed, slow_noise=0.6)
    assert [name for name, each in found.items() if each.matters] == [DOMINATING, MIDDLE]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"noise": 2.0, "disturbed": 1.0}, "48 of 48 repetitions at one level were disturbed"),
        ({"disturbed": 1.0, "effects": {}}, "48 of 48 repetitions at one level were disturbed"),
        ({"noise": 2.0}, "an effect of 10 times would have been seen, a smaller one not"),
    ],
    ids=["busy", "marked", "restless"],
)
def test_a_busy_machine_is_named_and_nothing_is_denied(changes: dict[str, Any], why: str) -> None:
    found = analysed(0, **changes)
    middle = next(each for each in found.importance if each.factor == MIDDLE)
    assert (middle.verdict, middle.why) == ("too disturbed to say", why)
    named = [each.factor for each in found.importance if each.why == why and not each.matters]
    assert MIDDLE in named
    assert f"oo disturbed to say: {', '.join(named)} ({why})" in found.summary[0]
    assert "no effect seen" not in found.summary[0]
    assert ("disturbed in 96 of 96 repetitions" in found.summary[0]) == ("disturbed" in changes)


def test_one_repetition_each_that_differ_too_much_is_the_designs_fault() -> None:
    found = judged(0, noise=1.0, repetitions=1)
    assert {found[name].verdict for name in (MIDDLE, *IDLE)} == {"cannot be told from this design"}


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_what_would_have_been_seen_is_seen_where_it_is(noise: float) -> None:
    seen = [judged(seed, noise=noise)[IDLE[0]].visible for seed in range(4)]
    assert all(seen)
    least = max(each for each in seen if each)
    assert (least <= EFFECT) == (noise < 0.3)
    there = [judged(seed, noise=noise, effects={**EFFECTS, IDLE[0]: least})[IDLE[0]] for seed in range(10, 14)]
    assert sum(each.matters for each in there) >= 3


def test_random_groupings_are_explained_no_more_often_than_the_p_value_says() -> None:
    """With one depth for all shuffles, that of the real labels, a third of them had a p of 0.2 or less."""
    rows = factorial({"a": 2, "b": 2, "c": 2, "d": 3}, lambda **_: 1.0)
    rng = np.random.default_rng(1)
    groupings = [rng.integers(0, 2, len(rows)).tolist() for _ in range(60)]
    p_values = [find_rules(table(rows), each, seed=n, shuffles=9).p_value for n, each in enumerate(groupings)]
    assert sum(p <= 0.2 for p in p_values) <= 0.2 * len(p_values)


def test_too_few_configurations_are_counted_in_one_sentence() -> None:
    run, trials = planted(0)
    few = [trial for trial in trials if trial.point_id in list(run.points)[:5]]
    words = (
        "Which settings matter cannot be said: too few configurations: 5 were measured on one path and traffic, 6 are "
        "needed."
    )
    assert analyse_sweep(run, few) == []
    assert sweep_sentence(run, few) == words
    library = XdplabLibrary()
    library._run, library._answer = run, answer(run, [], few)
    for ask in (library.sweep_was_analysed, lambda: library.setting_matters(DOMINATING)):
        with pytest.raises(SkipExecution, match=words):
            ask()


def test_the_sentence_is_the_first_of_the_summary_and_needs_latencies() -> None:
    run, trials = planted(0)
    found = analysed(0)
    assert sweep_sentence(run, trials) == sweep_sentence(run, trials, [found]) == found.summary[0]
    rfc = records.run_record(records.point(), study={"method": {"name": "rfc2544"}})
    assert (
        sweep_sentence(rfc, []) == "Which settings matter is not said of method rfc2544: a sweep is of method latency."
    )


def test_the_keyword_skips_what_cannot_be_said_and_fails_what_has_no_effect() -> None:
    library = XdplabLibrary()
    library._run, _ = planted(0)
    library._sweeps = [analysed(0)]
    library.setting_matters(DOMINATING)
    with pytest.raises(AssertionError, match=f"{IDLE[0]}: no effect seen: an effect of"):
        library.setting_matters(IDLE[0])
    with pytest.raises(SkipExecution, match="does not vary in this run"):
        library.setting_matters("nothing")
    library._sweeps = [analysed(0, noise=2.0, disturbed=1.0)]
    with pytest.raises(
        SkipExecution, match=f"{MIDDLE}: too disturbed to say: 48 of 48 repetitions at one level were disturbed"
    ):
        library.setting_matters(MIDDLE)
