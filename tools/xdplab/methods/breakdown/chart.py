# SPDX-License-Identifier: Apache-2.0
"""The breakdown as stacked bars: what a median frame (or one at p99) spends where."""

from collections.abc import Mapping, Sequence

from xdplab.measure.point import PointSummary
from xdplab.methods.breakdown.figures import BreakdownFigures
from xdplab.methods.shared.batches import STAGES
from xdplab.report.chart import Axis, Chart, InRow, row_chart

_NOTE = (
    "Stages of a median batch, measured with the probes attached; below them an estimate without what the probes cost. "
    "Dots: p50 of the tester without and with the probes; the tester's clock starts before the redirect, and its "
    "receiver sees the frame before the kick is over."
)


def breakdown_chart(summaries: Sequence[PointSummary], percentile: str) -> Chart:
    """One row per forwarder and rate; dots: the tester's latency without the probes and with them."""
    rows: list[str] = []
    places: dict[str, list[InRow]] = {}
    for name, found in ((each.forwarder, one) for each in summaries for one in BreakdownFigures.of(each).breakdown):
        rows.append(f"{name}, {found.rate_pps / 1e3:g} kpps")
        _stack(places, len(rows) - 1, found.typical_us[percentile])
        for how in ("without", "with"):
            seen = getattr(found, f"{how}_us").get(f"{percentile}_us")
            if seen is not None:
                places.setdefault(f"tester, {how} probes", []).append(InRow(len(rows) - 1, seen))
        if percentile == "p50" and found.typical_less_us:
            rows.append("less the probes (estimate)")
            _stack(places, len(rows) - 1, found.typical_less_us)
    note = _NOTE if percentile == "p50" else "The same for batches at p99 of the whole way."
    title = f"where the time of a frame goes, {percentile}"
    return row_chart(title, rows, Axis(f"time at {percentile}", "µs"), places, note, bars=STAGES)


def _stack(places: dict[str, list[InRow]], row: int, stages: Mapping[str, float]) -> None:
    """Each stage begins where the one before it ends; what is read of it is its own time."""
    left = 0.0
    for stage, value in stages.items():
        places.setdefault(stage, []).append(InRow(row, value, left, left + value))
        left += value
