# SPDX-License-Identifier: Apache-2.0
"""The columns of method `latency`, for terminal, report, JSON and CSV: at the light load, and at the study's."""

from collections.abc import Callable

from xdplab.analysis.tables.columns import LOAD_COLUMNS, kpps, lost
from xdplab.measure.column import Column
from xdplab.measure.point import PointSummary
from xdplab.model.digits import ratio

#: Clause of the trial at the study's light load.
LIGHT_LOAD = "light load"


def _light(name: str) -> Callable[[PointSummary], float | None]:
    return lambda point: getattr(point.beside[LIGHT_LOAD], name) if LIGHT_LOAD in point.beside else None


def _lost(point: PointSummary) -> str:
    return lost(point.beside[LIGHT_LOAD]) if LIGHT_LOAD in point.beside else ""


COLUMNS = (
    Column("light_pps", "kpps, light", _light("offered_pps"), kpps),
    Column("light_p50_us", "p50 µs, light", _light("p50_us"), below=_lost, ratio="times as fast", beside=LIGHT_LOAD,
           main=True),
    Column("light_loss_ratio", "loss, light", _light("loss_ratio"), ratio, places=("terminal",)),
    *LOAD_COLUMNS,
)  # fmt: skip
