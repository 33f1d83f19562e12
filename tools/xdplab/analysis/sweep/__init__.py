# SPDX-License-Identifier: Apache-2.0
"""Which settings matter: statistics per configuration, effects, what to change.

scipy.stats takes a second to import and is imported by the functions that need it.
"""

from collections.abc import Collection, Sequence

from xdplab.analysis.sweep.changes import ChangeAdvice, advise
from xdplab.analysis.sweep.effects import Anova, Importance as Importance, anova, importances, ratio_words
from xdplab.analysis.sweep.table import (
    Configuration as Configuration,
    Factor as Factor,
    Statistics as Statistics,
    Table as Table,
    lossy,
    tables,
)
from xdplab.analysis.words import capitalized
from xdplab.measure import method_class
from xdplab.model import Model, RunRecord, StudySpec, TrialRecord
from xdplab.model.digits import percent

# The whole analysis of a sweep, as one model that JSON keeps.

#: Fewer configurations than this are compared by eye.
MIN_CONFIGURATIONS = 6
#: Configurations that lost more do not count in what matters.
MAX_LOSS = 0.01

_TOO_FEW = "fewer than ten independent samples lie above the p99"


class SweepAnalysis(Model):
    """Of the configurations on one path under one traffic profile."""

    title: str
    quantity: str
    statistic: str
    #: The answer in a few sentences.
    summary: tuple[str, ...]
    factors: tuple[Factor, ...]
    #: All, by what was measured; it is no order of who is faster.
    configurations: tuple[Configuration, ...]
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
    from threadpoolctl import threadpool_limits

    reasons = _unmeasured(run, trials)
    # for a few hundred rows, threads wait for each other longer than they work
    with threadpool_limits(1):
        return [_analyse(table, reasons) for table in tables(run, trials) if len(table.rows) >= MIN_CONFIGURATIONS]


def judge_settings(table: Table) -> tuple[tuple[Importance, ...], Anova]:
    """A statement on each setting, over the configurations whose latency is not that of survivors."""
    table = table.only([row.loss_ratio <= MAX_LOSS for row in table.rows])
    effects = anova(table)
    return importances(table, effects), effects


def _analyse(table: Table, unmeasured: dict[str, int]) -> SweepAnalysis:
    lost = lossy(table)
    found, effects = judge_settings(table)
    advice = advise(table, [each.factor for each in found if each.matters], lost)
    silent = [each.name for each in table.factors if each.name not in {one.factor for one in found}]
    lines = [_what_matters(found, silent) + _caution(table, effects), advice.sentence]
    lines += [_losses(table, [row for row in table.rows if row.point_id in lost])] if lost else []
    return SweepAnalysis(
        title=table.title,
        quantity=table.quantity,
        statistic=table.statistic,
        summary=tuple(lines),
        factors=table.factors,
        configurations=tuple(sorted(table.rows, key=table.value_us)),
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
        clauses.insert(0, "no effect is shown yet" if reasons else "no setting has a measurable effect")
    if lossy:
        clauses.append(f"frames are lost at all levels but one of {', '.join(lossy)}")
    if idle:
        most = ratio_words(max(each.visible or 0 for each in idle))
        clauses.append(f"no effect above {most} of {', '.join(each.factor for each in idle)}")
    return f"{capitalized('; '.join(clauses))}."


def _with_effect(one: Importance) -> str:
    return f"{one.factor} ({ratio_words(one.apart) if one.alone else one.strongest_interaction})"


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
