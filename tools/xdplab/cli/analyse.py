# SPDX-License-Identifier: Apache-2.0
"""`xdplab analyse`: the analysis of a sweep as text."""

from xdplab.analysis.sweep import SweepAnalysis
from xdplab.analysis.sweep.effects import LevelEffect, p_words
from xdplab.model.digits import columns, significant

#: Configurations listed at both ends.
_LISTED = 5


def sweep_text(found: SweepAnalysis) -> str:
    """Summary, settings, the ends of the list."""
    parts = [f"{found.quantity} latency, {found.title}", *(f"* {line}" for line in found.summary), ""]
    parts += [f"everything here goes by the {found.statistic}", _settings(found), "", _ends(found)]
    parts += [f"not measured: {count}: {reason}" for reason, count in found.unmeasured.items()]
    return "\n".join(parts)


def _settings(found: SweepAnalysis) -> str:
    rows = [
        [
            "setting",
            "verdict",
            "variance alone",
            "interactions",
            "p",
            "levels: us (ratio to the default)",
        ]
    ]
    for each in found.importance:
        rows.append(
            [
                each.factor,
                each.verdict,
                f"{each.main_share:.1%}",
                f"{each.interaction_share:.1%}",
                "-" if each.p is None else p_words(each.p),
                "  ".join(map(_level, each.levels)),
            ]
        )
    return columns(rows)


def _ends(found: SweepAnalysis) -> str:
    rows = [["configuration", "median us", "mean us", "std us", "p99 us", "p99.9 us"]]
    ends = found.configurations
    shown = ends if len(ends) <= 2 * _LISTED else (*ends[:_LISTED], *ends[-_LISTED:])
    for row in shown:
        stats = row.statistics
        rows.append(
            [
                row.title,
                _us(stats.median_us),
                _us(stats.mean_us),
                _us(stats.std_us),
                _us(stats.p99_us),
                _us(stats.p999_us),
            ]
        )
    return columns(rows)


def _level(one: LevelEffect) -> str:
    bounds = "" if one.low is None or one.high is None else f" ({significant(one.low)} to {significant(one.high)})"
    return f"{one.level}: {_us(one.mean_us)}{bounds}"


def _us(value: float | None) -> str:
    return "-" if value is None else significant(value)
