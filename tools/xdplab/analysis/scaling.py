# SPDX-License-Identifier: Apache-2.0
"""How the rate of a network function grows with cores: the same function, mode, ring and cache ways, by cores."""

import itertools
from collections.abc import Sequence

from xdplab.analysis.sockets import SocketRow
from xdplab.model import Model
from xdplab.model.functions import NfPoint
from xdplab.model.sockets import Workload

#: A core more that brings less than this part of what the first one does is where scaling ends.
_WORTH = 0.5


class CoresFigure(Model):
    """One number of cores: median Mpps and how many times the one of one core, or why there is none."""

    cores: int
    mpps: float | None
    times: float | None
    reason: str


class Scaling(Model):
    """One function in one mode at one setting, fewest cores first."""

    workload: Workload
    title: str
    figures: tuple[CoresFigure, ...]

    @property
    def sentence(self) -> str:
        """Up to how many cores it scales, by what was measured."""
        known = [(figure.cores, figure.times) for figure in self.figures if figure.times is not None]
        if len(known) < 2:
            return "one number of cores was measured" if known else "not measured"
        for (fewer, before), (more, after) in itertools.pairwise(known):
            if (after - before) / (more - fewer) < _WORTH:
                return f"stops scaling at {fewer} cores"
        cores, times = known[-1]
        return f"scales up to {cores} cores: {times:.2f} times one core"


def scalings(rows: Sequence[SocketRow]) -> list[Scaling]:
    """Those of all functions whose cores vary, in the order of the rows; [] when none does."""
    groups: dict[tuple[Workload, str], dict[int, SocketRow]] = {}
    for row in rows:
        if row.function is not None and row.function.channels:
            groups.setdefault((row.workload, _title(row.function)), {})[row.function.cores] = row
    return [
        Scaling(workload=workload, title=title, figures=tuple(_figures(by_cores)))
        for (workload, title), by_cores in groups.items()
    ]


def _title(point: NfPoint) -> str:
    return point.title.replace(f", {point.cores} cores", "")


def _figures(by_cores: dict[int, SocketRow]) -> list[CoresFigure]:
    one = by_cores[1].mpps if 1 in by_cores else None
    found = []
    for cores, row in sorted(by_cores.items()):
        times = row.mpps / one if row.mpps is not None and one else None
        found.append(CoresFigure(cores=cores, mpps=row.mpps, times=times, reason=row.reason))
    return found
