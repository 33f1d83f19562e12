# SPDX-License-Identifier: Apache-2.0
"""The figures of one repetition, which comparisons pair."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Self

from xdplab.methods import LimitedBy, figure
from xdplab.model import Model
from xdplab.model.digits import significant

#: Above this share of lost frames latencies compare no longer: they are those of the survivors.
MAX_LOSS = 0.01


class Spread(Model):
    """Median and range of some values."""

    #: Of the values.
    median: float
    #: The lowest.
    low: float
    #: The highest.
    high: float
    #: How many there are.
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Of at least one."""
        return cls(median=median(values), low=min(values), high=max(values), count=len(values))

    @classmethod
    def known(cls, values: Iterable[float | None]) -> Self | None:
        """Of those that are known; None when none is."""
        known = [value for value in values if value is not None]
        return cls.of(known) if known else None

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """`4.80 (4.71 to 4.82)`."""
        middle, low, high = (f"{value * scale:.{digits}f}" for value in (self.median, self.low, self.high))
        return f"{middle} ({low} to {high})"


class RepetitionFigures(Model):
    """What one repetition of a point gave. The dictionaries are by the key of a figure, as `ndr_pps`."""

    #: From 0 on.
    repetition: int
    #: The machine disturbed some of it.
    disturbed: bool
    #: Figures that it did not disturb, where what else the repetition measured was disturbed.
    clean_metrics: tuple[str, ...] = ()
    #: None: it was looked for, and nothing was found.
    values: dict[str, float | None] = {}
    #: How a figure is called in a sentence, where that is not its own name.
    called: dict[str, str] = {}
    #: Frames lost of those sent; of a search the loss that was tolerated.
    loss_ratio: float
    #: Frames sent over the time that took, all streams.
    achieved_pps: float
    #: Frames received over that time.
    forwarded_pps: float
    #: Load that the study asked for, over all streams; None where it did not state one.
    offered_pps: float | None = None
    #: Who set the figure; a metric that is not here is exact. With `tester` or `budget` the forwarder may do better, up
    #: to `at_most` where that is known.
    limited_by: dict[str, LimitedBy] = {}
    #: What the true figure is below, for one that is `below-minimum` or was ended by the budget.
    at_most: dict[str, float] = {}
    #: Smallest relative difference that the measure tells apart (width of a histogram's bucket, of a search).
    resolution: dict[str, float] = {}
    #: Why a figure is not to be taken for a fact.
    doubts: dict[str, str] = {}

    def was_disturbed(self, metric: str) -> bool:
        """Whether the machine disturbed what this metric is of."""
        return self.disturbed and metric not in self.clean_metrics

    def was_searched(self, metric: str) -> bool:
        """Whether it was looked for, found or not."""
        return metric in self.values

    def value(self, metric: str) -> float | None:
        """None: it was not found, or not looked for."""
        return self.values.get(metric)


def standing(repetitions: Sequence[RepetitionFigures], metric: str) -> list[RepetitionFigures]:
    """Those that a figure is of: where it was looked for and left undisturbed, or all of those when none was."""
    searched = [one for one in repetitions if one.was_searched(metric)]
    return [one for one in searched if not one.was_disturbed(metric)] or searched


class Rate(Model):
    """What the repetitions say of a rate, or of a time: the median of those left undisturbed, or of all."""

    #: None: no load was found good, and nothing else is known.
    pps: float | None
    at_least: bool
    #: The true rate is below.
    below_pps: float | None
    #: Why it is not to be taken for a fact.
    doubt: str

    @property
    def exact(self) -> bool:
        """Whether it is the forwarder's own, and a fact."""
        return not (self.at_least or self.below_pps or self.doubt or self.pps is None)

    @property
    def bound(self) -> str:
        """What its value is of the true one: `exact`, `at least`, `below`, `not known`."""
        if self.pps is None:
            return "not known"
        return "at least" if self.at_least else "below" if self.below_pps else "exact"

    def text(self, per: float = 1e6, unit: str = "", digits: int = 3) -> str:
        """`1.2`, `at least 1.2`, `0.99 to 1.05`, `below 0.002`, `not known`."""
        if self.pps is None:
            return "not known"
        value = significant(self.pps / per, digits)
        above = significant(self.below_pps / per, digits) if self.below_pps else ""
        if above:
            return f"{value} to {above}{unit}" if self.pps else f"below {above}{unit}"
        return f"at least {value}{unit}" if self.at_least else f"{value}{unit}"


def known_median(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None when none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def rate_of(figures: Sequence[RepetitionFigures], metric: str) -> Rate | None:
    """None where it was not looked for."""
    stands = standing(figures, metric)
    if not stands:
        return None
    doubt = next((one.doubts[metric] for one in stands if metric in one.doubts), "")
    if not figure(metric).more:
        return _time(stands, metric, doubt)
    known = [value for one in stands if (value := one.value(metric)) is not None]
    value = median(known) if known else None
    below = [one.at_most[metric] for one in stands if metric in one.at_most]
    limits = {one.limited_by.get(metric, "forwarder") for one in stands}
    at_least = bool(limits & {"tester", "budget"})
    below_pps = None
    if value == 0:
        below_pps = max(below, default=None)
    elif value is not None and at_least and len(below) == len(stands):
        below_pps = median(below)
    return Rate(pps=value, at_least=at_least, below_pps=below_pps, doubt=doubt)


def _time(stands: Sequence[RepetitionFigures], metric: str, doubt: str) -> Rate:
    """One that is `below-minimum` lies between nothing and its value: so the median lies between two medians."""
    known = [(one.limited_by.get(metric) == "below-minimum", one.value(metric)) for one in stands]
    low = known_median(value and (0.0 if bound else value) for bound, value in known)
    high = known_median(value for _, value in known)
    exact = low is None or high is None or low == high
    return Rate(pps=low, at_least=False, below_pps=None if exact else high, doubt=doubt)


def not_reached(figures: Sequence[RepetitionFigures], metric: str, wanted_pps: float) -> str:
    """Why a rate cannot be said to be reached; empty where it can. A lower limit reaches what lies below it."""
    rate = rate_of(figures, metric)
    if rate is None:
        return "it was not measured"
    found, wanted = rate.text(1000, " kpps"), f"{significant(wanted_pps / 1000)} kpps"
    if rate.doubt:
        return f"{found}, not to be taken for a fact: {rate.doubt}"
    if (rate.pps or 0.0) >= wanted_pps:
        return ""
    open_above = rate.at_least and (rate.below_pps or wanted_pps) >= wanted_pps
    return f"{found}; whether it reaches {wanted} is not known" if open_above else f"{found}, not {wanted}"
