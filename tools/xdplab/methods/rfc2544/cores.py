# SPDX-License-Identifier: Apache-2.0
"""How a throughput grows with the threads that forward: PMD threads of Open vSwitch, workers of VPP."""

from collections.abc import Iterator, Sequence

from xdplab.analysis.answers.ranking import Contender
from xdplab.forwarders.base import THREADS
from xdplab.measure.figure import Figure
from xdplab.measure.point import PointSummary
from xdplab.methods.rfc2544.figures import FORWARDING_RATE, NDR, PDR
from xdplab.methods.shared.curve import Curve, Rung
from xdplab.model import Point, RunRecord
from xdplab.model.naming import Names

_QUEUES = "n_rxq"


def curves(run: RunRecord, summaries: Sequence[PointSummary]) -> dict[str, Curve]:
    """Those of all forwarders whose threads vary, by what else they are."""
    found: dict[str, tuple[Point, list[tuple[int, int, PointSummary]]]] = {}
    for summary in summaries:
        point = run.points[summary.point_id]
        options = point.forwarder.options
        name = next((name for name in THREADS if options.get(name)), None)
        if name is not None:
            rest = {key: value for key, value in options.items() if key not in (name, _QUEUES)}
            other = point.model_copy(
                update={"forwarder": point.forwarder.model_copy(update={"options": rest, "label": ""})}
            )
            at = int(options[name]), int(options.get(_QUEUES, 1))
            found.setdefault(other.id, (other, []))[1].append((*at, summary))
    names = Names(point for point, _ in found.values())
    several = {names.of(point): rows for point, rows in found.values() if len({threads for threads, *_ in rows}) > 1}
    return {title: _curve(rows) for title, rows in several.items()}


def lines(found: dict[str, Curve]) -> Iterator[str]:
    """A line for each number of threads and queues, and why there is no efficiency."""
    for title, curve in found.items():
        yield from (f"{title}: {rung.at}: {_rung_line(curve, rung)}" for rung in curve.rungs)
        if curve.without:
            yield f"{title}: no efficiency: one thread: {curve.without}"


def _curve(rows: Sequence[tuple[int, int, PointSummary]]) -> Curve:
    """By the first figure that one of them has."""
    rungs = []
    figure = next((each for each in (NDR, PDR, FORWARDING_RATE) if any(_has(row[-1], each) for row in rows)), NDR)
    places = [row[:2] for row in rows]
    for threads, queues, summary in sorted(rows, key=lambda row: row[:2]):
        at = f"{_counted(threads, 'thread')}, {_counted(queues, 'queue')}"
        at += f" ({summary.forwarder})" if places.count((threads, queues)) > 1 else ""
        at += f", {figure.name}" if figure != NDR else ""
        rungs.append(Rung(threads, Contender(summary, figure, summary.forwarder, ""), at))
    return Curve(rungs)


def _rung_line(curve: Curve, rung: Rung) -> str:
    """`1.9 Mpps, 79 to 86 % of 2 times one thread`."""
    row = rung.row
    if not rung.values:
        looked_for = _has(row.point, row.figure)
        return row.point.reason or (f"not known: {row.hindrance}" if looked_for else "not measured")
    if row.hindrance:
        return f"{row.amount}, not to be taken for a fact: {row.hindrance}"
    share = curve.share(rung) if rung.number > 1 else ""
    shown = f", {share} of {rung.number} times one thread" if share else ""
    return row.amount + shown + (f" ({row.limit})" if row.limit else "")


def _has(summary: PointSummary, figure: Figure) -> bool:
    return any(one.was_searched(figure.key) for one in summary.by_repetition)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
