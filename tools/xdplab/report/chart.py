# SPDX-License-Identifier: Apache-2.0
"""Pictures as data, for assets/chart.js to draw, and as a table where no script runs."""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from xdplab.measure.distribution import Distribution
from xdplab.model.digits import number

#: Points that a series has at the most: more than a screen has columns for, and a few kB.
MAX_POINTS = 480
#: Those of a table in its place.
_FEW = 12
#: Of frames above, of the percentiles that such a table has.
_SHARES = (1.0, 0.5, 0.1, 0.01, 1e-3, 1e-4)


@dataclass(frozen=True)
class Axis:
    """What an axis shows."""

    label: str
    #: Behind each value that is read; empty: a number without one.
    unit: str
    log: bool = False
    #: Its values are the share of frames above: 1 is the minimum, 0.01 is p99, 1e-5 is p99.999; log, the tail on top.
    percentile: bool = False
    #: Of rows: the name of each, whose places are 0, 1, 2 ... from the bottom. Their bands lie along the other axis.
    names: Sequence[str] = ()

    @property
    def title(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def drawn(self, values: Sequence[float | None]) -> np.ndarray:
        """As far along the axis as they stand; NaN for what cannot be drawn."""
        found = np.array([np.nan if value is None else value for value in values], dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log10(found) if self.log or self.percentile else found
        return np.where(np.isfinite(found), found, np.nan)


@dataclass(frozen=True)
class Series:
    """A curve, in the order in which its points are joined; `low` and `high` are a band about `y`, in rows about `x`.

    Those of one name have one colour and one entry of the legend.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    #: A line through the points; without it each stands by itself.
    joined: bool = True
    #: Of a line: the value holds until the next point.
    steps: bool = False
    #: Of rows: from low to high is a bar, and no point is drawn.
    bars: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over one pair of axes."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    #: Below it.
    note: str = ""

    @property
    def numbers(self) -> dict[str, int]:
        """Name of a series -> the number of its colour."""
        return {name: number for number, name in enumerate(dict.fromkeys(each.name for each in self.series))}

    def json(self, points: int = MAX_POINTS) -> Markup:
        """For `<script type="application/json">`: nothing in it ends the element, and null stands for no number."""
        axes = {
            key: {
                "label": axis.title,
                "unit": axis.unit,
                "log": axis.log,
                "percentile": axis.percentile,
                "names": list(axis.names),
            }
            for key, axis in (("x", self.x), ("y", self.y))
        }
        curves = [_numbers(self.thinned(each, points)) for each in self.series]
        found = {"title": self.title, **axes, "series": curves}
        text = json.dumps(found, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        # json knows no markup: <, > and & exist in its texts only, where they may be written so
        for sign in "<>&":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return Markup(text)  # noqa: S704

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Name of a series, x and y as text, of a few points of each: for readers without scripts."""
        for series in self.series:
            for at, share in self._few(series):
                ends = [None if each is None else each[at] for each in (series.low, series.high)]
                about = "" if None in ends else f" ({_text(ends[0])} to {_text(ends[1])})"
                x, y = _of(self.x, series.x[at]), _of(self.y, series.y[at] if share is None else share)
                yield series.name, x + about * bool(self.y.names), y + about * (not self.y.names)

    def _few(self, series: Series) -> Iterator[tuple[int, float | None]]:
        """Places of those that `rows` has: usual percentiles with their share, else some that are equally far apart."""
        if self.y.percentile:
            shares = np.array(series.y, dtype=float)
            usual = (share for share in _SHARES if share == 1 or shares.min() * 9.999 <= share)  # ten frames above it
            yield from ((int(np.argmax(shares <= share)), share) for share in usual)
        else:
            number_of = min(len(series.x), _FEW)
            yield from ((at, None) for at in sorted({round(at) for at in np.linspace(0, len(series.x) - 1, number_of)}))

    def thinned(self, series: Series, points: int = MAX_POINTS) -> Series:
        """It with at most so many points: the ends and the extremes of equal lengths of the curve as it is drawn."""
        kept = self._kept(series, points)
        low, high = (None if values is None else [values[at] for at in kept] for values in (series.low, series.high))
        x, y = [series.x[at] for at in kept], [series.y[at] for at in kept]
        return replace(series, x=x, y=y, low=low, high=high)

    def _kept(self, series: Series, points: int) -> Sequence[int]:
        count = len(series.x)
        if count <= points:
            return range(count)
        curves = [self.y.drawn(each) for each in (series.y, series.low, series.high) if each is not None]
        x = self.x.drawn(series.x)
        way = sum(np.abs(np.diff(each, prepend=each[0])) / (np.ptp(each) or 1) for each in map(_filled, (x, curves[0])))
        length = np.cumsum(way) + np.arange(count) * 1e-9  # a gap has no length, and still its place
        per_part = 2 + 2 * len(curves)
        edges = np.searchsorted(length, np.linspace(length[0], length[-1], max(1, points // per_part) + 1))
        edges[-1] = count
        kept: set[int] = set()
        for begin, end in pairwise(np.unique(edges).tolist()):
            kept |= {begin, end - 1}
            for curve in curves:
                part = curve[begin:end]
                if not np.isnan(part).all():
                    kept |= {begin + int(np.nanargmin(part)), begin + int(np.nanargmax(part))}
        return sorted(kept)


def _filled(values: np.ndarray) -> np.ndarray:
    """Without gaps: each has the value before it."""
    at = np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(len(values))))
    found: np.ndarray = np.nan_to_num(values[at])
    return found


def _numbers(series: Series) -> dict[str, Any]:
    given = {"x": series.x, "y": series.y, "low": series.low, "high": series.high}
    lists = {key: [_number(value) for value in values] for key, values in given.items() if values is not None}
    return {"name": series.name, "joined": series.joined, "steps": series.steps, "bars": series.bars, **lists}


def _of(axis: Axis, value: float | None) -> str:
    """A value on it: `p99`, the name of a row, a number."""
    if value is not None and axis.names:
        return axis.names[round(value)]
    if value is not None and axis.percentile:
        return "min" if value >= 1 else f"p{100 * (1 - value):.6g}"
    return _text(value)


def _text(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else number(value)


def _number(value: float | None) -> float | None:
    """Six digits are more than a picture shows."""
    return float(f"{value:.6g}") if value is not None and np.isfinite(value) else None


#: Shares above it are drawn: p99.999.
_LEAST = 1e-5
_SINGLE = "Where fewer than ten independent samples lie above, it shows single frames and no percentile."
LATENCY = Axis("latency", "µs", log=True)


def distribution_chart(title: str, points: Mapping[str, Distribution], note: str) -> Chart:
    """Cumulative distribution: latency against the percentile, on an axis on which each nine takes the same room.

    The last step goes to the highest value, at the share that one sample is, and to p99.999 at the most.
    """
    series = []
    for name, found in points.items():
        latency, above = found.exceedance()
        if not len(latency):
            continue
        shown = above >= _LEAST
        end = int(np.count_nonzero(shown))  # the first value above which less is left than is drawn
        x = np.concatenate([latency[:1], latency[shown], np.unique(latency[[min(end, len(latency) - 1), -1]])])
        least = max(_LEAST, 1 / found.count)
        y = np.concatenate([[1.0], above[shown], [least] * (len(x) - 1 - end)])
        series.append(Series(name, x.tolist(), y.tolist(), steps=True))
    return Chart(title, LATENCY, Axis("percentile (log axis)", "", percentile=True), series, f"{note} {_SINGLE}")


class InRow(NamedTuple):
    """A value in a row, counted from the top, and the ends of what lies about it."""

    row: int
    value: float
    low: float | None = None
    high: float | None = None


def row_chart(
    title: str,
    rows: Sequence[str],
    axis: Axis,
    found: Mapping[str, Sequence[InRow]],
    note: str = "",
    bars: Container[str] = (),
) -> Chart:
    """A row for each name, the first on top, in which each series has values; those in `bars` are bars."""
    series = [
        Series(
            name,
            [each.value for each in places],
            [float(len(rows) - 1 - each.row) for each in places],
            [each.low for each in places],
            [each.high for each in places],
            joined=False,
            bars=name in bars,
        )
        for name, places in found.items()
        if places
    ]
    return Chart(title, axis, Axis("", "", names=[*reversed(rows)]), series, note)
