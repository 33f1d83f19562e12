# SPDX-License-Identifier: Apache-2.0
"""What a run of network functions says: orders of the modes, scaling, and the sections of the report."""

from collections.abc import Sequence
from typing import get_args

from xdplab.analysis.answers.ranking import Contender
from xdplab.measure.page import Page, Section
from xdplab.measure.point import PointSummary
from xdplab.methods.functions.ranks import RankAgreement, rank_agreements
from xdplab.methods.functions.scaling import Scaling, scalings
from xdplab.methods.functions.spec import FunctionFigures, FunctionsSpec
from xdplab.methods.shared.counting import MPPS, CountingMethod
from xdplab.model.functions import NfMode, NfPoint, NfTraffic

Row = tuple[NfTraffic, NfPoint, Contender]


def function_of(point: PointSummary) -> NfPoint:
    function = FunctionFigures.of(point).function
    assert function is not None, "each point of the method has one"
    return function


def rows_of(method: CountingMethod[FunctionsSpec], summaries: Sequence[PointSummary]) -> list[Row]:
    """Those that were measured, also without a figure."""
    figures = {one.point.point_id: one.figure for one in method.contenders(summaries)}
    return [
        (traffic, function_of(point), method.place(point, figures.get(point.point_id, MPPS)))
        for point in summaries
        for traffic in get_args(NfTraffic)
        if traffic == point.levels["traffic"]
    ]


def orders(spec: FunctionsSpec, rows: Sequence[Row]) -> list[RankAgreement]:
    """Of the modes of each function."""
    modes: dict[tuple[NfTraffic, str], dict[NfMode, Contender]] = {}
    for traffic, function, row in rows:
        modes.setdefault((traffic, function.group), {})[function.mode] = row
    return rank_agreements(spec.published, modes)


def findings(method: CountingMethod[FunctionsSpec], summaries: Sequence[PointSummary]) -> list[str]:
    rows = rows_of(method, summaries)
    grown = scalings(rows)
    if grown:
        return [f"{each.traffic}: {each.title}: {each.sentence}" for each in grown]
    return [_order(rank) for rank in orders(method.spec, rows)]


def _order(rank: RankAgreement) -> str:
    ours, theirs = ", ".join(rank.medians) or "-", " > ".join(rank.published_order) or "-"
    return f"{rank.traffic}: {rank.group}: our medians {ours}; published {theirs}; {rank.sentence}"


def sections(method: CountingMethod[FunctionsSpec], page: Page) -> list[Section]:
    rows = rows_of(method, page.summaries)
    rates = [row.point for _, _, row in rows if row.figure == MPPS and row.values]
    grown: list[Scaling] = scalings(rows)
    plot = ""
    if rates:
        from xdplab.report.bars import rate_chart  # a run is shown without the report

        names = {point.point_id: f"{point.levels['traffic']}: {point.forwarder}" for point in rates}
        plot = page.chart(rate_chart(rates, MPPS, names))
    found = {
        "plot": plot,
        "served": any(row.figure != MPPS for _, _, row in rows),
        "ranks": [] if grown else orders(method.spec, rows),
        "scaling": grown,
        "misses": sorted({each for point in page.measured for each in FunctionFigures.of(point).cache_misses}),
        "published": method.spec.published,
    }
    return [page.section(method, "report.html.j2", **found)]
