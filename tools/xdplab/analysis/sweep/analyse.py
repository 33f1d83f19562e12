# SPDX-License-Identifier: Apache-2.0
"""The whole analysis of a sweep, as one model that JSON keeps."""

from collections.abc import Sequence

from xdplab.analysis.sweep.anova import Anova, anova
from xdplab.analysis.sweep.changes import Advice, advise
from xdplab.analysis.sweep.clusters import Clustering, cluster
from xdplab.analysis.sweep.importance import Importance, importances
from xdplab.analysis.sweep.outliers import Outlier, reference_us, split
from xdplab.analysis.sweep.rules import Rule, RuleSet, find_rules
from xdplab.analysis.sweep.table import Configuration, Factor, Table, tables
from xdplab.model import Model, RunRecord, StudySpec, TrialRecord

#: Fewer configurations than this are compared by eye.
MIN_CONFIGURATIONS = 6
#: Configurations in the density picture, as in the study.
SHOWN = 50


class SweepAnalysis(Model):
    """Of the configurations on one path under one traffic profile."""

    title: str
    quantity: str
    statistic: str
    #: The answer in a few sentences.
    summary: tuple[str, ...]
    factors: tuple[Factor, ...]
    #: All, outliers among them, the fastest first.
    configurations: tuple[Configuration, ...]
    outliers: tuple[Outlier, ...]
    outlier_limit_us: float | None
    outlier_rule: Rule | None
    clustering: Clustering
    rules: RuleSet
    importance: tuple[Importance, ...]
    anova: Anova
    advice: Advice
    #: Configurations that could not be measured: reason -> how many.
    unmeasured: dict[str, int]


def is_sweep(study: StudySpec) -> bool:
    """True when the report shall ask which settings matter."""
    return study.sweep is not None and study.method.name == "latency"


def analyse_sweep(run: RunRecord, trials: Sequence[TrialRecord]) -> list[SweepAnalysis]:
    """One analysis per path and traffic profile with enough configurations; the order is that of the study."""
    import sklearn.cluster  # noqa: F401 - before the limit: a library loaded later would not know of it
    from threadpoolctl import threadpool_limits

    reasons = _unmeasured(run, trials)
    # for a few hundred rows, threads wait for each other longer than they work
    with threadpool_limits(1):
        return [_analyse(table, run, reasons) for table in tables(run, trials) if len(table.rows) >= MIN_CONFIGURATIONS]


def _analyse(table: Table, run: RunRecord, unmeasured: dict[str, int]) -> SweepAnalysis:
    spec = run.study.sweep
    limit_us = spec.outliers_above_us if spec else None
    if limit_us is None and spec and spec.outliers_above:
        limit_us = reference_us(table, spec.outliers_above)
    kept, outliers = split(table, limit_us)
    if len(kept.rows) < MIN_CONFIGURATIONS:  # the rules leave too little to group: all stay, and the reader is told
        kept = table
    grouped = cluster(kept)
    rules = find_rules(kept, [grouped.labels[row.point_id] for row in kept.rows])
    effects = anova(kept)
    found = importances(kept, effects)
    advice = advise(table, [each.factor for each in found if each.matters])
    left_out = {outlier.point_id for outlier in outliers}
    outlier_rule = None
    if 0 < len(outliers) < len(table.rows):
        both = find_rules(table, [int(row.point_id in left_out) for row in table.rows])
        outlier_rule = both.rules[1] if both.explained else None
    return SweepAnalysis(
        title=table.title,
        quantity=table.quantity,
        statistic=table.statistic,
        summary=_summary(grouped, rules, found, advice, len(outliers)),
        factors=table.factors,
        configurations=tuple(sorted(table.rows, key=table.value_us)),
        outliers=tuple(outliers),
        outlier_limit_us=limit_us,
        outlier_rule=outlier_rule,
        clustering=grouped,
        rules=rules,
        importance=found,
        anova=effects,
        advice=advice,
        unmeasured=unmeasured,
    )


def _summary(
    grouped: Clustering, rules: RuleSet, found: Sequence[Importance], advice: Advice, outliers: int
) -> tuple[str, ...]:
    mattering = [each.factor for each in found if each.matters]
    others = [each.factor for each in found if not each.matters]
    lines = []
    if mattering:
        without = f"; no effect seen of {', '.join(others)}" if others else ""
        lines.append(f"What matters, most first: {', '.join(mattering)}{without}.")
    else:
        lines.append(f"No setting matters that can be told from chance ({', '.join(others)}).")
    if grouped.k > 1:
        explained = "settings explain them" if rules.explained else "settings do not explain them"
        lines.append(f"The configurations fall into {grouped.k} groups; {explained}.")
    else:
        lines.append("The configurations are one group: none stands apart.")
    if mattering:
        lines.append(advice.sentence)
    if outliers:
        lines.append(f"{outliers} outliers are left out of the groups.")
    return tuple(lines)


def _unmeasured(run: RunRecord, trials: Sequence[TrialRecord]) -> dict[str, int]:
    """Reason -> configurations that were not measured for it."""
    measured = {trial.point_id for trial in trials if trial.purpose == "measure" and trial.result is not None}
    last = {trial.point_id: trial.reason for trial in trials if trial.status in ("failed", "unsupported")}
    counts: dict[str, int] = {}
    for point_id in run.points:
        if point_id not in measured:
            reason = run.unsupported.get(point_id) or last.get(point_id) or "the run has not come to it"
            counts[reason] = counts.get(reason, 0) + 1
    return counts
