# SPDX-License-Identifier: Apache-2.0
"""`xdplab analyse`: the analysis of a sweep as text."""

from collections.abc import Sequence

from xdplab.analysis.sweep import SweepAnalysis
from xdplab.analysis.sweep.effects import LevelEffect, p_words
from xdplab.analysis.sweep.published import PublishedComparison
from xdplab.cli.tables import columns
from xdplab.model.digits import significant

#: Configurations listed at both ends.
_LISTED = 5


def sweep_text(found: SweepAnalysis, published: Sequence[PublishedComparison]) -> str:
    """Summary, settings, groups with their rules, the ends of the list, and published tables."""
    parts = [f"{found.quantity} latency, {found.title}", *(f"* {line}" for line in found.summary), ""]
    parts += [f"everything here goes by the {found.statistic}", _settings(found), "", _groups(found), ""]
    if found.outlier_rule:
        rule = found.outlier_rule
        parts += [f"outliers: {rule.text} (precision {rule.precision:.0%}, coverage {rule.coverage:.0%})", ""]
    parts += [_ends(found)]
    parts += [f"not measured: {count}: {reason}" for reason, count in found.unmeasured.items()]
    parts += [text for each in published for text in ("", _beside(each))]
    return "\n".join(parts)


def _settings(found: SweepAnalysis) -> str:
    rows = [
        [
            "setting",
            "verdict",
            "importance (95 % interval)",
            "variance alone",
            "interactions",
            "p",
            "levels: us (ratio to the default)",
        ]
    ]
    for each in found.importance:
        interval = "-" if each.permutation is None else f"{each.permutation:.3f} ({each.low:.3f} to {each.high:.3f})"
        rows.append(
            [
                each.factor,
                each.verdict,
                interval,
                f"{each.main_share:.1%}",
                f"{each.interaction_share:.1%}",
                "-" if each.p is None else p_words(each.p),
                "  ".join(map(_level, each.levels)),
            ]
        )
    return columns(rows)


def _groups(found: SweepAnalysis) -> str:
    rules = {rule.cluster: rule for rule in found.rules.rules}
    rows = [["group", "configurations", "mean us", "std us", "precision", "coverage", "rule"]]
    for group in found.clustering.clusters:
        rule = rules.get(group.number)
        rows.append(
            [
                str(group.number),
                str(group.size),
                _us(group.mean_us),
                _us(group.std_us),
                f"{rule.precision:.0%}" if rule else "-",
                f"{rule.coverage:.0%}" if rule else "-",
                rule.text if rule else "-",
            ]
        )
    return f"{columns(rows)}\n{found.clustering.reason}"


def _ends(found: SweepAnalysis) -> str:
    rows = [["configuration", "median us", "mean us", "std us", "p99 us", "p99.9 us", "group"]]
    ends = found.configurations
    shown = ends if len(ends) <= 2 * _LISTED else (*ends[:_LISTED], *ends[-_LISTED:])
    for row in shown:
        stats = row.statistics
        label = found.clustering.labels.get(row.point_id, "outlier")
        rows.append(
            [
                row.title,
                _us(stats.median_us),
                _us(stats.mean_us),
                _us(stats.std_us),
                _us(stats.p99_us),
                _us(stats.p999_us),
                str(label),
            ]
        )
    return columns(rows)


def _beside(each: PublishedComparison) -> str:
    rows = [["published cluster", "mean us", "ours us", "configurations", "our group"]]
    for row in each.rows:
        group = row.missing or ("outliers" if row.group is None else str(row.group))
        cluster = f"{row.published.cluster}: {row.published.rule}"
        rows.append([cluster, _us(row.published.mean_us), _us(row.mean_us), str(row.configurations), group])
    claims = [["the study says", "this run", "verdict"]]
    claims += [[claim.statement, claim.ours, claim.verdict] for claim in each.claims]
    return "\n".join([f"next to {each.title}", columns(rows), columns(claims), *([each.note] if each.note else [])])


def _level(one: LevelEffect) -> str:
    bounds = "" if one.low is None or one.high is None else f" ({significant(one.low)} to {significant(one.high)})"
    return f"{one.level}: {_us(one.mean_us)}{bounds}"


def _us(value: float | None) -> str:
    return "-" if value is None else significant(value)
