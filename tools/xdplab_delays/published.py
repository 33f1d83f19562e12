# SPDX-License-Identifier: Apache-2.0
"""A published table of clusters next to ours: what agrees, what does not, and what this run cannot say."""

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from xdplab.api import (
    Configuration,
    Importance,
    InputError,
    Model,
    Published,
    PublishedCluster,
    PublishedTable,
    StudySpec,
    published_table,
    same_level,
)
from xdplab_delays.analyse import DelayAnalysis
from xdplab_delays.rules import is_off, is_on

#: An order agrees, or is the other one, where chance alone gives it less often than this.
_CHANCE = 0.05


Verdict = Literal["agrees", "disagrees", "undecided"]


class Row(Model):
    """A published cluster, and the configurations of ours that meet its rule."""

    published: PublishedCluster
    configurations: int
    mean_us: float | None
    std_us: float | None
    #: Our group that most of them are in, and their share in it; outliers are none.
    group: int | None
    group_share: float | None
    missing: str


class Claim(Model):
    """A statement of the study, and what this run says of it."""

    statement: str
    ours: str
    verdict: Verdict


class PublishedComparison(Model):
    """The published table next to ours."""

    source: str
    setup: str
    title: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    note: str


def holds(rule: str, settings: Mapping[str, bool], stands_for: Mapping[str, Sequence[str]]) -> bool:
    """Whether a rule of `and`, `or`, `not`, parentheses and names is met.

    Raises:
        InputError: it is not such a rule.
        KeyError: a name that `settings` has not got.
    """

    def met(node: ast.expr) -> bool:
        if isinstance(node, ast.BoolOp):
            values = [met(value) for value in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not met(node.operand)
        if isinstance(node, ast.Name):
            values = [settings[name] for name in stands_for.get(node.id, [node.id])]
            return any(values)
        raise InputError(f"rule {rule!r}: only names, and, or, not and parentheses are understood")

    try:
        return met(ast.parse(rule, mode="eval").body)
    except SyntaxError:
        raise InputError(f"rule {rule!r}: cannot be read") from None


def names_of(rule: str, stands_for: Mapping[str, Sequence[str]]) -> list[str]:
    """The settings that a rule asks for."""
    found = [node.id for node in ast.walk(ast.parse(rule, mode="eval")) if isinstance(node, ast.Name)]
    return list(dict.fromkeys(name for each in found for name in stands_for.get(each, [each])))


def compare_published(found: DelayAnalysis, study: StudySpec) -> list[PublishedComparison]:
    """Every table that the study names, next to ours."""
    spec = study.sweep
    return (
        [published_comparison(found, *published_table(each), spec.published_names) for each in spec.published]
        if spec
        else []
    )


def published_comparison(
    found: DelayAnalysis, study: Published, table: PublishedTable, names: Mapping[str, str]
) -> PublishedComparison:
    """Compare.

    Args:
        found: our analysis.
        study: the document.
        table: one of its tables.
        names: our setting -> theirs, where they differ by more than what stands before a dot; `THEIRS=LEVEL` when
            theirs is a switch that is on at that level of ours.
    """
    bare = {factor.name: factor.name.rpartition(".")[2] for factor in found.sweep.factors}
    written = {name: names.get(name, names.get(short, short)) for name, short in bare.items()}
    theirs = {name: text.partition("=")[0] for name, text in written.items()}
    on_levels = {text.partition("=")[0]: text.partition("=")[2] for text in written.values()}
    settings = {row.point_id: _settings(row, theirs, on_levels) for row in found.sweep.configurations}
    known = {name for each in settings.values() for name in each}
    members = _members(found.sweep.configurations, settings, study, table)
    rows = tuple(_row(cluster, members, found, study, known) for cluster in table.clusters)
    used = list(dict.fromkeys(name for c in table.clusters for name in names_of(c.rule, study.stands_for)))
    importance = {theirs[each.factor]: each for each in found.sweep.importance}
    claims = [_order(rows), _number(found, table, rows)]
    claims += [_matters(name, importance, matters=True) for name in used]
    claims += [_matters(name, importance, matters=False) for name in table.insignificant]
    claims += [_worse(name, importance) for name in table.worse]
    same = found.sweep.quantity == study.quantity
    note = (
        "" if same else f"Theirs are {study.quantity} latencies, ours {found.sweep.quantity}: only the order compares."
    )
    return PublishedComparison(
        source=study.source,
        setup=study.setup,
        title=table.title,
        rows=rows,
        claims=tuple(claims),
        note=note,
    )


def _settings(row: Configuration, theirs: Mapping[str, str], on_levels: Mapping[str, str]) -> dict[str, bool]:
    """Their settings of a configuration, those that are switches; a number is on when it is not 0."""
    found: dict[str, bool] = {}
    for name, level in row.levels.items():
        their = theirs.get(name)
        if their is None:
            continue
        if on_levels[their]:
            found[their] = same_level(level, on_levels[their])
        elif isinstance(level, int | float) or is_on(level) or is_off(level):
            found[their] = bool(level) if isinstance(level, int | float) else is_on(level)
    return found


def _members(
    rows: Sequence[Configuration],
    settings: Mapping[str, Mapping[str, bool]],
    study: Published,
    table: PublishedTable,
) -> dict[int, list[Configuration]]:
    """Cluster -> the configurations for which its rule is the first in the table's order that they meet."""
    by_number = {cluster.cluster: cluster for cluster in table.clusters}
    members: dict[int, list[Configuration]] = {number: [] for number in by_number}
    for row in rows:
        for number in table.order:
            try:
                met = holds(by_number[number].rule, settings[row.point_id], study.stands_for)
            except KeyError:
                continue
            if met:
                members[number].append(row)
                break
    return members


def _row(
    cluster: PublishedCluster, members: Mapping[int, Sequence[Configuration]], found: DelayAnalysis,
    study: Published, known: set[str],
) -> Row:  # fmt: skip
    rows = members[cluster.cluster]
    absent = [name for name in names_of(cluster.rule, study.stands_for) if name not in known]
    labels = Counter(found.groups.labels.get(row.point_id) for row in rows)
    group, count = labels.most_common(1)[0] if labels else (None, 0)
    means = np.array([row.statistics.mean_us for row in rows])
    spread = np.mean([row.statistics.std_us**2 for row in rows]) + means.var() if rows else None
    missing = f"does not vary here: {', '.join(absent)}" if absent else "" if rows else "no configuration of ours"
    return Row(
        published=cluster,
        configurations=len(rows),
        mean_us=float(means.mean()) if rows else None,
        std_us=float(np.sqrt(spread)) if spread is not None else None,
        group=group,
        group_share=count / len(rows) if rows else None,
        missing=missing,
    )


def _order(rows: Sequence[Row]) -> Claim:
    from scipy.stats import kendalltau

    both = [(row.published.mean_us, row.mean_us) for row in rows if row.mean_us is not None]
    statement = "The clusters, in the order of their means"
    if len(both) < 3:
        ours = f"{len(both)} of {len(rows)} have configurations here"
        return Claim(statement=statement, ours=ours, verdict="undecided")
    theirs, mine = zip(*both, strict=True)
    chances = {way: float(kendalltau(theirs, mine, alternative=way).pvalue) for way in ("greater", "less")}
    verdict: Verdict = "agrees" if chances["greater"] < _CHANCE else "undecided"
    return Claim(
        statement=statement,
        ours=f"rank correlation {float(kendalltau(theirs, mine).statistic):.2f} over {len(both)} clusters",
        verdict="disagrees" if chances["less"] < _CHANCE else verdict,
    )


def _number(found: DelayAnalysis, table: PublishedTable, rows: Sequence[Row]) -> Claim:
    statement = f"{table.clusters_in_text} clusters by the text, {len(table.clusters)} by the table"
    k, theirs = found.groups.k, {table.clusters_in_text, len(table.clusters)}
    if k == 1 or not any(row.configurations for row in rows):
        ours = "none stands apart" if k == 1 else f"{k}, of other settings than theirs"
        return Claim(statement=statement, ours=ours, verdict="undecided")
    agrees = min(theirs) <= k <= max(theirs)
    return Claim(statement=statement, ours=f"{k}", verdict="agrees" if agrees else "disagrees")


def _matters(name: str, importance: Mapping[str, Importance], *, matters: bool) -> Claim:
    statement = f"{name} {'matters' if matters else 'does not matter'}"
    ours = importance.get(name)
    if ours is None or ours.undecided:
        return _no_statement(statement, ours)
    return Claim(statement=statement, ours=ours.verdict, verdict="agrees" if ours.matters == matters else "disagrees")


def _worse(name: str, importance: Mapping[str, Importance]) -> Claim:
    statement = f"{name} makes it slower"
    ours = importance.get(name)
    on = next((each for each in ours.levels if is_on(each.level) and each.ratio), None) if ours else None
    off = next((each for each in ours.levels if is_off(each.level) and each.ratio), None) if ours else None
    if ours is None or on is None or off is None or ours.undecided:
        return _no_statement(statement, ours)
    if not (on.differs or off.differs):
        return Claim(statement=statement, ours=ours.verdict, verdict="undecided")
    ratio = (on.ratio or 1.0) / (off.ratio or 1.0)
    return Claim(
        statement=statement,
        ours=f"{ratio:.2f} times the latency without it ({ours.verdict})",
        verdict="agrees" if ratio > 1 else "disagrees",
    )


def _no_statement(statement: str, ours: Importance | None) -> Claim:
    words = f"{ours.verdict}: {ours.why}" if ours and ours.undecided else "does not vary here"
    return Claim(statement=statement, ours=words, verdict="undecided")
