# SPDX-License-Identifier: Apache-2.0
"""`xdplab sockets`: experiments on one socket, as text."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from xdplab import app
from xdplab.analysis import CONFIDENCE
from xdplab.analysis.overhead import socket_overhead
from xdplab.analysis.ranks import RankAgreement, rank_agreements
from xdplab.analysis.socket_answer import socket_answer
from xdplab.analysis.socket_compare import CellComparison
from xdplab.analysis.sockets import STAGES, SocketRow, socket_rows
from xdplab.analysis.stats import significant
from xdplab.cli.changes import changes_of
from xdplab.cli.tables import columns, dead_time, reason_lines
from xdplab.model import plain
from xdplab.model.sockets import SocketStudy, SocketTrial


def socket_table(rows: Sequence[SocketRow]) -> str:
    """Rates, then stages, then what was not measured and why."""
    parts = []
    rates = [row for row in rows if row.mpps is not None and row.mpps_range is not None]
    if rates:
        table = [["workload", "case", "mode", "Mpps", "from", "to", "reps"]]
        for row in rates:
            low, high = row.mpps_range or (None, None)
            reps = _repetitions(row)
            table.append([row.workload, row.case, row.mode, _number(row.mpps), _number(low), _number(high), reps])
        parts.append(columns(table))
    served = [row for row in rows if row.figure is not None]
    if served:
        table = [["workload", "case", "mode", "figure", "from", "to", "unit", "reps"]]
        for row in served:
            figures = (row.figure, *(row.figure_range or ()))
            table.append([row.workload, row.case, row.mode, *map(_number, figures), row.unit, _repetitions(row)])
        parts.append(columns(table))
    staged = [row for row in rows if row.stages]
    if staged:
        table = [["case", "pps", "stage", "min us", "max us", "peak to peak", "mean us", "rms us", "frames"]]
        for row in staged:
            for name in STAGES:
                stage = row.stages[name]
                figures = (stage.min_us, stage.max_us, stage.peak_to_peak_us, stage.mean_us, stage.rms_us)
                table.append([row.case, _number(row.rate_pps), name, *map(_number, figures), str(stage.count)])
        parts.append(columns(table))
    parts += [
        f"{row.workload}: {row.case}: two levels, Mpps: {row.two_levels_mpps}" for row in rows if row.two_levels_mpps
    ]
    told = ((f"{row.workload}: {row.case}", f"{row.status}: {row.reason}") for row in rows if row.reason)
    parts += reason_lines(told, "cells")
    return "\n".join(parts)


def rank_table(ranks: Sequence[RankAgreement]) -> str:
    """Network functions: our order of the modes, and how it agrees with the published one."""
    table = [["traffic", "function", "order of our medians", "published order", "tau"]]
    for rank in ranks:
        orders = (" > ".join(order) or "-" for order in (rank.order, rank.published_order))
        table.append([rank.workload, rank.group, *orders, "-" if rank.tau is None else f"{rank.tau:+.2f}"])
    return columns(table)


def socket_text(study: SocketStudy, trials: Sequence[SocketTrial]) -> str:
    """All that is printed of a run: its cells, who is ahead, the order of the modes, the dead time."""
    rows = socket_rows(study, trials)
    ranks = rank_agreements(study, rows)
    parts = [socket_table(rows), socket_answer(rows).sentence] if rows else ["no cell was visited"]
    parts += [f"{case}: {note}" for case, note in study.notes.items()]
    parts += [rank_table(ranks)] if ranks else []
    dead = socket_overhead(study, trials).items()
    parts += [dead_time(f"a cell, program {program}", "the cells'", found) for program, found in dead]
    return "\n".join(parts)


def comparison_text(reference: str, run: str, cells: Sequence[CellComparison], missing: Mapping[str, str]) -> str:
    """Figures of two runs: their ratio with its interval, what it means, and what has none."""
    table = [["cell", "figure", "before", "after", f"after / before ({CONFIDENCE:.0%} interval)", "verdict"]]
    for cell in cells:
        figures = (_number(cell.before), _number(cell.after))
        table.append([cell.title, cell.unit, *figures, cell.interval.text(), cell.verdict()])
    reasons = [f"not compared: {title}: {reason}" for title, reason in missing.items()]
    return "\n".join([f"{reference} -> {run}", *([columns(table)] if cells else ["no cell in common"]), *reasons])


def run_sockets(study: Path, changes: Sequence[str], results: Path) -> int:
    """Execute a socket study and print what it found; returns the exit code."""
    spec = app.read_socket_study(study, changes_of(changes))
    folder, record = app.run_sockets(spec, _note, results)
    trials = folder.load()[1]
    print(socket_text(spec, trials))
    print(f"run {folder.path}")
    print(f"report {folder.report}")
    if record.interrupted:
        return 130
    return int(any(row.status in ("failed", "partial") for row in socket_rows(spec, trials)))


def _repetitions(row: SocketRow) -> str:
    clean = row.repetitions - row.disturbed
    return f"{clean} clean of {row.repetitions}" if row.disturbed else str(row.repetitions)


def _number(value: float | None) -> str:
    return "-" if value is None else significant(value)


def _note(text: str) -> None:
    print(plain(text), file=sys.stderr)
