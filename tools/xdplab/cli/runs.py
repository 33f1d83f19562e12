# SPDX-License-Identifier: Apache-2.0
"""`xdplab show`, `compare`, `report` and `merge`: what reads run folders, of any study.

What a command needs is imported in its function, as in `cli.main`.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from xdplab.tools import results_folder

Results = Annotated[Path | None, typer.Option("--results", help="folder of run folders (default: results/)")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON on stdout")]


def show(
    run: Annotated[str, typer.Argument(help="run folder or its name")] = "latest",
    as_json: AsJson = False,
    results: Results = None,
) -> None:
    """Print each point of a run, or each cell of a run of `xdplab sockets`."""
    from xdplab.results import SocketFolder, open_run

    folder = open_run(run, results or results_folder())
    if isinstance(folder, SocketFolder):
        from xdplab.analysis.sockets import socket_rows
        from xdplab.cli.sockets import socket_text

        head, cells = folder.load()
        if as_json:
            print(json.dumps([row.model_dump(mode="json") for row in socket_rows(head.study, cells)], indent=1))
        else:
            print(socket_text(head.study, cells))
        return
    from xdplab.analysis import answer, summarise

    record, trials = folder.load(), folder.trials()
    summaries = summarise(record, trials)
    if as_json:
        print(json.dumps([summary.model_dump(mode="json") for summary in summaries], indent=1))
        return
    from xdplab.cli.tables import summary_table

    print(summary_table(summaries, trials))
    print(answer(record, summaries, trials).sentence)


def report(run: Annotated[str, typer.Argument()] = "latest", results: Results = None) -> None:
    """Draw report.html again from a run folder."""
    from xdplab.results import SocketFolder, open_run

    folder = open_run(run, results or results_folder())
    if isinstance(folder, SocketFolder):
        from xdplab.report.sockets import write_socket_report

        write_socket_report(folder.report, *folder.load())
    else:
        from xdplab.report import write_report

        write_report(folder.report, folder.load(), folder.trials())
    print(folder.report)


def compare(
    runs: Annotated[list[str], typer.Argument(help="two or more runs of one kind; the first is the reference")],
    as_json: AsJson = False,
    results: Results = None,
) -> None:
    """Compare what runs share and their environments; of three runs on, print the trend too."""
    from xdplab.cli.compare import compare_named

    compare_named(runs, results or results_folder(), as_json)


def merge(
    runs: Annotated[list[str] | None, typer.Argument(help="run folders (default: all in the results folder)")] = None,
    results: Results = None,
) -> None:
    """Write one report over several runs, with links to their own: merged.html in the results folder."""
    from xdplab.cli.merge import merge_runs

    merge_runs(runs or (), results or results_folder())
