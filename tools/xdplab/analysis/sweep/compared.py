# SPDX-License-Identifier: Apache-2.0
"""The one place where a sweep looks at repetitions: ratios over pairs of them, by the rules of every comparison."""

from collections.abc import Sequence

from xdplab.analysis.stats import Interval, ratio_interval, together

#: What a histogram of three digits tells apart.
RESOLUTION = 0.002

Pairs = Sequence[tuple[float, float]]


def compared(family: Sequence[Pairs]) -> list[Interval | None]:
    """The ratio of each, first over second, corrected together; None without a pair."""
    return together([ratio_interval(pairs, resolution=RESOLUTION) for pairs in family])
