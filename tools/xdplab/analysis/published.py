# SPDX-License-Identifier: Apache-2.0
"""Figures that others published, carried over into `report/published/*.yaml`, and ours of the same kind beside them."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from xdplab.analysis.compare import Comparison, compare_points, corrected
from xdplab.analysis.figures import rate_of
from xdplab.analysis.summary import PointSummary
from xdplab.model import Model, RunRecord

Span = Annotated[tuple[float, ...], Field(min_length=2, max_length=2)]


class PublishedSeries(Model):
    """Throughput of one forwarder over the published settings."""

    forwarder: str
    name: str
    mpps: Span


class PublishedRatio(Model):
    """How much more one forwarder forwards than another."""

    of: str
    to: str
    ratio: Span


class PublishedFigure(Model):
    """One figure of a document. Forwarders bear our names, so that ours are found beside them."""

    title: str
    conditions: str
    series: tuple[PublishedSeries, ...] = ()
    ratios: tuple[PublishedRatio, ...] = ()
    note: str = ""

    @property
    def forwarders(self) -> tuple[str, ...]:
        """All that the figure speaks of, in its order."""
        named = [name for ratio in self.ratios for name in (ratio.of, ratio.to)]
        return tuple(dict.fromkeys([*(series.forwarder for series in self.series), *named]))


class PublishedDocument(Model):
    """A file of `report/published`."""

    document: str
    setup: str
    figures: dict[str, PublishedFigure]


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
    #: What is said of the others: a bound, a doubt, why it was not measured.
    missing: dict[str, str]
    ratios: tuple[RatioHere, ...]


class Reproduction(Model):
    """A published figure with our rows beside it."""

    document: str
    setup: str
    figure: PublishedFigure
    rows: tuple[Row, ...]


def reproduction(
    document: PublishedDocument, figure: PublishedFigure, run: RunRecord, summaries: Sequence[PointSummary]
) -> Reproduction:
    """Ours of the same kind: throughput without loss of the figure's forwarders, at each setting of the knobs."""
    names = figure.forwarders
    settings = {summary.setting: tuple(summary.knobs.items()) for summary in summaries}
    compared = _compare(figure, summaries)
    rows = []
    for setting, knobs in settings.items():
        here = {s.forwarder: s for s in summaries if s.setting == setting and s.forwarder in names}
        found = {name: value for name, summary in here.items() if (value := _mpps(summary)) is not None}
        rows.append(
            Row(
                setting=", ".join(str(value) for _, value in knobs) or "as it is",
                detail="; ".join(run.describe(name, value) for name, value in knobs),
                mpps=found,
                missing={name: _instead(s) for name, s in here.items() if name not in found},
                ratios=tuple(
                    RatioHere(published=ratio, comparison=compared.get((setting, ratio.of, ratio.to)))
                    for ratio in figure.ratios
                ),
            )
        )
    return Reproduction(
        document=document.document,
        setup=document.setup,
        figure=figure,
        rows=tuple(row for row in rows if row.mpps or row.missing),
    )


def _compare(figure: PublishedFigure, summaries: Sequence[PointSummary]) -> dict[tuple[str, str, str], Comparison]:
    """(setting, of, to) -> ours, corrected together."""
    found = {
        (ours.setting, ratio.of, ratio.to): compare_points(ours, theirs, "ndr_pps")
        for ratio in figure.ratios
        for ours in summaries
        for theirs in summaries
        if (ours.forwarder, theirs.forwarder) == (ratio.of, ratio.to) and ours.setting == theirs.setting
    }
    return corrected({key: one for key, one in found.items() if one is not None})


def _mpps(summary: PointSummary) -> float | None:
    """None where it is no figure of the forwarder's: `_instead` says what it is."""
    rate = rate_of(summary.by_repetition, "ndr_pps")
    return rate.pps / 1e6 if rate and rate.exact and rate.pps else None


def _instead(summary: PointSummary) -> str:
    """What stands in the place of a throughput: a bound of it, why it is doubted, why it was not measured."""
    rate = rate_of(summary.by_repetition, "ndr_pps")
    if rate is None:
        return summary.reason or summary.status
    return f"{rate.text()}: {rate.doubt}" if rate.doubt else rate.text()
