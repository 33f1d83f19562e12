# SPDX-License-Identifier: Apache-2.0
"""A measurement is a bound: what a figure is, between what and what the true one lies, who set it.

One type from the trial's record to JSON, table, chart and sentence. Of one repetition it is what that trial says; of a
point it is the median over its repetitions, of the value and of both ends.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Annotated, Any, Self

from pydantic import AllowInfNan, Field, PlainSerializer, model_validator
from pydantic.json_schema import SkipJsonSchema

from xdplab.measure.figure import LimitedBy
from xdplab.model import Model
from xdplab.model.digits import significant

#: A number that may be infinite: a latency of frames that never came, an end without a bound. `null` in JSON.
Extended = Annotated[
    float, AllowInfNan(), PlainSerializer(lambda each: each if math.isfinite(each) else None, return_type=float | None)
]


def in_half(flags: Sequence[object]) -> bool:
    """Whether something is so in half of the repetitions, or turns, or more: fewer are in the interval already."""
    return any(flags) and 2 * sum(map(bool, flags)) >= len(flags)


def shared_doubt(doubts: Sequence[str]) -> str:
    """The first doubt where `in_half` have one."""
    return next(filter(None, doubts)) if in_half(doubts) else ""


class Measured(Model):
    """One figure. Without `low` and `high` it is exact."""

    #: The plain estimate; None: it was looked for, and nothing was found. Infinite (`null`): its frame was lost.
    value: Extended | None
    #: The true one is not below.
    low: Extended = 0.0
    #: The true one is not above; infinite (`null`): no bound is known.
    high: Extended = math.inf
    #: Who set the ends.
    limited_by: LimitedBy = "forwarder"
    #: Smallest relative difference that the measure resolves (width of a histogram's bucket, of a search).
    resolution: float = 0.0
    #: Why it is uncertain.
    doubt: str = ""
    #: Its name in a sentence, where that is not the figure's own.
    called: str = ""

    @model_validator(mode="before")
    @classmethod
    def _ends(cls, given: Any) -> Any:
        if isinstance(given, dict):
            value = given.get("value")
            return {"low": 0.0 if value is None else value, "high": math.inf if value is None else value, **given}
        return given

    @classmethod
    def over(cls, parts: "Sequence[Measured]") -> Self:
        """Of several repetitions, at least one: medians of values and ends."""
        values = [each.value for each in parts if each.value is not None]
        low, high = median(each.low for each in parts), median(each.high for each in parts)
        limits = [each.limited_by for each in parts if each.limited_by != "forwarder"]
        return cls(
            value=median(values) if values else None,
            low=low,
            high=high,
            limited_by=max(limits, key=limits.count) if limits and low != high else "forwarder",
            resolution=max(each.resolution for each in parts),
            doubt=shared_doubt([each.doubt for each in parts]),
            called=next((each.called for each in parts if each.called), ""),
        )

    @property
    def exact(self) -> bool:
        """Whether it is a value and not a bound, and a fact."""
        return self.value is not None and self.low == self.high and not self.doubt

    @property
    def bound(self) -> str:
        """What its value is of the true one: `exact`, `at least`, `below`, `within`, `not known`."""
        if self.low == self.high:
            return "exact"
        if math.isinf(self.high):
            return "at least" if self.low and self.value is not None else "not known"
        return "within" if self.low else "below"

    @property
    def below(self) -> float | None:
        """What the true one is below; None: not known, or it is exact."""
        return self.high if self.low < self.high < math.inf else None

    def text(self, per: float = 1.0, unit: str = "", digits: int = 3) -> str:
        """`1.2`, `at least 1.2`, `0.99 to 1.05`, `below 0.002`, `not known`."""

        def written(value: float) -> str:
            return "∞" if math.isinf(value) else f"{significant(value / per, digits)}{unit}"

        if self.value is not None and self.limited_by == "forwarder":
            return written(self.value)
        match self.bound:
            case "exact":
                return written(self.low)
            case "at least":
                return f"at least {written(self.low)}"
            case "below":
                return f"below {written(self.high)}"
            case "within":
                return f"{significant(self.low / per, digits)} to {written(self.high)}"
        return "not known"

    def not_reached(self, wanted_pps: float) -> str:
        """Why a rate may not be called reached; empty where it may. A lower limit reaches what lies below it."""
        found, wanted = self.text(1000, " kpps"), f"{significant(wanted_pps / 1000)} kpps"
        if self.doubt:
            return f"{found}, uncertain: {self.doubt}"
        if self.low >= wanted_pps:
            return ""
        return (
            f"{found}; whether it reaches {wanted} is not known"
            if self.high >= wanted_pps
            else f"{found}, not {wanted}"
        )


class RepetitionFigures(Model):
    """What one repetition of a point gave."""

    #: From 0 on.
    repetition: int
    #: Key of a figure, as `ndr_pps` -> what was found; one that was not looked for is not there.
    figures: dict[str, Measured] = {}
    #: Frames lost of those sent; of a search the loss that was tolerated.
    loss_ratio: float = 0.0
    #: Frames sent over the time that took, all streams.
    achieved_pps: float = 0.0
    #: Frames received over that time.
    forwarded_pps: float = 0.0
    #: Load that the study asked for, over all streams; None where it did not state one.
    offered_pps: float | None = None
    #: Key of a figure -> number of a turn -> what was found in it, where the points of a repetition take turns.
    turns: dict[str, dict[int, Extended | None]] = {}
    #: Time-stamped frames that arrived; None where no frame has a time stamp.
    arrived: SkipJsonSchema[int | None] = Field(default=None, exclude=True, repr=False)

    def was_searched(self, metric: str) -> bool:
        """Whether it was looked for, found or not."""
        return metric in self.figures

    def value(self, metric: str) -> float | None:
        """None: it was not found, or not looked for."""
        found = self.figures.get(metric)
        return found.value if found else None


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
        return cls(median=median(values), low=min(values), high=max(values), count=len(values))

    @classmethod
    def known(cls, values: Iterable[float | None]) -> Self | None:
        """Of those that are known; None when none is."""
        known = [value for value in values if value is not None]
        return cls.of(known) if known else None


def known_median(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None when none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None
