# SPDX-License-Identifier: Apache-2.0
"""`xdplab compare`: what runs share and their environments; of three runs on, the trend too."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdplab.analysis import summarise
from xdplab.analysis.runs.apart import compare_runs, environment_difference, what_differs
from xdplab.analysis.runs.trend import trends
from xdplab.analysis.words import verdict
from xdplab.cli.tables import comparison_table, trend_table
from xdplab.measure import make_method
from xdplab.measure.comparison import Comparison
from xdplab.model import InputError
from xdplab.results import find_run


def compare_named(runs: Sequence[str], results: Path, as_json: bool) -> None:
    """Compare the first run with each other one and print it."""
    if len(runs) < 2:
        raise InputError("compare: give two runs or more")
    folders = [find_run(name, results) for name in runs]
    found = [(folder.name, record := folder.load(), summarise(record, folder.trials())) for folder in folders]
    (reference, before, baseline), *others = found
    output: list[dict[str, Any]] = []
    for name, record, summaries in others:
        figures = make_method(record.study.method).figures
        rows = compare_runs(baseline, summaries, figures, what_differs(before, record))
        differences = environment_difference(before, record)
        output.append(
            {
                "reference": reference,
                "run": name,
                "points": [
                    {"forwarder": second.forwarder, "point_id": second.point_id}
                    | {metric: found and _with_verdict(found) for metric, found in metrics.items()}
                    for _, second, metrics in rows
                ],
                "environment": {key: list(values) for key, values in differences.items()},
            }
        )
        if not as_json:
            print(comparison_table(reference, name, rows, differences, record.study.name))
    once = {run[0]: run for run in found}.values()
    trend = trends(sorted(once, key=lambda run: run[1].started))
    if as_json:
        shown = {"comparisons": output, "trend": [each.model_dump(mode="json") for each in trend]}
        print(json.dumps(shown, indent=1))
    elif trend:
        print(trend_table((each.forwarder, each.metric, each.stretches) for each in trend))


def _with_verdict(found: Comparison) -> dict[str, Any]:
    return {**found.model_dump(mode="json"), "verdict": verdict(found)}
