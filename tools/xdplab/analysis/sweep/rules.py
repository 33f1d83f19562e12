# SPDX-License-Identifier: Apache-2.0
"""What the configurations of a group have in common, in words: `busy_poll and not need_wakeup`.

A shallow tree finds the settings that tell the groups apart; each of its leaves is a conjunction. A conjunction is then
shortened as long as it covers no more configurations of other groups, and conjunctions that cover nothing of their own
are dropped. Each rule is checked against all configurations: precision (of those that it covers, the share that is in
the group) and coverage (of the group, the share that it covers).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xdplab.analysis.sweep.table import ABSENT, Factor, Table
from xdplab.model import Model
from xdplab.model.study import Scalar

MAX_DEPTH = 6
#: A deeper tree must be right for this share of the configurations more.
_WORTH = 0.01
_FOLDS = 5
#: Words of a switch.
_OFF, _ON = (False, 0, "false", "off", "no", "0"), (True, 1, "true", "on", "yes", "1")


@dataclass(frozen=True)
class Question:
    """A yes-or-no question about one setting: is it at this level (or, for numbers, at least at it)?"""

    factor: Factor
    level: Scalar
    at_least: bool

    def answers(self, table: Table) -> np.ndarray:
        """One truth value per row."""
        found = [row.levels[self.factor.name] for row in table.rows]
        return np.array([value >= self.level if self.at_least else value == self.level for value in found])  # type: ignore[operator]

    def text(self, yes: bool) -> str:
        """In words."""
        name = self.factor.name
        if is_switch(self.factor):
            return name if yes else f"not {name}"
        if self.at_least:
            position = self.factor.levels.index(self.level)
            if position == 1 and not yes:
                return f"{name} = {self.factor.levels[0]}"
            if position == len(self.factor.levels) - 1 and yes:
                return f"{name} = {self.level}"
            return f"{name} ≥ {self.level}" if yes else f"{name} < {self.level}"
        if not yes and len(self.factor.levels) == 2:
            return f"{name} = {next(level for level in self.factor.levels if level != self.level)}"
        return f"{name} = {self.level}" if yes else f"{name} ≠ {self.level}"


class Rule(Model):
    """A group in words, and how well they fit."""

    cluster: int
    text: str
    #: Each conjunction as literals, e.g. [["busy_poll", "not need_wakeup"]].
    alternatives: tuple[tuple[str, ...], ...]
    factors: tuple[str, ...]
    precision: float
    coverage: float
    size: int


class RuleSet(Model):
    """The rules of all groups, and whether settings explain the groups at all."""

    rules: tuple[Rule, ...]
    depth: int
    #: Share of configurations that a tree grown on others puts into the right group, and what guessing the largest
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


def is_switch(factor: Factor) -> bool:
    """True for a setting that is off or on."""
    return len(factor.levels) == 2 and any(map(is_on, factor.levels)) and any(map(is_off, factor.levels))


def questions(table: Table) -> list[Question]:
    """All questions about all settings: one for a switch, one per level of a word, one per step of a number."""
    found = []
    for factor in table.factors:
        if is_switch(factor):
            found.append(Question(factor, next(filter(is_on, factor.levels)), at_least=False))
        elif factor.numeric:
            found += [Question(factor, level, at_least=True) for level in factor.levels[1:]]
        else:
            levels = [level for level in factor.levels if level != ABSENT]
            asked = levels[1:] if len(factor.levels) == 2 and len(levels) == 2 else levels
            found += [Question(factor, level, at_least=False) for level in asked]
    return found


def find_rules(table: Table, labels: Sequence[int], seed: int = 0, shuffles: int = 99) -> RuleSet:
    """Rules for the groups `labels`, one per row of the table, judged beside `shuffles` random groupings."""
    from sklearn.tree import DecisionTreeClassifier

    target = np.asarray(labels)
    groups = sorted(set(labels))
    asked = questions(table)
    baseline = float(np.bincount(target).max() / len(target))
    if len(groups) < 2 or not asked:
        return RuleSet(rules=(), depth=0, accuracy=baseline, baseline=baseline, p_value=1.0, explained=False)
    answers = np.column_stack([question.answers(table) for question in asked])
    rng = np.random.default_rng(seed)
    folds = rng.permutation(len(target)) % _FOLDS
    depth, accuracy = _depth(answers, target, folds)
    # each of them has its own best depth, or the real ones would have had the choice alone
    shuffled = [_depth(answers, rng.permutation(target), folds)[1] for _ in range(shuffles)]
    p_value = (1 + sum(each >= accuracy for each in shuffled)) / (1 + shuffles)
    tree = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(answers, target)
    leaves = _leaves(tree)
    rules = [
        _rule(group, [path for path, found in leaves if found == group], asked, answers, target) for group in groups
    ]
    explained = p_value <= 0.01 and accuracy > baseline
    return RuleSet(
        rules=tuple(rules), depth=depth, accuracy=accuracy, baseline=baseline, p_value=p_value, explained=explained
    )


def _depth(answers: np.ndarray, target: np.ndarray, folds: np.ndarray) -> tuple[int, float]:
    """The shallowest tree that no deeper one beats by `_WORTH` on configurations that it has not seen; its accuracy."""
    scores = _accuracies(answers, target, folds)
    depth = int(np.argmax(scores >= scores.max() - _WORTH))
    return depth + 1, float(scores[depth])


def _accuracies(answers: np.ndarray, target: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Accuracy of trees of depth 1 to `MAX_DEPTH`: the deepest is grown, and the others are its upper parts."""
    from sklearn.tree import DecisionTreeClassifier

    right = np.zeros(MAX_DEPTH)
    for fold in range(_FOLDS):
        test = folds == fold
        if not test.any() or test.all():
            continue
        tree = DecisionTreeClassifier(max_depth=MAX_DEPTH, random_state=0).fit(answers[~test], target[~test])
        paths = tree.decision_path(answers[test])
        lengths, majority = np.diff(paths.indptr), tree.classes_[tree.tree_.value[:, 0].argmax(axis=1)]
        for depth in range(1, MAX_DEPTH + 1):
            nodes = paths.indices[paths.indptr[:-1] + np.minimum(depth, lengths - 1)]
            right[depth - 1] += (majority[nodes] == target[test]).sum()
    return right / len(target)


Literals = tuple[tuple[int, bool], ...]


def _leaves(tree: object) -> list[tuple[Literals, int]]:
    """Each leaf as the literals (question, answer) that lead to it, and its group."""
    inner = tree.tree_  # type: ignore[attr-defined]
    classes = tree.classes_  # type: ignore[attr-defined]
    found: list[tuple[Literals, int]] = []

    def walk(node: int, path: Literals) -> None:
        if inner.children_left[node] == -1:
            found.append((path, int(classes[int(np.argmax(inner.value[node]))])))
            return
        question = int(inner.feature[node])
        walk(int(inner.children_left[node]), (*path, (question, False)))
        walk(int(inner.children_right[node]), (*path, (question, True)))

    walk(0, ())
    return found


def _covered(path: Literals, answers: np.ndarray) -> np.ndarray:
    met = np.ones(len(answers), dtype=bool)
    for question, yes in path:
        met &= answers[:, question] == yes
    return met


def _rule(group: int, paths: list[Literals], asked: list[Question], answers: np.ndarray, target: np.ndarray) -> Rule:
    inside = target == group
    short = [_shortened(path, answers, inside) for path in paths]
    short.sort(key=lambda path: -int((_covered(path, answers) & inside).sum()))
    kept: list[Literals] = []
    for path in short:
        others = [_covered(each, answers) for each in kept]
        new = _covered(path, answers) & inside
        for other in others:
            new &= ~other
        if new.any():
            kept.append(path)
    covered = np.zeros(len(target), dtype=bool)
    for path in kept:
        covered |= _covered(path, answers)
    words = tuple(tuple(_texts(path, asked)) for path in kept)
    joined = [" and ".join(each) for each in words]
    text = " or ".join(f"({each})" if len(joined) > 1 and " and " in each else each for each in joined)
    return Rule(
        cluster=group,
        text=text or "(no setting tells it from the others)",
        alternatives=words,
        factors=tuple(sorted({asked[question].factor.name for path in kept for question, _ in path})),
        precision=float((covered & inside).sum() / covered.sum()) if covered.any() else 0.0,
        coverage=float((covered & inside).sum() / inside.sum()),
        size=int(inside.sum()),
    )


def _shortened(path: Literals, answers: np.ndarray, inside: np.ndarray) -> Literals:
    """Drop literals, the one that gains most of the group first, while no more of other groups is covered."""
    wrong = int((_covered(path, answers) & ~inside).sum())
    while True:
        shorter = [tuple(each for each in path if each != literal) for literal in path]
        harmless = [each for each in shorter if int((_covered(each, answers) & ~inside).sum()) <= wrong]
        if not harmless:
            return path
        path = max(harmless, key=lambda each: int((_covered(each, answers) & inside).sum()))


def _texts(path: Literals, asked: list[Question]) -> list[str]:
    """Literals in the order of the settings; `a ≥ 2 and a ≥ 4` says no more than its last part."""
    ordered = sorted(path, key=lambda literal: literal[0])
    kept = []
    for index, (question, yes) in enumerate(ordered):
        same = [
            (other, said)
            for number, (other, said) in enumerate(ordered)
            if number != index and asked[other].factor == asked[question].factor and asked[question].at_least
        ]
        stronger = any(said == yes and (other > question if yes else other < question) for other, said in same)
        if not stronger:
            kept.append(asked[question].text(yes))
    return kept
