# SPDX-License-Identifier: Apache-2.0
"""The analysis of a sweep where the truth is known: runs simulated from the delay study's tables, and pure noise."""

import pytest

from dev.bench_analysis import recover
from dev.simulate import CLUSTERS, FACTORS, INSIGNIFICANT, cluster_of, simulate
from xdplab.analysis.sweep import analyse_sweep
from xdplab.model.published import published_table


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
    (found,) = analyse_sweep(noise.run, noise.trials)
    assert found.clustering.k == 1
    assert [each.factor for each in found.importance if each.matters] == []
    assert not found.rules.explained
    assert found.summary[0].startswith("No setting is seen to matter; no effect above ")
    assert found.advice.changes == ()


@pytest.mark.slow
def test_what_waits_for_the_next_ping_is_an_outlier_and_the_rule_says_which() -> None:
    made = simulate("i40e", 3)
    (found,) = analyse_sweep(made.run, made.trials)
    waiting = {point_id for point_id, cluster in made.truth.items() if cluster is None}
    assert {outlier.point_id for outlier in found.outliers} == waiting != set()
    assert found.outlier_rule is not None
    assert (found.outlier_rule.precision, found.outlier_rule.coverage) == (1, 1)
    assert all("zero_copy" in conjunction for conjunction in found.outlier_rule.alternatives)


@pytest.mark.slow
def test_one_repetition_says_what_matters_and_makes_no_groups() -> None:
    made = simulate("mlx5", 0, repetitions=1)
    (found,) = analyse_sweep(made.run, made.trials)
    assert found.clustering.k == 1
    assert "ask for 2" in found.clustering.reason
    assert {each.factor for each in found.importance if each.matters} == set(FACTORS[:5]) - {"zero_copy"}


@pytest.mark.parametrize("nic", CLUSTERS)
def test_the_simulator_has_the_figures_and_the_rules_of_the_published_table(nic: str) -> None:
    from xdplab.analysis.sweep.published import holds

    study, table = published_table(f"understanding-delays-afxdp/{nic}")
    assert [(c.mean_us, c.std_us) for c in table.clusters] == list(CLUSTERS[nic])
    assert set(table.insignificant) == set(INSIGNIFICANT)
    for number in range(1 << len(FACTORS)):
        levels = dict(zip(FACTORS, map(int, f"{number:08b}"), strict=True))
        settings = {name: bool(level) for name, level in levels.items()}
        by_number = {cluster.cluster: cluster.rule for cluster in table.clusters}
        met = [n for n in table.order if holds(by_number[n], settings, study.stands_for)]
        assert (met[0] if met else None) == cluster_of(nic, levels)
