# SPDX-License-Identifier: Apache-2.0
"""From settings and their levels to the combinations that a study measures.

A combination is a mapping: `forwarder` (its title), `NAME.OPTION` of that forwarder, `tester.OPTION`, and every knob.
"""

import itertools
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from xdplab.knobs import make_knob
from xdplab.model import InputError, StudySpec
from xdplab.model.design import TESTER, UNSET, Fractional, Listed, OneAtATime, Random, Scalar, find_setting, same_level

#: More points than this are a mistake, and take days.
MAX_POINTS = 20_000
#: A screening design is chosen from at most this many combinations.
_CANDIDATES = 4000
_EXCHANGES = 10

Combination = dict[str, Scalar]


@dataclass(frozen=True)
class Block:
    """A forwarder of the study with the settings that vary for it: knobs and its own options, the default first."""

    forwarder: int
    title: str
    levels: dict[str, tuple[Scalar, ...]]

    @property
    def size(self) -> int:
        return math.prod(map(len, self.levels.values()))

    def at(self, number: int) -> Combination:
        """Combination `number`, the last setting varying fastest."""
        found: list[Scalar] = []
        for values in reversed(self.levels.values()):
            number, index = divmod(number, len(values))
            found.append(values[index])
        return {"forwarder": self.title, **dict(zip(self.levels, reversed(found), strict=True))}

    def default(self) -> Combination:
        return {"forwarder": self.title, **{name: values[0] for name, values in self.levels.items()}}


@dataclass(frozen=True)
class Designed:
    """Combinations with the forwarder's position, and how many the constraints left out."""

    chosen: tuple[tuple[int, Combination], ...]
    left_out: int


def design(study: StudySpec) -> Designed:
    """The combinations of a study.

    Raises:
        InputError: an unknown setting or level, too many points, or constraints that leave nothing.
    """
    blocks = _blocks(study)
    _check_names(study, blocks)
    kind = study.design
    if isinstance(kind, Listed):
        found = [_listed(number, point, blocks) for number, point in enumerate(kind.points, start=1)]
        wrong = next((c for _, c in found if not _allowed(study, c)), None)
        if wrong is not None:
            raise InputError(f"study {study.name}: design: {wrong} is listed, and a constraint leaves it out")
        return Designed(tuple(found), 0)
    if isinstance(kind, OneAtATime):
        everything = [(block.forwarder, each) for block in blocks for each in _one_at_a_time(block)]
    elif isinstance(kind, Random | Fractional):
        wanted = kind.runs if isinstance(kind, Random) else _CANDIDATES
        everything = _drawn(study, blocks, wanted, exact=isinstance(kind, Random))
    else:
        total = sum(block.size for block in blocks)
        if total > 10 * MAX_POINTS:
            raise InputError(f"study {study.name}: {total} combinations; choose design: random or fractional")
        everything = [(block.forwarder, block.at(number)) for block in blocks for number in range(block.size)]
    allowed = [(forwarder, each) for forwarder, each in everything if _allowed(study, each)]
    if not allowed:
        raise InputError(f"study {study.name}: the constraints leave no combination")
    if isinstance(kind, Fractional):
        with threadpool_limits(1):  # for so small products threads wait for each other ten times longer than they work
            return Designed(tuple(_screening(allowed, blocks, kind, study)), 0)
    if len(allowed) > MAX_POINTS:
        raise InputError(f"study {study.name}: {len(allowed)} points; choose design: random or fractional")
    return Designed(tuple(allowed), len(everything) - len(allowed))


def _blocks(study: StudySpec) -> list[Block]:
    """Levels in the type that knobs give them; the stated default in front."""
    knobs: dict[str, tuple[Scalar, ...]] = {}
    for name, values in study.knobs.items():
        knob = make_knob(name)
        knobs[name] = tuple(value if value == UNSET else knob.check(value) for value in values)
    unknown = sorted(set(study.options) - {forwarder.name for forwarder in study.all_forwarders})
    if unknown:
        raise InputError(f"study {study.name}: options: {unknown[0]} is not one of its forwarders")
    defaults = study.sweep.defaults if study.sweep else {}
    blocks = []
    for number, forwarder in enumerate(study.all_forwarders):
        own = {f"{forwarder.name}.{key}": values for key, values in study.options.get(forwarder.name, {}).items()}
        tester = {f"{TESTER}.{key}": values for key, values in study.tester_options.items()}
        levels = {**own, **tester, **knobs}
        given = {find_setting(levels, name): level for name, level in defaults.items()}
        ordered = {name: _default_first(values, given.get(name)) for name, values in levels.items()}
        blocks.append(Block(number, forwarder.title, ordered))
    return blocks


def _default_first(values: Sequence[Scalar], default: Scalar | None) -> tuple[Scalar, ...]:
    first = [value for value in values if default is not None and same_level(value, default)]
    return (*first, *(value for value in values if value not in first))


def _check_names(study: StudySpec, blocks: Sequence[Block]) -> None:
    known = {"forwarder": (), **{name: values for block in blocks for name, values in block.levels.items()}}
    asked = [("constraints", name) for constraint in study.constraints for name in constraint.names()]
    asked += [("sweep.defaults", name) for name in (study.sweep.defaults if study.sweep else ())]
    for where, name in asked:
        if find_setting(known, name) is None:
            raise InputError(f"study {study.name}: {where}: {name!r} is none of its settings ({', '.join(known)})")


def _allowed(study: StudySpec, combination: Combination) -> bool:
    return all(constraint.allows(combination) for constraint in study.constraints)


def _listed(number: int, point: Mapping[str, Scalar], blocks: Sequence[Block]) -> tuple[int, Combination]:
    wanted = point.get("forwarder", blocks[0].title)
    block = next((each for each in blocks if same_level(each.title, wanted)), None)
    if block is None:
        raise InputError(f"design: point {number}: forwarder {wanted!r} is none of the study")
    found = block.default()
    for name, level in point.items():
        full = find_setting(block.levels, name)
        if name == "forwarder":
            continue
        value = next((each for each in block.levels.get(full or "", ()) if same_level(each, level)), None)
        if full is None or value is None:
            raise InputError(f"design: point {number}: {name}={level} is not a setting and level of the study")
        found[full] = value
    return block.forwarder, found


def _one_at_a_time(block: Block) -> Iterator[Combination]:
    base = block.default()
    yield base
    for name, values in block.levels.items():
        for value in values[1:]:
            yield {**base, name: value}


def _drawn(study: StudySpec, blocks: Sequence[Block], wanted: int, *, exact: bool) -> list[tuple[int, Combination]]:
    """Up to `wanted` allowed combinations, drawn without repeats from all blocks together.

    Raises:
        InputError: `exact`, and there are fewer.
    """
    total = sum(block.size for block in blocks)
    rng = random.Random(f"{study.seed}:design")  # noqa: S311 - a design, not a secret
    found: list[tuple[int, Combination]] = []
    # all in a random order while they fit in memory, else as many draws as a sparse constraint needs
    draws = min(total, 50 * _CANDIDATES)
    for number in rng.sample(range(total), draws) if total <= sys.maxsize else _below(total, draws, rng):
        left = number
        for block in blocks:
            if left < block.size:
                combination = block.at(left)
                if _allowed(study, combination):
                    found.append((block.forwarder, combination))
                break
            left -= block.size
        if len(found) == wanted:
            return found
    if exact:
        raise InputError(
            f"study {study.name}: design: {wanted} runs, but the constraints leave {len(found)} combinations"
        )
    return found


def _below(total: int, draws: int, rng: random.Random) -> list[int]:
    """Different numbers, of more than a range can have."""
    return list({rng.randrange(total): None for _ in range(draws)})


def _screening(
    candidates: Sequence[tuple[int, Combination]], blocks: Sequence[Block], kind: Fractional, study: StudySpec
) -> list[tuple[int, Combination]]:
    """Choose by exchange: start with a greedy choice, then swap rows while the determinant grows (Fedorov 1972)."""
    matrix = effects(candidates, blocks, kind.order)
    matrix = matrix[:, _independent(matrix)]
    terms = matrix.shape[1]
    runs = min(kind.runs or 2 * terms, len(candidates))
    if runs < terms:
        raise InputError(f"study {study.name}: design: {runs} runs cannot separate {terms} effects; give more")
    rng = np.random.default_rng(study.seed)
    chosen = _greedy(matrix, runs, rng)
    for _ in range(_EXCHANGES):
        if not _exchange(matrix, chosen):
            break
    return [candidates[index] for index in sorted(chosen)]


def effects(candidates: Sequence[tuple[int, Combination]], blocks: Sequence[Block], order: int) -> np.ndarray:
    """Columns of a model with a constant, each setting, and (order 2) every two settings; shape (candidates, terms)."""
    names = ["forwarder", *dict.fromkeys(name for block in blocks for name in block.levels)]
    groups: list[np.ndarray] = []
    for name in names:
        values = [combination.get(name) for _, combination in candidates]
        levels = list(dict.fromkeys(value for value in values if value is not None))
        if len(levels) > 1:
            groups.append(np.array([[_code(value, level, levels[0]) for level in levels[1:]] for value in values]))
    pairs = itertools.combinations(groups, 2) if order == 2 else ()
    both = [(one[:, :, None] * other[:, None, :]).reshape(len(candidates), -1) for one, other in pairs]
    return np.column_stack([np.ones(len(candidates)), *groups, *both])


def _code(value: Scalar | None, level: Scalar, base: Scalar) -> float:
    """Sum-to-zero coding; 0 for a setting that the combination has not got."""
    if value is None:
        return 0.0
    return 1.0 if value == level else -1.0 if value == base else 0.0


def _independent(matrix: np.ndarray) -> list[int]:
    """Columns that are no combination of earlier ones: what constraints make inseparable counts once."""
    kept: list[int] = []
    basis = np.zeros((len(matrix), 0))
    for index in range(matrix.shape[1]):
        column = matrix[:, index] - basis @ (basis.T @ matrix[:, index])
        norm = float(np.linalg.norm(column))
        if norm > 1e-8 * max(1.0, float(np.linalg.norm(matrix[:, index]))):
            kept.append(index)
            basis = np.column_stack([basis, column / norm])
    return kept


def _greedy(matrix: np.ndarray, runs: int, rng: np.random.Generator) -> list[int]:
    """Add the row that the rows so far predict worst; a little of everything at first, so that this is defined."""
    inverse = np.eye(matrix.shape[1]) * 1e3
    left = np.ones(len(matrix), dtype=bool)
    ties = rng.uniform(1.0, 1.0 + 1e-6, len(matrix))
    chosen = []
    for _ in range(runs):
        gains = np.einsum("ij,jk,ik->i", matrix, inverse, matrix) * ties
        index = int(np.argmax(np.where(left, gains, -1.0)))
        chosen.append(index)
        left[index] = False
        product = inverse @ matrix[index]
        inverse -= np.outer(product, product) / (1 + matrix[index] @ product)
    return chosen


def _exchange(matrix: np.ndarray, chosen: list[int]) -> bool:
    """Swap each chosen row for the one outside that raises the determinant most; whether any was."""
    swapped = False
    for position in range(len(chosen)):
        rows = matrix[chosen]
        inverse = np.linalg.pinv(rows.T @ rows)
        out = matrix[chosen[position]]
        variances = np.einsum("ij,jk,ik->i", matrix, inverse, matrix)
        covariances = matrix @ (inverse @ out)
        own = float(out @ inverse @ out)
        # Fedorov's delta: growth of the determinant when one row goes and another comes
        gains = variances - (variances * own - covariances**2) - own
        gains[chosen] = -1.0
        best = int(np.argmax(gains))
        if gains[best] > 1e-6:
            chosen[position] = best
            swapped = True
    return swapped
