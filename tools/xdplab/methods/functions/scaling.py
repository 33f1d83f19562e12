# SPDX-License-Identifier: Apache-2.0
"""How the rate of a network function grows with cores: the same function, mode, ring and cache ways, by cores."""

import itertools
from collections.abc import Sequence
from statistics import median

from xdplab.analysis.standing import Contender
from xdplab.analysis.stats import MIN_REPETITIONS
from xdplab.model import Model
from xdplab.model.functions import NfPoint, NfTraffic

#: A core more that brings less than this part of what the first one does is where scaling ends.
_WORTH = 0.5


class CoresFigure(Model):
    """One number of cores: median Mpps and how many times the one of one core, or why there is none."""

    cores: int
    mpps: float | None
    times: float | None
    #: Mpps of each repetition that stands for it.
    values: tuple[float, ...]
    #: Why it decides nothing: disturbed, failed, or the tester was the limit; empty: it does.
    doubt: str
    reason: str


class Scaling(Model):
    """One function in one mode at one setting, fewest cores first."""

    traffic: NfTraffic
    title: str
    figures: tuple[CoresFigure, ...]

    @property
    def sentence(self) -> str:
        """Up to how many cores it scales, by what was measured."""
        known = [figure for figure in self.figures if figure.times is not None]
        if len(known) < 2:
            return "one number of cores was measured" if known else "not measured"
        fewest = min(len(figure.values) for figure in known)
        if fewest < MIN_REPETITIONS:
            return f"too few: {fewest} {'repetition' if fewest == 1 else 'repetitions'}, {MIN_REPETITIONS} are needed"
        for fewer, more in itertools.pairwise(known):
            least, most = _gain(fewer, more, known[0])
            past = f"past {fewer.cores} core{'s' * (fewer.cores != 1)}"
            doubt = next((each.doubt for each in (known[0], fewer, more) if each.doubt), "")
            if doubt:
                return f"whether it scales {past} cannot be told: {doubt}"
            if most < _WORTH:
                return f"does not scale {past}"
            if least < _WORTH:
                return f"whether it scales {past} cannot be told: the repetitions differ too much"
        return f"scales up to {known[-1].cores} cores: {known[-1].times:.2f} times one core"


def _gain(fewer: CoresFigure, more: CoresFigure, one: CoresFigure) -> tuple[float, float]:
    """What a core more brings, as a part of one core's rate: between any repetitions the least and the most."""
    cores = (more.cores - fewer.cores) * median(one.values)
    return (min(more.values) - max(fewer.values)) / cores, (max(more.values) - min(fewer.values)) / cores


def scalings(rows: Sequence[tuple[NfTraffic, NfPoint, Contender]]) -> list[Scaling]:
    """Those of all functions whose cores vary, in the order of the rows; [] when none does."""
    groups: dict[tuple[NfTraffic, str], dict[int, Contender]] = {}
    for traffic, function, row in rows:
        if function.channels:
            groups.setdefault((traffic, _title(function)), {})[function.cores] = row
    return [
        Scaling(traffic=traffic, title=title, figures=tuple(_figures(by_cores)))
        for (traffic, title), by_cores in groups.items()
    ]


def _title(point: NfPoint) -> str:
    return point.title.replace(f", {point.cores} cores", "")


def _figures(by_cores: dict[int, Contender]) -> list[CoresFigure]:
    one = _mpps(by_cores[1]) if 1 in by_cores else None
    found = []
    for cores, row in sorted(by_cores.items()):
        mpps = _mpps(row)
        times = mpps / one if mpps is not None and one else None
        values = tuple(row.values)
        doubt = row.hindrance or ("the tester was the limit" if row.took_all else "")
        found.append(
            CoresFigure(cores=cores, mpps=mpps, times=times, values=values, doubt=doubt, reason=row.point.reason)
        )
    return found


def _mpps(row: Contender) -> float | None:
    return median(row.values) if row.values else None
