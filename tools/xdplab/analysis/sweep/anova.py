# SPDX-License-Identifier: Apache-2.0
"""Analysis of variance of the settings, with their interactions by two.

Each term is asked of two responses of a configuration, both averaged over its repetitions: the logarithm of the
latency, by which an effect is a factor and not a difference, and the rank among all of them (Conover and Iman 1981).
Logarithms alone lose every other setting behind a slow level that is noisy as well, or behind a few stalls;
ranks alone lose what is far apart in a small design, for they do not tell how far. The better answer counts, at
Bonferroni's price of two questions; `tests/test_sweep_planted.py` and `test_sweep_parts.py` have a case of each. Shares
of the variation are of the logarithms: a ranking never gives one setting all of it.

Sums of squares are of type II: a term is judged beside all others that do not contain it. What a design cannot tell
apart (aliased terms of a fractional design, interactions of one-at-a-time) has no degrees of freedom left and is
reported as not estimable. The error is what the model leaves between configurations; where it leaves none (a saturated
design), it is what repetitions of one configuration differ by.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from xdplab.analysis.sweep.table import ABSENT, Factor, Table
from xdplab.model import Model
from xdplab.model.digits import significant

#: With fewer degrees of freedom than this the error is taken from the repetitions.
_MIN_ERROR_DF = 5
#: More than this many interactions are not looked at: main effects only.
_MAX_TERMS = 200

#: A setting, or two.
Term = tuple[str, ...]


class Effect(Model):
    """One term: a setting, or two together."""

    factors: Term
    df: int
    #: Of the variation of the logarithms between configurations.
    share: float
    #: Of the response that answers better; None when it is not estimable.
    f: float | None
    response: Literal["logarithms", "ranks"]
    #: After Bonferroni over both responses and Holm over all terms; None when it is not estimable.
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
    #: Share of the variation of the logarithms that no term explains.
    residual_share: float


@dataclass(frozen=True)
class Design:
    """The terms of a table's settings as columns, and the logarithms of its repetitions' latencies."""

    terms: tuple[Term, ...]
    columns: dict[Term, np.ndarray]
    #: Beside a term: what it is judged beside, in the order of the terms.
    beside: dict[Term, tuple[Term, ...]]
    #: Of each repetition: which configuration it is of (its number in the table), and its logarithm.
    of_row: np.ndarray
    logs: np.ndarray

    @classmethod
    def of(cls, table: Table) -> Self:
        """Of all repetitions of a table."""
        terms = _terms(table.factors)
        contained = {term: _hierarchy(table, term) for term in terms}
        repetitions = [(n, table.value_us(s)) for n, row in enumerate(table.rows) for s in row.by_repetition.values()]
        return cls(
            terms=terms,
            columns={term: _columns(table, term) for term in terms},
            beside={term: tuple(e for e in terms if e != term and not set(term) < contained[e]) for term in terms},
            of_row=np.array([number for number, _ in repetitions]),
            logs=np.log([value for _, value in repetitions]),
        )

    def means(self, values: np.ndarray) -> np.ndarray:
        """Mean over the repetitions of each configuration, shape (rows,)."""
        return np.asarray(np.bincount(self.of_row, values) / np.bincount(self.of_row))

    def tested(self, term: Term, means: np.ndarray) -> tuple[float, int]:
        """Sum of squares and degrees of freedom of a term."""
        others = [self.columns[each] for each in self.beside[term]]
        with_it, without = _fit(means, [*others, self.columns[term]]), _fit(means, others)
        return max(0.0, without[0] - with_it[0]), with_it[1] - without[1]

    def left(self, means: np.ndarray) -> tuple[float, int]:
        """Sum of squares and degrees of freedom that all terms leave between configurations."""
        squares, rank = _fit(means, [self.columns[term] for term in self.terms])
        return squares, len(means) - rank

    def between_repetitions(self, values: np.ndarray) -> tuple[float, int]:
        """Variance of a configuration's mean by what its repetitions differ by, and its degrees of freedom."""
        counts = np.bincount(self.of_row)
        df = len(values) - len(counts)
        squares = float(((values - self.means(values)[self.of_row]) ** 2).sum())
        return (squares / df / float(counts.mean()), df) if df else (0.0, 0)

    def restless(self) -> bool:
        """True when repetitions make up most of the error that effects are judged beside."""
        from scipy.stats import rankdata

        ranks = np.asarray(rankdata(self.logs))
        error, _, _ = self.error(ranks)
        return 2 * self.between_repetitions(ranks)[0] > error

    def error(self, values: np.ndarray) -> tuple[float, int, str]:
        """Variance that effects are judged beside, its degrees of freedom, and where it is from."""
        squares, df = self.left(self.means(values))
        repeated, repeated_df = self.between_repetitions(values)
        if df < _MIN_ERROR_DF and repeated_df > 0:
            return repeated, repeated_df, "differences between repetitions"
        return squares / df if df > 0 else 0.0, df, "what the model leaves between configurations"


@dataclass(frozen=True)
class Answer:
    """What one response says of a term, or the better of both; `p` with Bonferroni over both."""

    df: int
    f: float | None
    p: float | None
    response: Literal["logarithms", "ranks"]


def asked(design: Design, terms: Sequence[Term], logs: np.ndarray) -> list[Answer]:
    """The better answer of both responses about each term, where the logarithms of the repetitions are `logs`."""
    from scipy.stats import f as f_distribution, rankdata

    answers: list[list[Answer]] = [[] for _ in terms]
    responses: tuple[tuple[Literal["logarithms", "ranks"], np.ndarray], ...]
    responses = (("logarithms", logs), ("ranks", np.asarray(rankdata(logs))))
    for response, values in responses:
        error, error_df, _ = design.error(values)
        means = design.means(values)
        for term, found in zip(terms, answers, strict=True):
            squares, df = design.tested(term, means)
            f = squares / df / error if df > 0 and error > 0 and error_df > 0 else None
            p = None if f is None else min(1.0, len(responses) * float(f_distribution.sf(f, df, error_df)))
            found.append(Answer(df, f, p, response))
    return [min(found, key=lambda each: 1.0 if each.p is None else each.p) for found in answers]


def anova(table: Table) -> Anova:
    """Of the latencies of a table's configurations."""
    design = Design.of(table)
    means = design.means(design.logs)
    total = float(((means - means.mean()) ** 2).sum())
    answers = asked(design, design.terms, design.logs)
    effects = [
        Effect(
            factors=term,
            df=answer.df,
            share=design.tested(term, means)[0] / total if total else 0.0,
            f=answer.f,
            response=answer.response,
            p=p,
        )
        for term, answer, p in zip(design.terms, answers, _holm([each.p for each in answers]), strict=True)
    ]
    _, error_df, error_from = design.error(design.logs)
    return Anova(
        effects=tuple(sorted(effects, key=lambda effect: -effect.share)),
        error_df=error_df,
        error_from=error_from,
        residual_share=design.left(means)[0] / total if total else 0.0,
    )


def p_words(p: float) -> str:
    """`0.034`, or `< 0.0001`."""
    return "< 0.0001" if p < 1e-4 else significant(p, 2)


def _terms(factors: Sequence[Factor]) -> tuple[Term, ...]:
    names = [factor.name for factor in factors]
    alone, pairs = [(name,) for name in names], list(itertools.combinations(names, 2))
    return (*alone, *(pairs if len(alone) + len(pairs) <= _MAX_TERMS else ()))


def _hierarchy(table: Table, term: Term) -> set[str]:
    """A term with what it is nested in: an option that not every forwarder has says which forwarder it is."""
    nested = any(ABSENT in factor.levels for factor in table.factors if factor.name in term)
    return {*term, "forwarder"} if nested else set(term)


def _columns(table: Table, term: Term) -> np.ndarray:
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


def _holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment; None stays None."""
    known = sorted((p, index) for index, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    running = 0.0
    for rank, (p, index) in enumerate(known):
        running = max(running, min(1.0, p * (len(known) - rank)))
        adjusted[index] = running
    return adjusted
