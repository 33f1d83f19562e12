# SPDX-License-Identifier: Apache-2.0
"""Two speeds instead of one: repetitions of the same thing that fall into two groups with nothing between them.

On a shared machine a rate may jump between two speeds (of a core whose other thread is taken, or free); a median and an
interval over both describe neither. The split is the one with the least spread within its groups, of logarithms (Otsu
1979). It is reported when both groups have two values, lie a tenth apart, and half as far again as either is wide.
"""

import itertools
import math
from collections.abc import Sequence

from xdplab.model import Model
from xdplab.model.digits import significant

_APART, _WIDER = math.log(1.10), 1.5
#: Of fewer values two groups are too often chance: one in ten of five with a spread of 10 %, one in forty of eight.
_LEAST = 6


class Bimodal(Model):
    """Geometric mean and number of the lower and the upper values, in the unit of the values."""

    #: Mean of the lower values.
    low: float
    #: Mean of the upper ones.
    high: float
    #: How many are low.
    low_count: int
    #: How many are high.
    high_count: int

    @property
    def apart(self) -> float:
        """The upper over the lower."""
        return self.high / self.low

    def text(self, per: float = 1.0) -> str:
        """`752 (3 of 8 repetitions) and 1,056 (5)`, the values divided by `per`."""
        total = self.low_count + self.high_count
        low, high = (significant(value / per, 4) for value in (self.low, self.high))
        return f"{low} ({self.low_count} of {total} repetitions) and {high} ({self.high_count})"


def bimodal(values: Sequence[float]) -> Bimodal | None:
    """The two groups of some positive values, or None when they are one."""
    logs = sorted(math.log(value) for value in values if value > 0)
    if len(logs) < _LEAST:
        return None
    whole, sums = sum(logs), list(itertools.accumulate(logs))
    # the least spread within two groups is the most between them: the squares of their sums, each over its count
    at = max(
        range(2, len(logs) - 1),
        key=lambda count: sums[count - 1] ** 2 / count + (whole - sums[count - 1]) ** 2 / (len(logs) - count),
    )
    low, high = logs[:at], logs[at:]
    gap = high[0] - low[-1]
    if gap < _APART or gap < _WIDER * max(low[-1] - low[0], high[-1] - high[0]):
        return None
    return Bimodal(low=_mean(low), high=_mean(high), low_count=len(low), high_count=len(high))


def _mean(logs: Sequence[float]) -> float:
    return math.exp(sum(logs) / len(logs))
