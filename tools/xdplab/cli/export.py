# SPDX-License-Identifier: Apache-2.0
"""`xdplab export`: a run for other programs.

What the command needs is imported in its function, as in `cli.main`.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from xdplab.cli.runs import ResultsThere
from xdplab.tools import results_folder


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
