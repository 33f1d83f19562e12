# SPDX-License-Identifier: Apache-2.0
"""How the rate of a network function grows with cores: the same function, mode, ring and cache ways, by cores."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from xdplab.analysis.answers.ranking import Contender
from xdplab.methods.shared.curve import Curve, Rung
from xdplab.model.digits import number_of
from xdplab.model.functions import NfPoint, NfTraffic

#: A core more that brings less than this part of what the first one does is where scaling ends.
_WORTH = 0.5


@dataclass(frozen=True)
class Scaling(Curve):
    """One function in one mode at one setting, fewest cores first."""

    traffic: NfTraffic
    title: str

    @property
    def sentence(self) -> str:
        """Up to how many cores it scales, by what was measured."""
        known = [(place, rung) for place, rung in enumerate(self.rungs) if rung.values]
        if len({rung.number for _, rung in known}) < 2:
            return "one number of cores was measured" if known else "not measured"
        family = self.compared()
        for (_, fewer), (place, more) in itertools.pairwise(known):
            if fewer.number == more.number:
                continue
            past = f"past {number_of(fewer.number, 'core')}"
            found = family.get(-place)
            doubt = fewer.doubt or more.doubt or (f"one core: {self.without}" if self.without else "")
            doubt = doubt or next(iter(found.blockers if found else ()), "")
            if doubt or found is None or found.interval is None or found.interval.low is None:
                return f"whether it scales {past} is undecided: {doubt or 'too few repetitions'}"
            needed = self._needed(fewer, more)
            if found.interval.high is not None and found.interval.high < needed:
                return f"does not scale {past}"
            if found.interval.low < needed:
                return f"whether it scales {past} is undecided: too little to tell, ask for more repetitions"
        place, most = known[-1]
        over_one = family.get(place)
        how = (
            ""
            if over_one is None or over_one.interval is None
            else f"{100 * over_one.interval.confidence:.0f} % interval"
        )
        times = self.times(most)
        return f"scales up to {most.number} cores" + (f": {times} times one core ({how})" if times else "")

    def _needed(self, fewer: Rung, more: Rung) -> float:
        """Ratio of two rates from which on each core more brings `_WORTH` of what the first one does."""
        assert self.one is not None
        cores = more.number - fewer.number
        return 1 + _WORTH * cores * median(self.one.values) / median(fewer.values)


def scalings(rows: Sequence[tuple[NfTraffic, NfPoint, Contender]]) -> list[Scaling]:
    """Those of all functions whose cores vary, in the order of the rows; [] when none does."""
    groups: dict[tuple[NfTraffic, str, tuple[str, ...]], list[Rung]] = {}
    for traffic, function, row in rows:
        if function.channels:
            title = function.title.replace(f", {function.cores} cores", "")
            groups.setdefault((traffic, title, _others(function, row)), []).append(Rung(function.cores, row))
    alike = set.intersection(*(set(others) for _, _, others in groups)) if groups else set()
    return [
        Scaling(
            rungs=sorted(rungs, key=lambda rung: rung.number),
            traffic=traffic,
            title=", ".join([title, *(each for each in others if each not in alike)]),
        )
        for (traffic, title, others), rungs in groups.items()
    ]


def _others(function: NfPoint, row: Contender) -> tuple[str, ...]:
    """What else it is of, but for settings that go with the function."""
    settings = [each for each in row.point.settings if each.partition("=")[0] not in {"traffic", *function.knobs}]
    by = [f"by {row.point.tester}"] if row.point.tester else []
    return (f"{row.point.frame_bytes} bytes", *by, *settings)
