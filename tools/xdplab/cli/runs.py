# SPDX-License-Identifier: Apache-2.0
"""`xdplab show`, `compare`, `report` and `merge`: what reads run folders.

What a command needs is imported in its function, as in `cli.main`.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from xdplab.tools import results_folder

Results = Annotated[Path | None, typer.Option("--results", help="folder of run folders (default: results/)")]
#: The same for what only reads runs.
ResultsThere = Annotated[
    Path | None,
    typer.Option("--results", exists=True, file_okay=False, help="folder of run folders (default: results/)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON on stdout")]


def show(
    run: Annotated[str, typer.Argument(help="run folder or its name")] = "latest",
    point: Annotated[str | None, typer.Argument(help="id or title of a point: how its numbers came about")] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="print CSV on stdout")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print the answer and the report's table")] = False,
    results: ResultsThere = None,
) -> None:
    """Print each point of a run; of one point the way from the frames counted to its numbers.

    Example: xdplab show latest ovs-afxdp
    """
    from xdplab.analysis import answer, summarise
    from xdplab.analysis.tables.columns import rows_of
    from xdplab.cli.tables import csv_text, markdown_table, summary_table
    from xdplab.measure import make_method
    from xdplab.model import InputError, plain
    from xdplab.results import find_run

    if (point is not None) + as_json + as_csv + as_markdown > 1:
        raise InputError(
            "show: one of POINT, --json, --csv and --markdown: a point is shown as text, the others have all"
        )
    folder = find_run(run, results or results_folder())
    record, trials = folder.load(), folder.trials()
    summaries, method = summarise(record, trials), make_method(record.study.method)
    if point is not None:
        from xdplab.analysis.trace import find_point, way_of

        point_id = find_point(record, point)
        summary = next(each for each in summaries if each.point_id == point_id)
        print("\n".join(map(plain, way_of(record, summary, trials, answer(record, summaries, trials)))))
        return
    if as_json:
        print(json.dumps(rows_of(method, summaries), indent=1))
        return
    if as_csv:
        print(csv_text(method, summaries), end="")
        return
    if as_markdown:
        found = answer(record, summaries, trials)
        print(f"{found.text()}\n\n{markdown_table(method, [each for each in summaries if each.repetitions], found)}")
        return
    print(summary_table(method, summaries, trials))
    print(answer(record, summaries, trials).text())
    for line in method.findings(record, summaries):
        print(line)


def report(run: Annotated[str, typer.Argument()] = "latest", results: ResultsThere = None) -> None:
    """Draw report.html again from a run folder.

    Example: xdplab report latest
    """
    from xdplab.report import write_report
    from xdplab.results import find_run

    folder = find_run(run, results or results_folder())
    write_report(folder.report, folder.load(), folder.trials())
    print(folder.report)


def compare(
    runs: Annotated[list[str], typer.Argument(help="two or more runs; the first is the reference")],
    as_json: AsJson = False,
    results: ResultsThere = None,
) -> None:
    """Compare what runs share and their environments; of three runs on, print the trend too.

    Example: xdplab compare RUN latest
    """
    from xdplab.cli.merge import compare_named

    compare_named(runs, results or results_folder(), as_json)


def merge(
    runs: Annotated[list[str] | None, typer.Argument(help="run folders (default: all in the results folder)")] = None,
    results: ResultsThere = None,
) -> None:
    """Write one report over several runs, with links to their own: merged.html in the results folder.

    Example: xdplab merge RUN RUN
    """
    from xdplab.cli.merge import merge_runs

    merge_runs(runs or (), results or results_folder())


def site(
    folder: Annotated[Path, typer.Argument(help="where the site is written", metavar="DIR")],
    runs: Annotated[list[str] | None, typer.Argument(help="run folders (default: all in the results folder)")] = None,
    results: ResultsThere = None,
) -> None:
    """Make a static site of runs: search, distributions over one another, trends, environments, each run's report.

    DIR/index.html opens from disk; it needs no network and no server.

    Example: xdplab site site latest
    """
    from xdplab.cli.merge import read_runs
    from xdplab.model import plain
    from xdplab.report.site import write_site

    found, left_out = read_runs("site", runs or (), results or results_folder())
    page, not_drawn = write_site(folder, found, left_out)
    for name, reason in {**left_out, **not_drawn}.items():
        print(plain(f"not in it: {name}: {reason}"))
    print(f"{len(found) - len(not_drawn)} runs: {page}")
