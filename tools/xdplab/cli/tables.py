# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text: the same on a terminal, in a log and in a mail."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from xdplab.analysis import Comparison, PointSummary
from xdplab.analysis.compare import METRIC_WORDS
from xdplab.analysis.digits import significant
from xdplab.analysis.figures import MORE_IS_BETTER, rate_of
from xdplab.analysis.overhead import Overhead, overhead
from xdplab.analysis.trend import Level
from xdplab.model import TrialRecord, plain


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned first column, right-aligned others, two spaces between."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def summary_table(summaries: Iterable[PointSummary], trials: Iterable[TrialRecord] = ()) -> str:
    """One row per point, the reasons of those not measured, the dead time; columns that no row fills are left out."""
    points = list(summaries)
    several_paths = len({point.path for point in points}) > 1
    rows = []
    for point in points:
        rate = point.figures.get("forwarding_rate", {}).get("forwarding_rate_pps")
        ndr = rate_of(point.by_repetition, "ndr_pps")
        rows.append(
            {
                "forwarder": point.forwarder,
                "path": point.path if several_paths else "-",
                "mode": point.mode or "-",
                "knobs": " ".join(f"{key}={value}" for key, value in point.knobs.items()) or "-",
                "bytes": str(point.frame_bytes),
                "NDR kpps": f"{ndr.text(1000, digits=4)}{' ?' if ndr.doubt else ''}" if ndr else "-",
                "kpps at overload": number(rate and rate["median"] / 1000),
                **_light(point),
                "kpps": number(point.offered_pps and point.offered_pps / 1000),
                "loss": ratio(point.loss_ratio),
                "p50 us": number(point.p50_us),
                "p99 us": number(point.p99_us),
                "p99.9 us": number(point.p999_us),
                "reps": point.repeats,
                "status": point.status,
            }
        )
    notes = reason_lines(
        ((point.forwarder, f"{point.status}: {point.reason}") for point in points if point.reason), "points"
    )
    for point in points:
        told = point.figures.get("forwarding_rate", {}).get("two_levels_kpps")
        notes += [f"{point.forwarder}, {point.frame_bytes} bytes: at overload two levels, kpps: {told}"] if told else []
        ndr = rate_of(point.by_repetition, "ndr_pps")
        notes += [f"{point.forwarder}, {point.frame_bytes} bytes: NDR ?: {ndr.doubt}"] if ndr and ndr.doubt else []
        if point.tx_drops:
            notes.append(
                f"{point.forwarder}: the tester's own card dropped {point.tx_drops} frames; they were not sent"
            )
        if point.worst_flows:
            notes.append(f"{point.forwarder}, {point.frame_bytes} bytes: the worst of {point.flows} flows")
            notes += [f"  {flow.text()}" for flow in point.worst_flows]
    dead = overhead(trials)
    if dead:
        notes.append(dead_time("a visit", "the visits'", dead))
    always = {"forwarder", "status"}
    titles = [each for each in rows[0] if each in always or any(row[each] != "-" for row in rows)] if rows else []
    return "\n".join([columns([titles, *([row[each] for each in titles] for row in rows)]), *notes])


def dead_time(of_what: str, whose: str, dead: Overhead) -> str:
    """One line."""
    spread = f"median {dead.median_s:.2f} s, p90 {dead.p90_s:.2f} s, for each trial {dead.per_trial_s:.2f} s"
    return f"dead time of {of_what}: {spread}; {dead.traffic_share:.0%} of {whose} time was traffic"


def reason_lines(found: Iterable[tuple[str, str]], several: str) -> list[str]:
    """One line for each reason: whose it is, or how many `several` have it."""
    reasons: dict[str, list[str]] = {}
    for who, reason in found:
        reasons.setdefault(reason, []).append(who)
    return [f"{who[0] if len(who) == 1 else f'{len(who)} {several}'}: {reason}" for reason, who in reasons.items()]


def comparison_table(
    reference: str,
    run: str,
    rows: Iterable[tuple[PointSummary, PointSummary, Mapping[str, Comparison | None]]],
    differences: Mapping[str, tuple[Any, Any]],
) -> str:
    """Ratios of a run to the reference, then the environment's differences."""
    table = [["forwarder", "figure", "before", "after", "ratio (interval)", "verdict"]]
    for before, after, metrics in rows:
        for metric, found in metrics.items():
            if found is not None:
                figures = (_median(side, metric) for side in (before, after))
                table.append(
                    [
                        after.forwarder,
                        METRIC_WORDS[metric],
                        *figures,
                        "not said" if found.hindrances else found.text(),
                        found.verdict(),
                    ]
                )
    return "\n".join([f"{reference} -> {run}", columns(table), *environment_lines(differences)])


def environment_lines(differences: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """What differs between two runs beside their figures."""
    changed = [f"  {_changed(key, *values)}" for key, values in differences.items()]
    return ["environment differs:", *changed] if changed else ["environment: the same"]


def trend_table(trends: Iterable[tuple[str, str, Sequence[Level]]], what: str = "forwarder") -> str:
    """One row per level of each figure (of what, metric, levels), below each step what differs in the environment."""
    rows = [[what, "metric", "runs", "mean", "change", "from", "to"]]
    notes = []
    for title, metric, levels in trends:
        for level in levels:
            rows.append([title, metric, str(level.runs), number(level.mean), level.change, level.first, level.last])
            if level.change != "first":
                changed = "; ".join(_changed(key, *values) for key, values in level.environment.items())
                notes.append(
                    f"{title} {metric} {level.change} from {level.first} on: "
                    f"{f'environment differs: {changed}' if changed else 'the environment is the same'}"
                )
    return "\n".join(["trend, groups of runs that are alike (jumpavg)", columns(rows), *notes])


def number(value: float | None) -> str:
    """Three significant digits, four from 100 on, or a dash."""
    return "-" if value is None else significant(value, 4 if value >= 100 else 3)


def ratio(value: float | None) -> str:
    """A loss ratio: 0 only when it is zero."""
    return "-" if value is None else "0" if value == 0 else f"{value:.2e}"


def _median(summary: PointSummary, metric: str) -> str:
    """Of the clean repetitions, or of all when there are none."""
    if metric in MORE_IS_BETTER:
        rate = rate_of(summary.by_repetition, metric)
        return rate.text(1000, digits=4) if rate else "-"
    known = [one for one in summary.by_repetition if getattr(one, metric) is not None]
    stands = [one for one in known if not one.was_disturbed(metric)] or known
    return number(median(getattr(one, metric) for one in stands)) if stands else "-"


def _light(point: PointSummary) -> dict[str, str]:
    """What it reads at the study's light load."""
    light = point.light
    if light is None:
        return dict.fromkeys(("kpps, light", "p50 us, light", "loss, light"), "-")
    return {
        "kpps, light": number(light.offered_pps and light.offered_pps / 1000),
        "p50 us, light": number(light.p50_us),
        "loss, light": ratio(light.loss_ratio),
    }


def _changed(key: str, before: Any, now: Any) -> str:
    """Of a file that anybody may have written."""
    return plain(f"{key}: {_short(before)} -> {_short(now)}")


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
