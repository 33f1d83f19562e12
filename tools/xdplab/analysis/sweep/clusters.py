# SPDX-License-Identifier: Apache-2.0
"""Groups of configurations: k-means on mean, median, standard deviation and quartiles, k chosen by three criteria.

Distances. A feature is the logarithm of a statistic, divided by how much that logarithm differs between repetitions of
one configuration. So 1 is what a repetition changes by itself, and a statistic that does not reproduce (the standard
deviation on a machine that stalls) has no say.

Criteria for k, all of which a k must meet; of those that do, the largest whose silhouette is within
`SILHOUETTE_SLACK` of the best is taken, for the mean silhouette favours few groups when groups lie at distances of
several scales:

* separation: k-means is made of one half of the repetitions; on the other half, Kruskal and Wallis' test finds the
  groups different and Tukey's tells every two of them apart (both at `ALPHA`, mean or standard deviation). Asking the
  data that made the groups would always find them different.
* spread: on the line between any two group centres, the groups lie at least `MIN_GAP` of their standard deviations
  apart. Cutting one normal cloud in two gives 1.3, a uniform one 1.7.
* silhouette (Rousseeuw 1987) of at least `MIN_SILHOUETTE`.

When no k does, the configurations are one group, and nothing more is claimed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xdplab.analysis.sweep.table import Configuration, Table, log_features
from xdplab.model import Model

ALPHA = 0.01
MIN_GAP = 2.0
MIN_SILHOUETTE = 0.5
SILHOUETTE_SLACK = 0.05
MAX_K = 12
#: Histograms have three digits: less than this is not a difference between repetitions.
_LEAST_NOISE = 0.002
#: Spread between repetitions that is assumed when there is one only.
_ASSUMED_NOISE = 0.05
_STARTS = 10


class Candidate(Model):
    """How a number of groups fares."""

    k: int
    silhouette: float
    #: Smallest distance of two groups, in sums of their standard deviations on the line between them.
    gap: float
    #: Mean over groups of the standard deviation of their means, as a share of the group's mean.
    spread: float
    #: Least convincing p values on the repetitions that the groups were not made from.
    kruskal_p: float
    tukey_p: float
    met: bool


class Cluster(Model):
    """A group of configurations, 0 the fastest."""

    number: int
    size: int
    mean_us: float
    std_us: float
    low_us: float
    high_us: float
    silhouette: float


class Clustering(Model):
    """The groups, how their number was found, and to which each configuration belongs."""

    clusters: tuple[Cluster, ...]
    labels: dict[str, int]
    candidates: tuple[Candidate, ...]
    #: False: with one repetition there is no other half, and separation was asked of the data that made the groups.
    held_out: bool
    reason: str

    @property
    def k(self) -> int:
        """Number of groups."""
        return len(self.clusters)


@dataclass(frozen=True)
class _Halves:
    """Features of each configuration from two halves of its repetitions, and of all of them, in units of noise."""

    all: np.ndarray
    first: np.ndarray
    second: np.ndarray
    held_out: bool


def cluster(table: Table, seed: int = 0) -> Clustering:
    """Group the configurations of a table."""
    halves = _halves(table.rows)
    distinct = len(np.unique(np.round(halves.all, 6), axis=0))
    largest = min(MAX_K, distinct - 1, len(table.rows) // 2)
    judged = [_judge(k, table, halves, seed) for k in range(2, largest + 1)]
    good = [(candidate, labels) for candidate, labels in judged if candidate.met]
    if good:
        top = max(candidate.silhouette for candidate, _ in good)
        best, labels = [pair for pair in good if pair[0].silhouette >= top - SILHOUETTE_SLACK][-1]
        reason = (
            f"{best.k} groups: the most of which every two are apart, with a silhouette ({best.silhouette:.2f}) "
            f"within {SILHOUETTE_SLACK} of the best ({top:.2f})"
        )
    else:
        labels = np.zeros(len(table.rows), dtype=int)
        reason = "one group: no number of groups from 2 on meets all criteria"
    return Clustering(
        clusters=_described(table, halves.all, labels),
        labels={row.point_id: int(label) for row, label in zip(table.rows, labels, strict=True)},
        candidates=tuple(candidate for candidate, _ in judged),
        held_out=halves.held_out,
        reason=reason,
    )


def _halves(rows: Sequence[Configuration]) -> _Halves:
    everything = log_features(row.statistics for row in rows)
    repetitions = [log_features(row.by_repetition[number] for number in sorted(row.by_repetition)) for row in rows]
    repeated = [each for each in repetitions if len(each) > 1]
    if not repeated:
        scaled = everything / _ASSUMED_NOISE
        return _Halves(scaled, scaled, scaled, held_out=False)
    degrees = sum(len(each) - 1 for each in repeated)
    squares = sum(((each - each.mean(axis=0)) ** 2).sum(axis=0) for each in repeated)
    noise = np.maximum(np.sqrt(squares / degrees), _LEAST_NOISE)
    # a configuration measured once only stands in both halves with what there is
    first = np.array([each[0::2].mean(axis=0) for each in repetitions])
    second = np.array([each[1::2].mean(axis=0) if len(each) > 1 else each[0] for each in repetitions])
    return _Halves(everything / noise, first / noise, second / noise, held_out=True)


def _judge(k: int, table: Table, halves: _Halves, seed: int) -> tuple[Candidate, np.ndarray]:
    from sklearn.metrics import silhouette_score

    labels = _by_speed(_kmeans(halves.all, k, seed), halves.all)
    halved = _kmeans(halves.first, k, seed) if halves.held_out else labels
    silhouette = float(silhouette_score(halves.all, labels))
    kruskal_p, tukey_p = _separation(halves.second, halved)
    gap = _smallest_gap(halves.all, labels)
    met = silhouette >= MIN_SILHOUETTE and gap >= MIN_GAP and max(kruskal_p, tukey_p) < ALPHA
    means = np.array([row.statistics.mean_us for row in table.rows])
    spread = np.mean([means[labels == group].std() / means[labels == group].mean() for group in range(k)])
    return Candidate(
        k=k, silhouette=silhouette, gap=gap, spread=float(spread), kruskal_p=kruskal_p, tukey_p=tukey_p, met=met
    ), labels  # fmt: skip


def _kmeans(features: np.ndarray, k: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, n_init=_STARTS, random_state=seed).fit(features).labels_)


def _by_speed(labels: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Number the groups by their mean latency, the fastest 0."""
    order = np.argsort([features[labels == group, 0].mean() for group in range(labels.max() + 1)])
    return np.asarray(np.argsort(order)[labels])


def _smallest_gap(features: np.ndarray, labels: np.ndarray) -> float:
    gaps = []
    groups = [features[labels == group] for group in range(labels.max() + 1)]
    for number, one in enumerate(groups):
        for other in groups[:number]:
            line = one.mean(axis=0) - other.mean(axis=0)
            length = float(np.linalg.norm(line))
            if not length:
                return 0.0
            # noise is 1 in each feature: a group of one configuration is no more exact than that
            spreads = sum(max(float((group @ line / length).std()), 0.5) for group in (one, other))
            gaps.append(length / spreads)
    return min(gaps)


def _separation(features: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Least convincing p values of Kruskal-Wallis over all groups, and of Tukey-Kramer over pairs.

    Means and standard deviations are asked, and the better answer counts, for Bonferroni's price of two questions.
    """
    from scipy.stats import kruskal, studentized_range

    groups = [np.flatnonzero(labels == group) for group in range(labels.max() + 1)]
    sizes = np.array([len(group) for group in groups])
    degrees = len(labels) - len(groups)
    if degrees < 1:
        return 1.0, 1.0
    kruskal_p = 1.0
    best_q = np.zeros((len(groups), len(groups)))
    for column in (0, 2):
        values = features[:, column]
        if np.ptp(values) == 0:
            continue
        kruskal_p = min(kruskal_p, 2 * float(kruskal(*[values[group] for group in groups]).pvalue))
        means = np.array([values[group].mean() for group in groups])
        within = sum(float(((values[group] - values[group].mean()) ** 2).sum()) for group in groups) / degrees
        errors = np.sqrt(max(within, 1e-12) / 2 * (1 / sizes[:, None] + 1 / sizes[None, :]))
        best_q = np.maximum(best_q, np.abs(means[:, None] - means[None, :]) / errors)
    weakest = float(best_q[~np.eye(len(groups), dtype=bool)].min())
    tukey_p = 2 * float(studentized_range.sf(weakest, len(groups), degrees))
    return min(kruskal_p, 1.0), min(tukey_p, 1.0) if math.isfinite(tukey_p) else 0.0


def _described(table: Table, features: np.ndarray, labels: np.ndarray) -> tuple[Cluster, ...]:
    from sklearn.metrics import silhouette_samples

    k = labels.max() + 1
    scores = silhouette_samples(features, labels) if k > 1 else np.zeros(len(labels))
    found = []
    for group in range(k):
        members = [row.statistics for row, label in zip(table.rows, labels, strict=True) if label == group]
        means = np.array([each.mean_us for each in members])
        # of all latencies of the group, each configuration counting the same
        variance = np.mean([each.std_us**2 for each in members]) + means.var()
        found.append(
            Cluster(
                number=group,
                size=len(members),
                mean_us=float(means.mean()),
                std_us=math.sqrt(float(variance)),
                low_us=float(means.min()),
                high_us=float(means.max()),
                silhouette=float(scores[labels == group].mean()),
            )
        )
    return tuple(found)
