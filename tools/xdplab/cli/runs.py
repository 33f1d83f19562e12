# SPDX-License-Identifier: Apache-2.0
"""`xdplab show`, `compare`, `report` and `export`: what reads run folders.

What a command needs is imported in its function, as in `cli.main`.
"""

import json
import sys
from enum import StrEnum
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
    from xdplab.analysis.run import Run
    from xdplab.cli.tables import csv_text, markdown_table, run_text, wrapped
    from xdplab.model import InputError, plain

    if (point is not None) + as_json + as_csv + as_markdown > 1:
        raise InputError(
            "show: one of POINT, --json, --csv and --markdown: a point is shown as text, the others have all"
        )
    read = Run.named(run, results or results_folder())
    if point is not None:
        from xdplab.analysis.trace import derivation, find_point

        point_id = find_point(read.record, point)
        summary = next(each for each in read.points if each.point_id == point_id)
        print(wrapped(map(plain, derivation(read.record, summary, read.by_point.get(point_id, ()), read.answer))))
    elif as_json:
        print(json.dumps(read.rows(), indent=1))
    elif as_csv:
        print(csv_text(read.method, read.points), end="")
    elif as_markdown:
        measured = [each for each in read.points if each.repetitions]
        print(f"{read.answer.text()}\n\n{markdown_table(read.method, measured, read.answer)}")
    else:
        print(run_text(read, read.trials))


def report(
    run: Annotated[str, typer.Argument(help="run folder or its name")] = "latest",
    sheet: Annotated[bool, typer.Option("--sheet", help="make a sheet to sign, sheet.pdf, instead")] = False,
    operator: Annotated[str, typer.Option("--operator", help="who is responsible for the test, on the sheet")] = "",
    results: ResultsThere = None,
) -> None:
    """Draw the report of a run again, or make a sheet to sign of it.

    Example: xdplab report latest --sheet --operator "A. Smith"
    """
    from xdplab.analysis.run import Run
    from xdplab.model import InputError
    from xdplab.report import write_report

    if operator and not sheet:
        raise InputError("report: --operator is of the sheet; give --sheet")
    read = Run.named(run, results or results_folder())
    if sheet:
        from xdplab.report.sheet import write_sheet

        print(write_sheet(read, operator))
        return
    write_report(read)
    print(read.report)


def compare(
    runs: Annotated[list[str], typer.Argument(help="two or more runs; the first is the reference")],
    as_json: AsJson = False,
    page: Annotated[Path | None, typer.Option("-o", "--output", help="write it as an HTML page, too")] = None,
    results: ResultsThere = None,
) -> None:
    """Compare what runs share and their environments; of three runs on, print the trend too.

    Example: xdplab compare RUN latest
    """
    from xdplab.cli.tables import compare_named

    compare_named(runs, results or results_folder(), as_json, page)


class Form(StrEnum):
    """As `xdplab.report.exports` has them."""

    CSV = "csv"
    JUNIT = "junit"


def export(
    run: Annotated[str, typer.Argument(help="run folder or its name")] = "latest",
    form: Annotated[Form, typer.Option("--format", help="output format")] = Form.CSV,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="file (default: stdout)")] = None,
    results: ResultsThere = None,
) -> None:
    """Write a run for other programs: csv or junit (CI).

    A row for each point and figure; docs/data-format.md has the columns.

    Example: xdplab export latest --format junit -o junit.xml
    """
    from xdplab.analysis.run import Run
    from xdplab.report.exports import FORMS

    read = Run.named(run, results or results_folder())
    data = FORMS[form](read.record, read.points)
    if out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        out.write_bytes(data)
        print(out)
