# SPDX-License-Identifier: Apache-2.0
"""The parts of a sweep's analysis: statistics, losses, variance, what to change."""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from lab import records

from xdplab.analysis.sweep import Configuration, Factor, Statistics, Table
from xdplab.analysis.sweep.changes import advise
from xdplab.analysis.sweep.effects import Importance, LevelEffect, anova
from xdplab.analysis.sweep.table import ABSENT, lossy, tables
from xdplab.model import Path, Pipeline, Point, StudySpec, TrafficSpec
from xdplab.model.study import Scalar


def statistics(mean_us: float) -> Statistics:
    names = [name for name in Statistics.model_fields if name != "samples"]
    return Statistics(**dict.fromkeys(names, mean_us), samples=100)


def configuration(
    levels: Mapping[str, Scalar], mean_us: float, repetitions: tuple[float, ...] = (), loss_ratio: float = 0.0
) -> Configuration:
    title = " ".join(f"{name}={level}" for name, level in levels.items())
    return Configuration(
        point_id=title,
        title=title,
        levels=dict(levels),
        statistics=statistics(mean_us),
        by_repetition={n: statistics(each) for n, each in enumerate(repetitions or (mean_us,))},
        loss_ratio=loss_ratio,
        sent=1_000_000,
    )


def table(rows: list[Configuration], defaults: Mapping[str, Scalar] | None = None) -> Table:
    names = list(rows[0].levels)
    levels = {name: tuple(dict.fromkeys(row.levels[name] for row in rows)) for name in names}
    factors = [
        Factor(name=name, levels=levels[name], default=(defaults or {}).get(name, levels[name][0])) for name in names
    ]
    return Table("test", "one-way", 1e6, tuple(factors), tuple(rows))


def factorial(sizes: Mapping[str, int], mean_us: Callable[..., float]) -> list[Configuration]:
    combinations = itertools.product(*(range(size) for size in sizes.values()))
    return [
        configuration(levels := dict(zip(sizes, values, strict=True)), mean_us(**levels)) for values in combinations
    ]


# statistics and the table


@given(st.lists(st.integers(1000, 10**8), min_size=1, max_size=60), st.lists(st.integers(1000, 10**8), max_size=60))
def test_statistics_of_merged_histograms_are_those_of_all_values(first: list[int], second: list[int]) -> None:
    point = records.point()
    trials = [records.trial(point, n, values) for n, values in enumerate((first, second)) if values]
    other = records.trial(records.point("fake:seed=2"), 0, [5000])
    run = records.run_record(point, records.point("fake:seed=2"))
    (found,) = tables(run, [*trials, other])
    mine = found.rows[0].statistics
    values = np.array(first + second) / 1000
    assert mine.samples == len(values)
    expected = {"mean_us": values.mean(), "std_us": values.std(), "min_us": values.min(), "max_us": values.max()}
    for name, value in expected.items():
        assert getattr(mine, name) == pytest.approx(value, rel=0.002, abs=0.002 * values.max())
    assert mine.p99_us is None  # of so few samples; next to it those of each repetition
    assert set(found.rows[0].by_repetition) == {trial.repetition for trial in trials}


def test_a_repetition_has_the_samples_of_all_its_turns() -> None:
    point = records.point()
    trials = [records.trial(point, 0, [value] * 10, turn=turn) for turn, value in enumerate((1000, 2000, 9000))]
    (found,) = tables(records.run_record(point), trials)
    own = found.rows[0].by_repetition[0]
    assert (own.samples, own.median_us) == (30, pytest.approx(2, rel=0.002))


def test_a_p99_of_too_few_samples_stands_for_nothing() -> None:
    points = [records.point(f"fake:seed={n}") for n in range(3)]
    samples = (2000, 2000, 500)
    trials = [records.trial(each, 0, range(1000, 1000 + n)) for each, n in zip(points, samples, strict=True)]
    study = {"sweep": {"statistic": "p99"}}
    (found,) = tables(records.run_record(*points, study=study), trials)
    assert [row.point_id for row in found.rows] == [each.id for each in points[:2]]
    assert found.unknown == 1
    assert [found.value_us(row) for row in found.rows] == pytest.approx([2.979, 2.979], rel=0.002)
    (median,) = tables(records.run_record(*points), trials)
    assert [row.statistics.p99_us is None for row in median.rows] == [False, False, True]


def point(title: str, path: Path = Path.THROUGH, **knobs: Scalar) -> Point:
    spec: Any = title
    return Point(forwarder=spec, path=path, knobs=knobs, traffic=TrafficSpec())


def test_one_way_and_round_trip_never_share_a_table() -> None:
    points = [point("fake", path, threaded_napi=n) for path in (Path.THROUGH, Path.REFLECT) for n in (0, 1)]
    found = tables(records.run_record(*points), [records.trial(p) for p in points])
    assert [(each.quantity, len(each.rows)) for each in found] == [("one-way", 2), ("round trip", 2)]
    assert [[factor.name for factor in each.factors] for each in found] == [["threaded_napi"]] * 2


def test_other_work_and_other_flows_never_share_a_table() -> None:
    """A setting that nat alone had one level of stood for nat, and "mattered"."""
    plain = [point("fake", threaded_napi=n) for n in (0, 1)]
    nat = [each.model_copy(update={"pipeline": Pipeline(kind="nat")}) for each in plain]
    many = [each.model_copy(update={"traffic": TrafficSpec(flows=1000)}) for each in plain]
    points = [*plain, *nat, *many]
    found = tables(records.run_record(*points), [records.trial(p) for p in points])
    assert [(each.title.partition("100,000 pps")[2], len(each.rows)) for each in found] == [
        ("", 2), (", pipeline=nat", 2), (", flows=1000", 2),
    ]  # fmt: skip
    assert [[factor.name for factor in each.factors] for each in found] == [["threaded_napi"]] * 3


def test_options_of_a_forwarder_are_settings_and_absent_for_others() -> None:
    points = [point("testpmd:burst=1"), point("testpmd:burst=32"), point("xdp")]
    study = {"sweep": {"defaults": {"testpmd.burst": "32"}}}
    (found,) = tables(records.run_record(*points, study=study), [records.trial(p) for p in points])
    assert {factor.name: factor.default for factor in found.factors} == {"forwarder": "testpmd", "testpmd.burst": "32"}
    assert [row.levels["testpmd.burst"] for row in found.rows] == ["1", "32", ABSENT]


def test_the_default_is_what_the_study_lists_first_and_not_what_the_design_begins_with() -> None:
    points = [point("fake", threaded_napi=n) for n in (1, 0)]
    study = {"knobs": {"threaded_napi": [0, 1]}}
    (found,) = tables(records.run_record(*points, study=study), [records.trial(p) for p in points])
    assert [factor.default for factor in found.factors] == [0]


def test_options_of_the_tester_are_settings_in_one_table() -> None:
    points = [
        point("xsk", Path.HAIRPIN).model_copy(
            update={"tester": f"xsk-ping:wait={wait}", "tester_options": {"wait": wait}}
        )
        for wait in ("spin", "poll")
    ]
    (found,) = tables(records.run_record(*points), [records.trial(p) for p in points])
    assert {factor.name: factor.levels for factor in found.factors} == {"tester.wait": ("spin", "poll")}
    assert [row.title for row in found.rows] == ["xsk tester.wait=spin", "xsk tester.wait=poll"]


def test_a_level_that_was_measured_nowhere_is_no_level() -> None:
    points = [point("fake", a=n, b=n % 2) for n in range(3)]
    (found,) = tables(records.run_record(*points), [records.trial(p) for p in points[:2]])
    assert {factor.name: factor.levels for factor in found.factors} == {"a": (0, 1), "b": (0, 1)}


def test_configurations_that_lose_more_frames_than_by_chance_are_listed() -> None:
    losses = {0: 0.0, 1: 0.4, 2: 0.0009, 3: 0.000002}
    rows = [configuration({"ring": n}, 6.0 if loss else 10.0, loss_ratio=loss) for n, loss in losses.items()]
    found = lossy(table(rows))
    assert found == {
        "ring=1": "lost more than 0.1 % of the frames",
        "ring=2": "lost more frames than the default configuration",
    }


def test_a_percentile_is_a_rank_of_what_was_sent() -> None:
    """The slowest 2 % were lost: the p99 is not known, and the median is that of the frames that were sent."""
    trial = records.trial(records.point(), 0, range(1000, 2000))
    assert trial.result is not None
    lost = trial.result.streams[0].model_copy(update={"lost": 20, "sent": 1020})
    short = trial.model_copy(update={"result": trial.result.model_copy(update={"streams": (lost,)})})
    (all_of_it,) = tables(records.run_record(records.point()), [trial])[0].rows
    (survivors,) = tables(records.run_record(records.point()), [short])[0].rows
    assert all_of_it.statistics.median_us < survivors.statistics.median_us
    assert all_of_it.by_repetition[0].p99_us is not None
    assert survivors.by_repetition[0].p99_us is None


def test_a_group_is_a_block_unless_it_is_small() -> None:
    """Twelve beside one another, half as fast as in another minute; of two by themselves all that they did is kept."""
    rows = [
        row.model_copy(update={"groups": {0: 0, 1: 2} if number < 12 else {0: 1 + number, 1: 2}})
        for number, row in enumerate(configuration({"a": n}, 10.0, (20.0 if n < 12 else 30.0, 10.0)) for n in range(14))
    ]
    found = table(rows)
    assert [int(block.sum()) for block in found.blocks] == [12, 14, 1, 1]
    assert np.ptp(found.levelled, axis=1) == pytest.approx([0.0] * 12 + [math.log(1.5)] * 2, abs=0.01)


def test_a_setting_that_groups_have_as_a_whole_is_judged_by_groups() -> None:
    """Four groups of six, two with each level, of which one differs from the others by chance."""
    rng = np.random.default_rng(1)
    rows = [
        configuration({"a": n % 2, "b": int(n >= 12)}, 10.0, tuple(10 * np.exp(rng.normal(0, 0.01, 3))))
        for n in range(24)
    ]
    slow = [
        row.model_copy(
            update={
                "groups": {at: 4 * at + n // 6 for at in range(3)},
                "by_repetition": {
                    at: statistics(own.mean_us * (1.3 if (n // 6, at) == (3, 0) else 1.0))
                    for at, own in row.by_repetition.items()
                },
            }
        )
        for n, row in enumerate(rows)
    ]
    found = table(slow)
    assert found.of_groups == {"b"}
    judged = {name: levels[1] for name, levels in anova(found).levels.items()}
    narrow, wide = (math.log(judged[name].high / judged[name].low) for name in ("a", "b"))
    assert wide > 3 * narrow
    assert not judged["b"].differs


# effects


def test_an_interaction_alone_is_found_as_one() -> None:
    rng = np.random.default_rng(1)
    sizes = {"a": 2, "b": 2, "c": 2, "d": 2}
    found = anova(table(factorial(sizes, lambda a, b, c, d: float(np.exp((a ^ b) + 0.01 * rng.normal())))))
    assert found.effects[0].name == "a × b"
    assert {effect.name for effect in found.effects if effect.differs} == {"a × b"}
    assert found.error_from == "configurations"


def test_shares_of_a_balanced_design_add_up() -> None:
    rng = np.random.default_rng(2)
    found = anova(table(factorial({"a": 3, "b": 2, "c": 4}, lambda **_: float(rng.uniform(1, 2)))))
    assert sum(effect.share for effect in found.effects) + found.residual_share == pytest.approx(1)
    assert {effect.name: effect.df for effect in found.effects}["a × c"] == 6


def alone(*values_us: tuple[float, ...]) -> Table:
    """The default, and each of so many settings changed by itself, with a latency for each repetition."""
    base = dict.fromkeys("abc", 0)
    rows = [configuration(base, 10.0, (10.0, 10.2, 9.9, 10.1, 9.8))]
    return table([*rows, *(configuration({**base, name: 1}, 1.0, v) for name, v in zip(base, values_us, strict=True))])


def test_where_each_level_has_one_configuration_repetitions_are_compared() -> None:
    found = anova(alone((40.0, 41.0, 40.5, 40.2, 39.5), (10.1, 9.9, 10.0, 9.9, 10.0), (20.0, 60.0, 8.0, 9.0, 15.0)))
    assert found.error_from == "repetitions"
    assert {name: levels[1].differs for name, levels in found.levels.items()} == {"a": True, "b": False, "c": False}
    assert found.levels["a"][1].ratio == pytest.approx(4.02, rel=0.01)
    few = anova(alone((40.0, 41.0, 40.5, 40.2), (10.1, 9.9, 10.0, 9.9), (20.0, 60.0, 8.0, 9.0)))
    assert {each.p for each in few.effects} == {None}  # though each repetition has a ratio of 4


def test_an_option_of_one_forwarder_is_judged_beside_the_forwarder() -> None:
    rng = np.random.default_rng(3)
    rows = [
        configuration(
            {"forwarder": forwarder, "x.mode": mode, "knob": knob},
            slow * (3.0 if mode == "b" else 1.0) * float(np.exp(0.01 * rng.normal())),
        )
        for forwarder, mode, slow in (("x", "a", 1.0), ("x", "b", 1.0), ("y", ABSENT, 2.0))
        for knob in range(4)
    ]
    found = anova(table(rows))
    assert found.levels["forwarder"][1].ratio == pytest.approx(2.0, rel=0.05)
    assert {level.level: level.ratio for level in found.levels["x.mode"]} == {
        "a": 1.0, "b": pytest.approx(3.0, rel=0.05), ABSENT: None,
    }  # fmt: skip
    assert not any(level.differs for level in found.levels["knob"])


# what to change


def repeated(levels: Mapping[str, Scalar], mean_us: float, spread: float = 0.01, loss: float = 0.0) -> Configuration:
    return configuration(levels, mean_us, tuple(mean_us * (1 + spread * n) for n in (0, 1, -1, 2)), loss)


def test_the_size_of_what_matters_is_of_levels_that_differ() -> None:
    """A level of one noisy configuration, which differs from nothing, made "up to 2 times" of 30 %."""
    levels = (
        LevelEffect(level="a", mean_us=10.0, configurations=32, ratio=1.0),
        LevelEffect(level="b", mean_us=13.0, configurations=32, ratio=1.3, differs=True),
        LevelEffect(level="c", mean_us=20.0, configurations=1, ratio=2.0),
    )
    given = {"factor": "x", "default": "a", "main_share": 0.5, "interaction_share": 0.0, "p": 0.001, "matters": True,
             "visible": None}  # fmt: skip
    found = Importance(**given, strongest_interaction="", levels=levels)
    assert found.why == "up to 30 % between its levels"
    together = Importance(**given, strongest_interaction="x × y", levels=(levels[0], levels[2]))
    assert together.why == "x × y"


def test_the_fewest_changes_are_advised_and_only_of_what_matters() -> None:
    means = {(0, 0): 100.0, (1, 0): 20.0, (0, 1): 60.0, (1, 1): 10.0}
    rows = [
        repeated({"a": a, "b": b, "idle": idle}, means[a, b] - idle) for a in (0, 1) for b in (0, 1) for idle in (0, 1)
    ]
    found = advise(table(rows), ["a", "b"], {})
    assert [(change.factor, change.before, change.after) for change in found.changes] == [("a", 0, 1), ("b", 0, 1)]
    assert [change.value_us for change in found.changes] == pytest.approx([19.8, 9.6], rel=0.02)
    assert found.best is not None
    assert found.best.title == "a=1 b=1 idle=1"
    one = advise(table(rows, {"a": 1, "b": 0, "idle": 0}), ["a", "b"], {})
    assert [change.factor for change in one.changes] == ["b"]
    assert advise(table(rows, {"a": 1, "b": 1}), ["a", "b"], {}).changes == ()


def test_the_sentence_has_the_latencies_of_the_pairs_that_confirm_it() -> None:
    """The default also has fast configurations without a counterpart: "takes the median from 6.3 to 9.5"."""
    rows = [
        repeated({"a": a, "idle": idle}, mean_us)
        for a, idle, mean_us in ((0, 0, 20.0), (1, 0, 10.0), (0, 1, 20.0), (1, 1, 10.0), (0, 2, 1.0), (1, 3, 9.0))
    ]
    slow = repeated({"a": 0, "idle": 4}, 500.0)  # in the half that chooses alone
    kept = {number: found for number, found in slow.by_repetition.items() if number not in (1, 3)}
    rows.append(slow.model_copy(update={"by_repetition": kept}))
    found = advise(table(rows), ["a"], {})
    (change,) = found.changes
    assert (found.default_us, found.reached_us, change.value_us) == pytest.approx((20.3, 10.15, 10.15), rel=0.01)
    assert change.interval is not None
    assert found.default_us / found.reached_us == pytest.approx(change.interval.ratio)


def test_another_forwarder_is_one_change_whatever_options_it_lacks() -> None:
    rows = [
        configuration({"forwarder": "slow", "slow.mode": "x"}, 50.0, (50.0,) * 6),
        configuration({"forwarder": "slow", "slow.mode": "y"}, 40.0, (40.0,) * 6),
        configuration({"forwarder": "fast", "slow.mode": ABSENT}, 10.0, (10.0,) * 6),
    ]
    found = advise(table(rows), ["forwarder", "slow.mode"], {})
    assert [(change.factor, change.value_us) for change in found.changes] == [("forwarder", pytest.approx(10.0))]


def test_a_ring_that_loses_frames_is_neither_best_nor_advised() -> None:
    rows = [repeated({"ring": ring, "b": b}, 6.0 if ring else 10.0, loss=0.4 * ring) for ring in (0, 1) for b in (0, 1)]
    rows += [repeated({"ring": ring, "b": 2}, 8.0 - ring, loss=0.4 * ring) for ring in (0, 1)]
    whole = table(rows)
    found = advise(whole, ["ring", "b"], lossy(whole))
    assert found.best is not None
    assert "ring=0" in found.best.title
    assert "ring" not in {change.factor for change in found.changes}


@pytest.mark.parametrize(
    ("repetitions", "why"),
    [
        ((1,), "0 of the 3 pairs of repetitions that it takes: ask for 6 repetitions"),
        ((1, 1), "1 of the 3 pairs of repetitions that it takes: ask for 6 repetitions"),
        ((1, 100, 1, 100), "a=1 was faster in one half of the repetitions, which the other half does not confirm"),
    ],
)
def test_what_one_half_of_the_repetitions_shows_alone_is_not_advised(repetitions: tuple[int, ...], why: str) -> None:
    rows = [
        configuration({"a": a, "b": b}, 10.0, tuple(10.0 if a else 20.0 / n for n in repetitions))
        for a in (0, 1)
        for b in (0, 1)
    ]
    found = advise(table(rows), ["a"], {})
    assert (found.changes, found.sentence) == ((), f"No change from the default is confirmed to help: {why}.")


def test_a_study_without_the_key_is_no_sweep() -> None:
    from xdplab.analysis.sweep import is_sweep

    study: dict[str, Any] = {"name": "s", "forwarders": ["fake"]}
    assert not is_sweep(StudySpec.model_validate(study))
    assert is_sweep(StudySpec.model_validate({**study, "sweep": {}}))
    assert not is_sweep(StudySpec.model_validate({**study, "sweep": {}, "method": {"name": "rfc2544"}}))
