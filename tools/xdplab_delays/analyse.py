# SPDX-License-Identifier: Apache-2.0
"""Groups of the configurations of a sweep, and what they have in common."""

from collections.abc import Sequence

from xdplab.api import (
    MAX_LOSS,
    Model,
    Run,
    RunRecord,
    SweepAnalysis,
    Table,
    TrialRecord,
    analyse_sweep,
    lossy,
    sweep_tables,
)
from xdplab_delays.forest import permutation_importance
from xdplab_delays.groups import Clustering, cluster
from xdplab_delays.outliers import Outlier, reference_us, split
from xdplab_delays.rules import Rule, RuleSet, find_rules

#: Fewer configurations than this, without outliers, are grouped with them.
_FEWEST = 6


class DelayAnalysis(Model):
    """Of the configurations on one path under one traffic profile."""

    #: What xdplab says of them.
    sweep: SweepAnalysis
    #: Left out of the groups.
    outliers: tuple[Outlier, ...]
    outlier_rule: Rule | None
    groups: Clustering
    rules: RuleSet
    #: Setting -> 2.5th, 50th and 97.5th percentile of its permutation importance.
    importance: dict[str, tuple[float, float, float]]

    @property
    def summary(self) -> list[str]:
        """A sentence each: what matters and what to change, the groups, the outliers."""
        return [*self.sweep.summary, _groups(self.groups, self.rules), *self._outliers()]

    def _outliers(self) -> list[str]:
        """How many there are, by which rule, what they have in common, and where they are left out."""
        if not self.outliers:
            return []
        rule, total = self.outlier_rule, len(self.sweep.configurations)
        reasons = "; ".join(dict.fromkeys(outlier.reason for outlier in self.outliers))
        which = f"they are those with {rule.text}" if rule and rule.precision == rule.coverage == 1 else ""
        if rule and not which:
            which = (
                f"most are those with {rule.text} ({rule.precision:.0%} of these are, {rule.coverage:.0%} of the "
                "outliers)"
            )
        left_out = "the groups leave them out"
        if len(self.groups.labels) == total:
            left_out = "too few others are left, so they are grouped as well"
        clauses = [f"{len(self.outliers)} of {total} configurations are outliers ({reasons})", which, left_out]
        return [f"{'; '.join(clause for clause in clauses if clause)}."]


def analyse(run: Run) -> list[DelayAnalysis]:
    """One analysis for each path and traffic profile with enough configurations; the order is that of the study.

    Raises:
        Missing: scikit-learn is not installed.
    """
    return analyse_records(run.record, run.trials)


def analyse_records(run: RunRecord, trials: Sequence[TrialRecord]) -> list[DelayAnalysis]:
    import sklearn.cluster  # noqa: F401 - before the limit: a library loaded later would not know of it
    from threadpoolctl import threadpool_limits

    found = {each.title: each for each in analyse_sweep(run, trials)}
    # for a few hundred rows, threads wait for each other longer than they work
    with threadpool_limits(1):
        return [_analyse(table, run, found[table.title]) for table in sweep_tables(run, trials) if table.title in found]


def _analyse(table: Table, run: RunRecord, sweep: SweepAnalysis) -> DelayAnalysis:
    spec = run.study.sweep
    limit_us = spec.outliers_above_us if spec else None
    if limit_us is None and spec and spec.outliers_above:
        limit_us = reference_us(table, spec.outliers_above)
    kept, outliers = split(table, limit_us, lossy(table))
    kept = table if len(kept.rows) < _FEWEST else kept
    grouped = cluster(kept)
    outlier_rule = None
    if 0 < len(outliers) < len(table.rows):
        left_out = {outlier.point_id for outlier in outliers}
        both = find_rules(table, [int(row.point_id in left_out) for row in table.rows])
        outlier_rule = both.rules[1] if both.explained else None
    return DelayAnalysis(
        sweep=sweep,
        outliers=tuple(outliers),
        outlier_rule=outlier_rule,
        groups=grouped,
        rules=find_rules(kept, [grouped.labels[row.point_id] for row in kept.rows]),
        importance=permutation_importance(table.only([row.loss_ratio <= MAX_LOSS for row in table.rows])),
    )


def _groups(grouped: Clustering, rules: RuleSet) -> str:
    if grouped.k == 1:
        return "The configurations are one group: none stands apart."
    explained = "settings explain them" if rules.explained else "settings do not explain them"
    return f"The configurations fall into {grouped.k} groups; {explained}."
