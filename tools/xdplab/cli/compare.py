# SPDX-License-Identifier: Apache-2.0
"""`xdplab compare`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdplab.analysis.run import Run
from xdplab.analysis.runs import compare_runs, environment_difference, trends, what_differs
from xdplab.analysis.words import verdict
from xdplab.cli.tables import comparison_rows, comparison_table, trend_table
from xdplab.measure.comparison import Comparison
from xdplab.model import InputError


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
        from xdplab.report.between import write_comparison

        write_comparison(page, reference, tables, trend, once)
        print(page, file=sys.stderr if as_json else sys.stdout)


def _with_verdict(found: Comparison) -> dict[str, Any]:
    return {**found.model_dump(mode="json"), "verdict": verdict(found)}
