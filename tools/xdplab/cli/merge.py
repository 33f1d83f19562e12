# SPDX-License-Identifier: Apache-2.0
"""`xdplab compare` and `merge`: several runs, their environments and trends, and one report over all of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdplab.analysis import answer, summarise
from xdplab.analysis.runs.apart import compare_runs, environment_difference, what_differs
from xdplab.analysis.runs.pooled import PooledRun
from xdplab.analysis.runs.trend import trends
from xdplab.analysis.words import verdict
from xdplab.cli.tables import comparison_table, trend_table
from xdplab.measure import make_method
from xdplab.measure.comparison import Comparison
from xdplab.model import InputError
from xdplab.results import RunFolder, find_run


def merge_runs(runs: Sequence[str], folder: Path) -> None:
    """Write the report over those runs, or over all of the folder, and print what each run says."""
    found, left_out = read_runs("merge", runs, folder)
    from xdplab.report.site import write_pooled_report

    page = folder / "merged.html"
    write_pooled_report(page, found, left_out)
    for run in found:
        print(f"{run.folder.name} on {run.testbed}: {run.sentence}")
    for name, reason in left_out.items():
        print(f"not merged: {name}: {reason}")
    print(f"report {page}")


def read_runs(command: str, runs: Sequence[str], folder: Path) -> tuple[list[PooledRun], dict[str, str]]:
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


def _read(folder: RunFolder) -> PooledRun:
    record, trials = folder.load(), folder.trials()
    summaries = summarise(record, trials)
    return PooledRun(folder.path, record, tuple(summaries), answer(record, summaries, trials).sentence)


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
