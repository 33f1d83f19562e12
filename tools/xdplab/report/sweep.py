# SPDX-License-Identifier: Apache-2.0
"""What the report's section on a sweep shows."""

from collections.abc import Sequence
from typing import Any

from xdplab.analysis.run import Run
from xdplab.analysis.sweep import Importance
from xdplab.analysis.sweep.effects import p_words
from xdplab.model.digits import significant
from xdplab.report.chart import Axis, Chart, InRow, row_chart
from xdplab.report.page import Page


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
