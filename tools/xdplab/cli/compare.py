# SPDX-License-Identifier: Apache-2.0
"""`xdplab compare`: what runs share and their environments; of three runs on, the trend too."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdplab.analysis import Comparison, compare_runs, environment_difference, summarise, trends
from xdplab.analysis.compare import what_differs
from xdplab.analysis.socket_compare import SocketRunData, cell_trends, compare_cells, difference, left_out
from xdplab.cli.sockets import comparison_text
from xdplab.cli.tables import comparison_table, environment_lines, trend_table
from xdplab.model import InputError, plain
from xdplab.results import RunFolder, SocketFolder, open_run


def compare_named(runs: Sequence[str], results: Path, as_json: bool) -> None:
    """Compare the first run with each other one and print it."""
    if len(runs) < 2:
        raise InputError("compare: give two runs or more")
    found = [open_run(name, results) for name in runs]
    of_sockets = [folder for folder in found if isinstance(folder, SocketFolder)]
    of_forwarders = [folder for folder in found if isinstance(folder, RunFolder)]
    if of_sockets and of_forwarders:
        raise InputError(
            f"compare: {of_sockets[0].path.name} is the run of a socket study, {of_forwarders[0].name} one of "
            "forwarders: nothing in them can be compared; give runs of one kind"
        )
    if of_sockets:
        _compare_sockets([SocketRunData(plain(f.path.name), *f.load()) for f in of_sockets], as_json)
    else:
        _compare_forwarders(of_forwarders, as_json)


def _compare_forwarders(folders: Sequence[RunFolder], as_json: bool) -> None:
    found = [(folder.name, record := folder.load(), summarise(record, folder.trials())) for folder in folders]
    (reference, before, baseline), *others = found
    output: list[dict[str, Any]] = []
    for name, record, summaries in others:
        rows = compare_runs(baseline, summaries, what_differs(before, record))
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


def _compare_sockets(runs: Sequence[SocketRunData], as_json: bool) -> None:
    first, *others = runs
    output: list[dict[str, Any]] = []
    for run in others:
        cells = compare_cells(first, run)
        missing = left_out(first, run, cells)
        differences = difference(first.record, run.record)
        output.append(
            {
                "reference": first.name,
                "run": run.name,
                "cells": [cell.model_dump(mode="json") | {"verdict": cell.verdict()} for cell in cells],
                "not_compared": missing,
                "environment": {key: list(values) for key, values in differences.items()},
            }
        )
        if not as_json:
            print(comparison_text(first.name, run.name, cells, missing))
            print("\n".join(environment_lines(differences)))
    trend = cell_trends(sorted(runs, key=lambda run: run.record.started))
    if as_json:
        _print_json({"comparisons": output, "trend": [each.model_dump(mode="json") for each in trend]})
    elif trend:
        print(trend_table(((each.title, each.metric, each.levels) for each in trend), "cell"))


def _with_verdict(found: Comparison) -> dict[str, Any]:
    return {**found.model_dump(mode="json"), "verdict": found.verdict()}


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))
