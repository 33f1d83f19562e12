# SPDX-License-Identifier: Apache-2.0
"""Figures that others published (`xdplab.model.published`), and ours of the same kind next to them."""

from collections.abc import Sequence

from xdplab.analysis.compare import compare_points, corrected
from xdplab.analysis.doubts import doubts_of_one, trusted_value
from xdplab.measure.comparison import Comparison
from xdplab.measure.point import PointSummary
from xdplab.model import Model, RunRecord
from xdplab.model.published import Published, PublishedFigure, PublishedRatio


class RatioHere(Model):
    """A published ratio and ours at one layout; None when one of the two was not measured here."""

    published: PublishedRatio
    comparison: Comparison | None


class Row(Model):
    """One CPU layout: forwarder -> its throughput, and the ratios."""

    setting: str
    #: What the setting means.
    detail: str
    mpps: dict[str, float]
    #: In words, of the others: a bound, a doubt, why it was not measured.
    missing: dict[str, str]
    ratios: tuple[RatioHere, ...]


class Reproduction(Model):
    """A published figure with our rows next to it."""

    source: str
    setup: str
    published: PublishedFigure
    rows: tuple[Row, ...]


def reproduction(
    document: Published, figure: PublishedFigure, run: RunRecord, summaries: Sequence[PointSummary]
) -> Reproduction:
    """Ours of the same kind: the figure's metric of its forwarders, at each setting of the knobs."""
    names = figure.forwarders
    settings = {summary.setting: tuple(summary.knobs.items()) for summary in summaries}
    compared = _compare(figure, summaries)
    rows = []
    for setting, knobs in settings.items():
        here = {s.forwarder: s for s in summaries if s.setting == setting and s.forwarder in names}
        found = {name: pps / 1e6 for name, summary in here.items() if (pps := trusted_value(summary, figure.metric))}
        rows.append(
            Row(
                setting=", ".join(str(value) for _, value in knobs) or "as it is",
                detail="; ".join(run.describe(name, value) for name, value in knobs),
                mpps=found,
                missing={name: _instead(s, figure.metric) for name, s in here.items() if name not in found},
                ratios=tuple(
                    RatioHere(published=ratio, comparison=compared.get((setting, ratio.of, ratio.to)))
                    for ratio in figure.ratios
                ),
            )
        )
    return Reproduction(
        source=document.source,
        setup=document.setup,
        published=figure,
        rows=tuple(row for row in rows if row.mpps or row.missing),
    )


def _compare(figure: PublishedFigure, summaries: Sequence[PointSummary]) -> dict[tuple[str, str, str], Comparison]:
    """(setting, of, to) -> ours, corrected together."""
    found = {
        (ours.setting, ratio.of, ratio.to): compare_points(ours, theirs, figure.metric)
        for ratio in figure.ratios
        for ours in summaries
        for theirs in summaries
        if (ours.forwarder, theirs.forwarder) == (ratio.of, ratio.to) and ours.setting == theirs.setting
    }
    return corrected(found)


def _instead(summary: PointSummary, metric: str) -> str:
    """What stands instead of a rate: a bound of it, why it is doubted, why it was not measured."""
    found = summary.measured.get(metric)
    if found is None:
        return summary.reason or summary.status
    doubt = next(doubts_of_one(summary, metric), "")
    return f"{found.text(1e6)}: {doubt}" if doubt else found.text(1e6)
