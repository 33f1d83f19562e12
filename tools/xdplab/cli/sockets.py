# SPDX-License-Identifier: Apache-2.0
"""`xdplab sockets`: experiments on one socket, as text."""

from collections.abc import Sequence

from xdplab.analysis.sockets import STAGES, SocketRow
from xdplab.cli.tables import columns, number


def socket_table(rows: Sequence[SocketRow]) -> str:
    """Rates, then stages, then what was not measured and why."""
    parts = []
    rates = [row for row in rows if row.mpps is not None and row.mpps_range is not None]
    if rates:
        table = [["workload", "case", "mode", "Mpps", "from", "to", "reps"]]
        for row in rates:
            low, high = row.mpps_range or (None, None)
            reps = str(row.repetitions) + (f"+{row.disturbed}d" if row.disturbed else "")
            table.append([row.workload, row.case, row.mode, number(row.mpps), number(low), number(high), reps])
        parts.append(columns(table))
    staged = [row for row in rows if row.stages]
    if staged:
        table = [["case", "pps", "stage", "min us", "max us", "peak to peak", "mean us", "rms us", "frames"]]
        for row in staged:
            for name in STAGES:
                stage = row.stages[name]
                figures = (stage.min_us, stage.max_us, stage.peak_to_peak_us, stage.mean_us, stage.rms_us)
                table.append([row.case, number(row.rate_pps), name, *map(number, figures), str(stage.count)])
        parts.append(columns(table))
    parts += [f"{row.workload}: {row.case}: {row.status}: {row.reason}" for row in rows if row.reason]
    return "\n".join(parts)
