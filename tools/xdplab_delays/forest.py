# SPDX-License-Identifier: Apache-2.0
"""Permutation importance of each setting, as the study has it; it decides nothing.

A forest of trees is grown on four fifths of the configurations; on the rest, one setting is shuffled, and what the
prediction loses is that setting's importance (Breiman 2001), as a share of the variance of the log latency.
"""

import numpy as np

from xdplab.api import Table, response

_FOLDS, _REPEATS, _SHUFFLES, _TREES = 5, 2, 5, 40
#: Fewer configurations than this are too few for folds.
MIN_CONFIGURATIONS = 10


def permutation_importance(table: Table, seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """Setting -> 2.5th, 50th and 97.5th percentile over folds; {} with too few configurations."""
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.inspection import permutation_importance as importance
    from sklearn.model_selection import RepeatedKFold

    logs = response(table)
    if len(logs) < MIN_CONFIGURATIONS or not logs.var():
        return {}
    levels = np.array([[each.levels.index(row.levels[each.name]) for each in table.factors] for row in table.rows])
    losses = []
    for train, test in RepeatedKFold(n_splits=_FOLDS, n_repeats=_REPEATS, random_state=seed).split(levels):
        forest = ExtraTreesRegressor(_TREES, random_state=seed, n_jobs=1).fit(levels[train], logs[train])
        lost = importance(
            forest, levels[test], logs[test], scoring="neg_mean_squared_error", n_repeats=_SHUFFLES, random_state=seed
        )
        losses.append(lost.importances_mean / logs.var())
    middle = np.quantile(np.array(losses), (0.025, 0.5, 0.975), axis=0)
    low, median, high = (map(float, each) for each in middle)
    names = (each.name for each in table.factors)
    return dict(zip(names, zip(low, median, high, strict=True), strict=True))
