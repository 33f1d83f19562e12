# SPDX-License-Identifier: Apache-2.0
"""`dev bench-analysis`: is the analysis of a sweep right where the truth is known, and how long does it take?"""

import itertools
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dev.planted import DOMINATING, IDLE, MIDDLE, planted
from dev.simulate import CLUSTERS, FACTORS, INSIGNIFICANT, Simulated, cluster_of, simulate
from xdplab.analysis.run import Run
from xdplab.analysis.sweep import analyse_sweep
from xdplab.model import Model
from xdplab.model.digits import columns
from xdplab.report import write_report
from xdplab.results import new_run
from xdplab_delays.analyse import analyse_records

#: Shares of a cluster's spread that lie between its configurations, and how many configurations are drawn (None: all).
CASES: tuple[tuple[float, int | None], ...] = ((0.25, None), (0.25, 100), (0.5, None))

#: What is different about the sweeps of one dominating, one middle and three idle settings.
PLANTED: dict[str, dict[str, Any]] = {
    "quiet": {},
    "the slow ones are outliers": {"outliers_above_us": 200.0},
    "the slow ones are noisy": {"slow_noise": 0.6},
    "busy machine": {"noise": 2.0},
}


class Recovery(Model):
    """How well one simulated run was understood."""

    nic: str
    seed: int
    between: float
    configurations: int
    clusters: int
    #: Of the simulation: those that overlap taken as one, and each on its own.
    true_clusters: tuple[int, int]
    #: Of the configurations in clusters that overlap with none, the share in the group that stands for their cluster.
    assigned: float
    #: Error of the best telling apart, over pairs of clusters that do not overlap.
    overlap: float
    #: Rules that say the same as the simulation's over all 256 configurations, of the groups that were found.
    rules: int
    #: Settings that matter in the simulation and were not found, and the other way round.
    missed: tuple[str, ...]
    invented: tuple[str, ...]


class Order(Model):
    """What is said of planted settings, over runs."""

    case: str
    runs: int
    #: Runs in which the dominating one came first, the middle one second, and nothing else mattered.
    right: int
    #: Runs in which an idle one was said to matter, and in which one of the other two was said to have no effect.
    invented: int
    denied: int


class Cost(Model):
    """Reading a run's journal, analysing it and drawing its report."""

    trials: int
    seconds: float
    cpu_s: float
    peak_mib: float


class Bench(Model):
    """Everything."""

    recoveries: tuple[Recovery, ...]
    orders: tuple[Order, ...]
    noise_runs: int
    #: Runs of pure noise in which a setting was said to matter, or groups were found.
    noise_alarms: int
    cost: Cost


def bench_analysis(seeds: int, trials: int, progress: Callable[[str], None] = lambda text: None) -> Bench:
    """Judge with seeds 0, 1, 2, ...; time a run of so many trials."""
    cost = measure_cost(trials)  # first, because its peak is that of the whole process
    recoveries = []
    for nic, (between, count) in itertools.product(CLUSTERS, CASES):
        progress(f"{nic}, {count or 'all'} configurations, {between:g} of the spread between them")
        recoveries += [recover(nic, seed, between, count) for seed in range(seeds)]
    orders = []
    for case, changes in PLANTED.items():
        progress(f"planted settings: {case}")
        orders.append(order(case, changes, seeds))
    progress("noise")
    alarms = 0
    for seed in range(seeds):
        noise = simulate("mlx5", seed, noise=True)
        (found,) = analyse_records(noise.run, noise.trials)
        alarms += found.groups.k > 1 or any(each.matters for each in found.sweep.importance)
    return Bench(recoveries=tuple(recoveries), orders=tuple(orders), noise_runs=seeds, noise_alarms=alarms, cost=cost)


def recover(nic: str, seed: int, between: float, configurations: int | None) -> Recovery:
    """Simulate, analyse, and compare with the truth."""
    made = simulate(nic, seed, between=between, configurations=configurations)
    (found,) = analyse_records(made.run, made.trials)
    truth = {point_id: made.merged[c] for point_id, c in made.truth.items() if c is not None}
    labels = {point_id: group for point_id, group in found.groups.labels.items() if point_id in truth}
    stands_for = _matched(truth, labels)
    alone = [c for c in truth.values() if list(made.merged.values()).count(c) == 1]
    # a configuration that was taken for an outlier is wrong as well
    right = sum(stands_for.get(group) == truth[p] for p, group in labels.items() if truth[p] in alone)
    matters = {each.factor for each in found.sweep.importance if each.matters}
    real = _real(made)
    return Recovery(
        nic=nic,
        seed=seed,
        between=between,
        configurations=len(made.truth),
        clusters=found.groups.k,
        true_clusters=(len(set(truth.values())), len(set(made.truth.values()) - {None})),
        assigned=right / len(alone),
        overlap=made.overlap_apart,
        rules=sum(
            _same(rule.alternatives, nic, made.merged, stands_for.get(rule.cluster)) for rule in found.rules.rules
        ),
        missed=tuple(sorted(real - matters)),
        invented=tuple(sorted(matters - real)),
    )


def order(case: str, changes: dict[str, Any], seeds: int) -> Order:
    """Planted settings with seeds 0, 1, 2, ..."""
    right = invented = denied = 0
    for seed in range(seeds):
        (found,) = analyse_sweep(*planted(seed, **changes))
        mattering = [each.factor for each in found.importance if each.matters]
        idle = {each.factor for each in found.importance if each.verdict == "no effect seen"}
        right += mattering == [DOMINATING, MIDDLE]
        invented += not set(mattering).isdisjoint(IDLE)
        denied += not idle.isdisjoint((DOMINATING, MIDDLE))
    return Order(case=case, runs=seeds, right=right, invented=invented, denied=denied)


def measure_cost(trials: int) -> Cost:
    """A simulated run of so many trials, in whole repetitions of 256, of 500 samples on disk: journal to report."""
    repetitions = -(-trials // 256)
    made = simulate("mlx5", 0, repetitions=repetitions, samples=500)
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(Path(folder), "bench")
        run.head(made.run)
        lines = (trial.model_dump_json() for trial in made.trials)
        (run.path / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        count = len(made.trials)
        del made
        wall, cpu = time.perf_counter(), time.process_time()
        write_report(Run.of(run))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(trials=count, seconds=wall, cpu_s=cpu, peak_mib=peak_mib)


def bench_text(found: Bench) -> str:
    """Medians and worst of each case."""
    head = "card, configurations, between, overlap, number of groups, assigned (worst), rules, missed, invented"
    rows = [head.split(", ")]
    for (nic, between, count), group in itertools.groupby(
        found.recoveries, key=lambda r: (r.nic, r.between, r.configurations)
    ):
        same = list(group)
        right = sum(r.true_clusters[0] <= r.clusters <= r.true_clusters[1] for r in same)
        rows.append(
            [
                nic,
                str(count),
                f"{between:g}",
                f"{same[0].overlap:.1e}",
                f"right in {right} of {len(same)}",
                f"{np.median([r.assigned for r in same]):.1%} ({min(r.assigned for r in same):.1%})",
                f"{sum(r.rules for r in same)} of {sum(r.true_clusters[0] for r in same)}",
                str(sum(len(r.missed) for r in same)),
                str(sum(len(r.invented) for r in same)),
            ]
        )
    cost = found.cost
    orders = [
        ["one dominating setting, one middle, three idle", "order right", "an idle one matters", "an effect denied"]
    ]
    for each in found.orders:
        counts = (each.right, each.invented, each.denied)
        orders.append([each.case, *(f"{count} of {each.runs}" for count in counts)])
    return (
        f"{columns(rows)}\n"
        f"{columns(orders)}\n"
        f"pure noise: {found.noise_alarms} of {found.noise_runs} runs say that something matters\n"
        f"{cost.trials} trials, journal to report: {cost.seconds:.1f} s ({cost.cpu_s:.1f} s CPU), "
        f"peak {cost.peak_mib:.0f} MiB"
    )


def _matched(truth: dict[str, int], labels: dict[str, int]) -> dict[int, int]:
    """Group -> the cluster that it stands for, one to one so that most configurations fit."""
    from scipy.optimize import linear_sum_assignment

    clusters, groups = sorted(set(truth.values())), sorted(set(labels.values()))
    table = np.zeros((len(clusters), len(groups)), dtype=int)
    for point_id, group in labels.items():
        table[clusters.index(truth[point_id]), groups.index(group)] += 1
    rows, cells = linear_sum_assignment(-table)
    return {groups[g]: clusters[c] for c, g in zip(rows, cells, strict=True)}


def _real(made: Simulated) -> set[str]:
    """Settings that decide the (merged) cluster of some drawn configuration; those that wait are a cluster as well."""
    levels = {point_id: point.knobs for point_id, point in made.run.points.items()}
    known = {tuple(levels[p].values()): None if c is None else made.merged[c] for p, c in made.truth.items()}
    real = set()
    for index, name in enumerate(FACTORS):
        for setting, cluster in known.items():
            flipped = tuple(1 - int(v) if i == index else v for i, v in enumerate(setting))
            if known.get(flipped, cluster) != cluster:
                real.add(name)
                break
    assert not real & set(INSIGNIFICANT)
    return real


def _same(alternatives: tuple[tuple[str, ...], ...], nic: str, merged: dict[int, int], cluster: int | None) -> bool:
    """Whether a rule means the cluster over the full factorial, outliers aside."""
    for number in range(1 << len(FACTORS)):
        levels = dict(zip(FACTORS, map(int, f"{number:08b}"), strict=True))
        true = cluster_of(nic, levels)
        if true is None:
            continue
        met = any(
            all(bool(levels[word.removeprefix("not ")]) != word.startswith("not ") for word in conjunction)
            for conjunction in alternatives
        )
        if met != (merged[true] == cluster):
            return False
    return True
