# SPDX-License-Identifier: Apache-2.0
"""Where the mean of a few repetitions lies: Student's t on their logarithms."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

CONFIDENCE = 0.99
#: Below it t says next to nothing.
MIN_VALUES = 3


def geometric_interval(values: Sequence[float], resolution: float = 0.0) -> tuple[float, float] | None:
    """The interval of the geometric mean at 99 %, never narrower than `resolution` (a ratio less 1) either way.

    None of fewer than three values, or where one is not above 0.
    """
    from scipy.special import stdtrit  # takes long to import

    if len(values) < MIN_VALUES or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    error = stdev(logs) / math.sqrt(len(logs))
    half = max(error * float(stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2)), math.log1p(resolution))
    middle = fmean(logs)
    return math.exp(middle - half), math.exp(middle + half)
