# SPDX-License-Identifier: Apache-2.0
"""`xdplab site`: a static site of several runs.

What the command needs is imported in its function, as in `cli.main`.
"""

from pathlib import Path
from typing import Annotated

import typer

from xdplab.cli.runs import ResultsThere
from xdplab.tools import results_folder


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
