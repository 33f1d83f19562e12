# SPDX-License-Identifier: Apache-2.0
"""What a run of network functions says: orders of the modes, scaling, and the sections of the report."""

from collections.abc import Sequence
from typing import Any

from xdplab.analysis.standing import Contender, all_of
from xdplab.analysis.summary import PointSummary
from xdplab.methods.base import Method
from xdplab.methods.figure import Figure
from xdplab.methods.functions.measuring import REQUESTS, ROUND_S
from xdplab.methods.functions.ranks import RankAgreement, rank_agreements
from xdplab.methods.functions.scaling import Scaling, scalings
from xdplab.methods.functions.spec import FunctionsSpec
from xdplab.methods.rates import MPPS
from xdplab.model.functions import NfMode, NfPoint, NfTraffic
from xdplab.report.page import Page, Section

Row = tuple[NfTraffic, NfPoint, Contender]


def function_of(point: PointSummary) -> NfPoint:
    """Which function it is."""
    return NfPoint.model_validate(point.figures["function"])


def place(point: PointSummary, figure: Figure) -> Contender:
    """Modes are compared within one function."""
    function = function_of(point)
    return Contender(point, figure, function.mode, str(point.levels["traffic"]), function.group)


def rows_of(summaries: Sequence[PointSummary]) -> list[Row]:
    """Those that were visited, also without a figure."""
    figures = {one.point.point_id: one.figure for one in all_of((MPPS, REQUESTS, ROUND_S), summaries, place)}
    found: list[Row] = []
    for point in summaries:
        traffic: Any = point.levels["traffic"]
        found.append((traffic, function_of(point), place(point, figures.get(point.point_id, MPPS))))
    return found


def orders(spec: FunctionsSpec, rows: Sequence[Row]) -> list[RankAgreement]:
    """Of the modes of each function."""
    modes: dict[tuple[NfTraffic, str], dict[NfMode, Contender]] = {}
    for traffic, function, row in rows:
        modes.setdefault((traffic, function.group), {})[function.mode] = row
    return rank_agreements(spec.published, modes)


def findings(spec: FunctionsSpec, rows: Sequence[Row]) -> list[str]:
    """In lines."""
    grown = scalings(rows)
    if grown:
        return [f"{each.traffic}: {each.title}: {each.sentence}" for each in grown]
    return [_order(rank) for rank in orders(spec, rows)]


def _order(rank: RankAgreement) -> str:
    ours, theirs = (" > ".join(order) or "-" for order in (rank.order, rank.published_order))
    return f"{rank.traffic}: {rank.group}: order of our medians {ours}; published {theirs}; {rank.sentence}"


def sections(method: Method[FunctionsSpec], page: Page) -> list[Section]:
    """One section."""
    rows = rows_of(page.summaries)
    rates = [row.point for _, _, row in rows if row.figure == MPPS and row.values]
    grown: list[Scaling] = scalings(rows)
    plot = ""
    if rates:
        from xdplab.report.bars import rate_plot  # matplotlib takes 0.3 s to import

        names = {point.point_id: f"{point.levels['traffic']}: {point.forwarder}" for point in rates}
        plot = page.svg(rate_plot(rates, MPPS, names))
    found = {
        "plot": plot,
        "served": any(row.figure != MPPS for _, _, row in rows),
        "ranks": [] if grown else orders(method.spec, rows),
        "scaling": grown,
        "misses": sorted({each for point in page.measured for each in point.figures.get("cache_misses", ())}),
        "published": method.spec.published,
    }
    return [page.section(method, "report.html.j2", **found)]
