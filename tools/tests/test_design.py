# SPDX-License-Identifier: Apache-2.0
"""Which combinations of settings a study measures."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from lab import studies
from lab.command import Done
from threadpoolctl import threadpool_info, threadpool_limits

from xdplab.model import InputError, StudySpec
from xdplab.model.design import Scalar
from xdplab.runner import design as module, make_plan
from xdplab.runner.design import Combination, _blocks, design, effects
from xdplab.testers import make_tester

#: Knobs that only exist to be combined; their numbers are checked like those of any other.
NUMBERS = ("napi_defer_hard_irqs", "gro_flush_timeout", "hugepages_2m")


def a_study(**changes: Any) -> StudySpec:
    return studies.study(**{"forwarders": ["fake"], "repetitions": 1, **changes})


def combinations(**changes: Any) -> list[Combination]:
    return [combination for _, combination in design(a_study(**changes)).chosen]


levels_of = st.fixed_dictionaries({name: st.integers(1, 4).map(lambda n: list(range(n))) for name in NUMBERS})
constraints_of = st.lists(
    st.builds(
        lambda pair, when, then, kind: {"when": {pair[0]: when}, kind: {pair[1]: then}},
        st.permutations(NUMBERS),
        st.lists(st.integers(0, 3), min_size=1, max_size=2),
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
        st.sampled_from(["requires", "forbids"]),
    ),
    max_size=2,
)


def meets(combination: Combination, constraints: list[dict[str, Any]]) -> bool:
    """Written again, apart from the code under test."""
    for constraint in constraints:
        if all(combination[name] in levels for name, levels in constraint["when"].items()):
            if not all(combination[name] in levels for name, levels in constraint.get("requires", {}).items()):
                return False
            forbids = constraint.get("forbids")
            if forbids and all(combination[name] in levels for name, levels in forbids.items()):
                return False
    return True


def key(combination: Combination) -> tuple[Scalar, ...]:
    return tuple(combination[name] for name in NUMBERS)


@given(levels_of, constraints_of)
def test_a_factorial_is_every_combination_that_the_constraints_allow(
    levels: dict[str, list[int]], constraints: list[dict[str, Any]]
) -> None:
    everything = [
        dict(zip(NUMBERS, values, strict=True)) for values in itertools.product(*(levels[name] for name in NUMBERS))
    ]
    expected = {key(each) for each in everything if meets(each, constraints)}  # type: ignore[arg-type]
    spec = a_study(knobs=levels, constraints=constraints)
    if not expected:
        with pytest.raises(InputError, match="leave no combination"):
            design(spec)
        return
    found = design(spec)
    assert {key(each) for _, each in found.chosen} == expected
    assert len(found.chosen) == len(expected)
    assert found.left_out == len(everything) - len(expected)


@given(levels_of, constraints_of, st.integers(1, 12), st.integers(0, 5))
def test_a_random_design_draws_allowed_combinations_once_and_the_same_for_a_seed(
    levels: dict[str, list[int]], constraints: list[dict[str, Any]], runs: int, seed: int
) -> None:
    spec = a_study(knobs=levels, constraints=constraints, design={"kind": "random", "runs": runs}, seed=seed)
    allowed = [
        each
        for values in itertools.product(*(levels[name] for name in NUMBERS))
        if meets(each := dict(zip(NUMBERS, values, strict=True)), constraints)  # type: ignore[arg-type]
    ]
    if len(allowed) < runs:
        with pytest.raises(InputError, match=f"{runs} runs"):
            design(spec)
        return
    found = [key(each) for _, each in design(spec).chosen]
    assert len(set(found)) == len(found) == runs
    assert set(found) <= {key(each) for each in allowed}  # type: ignore[arg-type]
    assert found == [key(each) for _, each in design(spec).chosen]


@given(levels_of)
def test_one_at_a_time_is_the_default_and_each_other_level_alone(levels: dict[str, list[int]]) -> None:
    defaults = {name: values[-1] for name, values in levels.items()}
    found = combinations(knobs=levels, design="one-at-a-time", sweep={"defaults": defaults})
    differing = [[name for name in NUMBERS if each[name] != defaults[name]] for each in found]
    assert differing[0] == []
    assert all(len(names) == 1 for names in differing[1:])
    assert len(found) == 1 + sum(len(values) - 1 for values in levels.values()) == len(set(map(key, found)))


@settings(max_examples=20)
@given(levels_of.filter(lambda levels: sum(len(v) > 1 for v in levels.values()) > 1), constraints_of)
def test_a_screening_design_can_tell_every_effect_that_all_combinations_could(
    levels: dict[str, list[int]], constraints: list[dict[str, Any]]
) -> None:
    try:
        full = design(a_study(knobs=levels, constraints=constraints))
    except InputError:
        return
    spec = a_study(knobs=levels, constraints=constraints, design="fractional")
    found = design(spec)
    blocks = _blocks(spec)
    # one coding for both: the levels in the order in which the whole meets them
    matrix = effects(full.chosen, blocks, 1)
    rows = [full.chosen.index(each) for each in found.chosen]
    assert np.linalg.matrix_rank(matrix[rows]) == np.linalg.matrix_rank(matrix)
    assert len(set(rows)) == len(rows) <= 2 * matrix.shape[1]


def test_a_screening_design_of_switches_is_as_good_as_a_textbook_one() -> None:
    knobs = {name: [0, 1] for name in NUMBERS} | {"threaded_napi": [0, 1], "cpu_layout": ["inline", "1C1T"]}
    spec = a_study(knobs=knobs, design={"kind": "fractional", "runs": 8})
    found = design(spec).chosen
    information = effects(found, _blocks(spec), 1)
    information = information.T @ information / len(found)
    assert len(found) == 8
    # five switches in eight runs can be orthogonal (2^(5-2)): the determinant is then 1
    assert np.linalg.det(information) == pytest.approx(1, abs=1e-9)


def test_too_few_runs_for_the_effects_are_refused() -> None:
    knobs = {name: [0, 1, 2] for name in NUMBERS}
    with pytest.raises(InputError, match="5 runs cannot separate 7 effects"):
        combinations(knobs=knobs, design={"kind": "fractional", "runs": 5})
    assert len(combinations(knobs=knobs, design={"kind": "fractional", "runs": 20, "order": 2})) == 20


def test_huge_matrices_can_be_sampled_and_not_be_run_whole() -> None:
    knobs = {name: list(range(200)) for name in NUMBERS}
    with pytest.raises(InputError, match="8000000 combinations; choose design"):
        combinations(knobs=knobs)
    assert len(combinations(knobs=knobs, design={"kind": "random", "runs": 50})) == 50


OPTIONS: dict[str, Any] = {
    "forwarders": ["fake:seed=1", "linux-bridge"],
    "options": {"fake": {"base_latency_us": [3, 9]}},
    "knobs": {"threaded_napi": [0, 1]},
}


def test_options_are_swept_for_their_forwarder_alone_and_constraints_may_speak_of_them() -> None:
    found = combinations(**OPTIONS)
    assert [(each["forwarder"], each.get("fake.base_latency_us")) for each in found] == [
        ("fake:seed=1", 3), ("fake:seed=1", 3), ("fake:seed=1", 9), ("fake:seed=1", 9),
        ("linux-bridge", None), ("linux-bridge", None),
    ]  # fmt: skip
    constraint = {"when": {"base_latency_us": 9}, "requires": {"threaded_napi": 1}}
    assert len(combinations(**OPTIONS, constraints=[constraint])) == 5
    constraint = {"when": {"threaded_napi": 1}, "requires": {"forwarder": "fake", "base_latency_us": 9}}
    assert len(combinations(**OPTIONS, constraints=[constraint])) == 4
    constraint = {"when": {"forwarder": "linux-bridge"}, "forbids": {"threaded_napi": 0}}
    assert len(combinations(**OPTIONS, constraints=[constraint])) == 5


def test_options_of_the_tester_are_settings_like_others() -> None:
    swept: dict[str, Any] = {
        "tester": "xsk-ping:ping_batch=2", "tester_options": {"wait": ["spin", "poll"], "qdisc_bypass": [True, False]},
        "path": "hairpin", "forwarders": ["xsk"], "options": {"xsk": {"wait": ["spin", "poll"]}}, "repetitions": 1,
        "constraints": [
            {"when": {"tester.qdisc_bypass": False}, "requires": {"tester.wait": "spin", "xsk.wait": "spin"}}
        ],
    }  # fmt: skip
    spec = studies.study(**swept)
    assert spec.all_testers == (
        "xsk-ping:ping_batch=2,wait=spin,qdisc_bypass=true",
        "xsk-ping:ping_batch=2,wait=spin,qdisc_bypass=false",
        "xsk-ping:ping_batch=2,wait=poll,qdisc_bypass=true",
        "xsk-ping:ping_batch=2,wait=poll,qdisc_bypass=false",
    )
    plan = make_plan(spec, studies.a_testbed("embedded"), *map(make_tester, spec.all_testers))
    assert [(p.forwarder.options, p.tester, p.tester_options) for p in plan.points] == [
        ({"wait": "spin"}, spec.all_testers[0], {"wait": "spin", "qdisc_bypass": True}),
        ({"wait": "spin"}, spec.all_testers[1], {"wait": "spin", "qdisc_bypass": False}),
        ({"wait": "spin"}, spec.all_testers[2], {"wait": "poll", "qdisc_bypass": True}),
        ({"wait": "poll"}, spec.all_testers[0], {"wait": "spin", "qdisc_bypass": True}),
        ({"wait": "poll"}, spec.all_testers[2], {"wait": "poll", "qdisc_bypass": True}),
    ]
    assert plan.points[0].title == f"xsk:wait=spin, by {spec.all_testers[0]}"


def test_points_carry_swept_options_and_each_load_level() -> None:
    spec = studies.study(
        forwarders=["fake:seed=1"], options={"fake": {"base_latency_us": [3, 9]}}, repetitions=2,
        loads=[{"probe_pps": 1000}, {"load_pps": 50_000}],
    )  # fmt: skip
    plan = make_plan(spec, studies.a_testbed(), make_tester("fake"))
    assert [(p.forwarder.title, p.traffic.probe_pps, p.traffic.load_pps) for p in plan.points] == [
        ("fake:seed=1,base_latency_us=3", 1000, None),
        ("fake:seed=1,base_latency_us=9", 1000, None),
        ("fake:seed=1,base_latency_us=3", 20000, 50_000),
        ("fake:seed=1,base_latency_us=9", 20000, 50_000),
    ]
    assert len(plan.order) == 8


def test_listed_points_have_defaults_for_what_they_do_not_name() -> None:
    points = [{"threaded_napi": 1}, {"forwarder": "linux-bridge"}, {"base_latency_us": 9, "threaded_napi": 1}]
    found = combinations(**OPTIONS, design={"kind": "list", "points": points})
    assert [list(each.values()) for each in found] == [
        ["fake:seed=1", 3, 1],
        ["linux-bridge", 0],
        ["fake:seed=1", 9, 1],
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"constraints": [{"when": {"colour": 1}, "requires": {"threaded_napi": 0}}]}, "'colour' is none of"),
        ({"constraints": [{"when": {"threaded_napi": 1}}]}, "one of requires and forbids"),
        ({"constraints": [{"when": {}, "requires": {"threaded_napi": 1}}]}, "constraints.0.when"),
        ({"design": "fractal"}, "design"),
        ({"design": {"kind": "random"}}, "design"),
        ({"design": {"kind": "random", "runs": 99}}, "99 runs, but"),
        ({"design": {"kind": "list", "points": [{"threaded_napi": 7}]}}, "threaded_napi=7 is not a setting and level"),
        ({"options": {"vpp": {"x": 1}}}, "options: vpp is not one of its forwarders"),
        ({"options": {"fake": {"seed": [1, 2]}}}, "both fixed and swept"),
        ({"options": {"fake": {"colour": [1, 2]}}}, "colour"),
        ({"sweep": {"defaults": {"colour": 1}}}, "sweep.defaults: 'colour'"),
        ({"tester_options": {"wait": ["spin"]}}, "tester 'fake': takes no options, 'wait' is given"),
        ({"tester": "xsk", "tester_options": {"wait": ["stand"]}}, "tester xsk: wait"),
        ({"testers": ["xsk", "trex"], "tester_options": {"wait": ["spin"]}}, "tester_options are of `tester`"),
        ({"loads": [{"load_pps": -1}]}, "loads: load_pps"),
        ({"loads": [{"colour": 1}]}, "colour"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(
    changes: dict[str, Any], words: str, tmp_path: Path, cli: Callable[..., Done]
) -> None:
    path = studies.study_file(tmp_path, **{**OPTIONS, "forwarders": ["fake:seed=1"], **changes})
    cli("run", path, "--dry-run").refused(words)


def test_a_dry_run_shows_points_reasons_constraints_and_time(tmp_path: Path, cli: Callable[..., Done]) -> None:
    path = studies.study_file(
        tmp_path,
        forwarders=["fake", "fake:unsupported_reason=no such card"],
        knobs={"hugepages_2m": [0, 1]},
        constraints=[{"when": {"hugepages_2m": 1}, "requires": {"forwarder": "fake:unsupported_reason=no such card"}}],
        repetitions=3,
        method={"name": "latency", "duration_s": 1.0, "warmup_s": 0.3, "drain_s": 0.2},
    )
    out = cli("run", path, "--dry-run").out
    for words in (
        "3 points, design factorial (constraints leave out 1 combination)",
        "2 unsupported: no such card",
        "3 repetitions of each, 3 in all, 4 s of traffic, about 8 s with starts",
    ):
        assert words in out
    assert sum(line.startswith("fake") for line in out.splitlines()) == 1


def test_a_design_is_chosen_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def noting(*args: Any) -> list[int]:
        threads.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return greedy(*args)

    threads: list[int] = []
    greedy = module._greedy
    monkeypatch.setattr(module, "_greedy", noting)
    with threadpool_limits(2):  # as on a machine of two cores
        combinations(design={"kind": "fractional"}, knobs={name: [0, 1] for name in NUMBERS})
        assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {2}
    assert set(threads) == {1}
