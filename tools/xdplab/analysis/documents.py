# SPDX-License-Identifier: Apache-2.0
"""The source documents: which study reproduces what of each, what needs a card, and published and ours side by side."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from xdplab.analysis.compare import compare_points, corrected
from xdplab.analysis.doubts import doubts_of_one, trusted_value
from xdplab.analysis.run import Run
from xdplab.analysis.words import figure_of, with_reason
from xdplab.measure.comparison import Comparison
from xdplab.measure.method import figure
from xdplab.measure.point import PointSummary
from xdplab.model import InputError, Model, RunRecord, XdplabError, validated
from xdplab.model.digits import number, significant
from xdplab.model.errors import meant
from xdplab.model.published import Published, PublishedFigure, PublishedRatio, published_figure, span
from xdplab.results import RunFolder

_FILE = "documents.yaml"


class WhereOurs(Model):
    """A published figure, and where ours is found in a run."""

    what: str
    published: str
    #: Title of a forwarder.
    forwarder: str
    #: Some of the point's levels.
    where: dict[str, Any] = {}
    #: Of `xdplab show --json`.
    key: str
    unit: str


class Part(Model):
    """A figure, table or finding."""

    part: str
    #: Which study reproduces it: name in suites/studies.
    study: str
    #: The study for machines with cards, where that is another one.
    lab: str = ""
    #: Changes (KEY=VALUE) with which that fits an afternoon, where it does not by itself.
    afternoon: tuple[str, ...] = ()
    #: What of it is reproduced on one machine without hardware.
    here: str
    #: What needs a card.
    card: str = ""
    #: What cannot be reproduced.
    never: str = ""
    rows: tuple[WhereOurs, ...] = ()


class Document(Model):
    """A source document, and what of it can be reproduced here."""

    title: str
    authors: str
    #: Files of `xdplab/model/published` that have its figures.
    published: tuple[str, ...] = ()
    parts: tuple[Part, ...]

    @property
    def studies(self) -> list[str]:
        return list(dict.fromkeys(part.study for part in self.parts))


class PublishedVsMeasured(Model):
    """A published figure next to ours."""

    what: str
    published: str
    here: str


def documents() -> dict[str, Document]:
    data = yaml.safe_load(files("xdplab.analysis").joinpath(_FILE).read_text(encoding="utf-8"))
    return {name: validated(Document, value, f"{_FILE}: {name}") for name, value in data.items()}


def find_document(name: str) -> Document:
    """The one of that name.

    Raises:
        InputError: there is none.
    """
    known = documents()
    if name not in known:
        raise InputError(f"document {name!r}: unknown{meant(name, known)}; there are {', '.join(known)}")
    return known[name]


def newest_run(results: Path, study: str) -> Run | None:
    """The last one of a study in a results folder with something measured; None without one that can be read."""
    for path in sorted(results.glob(f"{study}-[0-9]*"), key=lambda path: path.name, reverse=True):
        try:
            run = Run.of(RunFolder(path))
        except XdplabError:
            continue
        if run.record.study.name == study and any(point.repetitions for point in run.points):
            return run
    return None


def beside(document: Document, run: Run) -> Iterator[PublishedVsMeasured]:
    """Published and measured, of the parts that the study of a run is for."""
    for part in document.parts:
        if part.study == run.record.study.name:
            yield from (_row(row, run) for row in part.rows)
    yield from _figures(document, run)


def _row(row: WhereOurs, run: Run) -> PublishedVsMeasured:
    found = next(
        (each for each in run.points if each.forwarder == row.forwarder and _matches(each.levels, row.where)), None
    )
    return PublishedVsMeasured(
        what=row.what, published=row.published, here=_ours(row, found, run) if found else "not in the run"
    )


def _ours(row: WhereOurs, point: PointSummary, run: Run) -> str:
    """As tables have it, a bound as one, and why it is doubted."""
    if row.key in point.measured:
        doubts = "; ".join(doubts_of_one(point, row.key))
        return figure_of(point, figure(row.key)) + (f" (uncertain: {doubts})" if doubts else "")
    value = next(each for each in run.rows() if each["point_id"] == point.point_id).get(row.key)
    return f"{number(value)} {row.unit}" if value is not None else f"not measured: {point.reason or point.status}"


def _matches(levels: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(levels.get(key) == value for key, value in wanted.items())


def _of(document: Document, references: Iterable[str]) -> Iterator[str]:
    """Those of `NAME/FIGURE` that are the document's."""
    return (each for each in references if each.partition("/")[0] in document.published)


def _figures(document: Document, run: Run) -> Iterator[PublishedVsMeasured]:
    """Of a study that names published figures: rates and ratios at each of its settings."""
    for reference in _of(document, run.record.study.reproduces):
        theirs, shown = published_figure(reference)
        for row in reproduction(theirs, shown, run.record, run.points).rows:
            for series in shown.series:
                here = row.mpps.get(series.forwarder)
                text = (
                    f"{significant(here)} Mpps"
                    if here is not None
                    else row.missing.get(series.forwarder, "not measured")
                )
                what = f"{shown.title}: {series.name}, {row.setting}"
                yield PublishedVsMeasured(what=what, published=f"{span(series.mpps)} Mpps", here=text)
            for ratio in row.ratios:
                one = ratio.published
                compared = ratio.comparison
                yield PublishedVsMeasured(
                    what=f"{one.of} over {one.to}, {row.setting}",
                    published=f"{span(one.ratio)} times",
                    here=with_reason(compared) if compared else "not measured",
                )


# Figures that others published (`xdplab.model.published`), and ours of the same kind next to them.


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
