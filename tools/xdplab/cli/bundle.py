# SPDX-License-Identifier: Apache-2.0
"""`xdplab bundle` and `xdplab import`: a run from one installation to another.

What a command needs is imported in its function, as in `cli.main`.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xdplab.cli.runs import Results, ResultsThere
from xdplab.tools import results_folder

if TYPE_CHECKING:
    from xdplab.results import RunFolder


def bundle(
    run: Annotated[str, typer.Argument(help="run folder or its name")],
    out: Annotated[Path, typer.Option("-o", "--output", help="file.tar.gz or file.zip")],
    redact: Annotated[
        bool, typer.Option("--redact", help="replace names of hosts and users, MAC and IP addresses, serial numbers")
    ] = False,
    results: ResultsThere = None,
) -> None:
    """Pack a run into one archive with checksums, which `xdplab import` takes.

    With --redact the same name has the same pseudonym everywhere; what was replaced is printed, and the report is
    drawn again. Titles, labels and notes of your own are left as they are: look before you publish.

    Example: xdplab bundle latest -o run.tar.gz --redact
    """
    from xdplab import __version__
    from xdplab.analysis.run import Run
    from xdplab.model import plain
    from xdplab.report import write_report
    from xdplab.results import find_run
    from xdplab.results.bundle import write_bundle

    folder = find_run(run, results or results_folder())
    read = Run.of(folder)
    if redact:
        _write_redacted(out, folder)
    else:
        if not folder.report.is_file():
            write_report(read)
        write_bundle(out, folder.path, read.record.run_id, __version__)
    print(plain(f"bundle {out}"))


def _write_redacted(out: Path, folder: "RunFolder") -> None:
    from xdplab import __version__
    from xdplab.analysis.run import Run
    from xdplab.model import plain
    from xdplab.report import write_report
    from xdplab.results import RunFolder
    from xdplab.results.bundle import Pseudonym, write_bundle
    from xdplab.results.redact import Redactor

    journal = folder.trials()

    def lines() -> Iterator[dict[str, Any]]:
        return (json.loads(trial.model_dump_json()) for trial in journal)

    head = json.loads(folder.load().model_dump_json(by_alias=True))
    redactor = Redactor(head, lines)
    with tempfile.TemporaryDirectory(prefix="xdplab-bundle-") as place:
        made = RunFolder(Path(place))
        record = redactor.record(head)
        made.head(record)
        with (made.path / "trials.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(redactor.trial(line).model_dump_json() + "\n" for line in lines())
        write_report(Run.of(made))
        listed = redactor.replaced
        pseudonyms = tuple(Pseudonym(kind=each.kind, now=each.now, times=each.times) for each in listed)
        write_bundle(out, made.path, record.run_id, __version__, pseudonyms)
    for each in listed:
        print(plain(f"{each.kind} {each.was} -> {each.now}, {each.times} times"))
    print("this list is not in the bundle" if listed else "nothing was found that had to be replaced")


def import_(file: Annotated[Path, typer.Argument(help="what `xdplab bundle` wrote")], results: Results = None) -> None:
    """Put a run that was bundled elsewhere among the results, once its checksums are verified.

    Its report is drawn here, from the record: no page of another machine is kept.

    Example: xdplab import run.tar.gz
    """
    from xdplab.results.bundle import import_bundle

    folder = import_bundle(file, results or results_folder(), _check)
    print(f"run {folder.path}")


def _check(folder: "RunFolder") -> None:
    """A record that cannot be read or drawn is refused before it is among the results."""
    from xdplab.analysis.run import Run
    from xdplab.report import write_report

    write_report(Run.of(folder))
