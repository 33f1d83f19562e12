# SPDX-License-Identifier: Apache-2.0
"""The page of `xdplab compare`: what runs share, how it changed over them, and how their machines differ."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdplab.analysis.run import Run
from xdplab.analysis.runs import Trend, environments
from xdplab.measure import figure
from xdplab.report.chart import Axis, Chart, Series
from xdplab.report.page import templates


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
