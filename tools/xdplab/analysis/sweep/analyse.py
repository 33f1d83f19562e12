# SPDX-License-Identifier: Apache-2.0
"""The whole analysis of a sweep, as one model that JSON keeps."""

from collections.abc import Collection, Sequence

from xdplab.analysis.sweep.changes import ChangeAdvice, advise
from xdplab.analysis.sweep.clusters import Clustering, cluster
from xdplab.analysis.sweep.effects import Anova, anova
from xdplab.analysis.sweep.importance import Importance, importances, permutations, ratio_words
from xdplab.analysis.sweep.outliers import Outlier, lossy, reference_us, split
from xdplab.analysis.sweep.rules import Rule, RuleSet, find_rules
from xdplab.analysis.sweep.table import Configuration, Factor, Table, tables
from xdplab.analysis.words import capitalized
from xdplab.measure import method_class
from xdplab.model import Model, RunRecord, StudySpec, TrialRecord
from xdplab.model.digits import percent
from xdplab.model.extras import need

#: Fewer configurations than this are compared by eye.
MIN_CONFIGURATIONS = 6
#: Configurations that lost more do not count in what matters.
MAX_LOSS = 0.01
#: Configurations in the density picture, as in the study.
SHOWN = 50

_TOO_FEW = "fewer than ten independent samples lie above the p99"


class SweepAnalysis(Model):
    """Of the configurations on one path under one traffic profile."""

    title: str
    quantity: str
    statistic: str
    #: The answer in a few sentences.
    summary: tuple[str, ...]
    factors: tuple[Factor, ...]
    #: All, outliers among them, by what was measured; it is no order of who is faster.
    configurations: tuple[Configuration, ...]
    #: Left out of the groups; those that lost frames are nobody's best either.
    outliers: tuple[Outlier, ...]
    outlier_rule: Rule | None
    clustering: Clustering
    rules: RuleSet
    importance: tuple[Importance, ...]
    anova: Anova
    advice: ChangeAdvice
    #: Configurations that could not be measured, or whose p99 is not known: reason -> how many.
    unmeasured: dict[str, int]


def is_sweep(study: StudySpec) -> bool:
    """True when the report shall ask which settings matter."""
    return study.sweep is not None and method_class(study.method.name).swept


def analyse_sweep(run: RunRecord, trials: Sequence[TrialRecord]) -> list[SweepAnalysis]:
    """One analysis per path and traffic profile with enough configurations; the order is that of the study."""
    need("sweeps", f"run {run.run_id}: what its sweep shows")
    import sklearn.cluster  # noqa: F401 - before the limit: a library loaded later would not know of it
    from threadpoolctl import threadpool_limits

    reasons = _unmeasured(run, trials)
    # for a few hundred rows, threads wait for each other longer than they work
    with threadpool_limits(1):
        return [_analyse(table, run, reasons) for table in tables(run, trials) if len(table.rows) >= MIN_CONFIGURATIONS]


def judge_settings(table: Table, *, forest: bool = True) -> tuple[tuple[Importance, ...], Anova]:
    """A statement on each setting, over the configurations whose latency is not that of survivors."""
    table = table.only([row.loss_ratio <= MAX_LOSS for row in table.rows])
    # outliers count: what makes a configuration one may be the setting that matters most
    effects = anova(table)
    return importances(table, effects, permutations(table) if forest else None), effects


def _analyse(table: Table, run: RunRecord, unmeasured: dict[str, int]) -> SweepAnalysis:
    spec = run.study.sweep
    limit_us = spec.outliers_above_us if spec else None
    if limit_us is None and spec and spec.outliers_above:
        limit_us = reference_us(table, spec.outliers_above)
    lost = lossy(table)
    kept, outliers = split(table, limit_us, lost)
    everything = len(kept.rows) < MIN_CONFIGURATIONS
    kept = table if everything else kept
    grouped = cluster(kept)
    rules = find_rules(kept, [grouped.labels[row.point_id] for row in kept.rows])
    found, effects = judge_settings(table)
    advice = advise(table, [each.factor for each in found if each.matters], lost)
    left_out = {outlier.point_id for outlier in outliers}
    outlier_rule = None
    if 0 < len(outliers) < len(table.rows):
        both = find_rules(table, [int(row.point_id in left_out) for row in table.rows])
        outlier_rule = both.rules[1] if both.explained else None
    silent = [each.name for each in table.factors if each.name not in {one.factor for one in found}]
    lines = [_what_matters(found, silent) + _caution(table, effects), _groups(grouped, rules), advice.sentence]
    lines += [_losses(table, [row for row in table.rows if row.point_id in lost])] if lost else []
    lines += [_outliers(outliers, outlier_rule, len(table.rows), everything)] if outliers else []
    return SweepAnalysis(
        title=table.title,
        quantity=table.quantity,
        statistic=table.statistic,
        summary=tuple(lines),
        factors=table.factors,
        configurations=tuple(sorted(table.rows, key=table.value_us)),
        outliers=tuple(outliers),
        outlier_rule=outlier_rule,
        clustering=grouped,
        rules=rules,
        importance=found,
        anova=effects,
        advice=advice,
        unmeasured=unmeasured | ({_TOO_FEW: table.unknown} if table.unknown else {}),
    )


def sweep_sentence(run: RunRecord, trials: Sequence[TrialRecord], found: Sequence[SweepAnalysis] = ()) -> str:
    """Which settings matter, in one sentence for each path and traffic profile, or why that is undecided.

    Args:
        run: of a study whose settings vary.
        trials: its trials.
        found: what `analyse_sweep` says of them, by who has it already: that takes seconds.
    """
    if not method_class(run.study.method.name).swept:
        return (
            f"No statement about which settings matter: method {run.study.method.name}: a sweep needs method latency."
        )
    found = found or analyse_sweep(run, trials)
    if not found:
        most = max(tables(run, trials), key=lambda table: len(table.rows), default=None)
        rows = len(most.rows) if most else 0
        return (
            f"Which settings matter is undecided: too few configurations: {rows} {'was' if rows == 1 else 'were'} "
            f"measured on one path and traffic, {MIN_CONFIGURATIONS} are needed"
            f"{f' ({most.unknown} more: {_TOO_FEW})' if most and most.unknown else ''}."
        )
    if len(found) == 1:
        return found[0].summary[0]
    return " ".join(f"{each.title}: {each.summary[0]}" for each in found)


def _what_matters(found: Sequence[Importance], lossy: Sequence[str]) -> str:
    """Every setting by name, under what is known of it; `lossy`: those of which but one level carries its load."""
    mattering = [_with_effect(each) for each in found if each.matters]
    idle = [each for each in found if each.verdict == "no effect seen"]
    clauses = [f"what matters: {', '.join(mattering)}"] if mattering else []
    reasons: dict[str, list[str]] = {}
    for each in found:
        if each.verdict == "too little to tell":
            reasons.setdefault(each.why, []).append(each.factor)
    clauses += [f"too little to tell: {', '.join(names)} ({why})" for why, names in reasons.items()]
    if not mattering:
        clauses.insert(0, "no setting is seen to matter")
    if lossy:
        clauses.append(f"frames are lost at all levels but one of {', '.join(lossy)}")
    if idle:
        most = ratio_words(max(each.visible or 0 for each in idle))
        clauses.append(f"no effect above {most} of {', '.join(each.factor for each in idle)}")
    return f"{capitalized('; '.join(clauses))}."


def _with_effect(one: Importance) -> str:
    return f"{one.factor} ({ratio_words(one.apart) if one.alone else one.strongest_interaction})"


def _groups(grouped: Clustering, rules: RuleSet) -> str:
    if grouped.k == 1:
        return "The configurations are one group: none stands apart."
    explained = "settings explain them" if rules.explained else "settings do not explain them"
    return f"The configurations fall into {grouped.k} groups; {explained}."


def _caution(table: Table, effects: Anova) -> str:
    """Said next to what matters as well."""
    notes = ""
    if any(each.differs for each in effects.effects) and effects.error_from == "repetitions":
        notes = " The design has one configuration for each level: what that one always does counts as the level's."
    return notes


def _losses(table: Table, lost: Collection[Configuration]) -> str:
    """Those that are nobody's best, and what they do not count in."""
    over = sum(row.loss_ratio > MAX_LOSS for row in lost)
    most = percent(max(row.loss_ratio for row in lost))
    left = f"; {over} above {percent(MAX_LOSS)} do not count in what matters" if over else ""
    return f"{len(lost)} of {len(table.rows)} configurations lost frames, up to {most}: none of them is the best{left}."


def _outliers(found: Sequence[Outlier], rule: Rule | None, configurations: int, grouped: bool) -> str:
    """How many there are, by which rule, what they have in common, and where they are left out."""
    reasons = "; ".join(dict.fromkeys(outlier.reason for outlier in found))
    which = f"they are those with {rule.text}" if rule and rule.precision == rule.coverage == 1 else ""
    if rule and not which:
        which = (
            f"most are those with {rule.text} ({rule.precision:.0%} of these are, {rule.coverage:.0%} of the outliers)"
        )
    left_out = "too few others are left, so they are grouped as well" if grouped else "the groups leave them out"
    clauses = [f"{len(found)} of {configurations} configurations are outliers ({reasons})", which, left_out]
    return f"{'; '.join(clause for clause in clauses if clause)}."


def _unmeasured(run: RunRecord, trials: Sequence[TrialRecord]) -> dict[str, int]:
    """Reason -> configurations that were not measured for it."""
    measured = {trial.point_id for trial in trials if trial.purpose == "measure" and trial.result is not None}
    last = {trial.point_id: trial.reason for trial in trials if trial.status in ("failed", "unsupported")}
    counts: dict[str, int] = {}
    for point_id in run.points:
        if point_id not in measured:
            reason = run.unsupported.get(point_id) or last.get(point_id) or "the run ended before it"
            counts[reason] = counts.get(reason, 0) + 1
    return counts
