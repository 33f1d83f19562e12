# SPDX-License-Identifier: Apache-2.0
"""`xdplab compare`, and `report` and `site` of several runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdplab.analysis.run import Run
from xdplab.analysis.runs.apart import compare_runs, environment_difference, what_differs
from xdplab.analysis.runs.trend import trends
from xdplab.analysis.words import verdict
from xdplab.cli.tables import comparison_table, trend_table
from xdplab.measure.comparison import Comparison
from xdplab.model import InputError
from xdplab.results import RunFolder, find_run


def report_on(runs: Sequence[str], folder: Path) -> None:
    """Write the page over those runs, or over all of the folder, and print what each run says."""
    found, left_out = read_runs("report", runs, folder)
    from xdplab.report.site import write_pooled_report

    page = folder / "merged.html"
    write_pooled_report(page, found, left_out)
    for run in found:
        print(f"{run.name} on {run.testbed}: {run.answer.sentence}")
    for name, reason in left_out.items():
        print(f"not in it: {name}: {reason}")
    print(f"report {page}")


def read_runs(command: str, runs: Sequence[str], folder: Path) -> tuple[list[Run], dict[str, str]]:
    """Those runs, or all of the folder, in the order of their time; of the latter why one cannot be read.

    Raises:
        InputError: a run that was named cannot be read, or there is none.
    """
    left_out: dict[str, str] = {}
    if runs:
        found = [_read(find_run(name, folder)) for name in dict.fromkeys(runs)]
    else:
        found = []
        for path in _run_folders(folder):
            try:
                found.append(_read(RunFolder(path)))
            except InputError as exc:
                left_out[path.name] = str(exc)
    if not found:
        raise InputError(f"{command}: no run in {folder}; `xdplab run` makes runs")
    return sorted(found, key=lambda run: run.record.started), left_out


def _run_folders(folder: Path) -> list[Path]:
    """All but the link `latest`."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; choose another with --results")
    return sorted(path for path in folder.iterdir() if not path.is_symlink() and (path / "run.json").is_file())


def _read(folder: RunFolder) -> Run:
    """With its answer, so that what cannot be read is known at once."""
    run = Run.of(folder)
    run.answer  # noqa: B018 - computed here, kept there
    return run


def compare_named(runs: Sequence[str], results: Path, as_json: bool) -> None:
    """Compare the first run with each other one and print it."""
    if len(runs) < 2:
        raise InputError("compare: give two runs or more")
    reference, *others = found = [Run.named(name, results) for name in runs]
    output: list[dict[str, Any]] = []
    for run in others:
        apart = what_differs(reference.record, run.record)
        rows = compare_runs(reference.points, run.points, run.method.figures, apart)
        differences = environment_difference(reference.record, run.record)
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
    once = {run.name: run for run in found}.values()
    trend = trends(sorted(once, key=lambda run: run.record.started))
    if as_json:
        shown = {"comparisons": output, "trend": [each.model_dump(mode="json") for each in trend]}
        print(json.dumps(shown, indent=1))
    elif trend:
        print(trend_table((each.forwarder, each.metric, each.stretches) for each in trend))


def _with_verdict(found: Comparison) -> dict[str, Any]:
    return {**found.model_dump(mode="json"), "verdict": verdict(found)}
