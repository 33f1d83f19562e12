# SPDX-License-Identifier: Apache-2.0
"""What the report's section on a sweep shows, and the published table that its study names."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import yaml
from markupsafe import Markup

from xdplab.analysis.distribution import distribution
from xdplab.analysis.summary import counted
from xdplab.analysis.sweep import SHOWN, SweepAnalysis, analyse_sweep, is_sweep
from xdplab.analysis.sweep.anova import p_words
from xdplab.analysis.sweep.published import Beside, PublishedStudy, PublishedTable, beside
from xdplab.methods import make_method
from xdplab.model import InputError, RunRecord, StudySpec, TrialRecord, validated
from xdplab.model.digits import significant


def published_study(name: str, expected: str) -> PublishedStudy:
    """A document of `xdplab/report/published` that holds tables.

    Raises:
        InputError: there is none of that name; begins with what was expected.
    """
    folder = files("xdplab.report") / "published"
    path = folder / f"{name}.yaml"
    if not name or not path.is_file():
        raise InputError(f"{expected} of a file in {folder} is expected")
    return validated(PublishedStudy, yaml.safe_load(path.read_text(encoding="utf-8")), str(path))


def published_table(reference: str) -> tuple[PublishedStudy, PublishedTable]:
    """The document and the table behind `NAME/TABLE`.

    Raises:
        InputError: there is none; tells which there are.
    """
    name, _, table = reference.partition("/")
    study = published_study(name if "/" not in table else "", f"sweep.published: {reference!r}: NAME/TABLE")
    if table not in study.tables:
        there = ", ".join(f"{name}/{known}" for known in study.tables)
        raise InputError(f"sweep.published: {reference!r}: no such table; there are {there}")
    return study, study.tables[table]


def beside_published(found: SweepAnalysis, study: StudySpec) -> list[Beside]:
    """Every table that the study names, beside ours."""
    if study.sweep is None:
        return []
    return [
        beside(found, *published_table(reference), study.sweep.published_names) for reference in study.sweep.published
    ]


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
