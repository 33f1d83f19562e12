# SPDX-License-Identifier: Apache-2.0
"""How small an effect of a setting would have been seen: effects are planted in the data, and asked for again."""

import math

import numpy as np

from xdplab.analysis.sweep.anova import Design, asked
from xdplab.analysis.sweep.table import ABSENT, Factor, Table

#: Ratios between one level of a setting and its others.
_PLANTED = (1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


def smallest_visible(design: Design, table: Table, factor: Factor, alpha: float) -> float | None:
    """The smallest of some ratios that would be significant if it were there; None when the largest would not be.

    The latencies of a setting's rarest level are multiplied and divided by it, and both must be significant after
    Bonferroni over all terms: that is no less than what Holm asks of the most significant of them.
    """
    levels = [level for level in factor.levels if level != ABSENT]
    counts = {level: sum(row.levels[factor.name] == level for row in table.rows) for level in levels}
    rarest = min(levels, key=lambda level: counts[level])
    there = np.array([row.levels[factor.name] == rarest for row in table.rows])[design.of_row]
    for ratio in _PLANTED:
        both = [design.logs + sign * math.log(ratio) * there for sign in (1, -1)]
        found = [asked(design, [(factor.name,)], logs)[0].p for logs in both]
        if all(p is not None and p * len(design.terms) < alpha for p in found):
            return ratio
    return None
