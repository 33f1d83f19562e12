# SPDX-License-Identifier: Apache-2.0
"""What is said of settings whose effects are known: one dominating, one middle, three idle; quiet and noisy."""

from typing import Any

import pytest
from lab import records
from lab.reading import a_run
from robot.api import SkipExecution
from threadpoolctl import threadpool_limits

from dev.bench_sweeps import judge
from dev.planted import DOMINATING, EFFECTS, IDLE, MIDDLE, planted
from dev.planted_tables import DESIGNS, SHAPES
from xdplab.analysis import answer
from xdplab.analysis.sweep import Importance, SweepAnalysis, analyse_sweep, judge_settings, sweep_sentence
from xdplab.analysis.sweep.effects import EFFECT
from xdplab.analysis.sweep.table import tables
from xdplab.robot import XdplabLibrary

_ANALYSED: dict[str, SweepAnalysis] = {}


def analysed(seed: int, **changes: Any) -> SweepAnalysis:
    """Once for all tests: it takes two seconds."""
    if (key := repr((seed, changes))) not in _ANALYSED:
        (_ANALYSED[key],) = analyse_sweep(*planted(seed, **changes))
    return _ANALYSED[key]


def judged(seed: int, **changes: Any) -> dict[str, Importance]:
    """What is said of the settings, the most important first."""
    (whole,) = tables(*planted(seed, **changes))
    with threadpool_limits(1):  # as analyse_sweep has it
        return {each.factor: each for each in judge_settings(whole)[0]}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_order_is_right(seed: int) -> None:
    found = analysed(seed)
    assert [each.factor for each in found.importance if each.matters] == [DOMINATING, MIDDLE]
    assert [each.factor for each in found.importance[:2]] == [DOMINATING, MIDDLE]
    assert {each.factor for each in found.importance if each.verdict == "no effect seen"} == set(IDLE)
    assert found.summary[0].startswith(f"What matters: {DOMINATING} (")
    assert "; no effect above " in found.summary[0]
    assert found.advice.default_us == pytest.approx(450, rel=0.15)
    assert found.advice.reached_us == pytest.approx(10, rel=0.15)
    assert {change.factor for change in found.advice.changes} == {DOMINATING, MIDDLE}


def test_a_slow_level_that_is_noisy_hides_no_other_setting() -> None:
    found = [judged(seed, slow_noise=0.6) for seed in range(6)]
    mattering = [{name for name, each in one.items() if each.matters} for one in found]
    assert all(DOMINATING in one and one <= {DOMINATING, MIDDLE} for one in mattering)
    assert sum(MIDDLE in one for one in mattering) >= 4


def test_on_a_restless_machine_nothing_is_denied() -> None:
    found = analysed(0, noise=2.0)
    middle = next(each for each in found.importance if each.factor == MIDDLE)
    assert middle.verdict == "too little to tell"
    assert "oo little to tell: " in found.summary[0]
    assert "; no effect above" not in found.summary[0]


def test_one_repetition_each_that_differ_too_much_tells_too_little() -> None:
    found = judged(0, noise=1.0, repetitions=1)
    assert {found[name].verdict for name in (MIDDLE, *IDLE)} == {"too little to tell"}


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_what_is_excluded_is_seen_where_it_is(noise: float) -> None:
    seen = [judged(seed, noise=noise)[IDLE[0]].visible for seed in range(4)]
    assert all(seen)
    least = max(each for each in seen if each)
    assert (least <= EFFECT) == (noise < 0.3)
    there = [judged(seed, noise=noise, effects={**EFFECTS, IDLE[0]: least**1.5})[IDLE[0]] for seed in range(10, 14)]
    assert sum(each.matters for each in there) >= 3


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("full 8", "two levels, by configuration"),
        ("full 16", "configurations 2 % apart, repetitions 3 %"),
        ("half of 16", "two levels, by configuration"),
        ("half of 32", "configurations 2 % apart, repetitions 3 %"),
        ("half of 32", "two levels, by configuration"),
        ("alone 8", "two levels, by repetition"),
        ("48 of 144", "groups 7 % apart"),
        ("split 96 of 288", "groups 7 % apart"),
    ],
)
def test_a_table_of_idle_settings_names_and_advises_nothing(name: str, shape: str) -> None:
    """At most 5 % (of 60 tables, 7 are chance); an error of repetitions names one in 94 to 100 % of two levels."""
    design = next(each for each in DESIGNS if each.name == name)
    with threadpool_limits(1):
        found = judge(60, design, 5 if design.alone else 3, shape, SHAPES[shape])
    assert found.named <= 7 / 60
    assert found.advised <= 3 / 60


@pytest.mark.parametrize("design", [d for d in DESIGNS if d.name in ("full 16", "full 24", "half of 32")])
def test_a_planted_effect_is_found_and_never_denied(design: Any) -> None:
    shape = "configurations 2 % apart, repetitions 3 %"
    with threadpool_limits(1):
        small, large = (judge(20, design, 3, shape, SHAPES[shape], ratio) for ratio in (1.25, 2.0))
    assert (small.found, large.found) == (1.0, 1.0)
    assert (small.denied, large.denied) == (0.0, 0.0)
    if design.name.startswith("full"):
        assert large.gained >= 0.9


def test_what_stands_side_by_side_is_compared_with_what_it_shares_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 % in groups of 12 that are 7 % apart: of 150 tables found in all, and in 81 % where only repetitions are."""
    design = next(each for each in DESIGNS if each.name == "48 of 144")
    shape = "groups 7 % apart"
    with threadpool_limits(1):
        assert judge(20, design, 3, shape, SHAPES[shape], 1.1).found == 1.0
        monkeypatch.setattr("xdplab.analysis.sweep.table._MIN_BLOCK", 1000)
        assert judge(20, design, 3, shape, SHAPES[shape], 1.1).found < 1.0


def test_too_few_configurations_are_counted_in_one_sentence() -> None:
    run, trials = planted(0)
    few = [trial for trial in trials if trial.point_id in list(run.points)[:5]]
    words = (
        "Which settings matter is undecided: too few configurations: 5 were measured on one path and traffic, 6 are "
        "needed."
    )
    assert analyse_sweep(run, few) == []
    assert sweep_sentence(run, few) == words
    library = XdplabLibrary()
    library.read = a_run(run, sweeps=[], answer=answer(run, [], few))
    for ask in (library.sweep_was_analysed, lambda: library.setting_matters(DOMINATING)):
        with pytest.raises(SkipExecution, match=words):
            ask()


def test_the_sentence_is_the_first_of_the_summary_and_needs_latencies() -> None:
    run, trials = planted(0)
    found = analysed(0)
    assert sweep_sentence(run, trials) == sweep_sentence(run, trials, [found]) == found.summary[0]
    rfc = records.run_record(records.point(), study={"method": {"name": "rfc2544"}})
    assert (
        sweep_sentence(rfc, [])
        == "No statement about which settings matter: method rfc2544: a sweep needs method latency."
    )


def test_the_keyword_skips_what_cannot_be_said_and_fails_what_has_no_effect() -> None:
    library = XdplabLibrary()
    run, _ = planted(0)
    library.read = a_run(run, sweeps=[analysed(0)])
    library.setting_matters(DOMINATING)
    with pytest.raises(AssertionError, match=f"{IDLE[0]}: no effect seen: no effect above"):
        library.setting_matters(IDLE[0])
    with pytest.raises(SkipExecution, match="does not vary in this run"):
        library.setting_matters("nothing")
    library.read = a_run(run, sweeps=[analysed(0, noise=2.0)])
    with pytest.raises(SkipExecution, match=f"{MIDDLE}: too little to tell: no effect above"):
        library.setting_matters(MIDDLE)
