# SPDX-License-Identifier: Apache-2.0
"""`xdplab merge`: one report over several run folders, such as those of a pool of testbeds."""

from collections.abc import Sequence
from pathlib import Path

from xdplab.analysis import answer, summarise
from xdplab.analysis.runs.pooled import PooledRun
from xdplab.model import InputError
from xdplab.results import RunFolder, find_run


def merge_runs(runs: Sequence[str], folder: Path) -> None:
    """Write the report over those runs, or over all of the folder, and print what each run says."""
    found, left_out = read_runs("merge", runs, folder)
    from xdplab.report.pooled import write_pooled_report

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
