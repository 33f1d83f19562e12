# SPDX-License-Identifier: Apache-2.0
"""Analysis of variance of the settings, with their interactions by two.

The response is the logarithm of a configuration's latency, averaged over its repetitions, so an effect is a factor and
not a difference. Sums of squares are of type II: a term is judged beside all others that do not contain it. What a
design cannot tell apart (aliased terms of a fractional design, interactions of one-at-a-time) has no degrees of freedom
left and is reported as not estimable. The error is what the model leaves between configurations; where it leaves none
(a saturated design), it is what repetitions of one configuration differ by.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from xdplab.analysis.sweep.table import ABSENT, Factor, Table
from xdplab.model import Model

#: With fewer degrees of freedom than this the error is taken from the repetitions.
_MIN_ERROR_DF = 5
#: More than this many interactions are not looked at: main effects only.
_MAX_TERMS = 200


class Effect(Model):
    """One term: a setting, or two together."""

    factors: tuple[str, ...]
    df: int
    #: Of the variation between configurations.
    share: float
    f: float | None
    #: After Holm over all terms; None when it is not estimable.
    p: float | None

    @property
    def name(self) -> str:
        """`a`, or both with a cross between."""
        return " × ".join(self.factors)


class Anova(Model):
    """All effects, largest first, and where the error came from."""

    effects: tuple[Effect, ...]
    error_df: int
    error_from: str
    #: Share of the variation that no term explains.
    residual_share: float


def anova(table: Table) -> Anova:
    """Of the latencies of a table's configurations."""
    from scipy.stats import f as f_distribution

    response = np.array(
        [np.mean([np.log(table.value_us(s)) for s in row.by_repetition.values()]) for row in table.rows]
    )
    total = float(((response - response.mean()) ** 2).sum())
    terms = _terms(table.factors)
    columns = {term: _columns(table, term) for term in terms}
    full = _fit(response, [columns[term] for term in terms])
    error_df = len(response) - full[1]
    error, error_from = full[0] / error_df if error_df > 0 else 0.0, "what the model leaves between configurations"
    pure, pure_df = _pure_error(table)
    if error_df < _MIN_ERROR_DF and pure_df > 0:
        error, error_df, error_from = pure, pure_df, "differences between repetitions"
    raw = []
    for term in terms:
        others = [each for each in terms if not set(term) < _hierarchy(table, each)]
        with_it, without = (
            _fit(response, [columns[each] for each in others if each != term or keep]) for keep in (1, 0)
        )
        df = with_it[1] - without[1]
        squares = max(0.0, without[0] - with_it[0])
        f = squares / df / error if df > 0 and error > 0 and error_df > 0 else None
        raw.append((term, df, squares, f, None if f is None else float(f_distribution.sf(f, df, error_df))))
    adjusted = _holm([p for *_, p in raw])
    effects = [
        Effect(factors=term, df=df, share=squares / total if total else 0.0, f=f, p=p)
        for (term, df, squares, f, _), p in zip(raw, adjusted, strict=True)
    ]
    return Anova(
        effects=tuple(sorted(effects, key=lambda effect: -effect.share)),
        error_df=error_df,
        error_from=error_from,
        residual_share=full[0] / total if total else 0.0,
    )


def _terms(factors: Sequence[Factor]) -> list[tuple[str, ...]]:
    names = [factor.name for factor in factors]
    pairs = list(itertools.combinations(names, 2))
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    return alone + (list(pairs) if len(alone) + len(pairs) <= _MAX_TERMS else [])


def _hierarchy(table: Table, term: tuple[str, ...]) -> set[str]:
    """A term with what it is nested in: an option that not every forwarder has says which forwarder it is."""
    nested = any(ABSENT in factor.levels for factor in table.factors if factor.name in term)
    return {*term, "forwarder"} if nested else set(term)


def _columns(table: Table, term: tuple[str, ...]) -> np.ndarray:
    """Sum-to-zero coded columns of a term, shape (rows, df): orthogonal to others in a balanced design."""
    blocks = []
    for name in term:
        factor = next(each for each in table.factors if each.name == name)
        index = np.array([factor.levels.index(row.levels[name]) for row in table.rows])
        coded = np.vstack([np.eye(len(factor.levels) - 1), -np.ones(len(factor.levels) - 1)])
        blocks.append(coded[index])
    result = blocks[0]
    for block in blocks[1:]:
        result = (result[:, :, None] * block[:, None, :]).reshape(len(result), -1)
    return np.asarray(result)


def _fit(response: np.ndarray, blocks: Sequence[np.ndarray]) -> tuple[float, int]:
    """Residual sum of squares and rank of a least-squares fit with a constant."""
    design = np.column_stack([np.ones(len(response)), *blocks])
    coefficients, _, rank, _ = np.linalg.lstsq(design, response, rcond=1e-9)
    return float(((response - design @ coefficients) ** 2).sum()), int(rank)


def _pure_error(table: Table) -> tuple[float, int]:
    """Variance of a configuration's mean that repetitions explain, and its degrees of freedom."""
    squares, df, counts = 0.0, 0, []
    for row in table.rows:
        logs = np.log([table.value_us(s) for s in row.by_repetition.values()])
        squares += float(((logs - logs.mean()) ** 2).sum())
        df += len(logs) - 1
        counts.append(len(logs))
    return (squares / df / float(np.mean(counts)), df) if df else (0.0, 0)


def _holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment; None stays None."""
    known = sorted((p, index) for index, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    running = 0.0
    for rank, (p, index) in enumerate(known):
        running = max(running, min(1.0, p * (len(known) - rank)))
        adjusted[index] = running
    return adjusted
