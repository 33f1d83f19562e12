# SPDX-License-Identifier: Apache-2.0
"""How far pairs of a comparison scatter, with what the other comparisons of its table know of it (Smyth 2004).

Five pairs have four degrees of freedom, and a table of 35 comparisons asks Student's t for a level at which it believes
next to nothing of four. But its rows were measured in turns on one machine, so how far one comparison scatters says
something of the others: as much as the spreads of all are alike. Smyth's moderated t (doi:10.2202/1544-6115.1027, as in
limma) estimates from the table how many degrees of freedom that is worth. Where spreads are unlike it is next to none.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

#: What others lend is at most so many times the degrees of freedom of the comparison itself, and at most this share of
#: those that the others have: comparisons with one leader share its half of the pairs.
_MOST, _SHARE = 2.0, 0.25
#: Below, a logarithm's spread is that of rounded figures.
_LEAST_VARIANCE = 1e-8


class Scatter(NamedTuple):
    """Of the pairs of one comparison: variance of their log ratios, and its degrees of freedom, at least one."""

    variance: float
    freedom: float


def shared(own: Sequence[Scatter]) -> list[Scatter]:
    """The same in the order given, with what all lend to each; no variance becomes smaller."""
    common, total = usual(own), sum(each.freedom for each in own)
    return [_lent(each, common, _SHARE * (total - each.freedom)) for each in own]


def _lent(own: Scatter, common: Scatter, most: float) -> Scatter:
    lent = min(common.freedom, _MOST * own.freedom, most)
    total = own.freedom + lent
    both = (own.freedom * own.variance + lent * common.variance) / total
    return Scatter(max(own.variance, both), total)


def usual(found: Sequence[Scatter]) -> Scatter:
    """The variance around which those of the table lie, and how closely, as degrees of freedom (infinite: alike).

    Method of moments on their logarithms, Smyth's section 6.2.
    """
    from scipy.special import digamma, polygamma

    if len(found) < 2:
        return Scatter(_LEAST_VARIANCE, 0.0)
    variances, freedom = (np.array(column) for column in zip(*found, strict=True))
    half = freedom / 2
    logs = np.log(np.maximum(variances, _LEAST_VARIANCE)) - digamma(half) + np.log(half)
    unlike = float(logs.var(ddof=1) - polygamma(1, half).mean())
    if unlike <= 0:
        return Scatter(math.exp(logs.mean()), math.inf)
    worth = 2 * _inverse_trigamma(unlike)
    return Scatter(math.exp(logs.mean() + float(digamma(worth / 2)) - math.log(worth / 2)), worth)


def _inverse_trigamma(value: float) -> float:
    """By Newton's steps on 1 / trigamma, which are monotone (Smyth's appendix); scipy.optimize takes long to load."""
    from scipy.special import polygamma

    found = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, found))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, found))
        found += step
        if abs(step) < 1e-8 * found:
            break
    return found
