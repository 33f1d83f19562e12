# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text: the same on a terminal, in a log and in a mail."""

import csv
import io
import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdplab.analysis.answers.order import in_order
from xdplab.analysis.answers.ranking import conditions
from xdplab.analysis.columns import cells_of, data_columns, data_of, figure_text, own_columns, side_tables
from xdplab.analysis.compare import ratios_of
from xdplab.analysis.doubts import of_pause
from xdplab.analysis.run import Run
from xdplab.analysis.runs import Overhead, Stretch, compare_runs, environment_difference, overhead, trends, what_differs
from xdplab.analysis.words import ratio_text, verdict
from xdplab.measure import Method, figure
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.point import PointSummary
from xdplab.model import InputError, TrialRecord, plain
from xdplab.model.digits import columns, number, spreadsheet_row

#: Columns of a terminal.
_WIDTH = 100


def wrapped(lines: Iterable[str]) -> str:
    """Lines of at most so many columns, the rest of each indented."""
    long = [textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) or [""] for line in lines]
    return "\n".join(part for parts in long for part in parts)


def run_text(read: Run, trials: Iterable[TrialRecord] = ()) -> str:
    """The answer, the table, which forwarder to use, what the method found besides."""
    goals = [f"{each.goal}: {each.first}{f'; {each.ahead}' if each.ahead else ''}" for each in read.advice]
    table = summary_table(read.method, read.points, trials)
    return "\n\n".join(
        filter(
            None, [wrapped(read.answer.text().split("\n")), table, wrapped([*goals, *read.findings, *read.put_back])]
        )
    )


def summary_table(method: Method[Any], summaries: Iterable[PointSummary], trials: Iterable[TrialRecord] = ()) -> str:
    """A row per point, in order, the reasons of those not measured, the dead time; what no row has is left out."""
    points = list(summaries)
    table = _table(
        cells_of(method, in_order(method, [point for point in points if point.repetitions or not point.reason]))
    )
    notes = reason_lines((point.forwarder, f"{point.status}: {point.reason}") for point in points if point.reason)
    for point in points:
        notes += method.notes(point)
        if point.where_lost:
            notes.append(f"{point.forwarder}: {point.where_lost}")
        if point.tx_drops:
            notes.append(
                f"{point.forwarder}: the tester's own card dropped {point.tx_drops} frames; they were not sent"
            )
        if point.worst_flows:
            notes.append(f"{point.forwarder}, {point.frame_bytes} bytes: the worst of {point.flows} flows")
            notes += [f"  {flow.text()}" for flow in point.worst_flows]
    notes += filter(None, dict.fromkeys(of_pause(point.pausing) for point in points))
    dead = overhead(trials)
    if dead:
        notes.append(dead_time(dead))
    beside = [f"\n{one.title}\n{_table(one.cells)}\n{wrapped(one.notes)}".rstrip() for one in side_tables(points)]
    return "\n".join(filter(None, [table, wrapped(notes), *beside]))


def _table(cells: Mapping[str, Sequence[str]]) -> str:
    """In letters that every terminal has; what all rows share is a line below, what is too wide a table below that."""
    kept = {title.replace("µ", "u"): list(values) for title, values in cells.items()}
    (first, names), *others = kept.items()
    if not names:
        return ""
    alike = [title for title, values in others if len(values) > 1 and len({*values}) == 1]
    blocks = [[[first, *names]]]
    for title, values in sorted(others, key=lambda each: each[0] == "mode"):
        if title in alike:
            continue
        if len(columns([*zip(*blocks[-1], [title, *values], strict=True)]).split("\n")[0]) > _WIDTH:
            blocks.append([[first, *names]])
        blocks[-1].append([title, *values])
    shared = [f"all rows: {'; '.join(f'{title} {kept[title][0]}' for title in alike)}"] if alike else []
    return "\n".join([*(columns([*zip(*block, strict=True)]) for block in blocks), wrapped(shared)]).rstrip()


def markdown_table(method: Method[Any], points: Sequence[PointSummary], found: Answer) -> str:
    """The report's table for a page in Markdown: its columns, each ratio with its interval."""
    shown = [each for each in own_columns(method) if "html" in each.places]
    shown = [each for each in shown if any(each.of(point) is not None for point in points)]
    ratios = {each.key: ratios_of(found, points, each.clause) for each in shown if each.ratio}
    heads, rows = ["forwarder", "mode"], [[point.plain_name, point.mode] for point in points]
    for each in shown:
        heads.append(each.title)
        for row, point in zip(rows, points, strict=True):
            subtext = each.subtext(point)
            row.append(f"{each.shown(point)} ({subtext})" if subtext else each.shown(point))
        if found.comparison and each.ratio:
            heads.append(each.ratio)
            for row, point in zip(rows, points, strict=True):
                ratio = ratios[each.key].get(point.point_id)
                row.append(
                    ratio_text(ratio)
                    if ratio
                    else "reference"
                    if point.forwarder == found.comparison.reference
                    else "-"
                )
    lines = [
        [*heads, "repetitions"],
        ["---"] * (len(heads) + 1),
        *([*row, str(point.repetitions)] for row, point in zip(rows, points, strict=True)),
    ]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def csv_text(method: Method[Any], summaries: Sequence[PointSummary]) -> str:
    """One line per point under the keys of all columns; units are those of the keys."""
    out = io.StringIO()
    shown = data_columns(method, summaries)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([each.key for each in shown])
    writer.writerows(spreadsheet_row(data_of(each, point) for each in shown) for point in summaries)
    return out.getvalue()


def dead_time(dead: Overhead) -> str:
    spread = f"median {dead.median_s:.2f} s ({dead.own_median_s:.2f} s without forwarders' start and stop)"
    turn = f"; of a trial in turns {1000 * dead.turn_median_s:.0f} ms" if dead.turn_median_s is not None else ""
    return f"dead time of a repetition: {spread}, p90 {dead.p90_s:.2f} s{turn}; {dead.traffic_share:.0%} was traffic"


def reason_lines(found: Iterable[tuple[str, str]]) -> list[str]:
    """One line for each reason: whose it is, or how many points have it."""
    reasons: dict[str, list[str]] = {}
    for who, reason in found:
        reasons.setdefault(reason, []).append(who)
    return [f"{who[0] if len(who) == 1 else f'{len(who)} points'}: {reason}" for reason, who in reasons.items()]


def comparison_table(
    reference: str,
    run: str,
    rows: Iterable[tuple[PointSummary, PointSummary, Mapping[str, Comparison | None]]],
    differences: Mapping[str, tuple[Any, Any]],
    study: str,
) -> str:
    """Ratios of a run to the reference, then the environment's differences."""
    changed = [f"  {_changed(key, *values)}" for key, values in differences.items()]
    changes = ["environment differs:", *changed] if changed else ["environment: the same"]
    apart = (
        "Two runs are two machines until one run measures both, interleaved: "
        f"`xdplab run {study} --set 'forwarders=[A, B]'`, such as `ovs-afxdp` and `ovs-afxdp:build=patched`."
    )
    return "\n".join([f"{reference} -> {run}", columns(comparison_rows(rows)), *changes, apart])


def trend_table(trends: Iterable[tuple[str, str, Sequence[Stretch]]]) -> str:
    """One row per stretch of each figure (forwarder, metric, stretches); below, how the environment differs at each."""
    rows = [["forwarder", "metric", "runs", "mean", "change", "from", "to"]]
    notes = []
    for title, metric, stretches in trends:
        for one in stretches:
            rows.append([title, metric, str(one.runs), number(one.mean), one.change, one.first, one.last])
            if one.change != "first":
                changed = "; ".join(_changed(key, *values) for key, values in one.environment.items())
                notes.append(
                    f"{title} {metric} {one.change} from {one.first} on: "
                    f"{f'environment differs: {changed}' if changed else 'the environment is the same'}"
                )
    return "\n".join(["trend: runs grouped by level (jumpavg)", columns(rows), *notes])


def _changed(key: str, before: Any, now: Any) -> str:
    """Of a file that anybody may have written."""
    return plain(f"{key}: {_short(before)} -> {_short(now)}")


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def comparison_rows(
    shared: Iterable[tuple[PointSummary, PointSummary, Mapping[str, Comparison | None]]],
) -> list[list[str]]:
    """The heading, and a row for each figure of each point that two runs share (`compare_runs`)."""
    shared = list(shared)
    where = conditions([after for _, after, _ in shared])
    rows = [["forwarder", "figure", "before", "after", "ratio (interval)", "verdict"]]
    for before, after, metrics in shared:
        for metric, found in metrics.items():
            if found is not None:
                named = figure(metric)
                sides = [figure_text(side, named) for side in (before, after)]
                said = "; ".join([verdict(found), *found.remarks])
                rows.append([f"{after.forwarder}{where[after.point_id]}", named.title, *sides, ratio_text(found), said])
    return rows


# `xdplab compare`.


def compare_named(runs: Sequence[str], results: Path, as_json: bool, page: Path | None) -> None:
    """Compare the first run with each other one and print it; `page`: as HTML, too."""
    if len(runs) < 2:
        raise InputError("compare: give two runs or more")
    reference, *others = found = [Run.named(name, results) for name in runs]
    output: list[dict[str, Any]] = []
    tables: list[tuple[str, list[list[str]]]] = []
    for run in others:
        apart = what_differs(reference.record, run.record)
        rows = compare_runs(reference.points, run.points, run.method.figures, apart)
        differences = environment_difference(reference.record, run.record)
        tables.append((run.name, comparison_rows(rows)))
        output.append(
            {
                "reference": reference.name,
                "run": run.name,
                "points": [
                    {"forwarder": second.forwarder, "point_id": second.point_id}
                    | {metric: found and _with_verdict(found) for metric, found in metrics.items()}
                    for _, second, metrics in rows
                ],
                "environment": {key: list(values) for key, values in differences.items()},
            }
        )
        if not as_json:
            print(comparison_table(reference.name, run.name, rows, differences, run.record.study.name))
    once = sorted({run.name: run for run in found}.values(), key=lambda run: run.record.started)
    trend = trends(once)
    if as_json:
        shown = {"comparisons": output, "trend": [each.model_dump(mode="json") for each in trend]}
        print(json.dumps(shown, indent=1))
    elif trend:
        print(trend_table((each.forwarder, each.metric, each.stretches) for each in trend))
    if page is not None:
        from xdplab.report.html import write_comparison

        write_comparison(page, reference, tables, trend, once)
        print(page, file=sys.stderr if as_json else sys.stdout)


def _with_verdict(found: Comparison) -> dict[str, Any]:
    return {**found.model_dump(mode="json"), "verdict": verdict(found)}
