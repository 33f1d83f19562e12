# SPDX-License-Identifier: Apache-2.0
"""A rate over the number of cores or threads that work for it, and in what range it grows, as far as it is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from xdplab.analysis.answers.ranking import Contender
from xdplab.analysis.compare import compare_points, corrected
from xdplab.measure.comparison import Comparison
from xdplab.model.digits import significant


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
        return median(self.values) if self.values else None

    @property
    def doubt(self) -> str:
        """Why it decides nothing: failed, or a bound; empty where it does."""
        return self.row.blocker or self.row.limit


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
        return max(ones, key=lambda each: each.row.point.measured[each.row.figure.key].high, default=None)

    def compared(self) -> dict[int, Comparison]:
        """Place of a rung -> it over one core, and over the one measured before it (`-place`); one family (Holm)."""
        found: dict[int, Comparison | None] = {}
        before = None
        for place, rung in enumerate(self.rungs):
            if not rung.values:
                continue
            for key, other in ((place, self._best), (-place, before)):
                if other is not None and other is not rung:
                    found[key] = compare_points(rung.row.point, other.row.point, rung.row.figure.key)
            before = rung
        return corrected(found)

    def share(self, rung: Rung) -> str:
        """Part of as many times the rate of one core, by its interval; empty where it is not known.

        `77 to 82 %`, `at least 78 %`, `at most 60 %`.
        """
        return self._over_one(rung, lambda end: f"{100 * end / rung.number:.0f}", " %")

    def times(self, rung: Rung) -> str:
        """Times the rate of one core, by its interval: `3.54 to 4.07`; empty where it is not known."""
        return self._over_one(rung, significant)

    def _over_one(self, rung: Rung, written: Callable[[float], str], unit: str = "") -> str:
        if self.one is None or rung.row.blocker:
            return ""
        found = self.compared().get(list(self.rungs).index(rung))
        if found is None or found.blockers or found.interval is None:
            return ""
        low, high = found.interval.low, found.interval.high
        if not low or not high:
            return ""
        match found.sense:
            case "at least":
                return f"at least {written(low)}{unit}"
            case "at most":
                return f"at most {written(high)}{unit}"
        return f"{written(low)} to {written(high)}{unit}"
