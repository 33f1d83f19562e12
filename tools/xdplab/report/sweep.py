# SPDX-License-Identifier: Apache-2.0
"""What the report's section on a sweep shows."""

from collections.abc import Sequence
from typing import Any

from xdplab.analysis.run import Run
from xdplab.analysis.summary import trials_used
from xdplab.analysis.sweep import SHOWN, Importance
from xdplab.analysis.sweep.effects import p_words
from xdplab.analysis.sweep.published import compare_published
from xdplab.measure.distribution import Distribution, distribution
from xdplab.model.digits import significant
from xdplab.report.chart import LATENCY, Axis, Chart, InRow, Series, row_chart
from xdplab.report.page import Page


def sweep_sections(run: Run) -> list[dict[str, Any]]:
    """One section for each path and traffic profile; none for a study that is no sweep."""
    sections = []
    for found in run.sweeps:
        best = found.configurations[:SHOWN]
        labels = found.clustering.labels
        curves = [
            (labels.get(row.point_id), distribution(trials_used(run.method, run.by_point[row.point_id])))
            for row in best
        ]
        densities = _densities(curves, found.statistic)
        rules = {rule.cluster: rule for rule in found.rules.rules}
        sections.append(
            {
                "found": found,
                "rules": rules,
                "colours": {group: densities.numbers.get(_group_name(group)) for group in range(found.clustering.k)},
                "densities": Page.chart(densities),
                "importance": Page.chart(_importance(found.importance)),
                "beside": compare_published(found, run.record.study),
                "p_words": p_words,
                "significant": significant,
            }
        )
    return sections


def _group_name(group: int | None) -> str:
    return "outliers" if group is None else f"group {group}"


def _densities(found: Sequence[tuple[int | None, Distribution]], statistic: str) -> Chart:
    """Kernel density over the logarithm of the latency of each configuration, by its group (None: outlier)."""
    series = []
    for group, latencies in sorted(found, key=lambda each: (each[0] is None, each[0] or 0)):
        values, density = latencies.density(128)
        series.append(Series(_group_name(group), values.tolist(), (density / density.max()).tolist()))
    title = "kernel density of the best configurations by group"
    note = f"Kernel density over log latency of the {len(found)} best configurations by {statistic}, coloured by group."
    return Chart(title, LATENCY, Axis("density (peak = 1)", ""), series, note)


def _importance(importances: Sequence[Importance]) -> Chart:
    """Permutation importance with its interval, the most important on top."""
    shown = [each for each in importances if each.permutation is not None]
    places: dict[str, list[InRow]] = {"matters": [], "is not seen to matter": []}
    for row, each in enumerate(shown):
        own = places["matters" if each.matters else "is not seen to matter"]
        own.append(InRow(row, each.permutation or 0.0, each.low, each.high))
    note = (
        "What the prediction loses when the setting is shuffled (1 = the variance of log latency): a forest of trees, "
        "judged on configurations it has not seen; middle 95 % over folds and repeats. It decides nothing. A setting "
        "matters where a level differs from the default, or an interaction by two with it is there; the chance that a "
        "table of idle settings names any is below 5 %."
    )
    names = [each.factor for each in shown]
    return row_chart("importance of each setting", names, Axis("importance", ""), places, note)
