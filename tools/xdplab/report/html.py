# SPDX-License-Identifier: Apache-2.0
"""Fills the template. Everything that comes from outside is escaped by Jinja2; only our own SVG is not."""

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from xdplab.analysis import agreements
from xdplab.analysis.answers.order import orders
from xdplab.analysis.columns import cells_of, side_tables
from xdplab.analysis.documents import reproduction
from xdplab.analysis.doubts import of_pause
from xdplab.analysis.run import Run, rule_differences
from xdplab.analysis.runs import Trend, environments, overhead
from xdplab.analysis.sweep import Importance
from xdplab.analysis.sweep.effects import p_words
from xdplab.analysis.trace import derivation
from xdplab.measure import Method, figure
from xdplab.measure.datapath import offloaded
from xdplab.measure.distribution import Distribution, distribution, if_enough_samples
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, TrialRecord, XdplabError
from xdplab.model.digits import significant
from xdplab.model.published import published_figure
from xdplab.report.chart import Axis, Chart, InRow, Series, distribution_chart, row_chart
from xdplab.report.page import Page, templates
from xdplab.report.pictures import course, panels, ratio_chart, size_charts, throughput_chart
from xdplab.results import write_whole


def write_report(run: Run, path: Path | None = None) -> None:
    """Render into its own page or `path`, atomically.

    Raises:
        XdplabError: it cannot be written.
    """
    path = path or run.report
    try:
        write_whole(path, render(run))
    except OSError as exc:
        raise XdplabError(f"{path}: {exc.strerror}; `xdplab report {path.parent}` draws it again") from None


def render(of: Run) -> str:
    """The report of a run as HTML."""
    run, trials, summaries = of.record, of.trials, of.points
    sweeps = sweep_sections(of)
    page = Page(run, of.method, trials, summaries, of.answer)
    compared = of.answer.comparison
    marked = {compared.point, compared.reference} if compared else set()
    own = of.method.sections(page) if not sweeps else []  # a sweep has sections of its own
    return with_contents(
        templates()
        .get_template("report.html.j2")
        .render(
            run=run,
            place=page.place,
            answer=of.answer,
            advice=of.advice,
            unmeasured=[summary for summary in summaries if not summary.repetitions],
            sweeps=sweeps,
            ways={} if sweeps else _ways(of),
            sections=[page.table(), page.pictures()] if own is None else own,
            tables=[] if sweeps else side_tables(summaries),
            sizes={} if sweeps else _sizes(page),
            remarks=[
                *_pauses(summaries),
                *_losses(summaries),
                *of.method.remarks(run),
                *rule_differences(run, trials),
                *of.put_back,
            ],
            low_latency=_low_latency(run),
            agreements=agreements(run, summaries),
            direct_plot=_direct_plot(run),
            reproductions=_reproductions(run, summaries),
            failures=[trial for trial in trials if trial.status == "failed"],
            offloads=_offloads(of),
            panels=[] if sweeps else panels(orders(of.method, summaries), marked),
            course=course(of),
            titles={point_id: point.title for point_id, point in run.points.items()},
            dead_time=overhead(trials),
            share=(run.measuring_s or 0) / run.wall_s if run.wall_s else None,
        )
    )


def _ways(of: Run) -> dict[str, list[str]]:
    """Point id -> the way from its frames to its numbers; of a sweep's hundreds `xdplab show RUN POINT` shows one."""
    return {
        point.point_id: [*derivation(of.record, point, of.by_point.get(point.point_id, ()), of.answer, turns=False)]
        for point in of.points
    }


def _offloads(of: Run) -> dict[str, str]:
    """Title of a forwarder that offloads -> what became of the frames of all its trials, which are read one by one."""
    by_title: dict[str, list[Sequence[TrialRecord]]] = {}
    for point_id, trials in of.by_point.items():
        by_title.setdefault(of.record.points[point_id].forwarder.title, []).append(trials)
    found = {title: offloaded(itertools.chain.from_iterable(own)) for title, own in by_title.items()}
    return {title: one.text() for title, one in found.items() if one}


def _sizes(page: Page) -> dict[str, Markup]:
    found = size_charts(page.run, page.summaries, page.method.figures)
    return {chart.title: Page.chart(chart) for chart in found}


def _pauses(summaries: Sequence[PointSummary]) -> list[str]:
    """What pause frames make of losses, each once."""
    found = filter(None, dict.fromkeys(of_pause(each.pausing) for each in summaries))
    return [
        f"{text[0].upper()}{text[1:]}; each loss, and each rate that losses decide, is doubted for that."
        for text in found
    ]


def _losses(summaries: Sequence[PointSummary]) -> list[str]:
    return [f"{each.forwarder}: {each.where_lost}." for each in summaries if each.where_lost]


def _low_latency(run: RunRecord) -> list[str]:
    """What the run had set on cards, of ports with the same in one line."""
    found: dict[str, list[str]] = {}
    for role, settings in sorted(run.environment.low_latency.items()):
        found.setdefault(", ".join(f"{knob} {value}" for knob, value in settings.items()), []).append(role)
    return [f"{', '.join(roles)}: {text}" for text, roles in found.items() if text]


def _direct_plot(run: RunRecord) -> Markup | None:
    """What several testers report of the direct link."""
    curves = {
        name: Distribution.merged([found.latency.hdr]) for name, found in run.calibrations.items() if found.latency
    }
    if not curves:
        return None
    caption = (
        "The direct link, as each tester reports it: its own transmit and receive path, because there is nothing else."
    )
    return Page.chart(distribution_chart("cumulative distribution of latency on the direct link", curves, caption))


def _reproductions(run: RunRecord, summaries: Sequence[PointSummary]) -> list[dict[str, Any]]:
    """Each published figure that the study names, with ours next to it."""
    found = [reproduction(*published_figure(reference), run, summaries) for reference in run.study.reproduces]
    return [
        {
            "found": one,
            "throughput": Page.chart(throughput_chart(one)),
            "ratio": Page.chart(ratios) if (ratios := ratio_chart(one)) else "",
        }
        for one in found
    ]


_HEADING = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)
#: Where it goes.
PLACE = "<!--contents-->"


def with_contents(html: str) -> str:
    """With a link to each `<h2>`; ours or a method's, with their words escaped."""
    links: list[str] = []
    taken: set[str] = set()

    def named(heading: re.Match[str]) -> str:
        words = re.sub(r"<[^>]*>", "", heading[1]).strip()
        slug = plain = "section-" + (re.sub(r"\W+", "-", re.sub(r"&\w+;|&#\d+;", "", words).lower()).strip("-") or "it")
        while slug in taken:
            slug = f"{plain}-{len(taken)}"
        taken.add(slug)
        links.append(f'<li><a href="#{slug}">{words}</a></li>')
        return f'<h2 id="{slug}">{heading[1]}</h2>'

    html = _HEADING.sub(named, html)
    return html.replace(PLACE, f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>', 1)


# What the console and a log of Robot Framework show of a run: trials in a phrase, the answer, the table, a picture.

#: Rows that a log has room for; the report has all.
_ROWS = 100
_PICTURE = re.compile(r"<svg\b.*?</svg>", re.DOTALL)


def points_in_log(method: Method[Any], points: Sequence[PointSummary], **beside: Any) -> str:
    """Their table as HTML with everything escaped, and why points were not measured."""
    shown_points, more = points[:_ROWS], len(points[_ROWS:])
    reasons = [(point.forwarder, f"{point.status}: {point.reason}") for point in shown_points if point.reason]
    environment = templates()
    shown = {"sentence": "", "picture": "", "report": "", "link": "", **beside}
    table = cells_of(method, shown_points)
    return environment.get_template("log.html.j2").render(table=table, reasons=reasons, more=more, **shown).strip()


def run_in_log(method: Method[Any], points: Sequence[PointSummary], sentence: str, report: Path, link: str) -> str:
    """The same of a whole run, with the answer, the first picture of its report and a link to that."""
    found = _PICTURE.search(report.read_text(encoding="utf-8")) if report.is_file() else None
    picture = Markup(found.group()) if found else ""  # noqa: S704 - as our own report has it
    named = f"{report.parent.name}/{report.name}"
    return points_in_log(method, points, sentence=sentence, picture=picture, report=named, link=link)


def link_from(folder: Path | None, report: Path) -> str:
    """Relative, so that results and log may be moved together."""
    return quote(os.path.relpath(report, folder or report.parent))


def describe(record: TrialRecord) -> str:
    if record.result is None:
        return f"{record.status}: {record.reason}"
    if "text" in record.figures:
        return str(record.figures["text"])
    latencies = distribution([record])
    p50, p99 = latencies.percentile_us(50), if_enough_samples([record], 99, latencies.percentile_us(99))
    text = f"lost {record.result.lost} of {record.result.sent}"
    percentiles = {"p50": p50, "p99": p99}
    return ", ".join([*(f"{name} {value:.2f} us" for name, value in percentiles.items() if value is not None), text])


# What the report's section on a sweep shows.


def sweep_sections(run: Run) -> list[dict[str, Any]]:
    """One section for each path and traffic profile; none for a study that is no sweep."""
    sections = []
    for found in run.sweeps:
        chart = _levels(found.importance)
        levels = Page.chart(chart) if chart.series else ""
        sections.append({"found": found, "levels": levels, "p_words": p_words, "significant": significant})
    return sections


def _levels(settings: Sequence[Importance]) -> Chart:
    """Each level's ratio to the default with its interval, the settings that matter on top."""
    rows: list[str] = []
    places = dict[str, list[InRow]]({"matters": [], "is not seen to matter": []})
    for each in settings:
        own = places["matters" if each.matters else "is not seen to matter"]
        for level in each.levels:
            if level.ratio is not None and level.level != each.default:
                own.append(InRow(len(rows), level.ratio, level.low, level.high))
                rows.append(f"{each.factor} = {level.level}")
    note = (
        "Latency at a level over that at the setting's default, next to all other settings, with its corrected "
        "interval. A setting matters where a level differs from the default, or an interaction by two with it is "
        "there; the chance that a table of idle settings names any is below 5 %."
    )
    return row_chart("effect of each level", rows, Axis("ratio to the default", "", log=True), places, note)


# The page of `xdplab compare`: what runs share, how it changed over them, and how their machines differ.


def write_comparison(
    path: Path,
    reference: Run,
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]],
    found: Sequence[Trend],
    runs: Sequence[Run],
) -> None:
    """Render into `path`.

    Args:
        path: of the page.
        reference: the run that the others are compared with.
        tables: name of each other run, and its rows (`comparison_rows`).
        found: trends over all runs.
        runs: all of them, in the order of their time.

    Raises:
        OSError: it cannot be written.
    """
    stepped = sorted(found, key=lambda trend: len(trend.stretches) < 2)  # those with a step come first
    text = (
        templates()
        .get_template("between.html.j2")
        .render(
            reference=reference,
            comparisons=tables,
            trends=[_trend(each, runs) for each in stepped],
            environments=environments([(run.name, run.record) for run in runs]),
        )
    )
    path.write_text(text, encoding="utf-8")


def _trend(found: Trend, runs: Sequence[Run]) -> dict[str, Any]:
    """Its chart: a run is a place on the axis, in the order of their time; the mean of each group is a line."""
    of = figure(found.metric)
    point = next(each for run in reversed(runs) for each in run.points if each.point_id == found.point_id)
    settings = "".join(f", {setting}" for setting in point.settings)
    title = f"{found.forwarder}, {point.path}, {point.size}{settings}: {of.name}"
    numbers = list(range(1, len(found.runs) + 1))
    mean, low, high = ([getattr(run, key) / of.per for run in found.runs] for key in ("mean", "low", "high"))
    groups = [one.mean / of.per for one in found.stretches for _ in range(one.runs)]
    series = [
        Series("mean of a run, and its range", numbers, mean, low, high),
        Series("mean of its group", numbers, groups),
    ]
    names = ", ".join(f"{number}: {run.name}" for number, run in zip(numbers, found.runs, strict=True))
    chart = Chart(title, Axis("run, in the order of their time", ""), Axis(of.name, of.unit), series, note=f"{names}.")
    return {"title": title, "unit": of.unit, "per": of.per, "chart": chart, "found": found}
