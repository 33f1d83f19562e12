# SPDX-License-Identifier: Apache-2.0
"""Forwarders in the order of their figure, each with its interval, and which neighbours the data do not separate."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from xdplab.analysis.answers.ranking import conditions
from xdplab.analysis.compare import compare_points, corrected
from xdplab.measure.figure import Figure
from xdplab.measure.method import Method
from xdplab.measure.point import PointSummary
from xdplab.model.digits import number
from xdplab.model.study import RATES
from xdplab.stats import geometric_interval


class Placed(NamedTuple):
    """A point in the order of a ranking, with its figure and interval."""

    point: PointSummary
    value: float
    interval: tuple[float, float] | None
    #: Whether it is ahead of the next one; the last one is.
    separated: bool


class Order(NamedTuple):
    """The points of one setting and load, the best first."""

    #: ` at 10 kpps, pipeline nat`
    where: str
    figure: Figure
    rows: list[Placed]


def in_order(method: Method[Any], points: Sequence[PointSummary]) -> list[PointSummary]:
    """The points of each setting by their figure, at the light load where there is one; those without one come last."""
    figure = _figure(method, points)
    if figure is None:
        return list(points)
    settings = {key: at for at, key in enumerate(dict.fromkeys((each.setting, each.tester) for each in points))}

    def place(point: PointSummary) -> tuple[int, float]:
        value = point.by_clause.get(method.light_clause, point).value(figure.key)
        return settings[point.setting, point.tester], math.inf if value is None else -value if figure.more else value

    return sorted(points, key=place)


def orders(method: Method[Any], points: Sequence[PointSummary]) -> list[Order]:
    """One for each setting and load with two points or more; the comparisons of all neighbours are a family (Holm)."""
    measured = [point for point in points if point.repetitions]
    figure = _figure(method, measured)
    if figure is None:
        return []
    wheres = conditions(measured, without=RATES)
    groups: dict[tuple[str, str, str], list[PointSummary]] = {}
    for point in measured:
        for clause, one in {method.light_clause: point.by_clause.get(method.light_clause), "": point}.items():
            if one is not None and one.value(figure.key):
                groups.setdefault((point.setting, point.tester, clause), []).append(one)
    ordered = [
        sorted(group, key=lambda one: one.value(figure.key) or 0.0, reverse=figure.more)
        for group in groups.values()
        if len(group) > 1
    ]
    compared = {
        (at, one.point_id): compare_points(one, other, figure.key)
        for at, group in enumerate(ordered)
        for one, other in pairwise(group)
    }
    ahead = {key for key, found in corrected(compared).items() if found.better}

    def placed(at: int, one: PointSummary) -> Placed:
        last = one is ordered[at][-1]
        return Placed(one, one.value(figure.key) or 0.0, spread(one, figure), last or (at, one.point_id) in ahead)

    return [
        Order(_where(group[0], figure) + wheres[group[0].point_id], figure, [placed(at, one) for one in group])
        for at, group in enumerate(ordered)
    ]


def _figure(method: Method[Any], points: Sequence[PointSummary]) -> Figure | None:
    """The first of the method's that is known."""
    return next((each for each in method.figures if any(one.value(each.key) for one in points)), None)


def _where(point: PointSummary, figure: Figure) -> str:
    return f" at {number(point.offered_pps / 1e3)} kpps" if figure.at_load and point.offered_pps else ""


def spread(point: PointSummary, figure: Figure) -> tuple[float, float] | None:
    """Where its figure lies at 99 %, by its rounds; None where they are too few, or one has no value."""
    values = [one.value(figure.key) for one in point.by_repetition if one.was_searched(figure.key)]
    resolution = point.measured[figure.key].resolution if figure.key in point.measured else 0.0
    return None if None in values else geometric_interval([each for each in values if each is not None], resolution)
