# SPDX-License-Identifier: Apache-2.0
"""What the report's section on a sweep shows."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from xdplab.analysis.summary import counted
from xdplab.analysis.sweep import SHOWN, analyse_sweep, is_sweep
from xdplab.analysis.sweep.effects import p_words
from xdplab.analysis.sweep.published import beside_published
from xdplab.measure import make_method
from xdplab.measure.distribution import distribution
from xdplab.model import RunRecord, TrialRecord
from xdplab.model.digits import significant


def sweep_sections(run: RunRecord, trials: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """One section for each path and traffic profile; none for a study that is no sweep."""
    if not is_sweep(run.study):
        return []
    from xdplab.report.sweep_plots import densities_plot, group_colour, importance_plot

    by_point: dict[str, list[TrialRecord]] = {}
    for trial in trials:
        by_point.setdefault(trial.point_id, []).append(trial)
    method = make_method(run.study.method)
    sections = []
    for found in analyse_sweep(run, trials):
        best = found.configurations[:SHOWN]
        labels = found.clustering.labels
        curves = [(labels.get(row.point_id), distribution(counted(method, by_point[row.point_id]))) for row in best]
        rules = {rule.cluster: rule for rule in found.rules.rules}
        sections.append(
            {
                "found": found,
                "rules": rules,
                "colours": {number: group_colour(number) for number in range(found.clustering.k)},
                "densities": Markup(densities_plot(curves)),  # noqa: S704 - matplotlib escapes its texts
                "shown": len(best),
                "importance": Markup(importance_plot(found.importance)),  # noqa: S704
                "beside": beside_published(found, run.study),
                "p_words": p_words,
                "significant": significant,
            }
        )
    return sections
