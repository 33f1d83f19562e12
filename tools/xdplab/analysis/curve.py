# SPDX-License-Identifier: Apache-2.0
"""A rate over the number of cores or threads that work for it, and in what range it grows, as far as it is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from xdplab.analysis.compare import bounds
from xdplab.analysis.figures import standing
from xdplab.analysis.standing import Contender
from xdplab.analysis.stats import MIN_REPETITIONS

#: Options of forwarders that say how many threads forward.
THREADS = ("pmd_cores", "workers")


@dataclass(frozen=True)
class Rung:
    """A rate with so many cores."""

    number: int
    row: Contender
    #: In words, where the number alone does not say it: `2 threads, 4 queues`.
    at: str = ""

    @property
    def values(self) -> list[float]:
        """Of the repetitions that stand for it; none: it was not measured, or no rate is known."""
        return self.row.values

    @property
    def rate(self) -> float | None:
        """Their median."""
        return median(self.values) if self.values else None

    @property
    def doubt(self) -> str:
        """Why it decides nothing: disturbed, failed, or a bound; empty where it does."""
        return self.row.hindrance or self.row.limit

    @property
    def ends(self) -> list[tuple[float, float]]:
        """Between what and what the true rate of each repetition lies."""
        metric = self.row.figure.key
        return [bounds(one, metric) for one in standing(self.row.point.by_repetition, metric)]


@dataclass(frozen=True)
class Curve:
    """Rates of what differs in the number of cores; fewest first."""

    rungs: Sequence[Rung]

    @property
    def one(self) -> Rung | None:
        """The best with one core, which all others are parts of; None: `without`."""
        return None if self.without else self._best

    @property
    def without(self) -> str:
        """Why nothing is a part of the rate with one; empty where it is."""
        if self._best is None:
            return "it was not measured"
        return self._best.doubt or ("" if min(self._best.values) > 0 else "it forwarded nothing")

    @property
    def _best(self) -> Rung | None:
        """A lower bound may be of the best."""
        ones = [each for each in self.rungs if each.number == 1 and each.values]
        return max(ones, key=lambda each: median(high for _, high in each.ends), default=None)

    @property
    def few(self) -> str:
        """Where a rung has too few repetitions to call it; empty where each has enough."""
        fewest = min((len(each.values) for each in self.rungs if each.values), default=MIN_REPETITIONS)
        return (
            ""
            if fewest >= MIN_REPETITIONS
            else f"{fewest} repetition{'s' * (fewest > 1)}, {MIN_REPETITIONS} are needed"
        )

    def share(self, rung: Rung) -> str:
        """Part of as many times the rate of one core, between any two repetitions; empty where it is not known.

        `77 to 82 %`, `at least 78 %`, `below 60 %`.
        """
        if self.one is None or not rung.values or rung.row.hindrance:
            return ""
        alone = [each * rung.number for each in self.one.values]
        low, high = (
            100 * min(low for low, _ in rung.ends) / max(alone),
            100 * max(high for _, high in rung.ends) / min(alone),
        )
        if math.isinf(high):
            return f"at least {low:.0f} %" if low else ""
        bounds_only = high > 0 and all(low == 0 for low, _ in rung.ends)
        return f"below {high:.0f} %" if bounds_only else f"{low:.0f} to {high:.0f} %"
