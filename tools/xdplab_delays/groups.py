# SPDX-License-Identifier: Apache-2.0
"""Groups of configurations: k-means on mean, median, standard deviation and quartiles, k chosen by two criteria.

A feature is the logarithm of a statistic, divided by how much that logarithm differs between repetitions of one
configuration. So 1 is what a repetition changes by itself, and a statistic that does not reproduce (the standard
deviation on a machine that stalls) has no say.

A number of groups counts where k-means of one half of the repetitions makes groups which on the other half lie at least
`MIN_GAP` of their standard deviations apart, on the line between any two centres (cutting one normal cloud in two gives
1.3 on the data that made the groups, a uniform one 1.7), and the mean silhouette (Rousseeuw 1987) is `MIN_SILHOUETTE`.
Of those, the largest whose silhouette is within `SILHOUETTE_SLACK` of the best is taken: the mean silhouette favours
few groups when they lie at distances of several scales. When none does, or nothing was repeated, the configurations
are one group, and nothing more is claimed.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xdplab.api import RESOLUTION, Configuration, Model, Table, log_features

MIN_GAP = 2.0
MIN_SILHOUETTE = 0.5
SILHOUETTE_SLACK = 0.05
MAX_K = 12
_STARTS = 10


class Candidate(Model):
    """How a number of groups fares."""

    k: int
    silhouette: float
    #: Smallest distance of two groups, in sums of their standard deviations on the line between them, on the
    #: repetitions that the groups were not made from.
    gap: float
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
    reason: str

    @property
    def k(self) -> int:
        return len(self.clusters)


@dataclass(frozen=True)
class _Halves:
    """Features of each configuration from two halves of its repetitions, and of all of them, in units of noise."""

    all: np.ndarray
    first: np.ndarray
    second: np.ndarray


def cluster(table: Table, seed: int = 0) -> Clustering:
    """Group the configurations of a table."""
    halves = _halves(table.rows)
    judged: list[tuple[Candidate, np.ndarray]] = []
    if halves is not None:
        distinct = len(np.unique(np.round(halves.all, 6), axis=0))
        largest = min(MAX_K, distinct - 1, len(table.rows) // 2)
        judged = [_judge(k, halves, seed) for k in range(2, largest + 1)]
    good = [(candidate, labels) for candidate, labels in judged if candidate.met]
    if good:
        top = max(candidate.silhouette for candidate, _ in good)
        best, labels = [pair for pair in good if pair[0].silhouette >= top - SILHOUETTE_SLACK][-1]
        reason = (
            f"{best.k} groups: the most that are all pairwise apart, with a silhouette ({best.silhouette:.2f}) "
            f"within {SILHOUETTE_SLACK} of the best ({top:.2f})"
        )
    else:
        labels = np.zeros(len(table.rows), dtype=int)
        reason = "one group: no number of groups from 2 on meets all criteria"
        if halves is None:
            reason = "one group: more must hold in repetitions that did not form them; ask for 2 repetitions"
    return Clustering(
        clusters=_described(table, None if halves is None else halves.all, labels),
        labels={row.point_id: int(label) for row, label in zip(table.rows, labels, strict=True)},
        candidates=tuple(candidate for candidate, _ in judged),
        reason=reason,
    )


def _halves(rows: Sequence[Configuration]) -> _Halves | None:
    """None when no configuration was repeated."""
    repetitions = [log_features(row.by_repetition[number] for number in sorted(row.by_repetition)) for row in rows]
    degrees = sum(len(each) - 1 for each in repetitions)
    if not degrees:
        return None
    squares = sum(((each - each.mean(axis=0)) ** 2).sum(axis=0) for each in repetitions)
    noise = np.maximum(np.sqrt(squares / degrees), RESOLUTION)
    # a configuration measured once only stands in both halves with what there is
    first = np.array([each[0::2].mean(axis=0) for each in repetitions])
    second = np.array([each[1::2].mean(axis=0) if len(each) > 1 else each[0] for each in repetitions])
    return _Halves(log_features(row.statistics for row in rows) / noise, first / noise, second / noise)


def _judge(k: int, halves: _Halves, seed: int) -> tuple[Candidate, np.ndarray]:
    from sklearn.metrics import silhouette_score

    labels = _by_speed(_kmeans(halves.all, k, seed), halves.all)
    silhouette = float(silhouette_score(halves.all, labels))
    gap = _smallest_gap(halves.second, _kmeans(halves.first, k, seed))
    met = silhouette >= MIN_SILHOUETTE and gap >= MIN_GAP
    return Candidate(k=k, silhouette=silhouette, gap=gap, met=met), labels


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
    for one, other in itertools.combinations(groups, 2):
        line = one.mean(axis=0) - other.mean(axis=0)
        length = float(np.linalg.norm(line))
        if not length:
            return 0.0
        # noise is 1 in each feature: a group of one configuration is no more exact than that
        gaps.append(length / sum(max(float((group @ line / length).std()), 0.5) for group in (one, other)))
    return min(gaps)


def _described(table: Table, features: np.ndarray | None, labels: np.ndarray) -> tuple[Cluster, ...]:
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
