# SPDX-License-Identifier: Apache-2.0
"""`xdplab show`, `compare` and `report`: what reads run folders."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from xdplab import app
from xdplab.analysis import Comparison, answer, compare_runs, environment_difference, summarise, trends
from xdplab.analysis.columns import rows_of
from xdplab.analysis.compare import what_differs
from xdplab.analysis.trace import find_point, way_of
from xdplab.cli.tables import comparison_table, csv_text, summary_table, trend_table
from xdplab.methods import make_method
from xdplab.model import InputError, plain
from xdplab.report import write_report
from xdplab.results import find_run

Results = Annotated[Path | None, typer.Option("--results", help="folder of run folders (default: results/)")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON on stdout")]


def show(
    run: Annotated[str, typer.Argument(help="run folder or its name")] = "latest",
    point: Annotated[str | None, typer.Argument(help="id or title of a point: how its numbers came about")] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="print CSV on stdout")] = False,
    results: Results = None,
) -> None:
    """Print each point of a run; of one point the way from the frames counted to its numbers."""
    folder = find_run(run, results or app.results_folder())
    record, trials = folder.load(), folder.trials()
    summaries, method = summarise(record, trials), make_method(record.study.method)
    if point is not None:
        point_id = find_point(record, point)
        summary = next(each for each in summaries if each.point_id == point_id)
        print("\n".join(map(plain, way_of(record, summary, trials, answer(record, summaries, trials)))))
        return
    if as_json:
        _print_json(rows_of(method, summaries))
        return
    if as_csv:
        print(csv_text(method, summaries), end="")
        return
    print(summary_table(method, summaries, trials))
    print(answer(record, summaries, trials).sentence)
    for line in method.findings(record, summaries):
        print(line)


def report(run: Annotated[str, typer.Argument()] = "latest", results: Results = None) -> None:
    """Draw report.html again from a run folder."""
    folder = find_run(run, results or app.results_folder())
    write_report(folder.report, folder.load(), folder.trials())
    print(folder.report)


def compare(
    runs: Annotated[list[str], typer.Argument(help="two or more runs; the first is the reference")],
    as_json: AsJson = False,
    results: Results = None,
) -> None:
    """Compare what runs share and their environments; of three runs on, print the trend too."""
    if len(runs) < 2:
        raise InputError("compare: give two runs or more")
    folders = [find_run(name, results or app.results_folder()) for name in runs]
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
            print(comparison_table(reference, name, rows, differences))
    trend = trends(sorted(found, key=lambda run: run[1].started))
    if as_json:
        _print_json({"comparisons": output, "trend": [each.model_dump(mode="json") for each in trend]})
    elif trend:
        print(trend_table((each.forwarder, each.metric, each.levels) for each in trend))


def _with_verdict(found: Comparison) -> dict[str, Any]:
    return {**found.model_dump(mode="json"), "verdict": found.verdict()}


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))
