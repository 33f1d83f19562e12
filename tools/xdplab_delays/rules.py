# SPDX-License-Identifier: Apache-2.0
"""What the configurations of a group have in common, in words: `busy_poll and not need_wakeup`.

A tree finds the settings that tell the groups apart; each of its leaves is a conjunction of settings with the levels
that they may have. A conjunction is shortened as long as it covers no more configurations of other groups, and those
that cover nothing of their own are dropped. Each rule is checked against all configurations: precision (of those that
it covers, the share that is in the group) and coverage (of the group, the share that it covers). Settings explain the
groups where trees grown on four fifths of the configurations are right about the rest more often than with the groups
shuffled.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from xdplab.api import Factor, Model, Scalar, Table

MAX_DEPTH = 6
#: A leaf has at least two configurations, and this share of them all: fewer may be in the wrong group.
_LEAF = 1 / 32
_FOLDS, _SHUFFLES = 5, 99
#: Words of a switch.
_OFF, _ON = (False, 0, "false", "off", "no", "0"), (True, 1, "true", "on", "yes", "1")

#: Setting -> the levels that it may have.
Conjunction = Mapping[str, frozenset[Scalar]]


class Rule(Model):
    """A group in words, and how well they fit."""

    cluster: int
    text: str
    #: Each conjunction in words, e.g. [["busy_poll", "not need_wakeup"]].
    alternatives: tuple[tuple[str, ...], ...]
    factors: tuple[str, ...]
    precision: float
    coverage: float
    size: int


class RuleSet(Model):
    """The rules of all groups, and whether settings explain the groups at all."""

    rules: tuple[Rule, ...]
    #: Share of configurations that trees grown on others put into the right group, and what guessing the largest
    #: group gives.
    accuracy: float
    baseline: float
    #: Share of random groupings, this one counted among them, that settings explain as well.
    p_value: float
    explained: bool


def is_on(level: Scalar) -> bool:
    """True for a switch that is on."""
    return level in _ON


def is_off(level: Scalar) -> bool:
    """True for a switch that is off."""
    return level in _OFF


def words_of(factor: Factor, allowed: frozenset[Scalar]) -> str:
    """`a`, `not a`, `a = 2`, `a ≥ 2`, `a < 2`, `a ≠ x`, `a = x or y`."""
    name, levels = factor.name, factor.levels
    inside = [level for level in levels if level in allowed]
    outside = [level for level in levels if level not in allowed]
    if len(levels) == 2 and any(map(is_on, levels)) and any(map(is_off, levels)):
        return name if is_on(inside[0]) else f"not {name}"
    if len(inside) == 1:
        return f"{name} = {inside[0]}"
    if factor.numeric and inside == list(levels[-len(inside) :]):
        return f"{name} ≥ {inside[0]}"
    if factor.numeric and inside == list(levels[: len(inside)]):
        return f"{name} < {outside[0]}"
    return f"{name} ≠ {outside[0]}" if len(outside) == 1 else f"{name} = {' or '.join(map(str, inside))}"


def find_rules(table: Table, labels: Sequence[int], seed: int = 0, shuffles: int = _SHUFFLES) -> RuleSet:
    """Rules for the groups `labels`, one per row of the table, judged next to `shuffles` random groupings."""
    from sklearn.model_selection import KFold, permutation_test_score
    from sklearn.tree import DecisionTreeClassifier

    target = np.asarray(labels)
    baseline = float(np.bincount(target).max() / len(target))
    if len(set(labels)) < 2 or not table.factors:
        return RuleSet(rules=(), accuracy=baseline, baseline=baseline, p_value=1.0, explained=False)
    columns = [column for factor in table.factors for column in _columns(factor)]
    answers = np.array([[codes[row.levels[factor.name]] for factor, codes in columns] for row in table.rows])
    leaf = max(2, int(_LEAF * len(target)))
    tree = DecisionTreeClassifier(max_depth=MAX_DEPTH, min_samples_leaf=leaf, random_state=seed)
    folds = KFold(_FOLDS, shuffle=True, random_state=seed)
    accuracy, _, p_value = permutation_test_score(
        tree, answers, target, cv=folds, n_permutations=shuffles, random_state=seed
    )
    leaves = _leaves(tree.fit(answers, target), columns)
    return RuleSet(
        rules=tuple(
            _rule(n, [path for path, found in leaves if found == n], table, target) for n in sorted(set(labels))
        ),
        accuracy=float(accuracy),
        baseline=baseline,
        p_value=float(p_value),
        explained=bool(p_value <= 0.01 and accuracy > baseline),
    )


def _columns(factor: Factor) -> list[tuple[Factor, dict[Scalar, int]]]:
    """What a tree may ask: a number from which level on, a word at which level."""
    if factor.numeric or len(factor.levels) == 2:
        return [(factor, {level: n for n, level in enumerate(factor.levels)})]
    return [(factor, {level: int(level == one) for level in factor.levels}) for one in factor.levels]


def _leaves(tree: object, columns: Sequence[tuple[Factor, dict[Scalar, int]]]) -> list[tuple[Conjunction, int]]:
    """Each leaf as what leads to it, and its group."""
    inner = tree.tree_  # type: ignore[attr-defined]
    classes = tree.classes_  # type: ignore[attr-defined]
    found: list[tuple[Conjunction, int]] = []

    def walk(node: int, path: Conjunction) -> None:
        if inner.children_left[node] == -1:
            found.append((path, int(classes[int(np.argmax(inner.value[node]))])))
            return
        factor, codes = columns[int(inner.feature[node])]
        left = frozenset(level for level, code in codes.items() if code <= inner.threshold[node])
        allowed = path.get(factor.name, frozenset(factor.levels))
        walk(int(inner.children_left[node]), {**path, factor.name: allowed & left})
        walk(int(inner.children_right[node]), {**path, factor.name: allowed - left})

    walk(0, {})
    return found


def _covered(path: Conjunction, table: Table) -> np.ndarray:
    return np.array([all(row.levels[name] in allowed for name, allowed in path.items()) for row in table.rows])


def _rule(group: int, paths: Sequence[Conjunction], table: Table, target: np.ndarray) -> Rule:
    inside = target == group
    short = [_shortened(path, table, inside) for path in paths]
    short.sort(key=lambda path: -int((_covered(path, table) & inside).sum()))
    kept: list[Conjunction] = []
    covered = np.zeros(len(target), dtype=bool)
    for path in short:
        mine = _covered(path, table)
        if (mine & inside & ~covered).any():
            kept.append(path)
            covered |= mine
    words = tuple(tuple(words_of(f, path[f.name]) for f in table.factors if f.name in path) for path in kept)
    joined = [" and ".join(each) for each in words]
    text = " or ".join(f"({each})" if len(joined) > 1 and " and " in each else each for each in joined)
    return Rule(
        cluster=group,
        text=text or "(no setting distinguishes it from the others)",
        alternatives=words,
        factors=tuple(sorted({name for path in kept for name in path})),
        precision=float((covered & inside).sum() / covered.sum()) if covered.any() else 0.0,
        coverage=float((covered & inside).sum() / inside.sum()),
        size=int(inside.sum()),
    )


def _shortened(path: Conjunction, table: Table, inside: np.ndarray) -> Conjunction:
    """Drop settings, the one that gains most of the group first, while no more of other groups is covered."""
    wrong = int((_covered(path, table) & ~inside).sum())
    while True:
        shorter = [{name: levels for name, levels in path.items() if name != left} for left in path]
        harmless = [each for each in shorter if int((_covered(each, table) & ~inside).sum()) <= wrong]
        if not harmless:
            return path
        path = max(harmless, key=lambda each: int((_covered(each, table) & inside).sum()))
