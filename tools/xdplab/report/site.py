# SPDX-License-Identifier: Apache-2.0
"""Several runs: one page with links to their own reports, or a static site with the curves of each run.

A site opens from disk: what the page needs later is loaded as a script from next to it, and nothing is fetched.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import TemplateError
from markupsafe import Markup

from xdplab.analysis.doubts import doubts_of_one
from xdplab.analysis.run import Run
from xdplab.analysis.runs.apart import environments
from xdplab.analysis.runs.pooled import main_figures, shared_points, testbed_differences
from xdplab.analysis.runs.trend import Trend, all_trends
from xdplab.analysis.summary import trials_used
from xdplab.analysis.tables.columns import figure_text, lost
from xdplab.measure import Figure, figure
from xdplab.measure.distribution import distribution
from xdplab.measure.point import PointSummary
from xdplab.model import InputError
from xdplab.report import assets
from xdplab.report.chart import Axis, Chart, Series, distribution_chart
from xdplab.report.html import render
from xdplab.report.page import templates
from xdplab.results.writing import write_whole

#: In a folder that is a site: it may be overwritten.
_MARK = ".xdplab-site"
#: Of an overlay: it is of runs that were not measured in turns.
_NOTE = (
    "Share of frames at or below a latency, to p99.999, all counted repetitions merged. Points of different runs were "
    "not measured in turns: their difference includes the time between them."
)


@dataclass(frozen=True)
class SiteRun:
    """A run as the page has it."""

    #: Of its files, from 1 on: no name becomes a path.
    number: int
    read: Run

    @property
    def name(self) -> str:
        """As its folder is called."""
        return self.read.name

    @property
    def link(self) -> str:
        """Of its report, from the page."""
        return quote(f"runs/{self.number}/report.html")


@dataclass(frozen=True)
class _Point:
    run: SiteRun
    summary: PointSummary

    @property
    def drawn(self) -> bool:
        return bool(self.summary.samples)

    @property
    def settings(self) -> str:
        return ", ".join(filter(None, [self.summary.mode, *self.summary.settings]))


@dataclass(frozen=True)
class _Kind:
    """The points of a method, and the figures that a page over several runs has room for."""

    name: str
    figures: list[Figure]
    points: list[_Point]


def write_site(place: Path, runs: Sequence[Run], left_out: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """Write it into `place`, instead of one that is there, which stays as it is until the new one is whole.

    `left_out`: folder -> why it is not in it. Given back are its page, and such reasons for runs that cannot be drawn.

    Raises:
        InputError: `place` has something else in it, or no run can be drawn.
    """
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()) and not (place / _MARK).is_file():
        raise InputError(f"site: {place}: neither empty nor a site of xdplab's; choose another folder")
    (place / _MARK).touch()
    with tempfile.TemporaryDirectory(prefix=".new-", dir=place) as made:
        new, shown, missing = Path(made), list[SiteRun](), dict[str, str]()
        for name in ("data", "runs"):
            (new / name).mkdir()
        for read in runs:
            run = SiteRun(len(shown) + 1, read)
            try:
                _write_run(new, run)
            except (InputError, TemplateError, ArithmeticError, LookupError, ValueError) as exc:
                missing[run.name] = f"its report cannot be drawn: {exc or type(exc).__name__}"
            else:
                shown.append(run)
        if not shown:
            raise InputError(f"site: no run can be drawn: {'; '.join(map(': '.join, missing.items()))}")
        (new / "site.js").write_text(assets.text("site.js"), encoding="utf-8")
        (new / "index.html").write_text(_page(shown, {**left_out, **missing}), encoding="utf-8")
        for name in ("data", "runs"):
            shutil.rmtree(place / name, ignore_errors=True)
        for path in new.iterdir():
            path.replace(place / path.name)
    return place / "index.html", missing


def _write_run(place: Path, run: SiteRun) -> None:
    """Its report, drawn here from its record: whatever page lies in its folder may be another's. And its curves."""
    report, curves = render(run.read), json.dumps(_curves(run), separators=(",", ":"))
    own = place / "runs" / str(run.number)
    own.mkdir()
    (own / "report.html").write_text(report, encoding="utf-8")
    (place / "data" / f"{run.number}.js").write_text(f'xdplabRun("{run.number}",{curves});\n', encoding="utf-8")


def _page(runs: Sequence[SiteRun], left_out: Mapping[str, str]) -> str:
    environment = templates()
    environment.filters |= {"figure": figure_text, "doubts": doubts_of_one}
    empty = distribution_chart("Cumulative distribution of latency", {}, "")
    overlay = Markup(f'{{"chart":{empty.json()},"note":{json.dumps(_NOTE)}}}')  # noqa: S704 - ours
    parts = all_trends([run.read for run in runs])
    parts.sort(key=lambda trend: len(trend.stretches) < 2)  # those with a step come first
    return environment.get_template("site.html.j2").render(
        runs=runs,
        kinds=_kinds(runs),
        overlay=overlay,
        trends=[_trend(each, runs) for each in parts],
        environments=environments([(run.name, run.read.record) for run in runs]),
        left_out=left_out,
    )


def _kinds(runs: Sequence[SiteRun]) -> list[_Kind]:
    by_method: dict[str, list[SiteRun]] = {}
    for run in runs:
        by_method.setdefault(run.read.record.study.method.name, []).append(run)
    return [
        _Kind(
            name,
            main_figures([run.read for run in own]),
            [_Point(run, summary) for run in own for summary in run.read.points],
        )
        for name, own in by_method.items()
    ]


def _curves(run: SiteRun) -> dict[str, Any]:
    """Point id -> its curve, and what its latency is."""
    found = {}
    for summary in run.read.points:
        merged = distribution(trials_used(run.read.method, run.read.by_point.get(summary.point_id, ())))
        if merged.count:
            chart = distribution_chart("", {_called(run, summary): merged}, "")
            found[summary.point_id] = {
                "quantity": summary.quantity,
                "series": json.loads(chart.json())["series"][0],
            }
    return found


def _called(run: SiteRun, summary: PointSummary) -> str:
    settings = "".join(f", {setting}" for setting in summary.settings)
    parts = [f"{summary.size}", run.name, lost(summary), summary.status if summary.status != "ok" else ""]
    return f"{summary.forwarder}{settings}, {', '.join(filter(None, parts))}"


def _trend(found: Trend, runs: Sequence[SiteRun]) -> dict[str, Any]:
    """Its chart: a run is a place on the axis, in the order of their time; the mean of each group is a line."""
    of = figure(found.metric)
    points = {s.point_id: s for run in runs for s in run.read.points}
    summary = points[found.point_id]
    settings = "".join(f", {setting}" for setting in summary.settings)
    title = f"{found.forwarder}, {summary.path}, {summary.size}{settings}: {of.name}"
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


def write_pooled_report(path: Path, runs: Sequence[Run], left_out: Mapping[str, str]) -> None:
    """Render into `path`; `left_out`: folder -> why it is not in it."""
    environment = templates()
    environment.filters |= {"figure": figure_text, "doubts": doubts_of_one}
    text = environment.get_template("pooled.html.j2").render(
        runs=runs,
        links=[_link(run.report, path) for run in runs],
        testbeds=list(dict.fromkeys(run.testbed for run in runs)),
        figures=main_figures(runs),
        shared=shared_points(runs),
        differences=testbed_differences(runs),
        left_out=left_out,
    )
    write_whole(path, text)


def _link(to: Path, page: Path) -> str:
    """A relative link; a colon is quoted, so that no folder's name is taken for a scheme."""
    return quote(os.path.relpath(to, page.parent))
