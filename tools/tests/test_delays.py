# SPDX-License-Identifier: Apache-2.0
"""The delay study's own analysis, `xdplab_delays`: groups, rules, outliers, its tables next to ours."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from lab import records, studies
from lab.command import environment
from test_sweep_parts import configuration, factorial, table

from dev.bench_analysis import recover
from dev.planted import planted
from dev.simulate import CLUSTERS, FACTORS, INSIGNIFICANT, cluster_of, simulate
from xdplab.analysis.run import Run
from xdplab.analysis.sweep import Factor
from xdplab.model import InputError, StudySpec, validated
from xdplab.model.published import published_table
from xdplab.results import RunFolder
from xdplab.runner import make_plan
from xdplab.testers import make_tester
from xdplab_delays import __main__ as command
from xdplab_delays.analyse import analyse, analyse_records
from xdplab_delays.outliers import split
from xdplab_delays.published import holds
from xdplab_delays.rules import find_rules, words_of
from xdplab_delays.under_load import under_load

PUBLISHED = ("understanding-delays-afxdp/mlx5", "understanding-delays-afxdp/i40e")


def delays(*args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "xdplab_delays", *map(str, args)], env=environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_the_command_prints_groups_rules_and_the_tables_of_the_study(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = simulate("mlx5", 1)
    spec = made.run.study.sweep
    assert spec is not None
    study = made.run.study.model_copy(update={"sweep": spec.model_copy(update={"published": PUBLISHED})})
    run = Run(tmp_path, made.run.model_copy(update={"study": study}), made.trials)
    found = analyse(run)  # once: it takes seconds
    run.__dict__["sweeps"] = [each.sweep for each in found]
    monkeypatch.setattr(command, "load", lambda name, results: run)
    monkeypatch.setattr(command, "analyse", lambda run: found)
    command.main("any")
    printed = capsys.readouterr().out
    for words in (
        "What matters: poll_receiver (",
        "The configurations fall into 7 groups; settings explain them.",
        "busy_poll and need_wakeup and not poll_receiver",
        "next to Table I: Mellanox",
        "c_state does not matter",
    ):
        assert words in printed
    command.main("any", as_json=True)
    (data,) = json.loads(capsys.readouterr().out)
    first, second = ({claim["statement"]: claim["verdict"] for claim in each["claims"]} for each in data["published"])
    assert set(first.values()) == {"agrees"}
    assert second["zero_copy matters"] == "disagrees"  # it is in no rule of Table I


def test_a_run_that_is_no_sweep_is_refused_in_one_line(results: Path) -> None:
    folder = RunFolder(results / "rfc")
    folder.path.mkdir(parents=True)
    points = [records.point(f"fake:seed={n}") for n in range(6)]
    folder.head(records.run_record(*points))  # no `sweep:`
    for each in points:
        folder.append(records.trial(each))
    done = delays(folder.path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@settings(max_examples=25)
@given(st.lists(st.booleans(), min_size=16, max_size=16).filter(lambda bits: 0 < sum(bits) < 16))
def test_rules_of_any_function_of_four_switches_are_exact(bits: list[bool]) -> None:
    rows = factorial({"a": 2, "b": 2, "c": 2, "d": 2, "idle": 4}, lambda **_: 1.0)
    found = table(rows)
    labels = [
        int(bits[row.levels["a"] * 8 + row.levels["b"] * 4 + row.levels["c"] * 2 + row.levels["d"]]) for row in rows
    ]  # type: ignore[operator]
    rules = find_rules(found, labels, shuffles=1)
    for rule in rules.rules:
        if (rule.precision, rule.coverage) == (1, 1):
            assert "idle" not in rule.factors
    if sum(bits) in (1, 15):  # one conjunction: no tree is too shallow for it
        assert all((rule.precision, rule.coverage) == (1, 1) for rule in rules.rules)


def test_both_outlier_rules_of_the_study_are_applied_with_their_reasons() -> None:
    rows = [configuration({"a": n}, mean) for n, mean in enumerate((10.0, 190.0, 200.0, 800_000.0))]
    kept, out = split(table(rows), 195.0, {})
    assert [row.statistics.mean_us for row in kept.rows] == [10.0, 190.0]
    assert ["kernel's own path" in each.reason for each in out] == [True, False]
    assert "interval between probes" in out[1].reason
    assert len(split(table(rows), None, {})[1]) == 1


def test_rules_speak_of_switches_numbers_and_words() -> None:
    on, ring, mode = (
        Factor(name=name, levels=levels, default=levels[0])
        for name, levels in (("on", (False, True)), ("ring", (0, 256, 512)), ("mode", ("native", "generic", "offload")))
    )
    said = {
        words_of(on, frozenset({True})), words_of(on, frozenset({False})), words_of(ring, frozenset({0})),
        words_of(ring, frozenset({0, 256})), words_of(ring, frozenset({256, 512})), words_of(ring, frozenset({512})),
        words_of(ring, frozenset({0, 512})), words_of(mode, frozenset({"native"})),
        words_of(mode, frozenset({"native", "offload"})),
    }  # fmt: skip
    assert said == {
        "on", "not on", "ring = 0", "ring < 512", "ring ≥ 256", "ring = 512", "ring ≠ 256", "mode = native",
        "mode ≠ generic",
    }  # fmt: skip


def test_a_rule_is_shortened_and_its_fit_is_counted() -> None:
    rows = factorial({"a": 2, "b": 2, "c": 2, "d": 3}, lambda **_: 1.0)
    labels = [int(row.levels["a"] == 1 and row.levels["d"] == 2) for row in rows]
    labels[0] = 1  # one that no setting explains
    found = find_rules(table(rows), labels)
    assert found.rules[1].text == "a and d = 2"
    assert (found.rules[1].precision, found.rules[1].coverage) == (1.0, 0.8)


def test_settings_do_not_explain_groups_drawn_at_random() -> None:
    rows = factorial({"a": 2, "b": 2, "c": 2, "d": 8}, lambda **_: 1.0)
    rng = np.random.default_rng(5)
    assert not any(find_rules(table(rows), rng.integers(0, 2, len(rows)).tolist()).explained for _ in range(3))


def test_a_published_rule_is_read_as_written() -> None:
    both = {"poll": ["rx", "tx"]}
    assert holds("a and not poll", {"a": True, "rx": False, "tx": False}, both)
    assert not holds("a and not poll", {"a": True, "rx": False, "tx": True}, both)
    assert holds("not a or (rx and tx)", {"a": True, "rx": True, "tx": True}, both)
    with pytest.raises(KeyError):
        holds("a and poll", {"a": False, "rx": True}, both)
    for wrong in ("a ==", "a == b", "f(a)", "__import__('os')"):
        with pytest.raises(InputError):
            holds(wrong, {"a": True, "b": True}, both)


def test_the_summary_tells_the_rule_of_the_outliers_and_where_they_are_left_out() -> None:
    (found,) = analyse_records(*planted(0, outliers_above_us=200.0))
    assert len(found.groups.labels) == 16
    assert found.summary[-1] == (
        "16 of 32 configurations are outliers (median above the kernel's own path (200 µs)); they are those with not "
        "dominating; the groups leave them out."
    )


@pytest.mark.slow
def test_random_groupings_are_explained_no_more_often_than_the_p_value_says() -> None:
    """With one depth for all shuffles, that of the real labels, a third of them had a p of 0.2 or less."""
    rows = factorial({"a": 2, "b": 2, "c": 2, "d": 3}, lambda **_: 1.0)
    rng = np.random.default_rng(1)
    groupings = [rng.integers(0, 2, len(rows)).tolist() for _ in range(30)]
    p_values = [find_rules(table(rows), each, seed=n, shuffles=9).p_value for n, each in enumerate(groupings)]
    assert sum(p <= 0.2 for p in p_values) <= 0.2 * len(p_values)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("nic", ["i40e", pytest.param("mlx5", marks=pytest.mark.slow)])
def test_groups_rules_and_settings_of_the_study_are_found_again(nic: str, seed: int) -> None:
    found = recover(nic, seed, between=0.25, configurations=None)
    assert found.overlap < 1e-4
    assert found.true_clusters == {"mlx5": (7, 7), "i40e": (4, 5)}[nic]
    assert found.true_clusters[0] <= found.clusters <= found.true_clusters[1]
    assert found.assigned > 0.95
    assert found.rules >= 4
    # it acts within one combination of the others, by less than a family-wise error of 5 % shows in every draw
    assert set(found.missed) <= {"mlx5": set(), "i40e": {"poll_receiver"}}[nic]
    assert found.invented == ()


@pytest.mark.slow
def test_a_hundred_configurations_drawn_at_random_are_enough_for_table_one() -> None:
    found = recover("mlx5", 0, between=0.25, configurations=100)
    assert (found.clusters, found.missed, found.invented) == (7, (), ())
    assert found.rules >= 6


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_pure_noise_is_called_noise(seed: int) -> None:
    noise = simulate("mlx5", seed, noise=True)
    (found,) = analyse_records(noise.run, noise.trials)
    assert found.groups.k == 1
    assert [each.factor for each in found.sweep.importance if each.matters] == []
    assert not found.rules.explained
    assert found.summary[0].startswith("No setting has a measurable effect; no effect above ")
    assert found.sweep.advice.changes == ()


@pytest.mark.slow
def test_what_waits_for_the_next_ping_is_an_outlier_and_the_rule_says_which() -> None:
    made = simulate("i40e", 3)
    (found,) = analyse_records(made.run, made.trials)
    waiting = {point_id for point_id, cluster in made.truth.items() if cluster is None}
    assert {outlier.point_id for outlier in found.outliers} == waiting != set()
    assert found.outlier_rule is not None
    assert (found.outlier_rule.precision, found.outlier_rule.coverage) == (1, 1)
    assert all("zero_copy" in conjunction for conjunction in found.outlier_rule.alternatives)


@pytest.mark.slow
def test_one_repetition_says_what_matters_and_makes_no_groups() -> None:
    made = simulate("mlx5", 0, repetitions=1)
    (found,) = analyse_records(made.run, made.trials)
    assert found.groups.k == 1
    assert "ask for 2" in found.groups.reason
    assert {each.factor for each in found.sweep.importance if each.matters} == set(FACTORS[:5]) - {"zero_copy"}


@pytest.mark.parametrize("nic", CLUSTERS)
def test_the_simulator_has_the_figures_and_the_rules_of_the_published_table(nic: str) -> None:
    study, table = published_table(f"understanding-delays-afxdp/{nic}")
    assert [(c.mean_us, c.std_us) for c in table.clusters] == list(CLUSTERS[nic])
    assert set(table.insignificant) == set(INSIGNIFICANT)
    for number in range(1 << len(FACTORS)):
        levels = dict(zip(FACTORS, map(int, f"{number:08b}"), strict=True))
        settings = {name: bool(level) for name, level in levels.items()}
        by_number = {cluster.cluster: cluster.rule for cluster in table.clusters}
        met = [n for n in table.order if holds(by_number[n], settings, study.stands_for)]
        assert (met[0] if met else None) == cluster_of(nic, levels)


SWEPT: dict[str, Any] = {
    "path": "hairpin",
    "forwarders": ["xsk:touch=macswap"],
    "options": {"xsk": {"batch": [1, 64, 128], "wait": ["spin", "poll"]}},
    "knobs": {"napi_defer_hard_irqs": [0, 2]},
    "repetitions": 1,
}


@pytest.mark.parametrize(
    ("tester", "swept", "no_interval"),
    [
        ({"tester": "xdpgen"}, set(), {"load_share": 1.0}),
        ({"tester": "xsk-ping", "tester_options": {"wait": ["spin", "poll"]}}, {"tester.wait"}, {"probe_pps": 100e6}),
    ],
)
def test_the_best_of_each_group_are_planned_at_two_loads(
    tester: dict[str, Any], swept: set[str], no_interval: dict[str, float]
) -> None:
    study = studies.study(**SWEPT, **tester)
    testbed = studies.a_testbed("embedded")
    points = make_plan(study, testbed, *map(make_tester, study.all_testers)).points
    run = records.run_record(*points).model_copy(update={"study": study})
    slow = [point.forwarder.options["wait"] == "poll" for point in points]
    trials = [records.trial(point, 0, [30_000 if waits else 5_000]) for point, waits in zip(points, slow, strict=True)]
    (found,) = analyse_records(run, trials)
    written = under_load(run, found, bandwidth_bps=1e9)
    equation, endless = written["loads"]
    assert equation["probe_pps"] == pytest.approx(1e9 * 5e-6 / 512, rel=0.002)  # the histogram's three digits
    assert endless == no_interval
    listed = written["design"]["points"]
    assert listed
    assert all(swept | {"forwarder", "xsk.batch", "xsk.wait", "napi_defer_hard_irqs"} == set(each) for each in listed)
    again = validated(StudySpec, written, "under load")
    planned = make_plan(again, testbed, *map(make_tester, again.all_testers)).points
    assert len(planned) == 2 * len(listed)
    assert {point.tester for point in planned} <= {"", *again.all_testers}
