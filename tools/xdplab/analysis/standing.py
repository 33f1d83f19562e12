# SPDX-License-Identifier: Apache-2.0
"""Who is ahead among several that do the same, by how much, or why that cannot be said: of micro-benchmarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from xdplab.analysis.answer import Answer
from xdplab.analysis.bimodal import bimodal
from xdplab.analysis.figures import RepetitionFigures
from xdplab.analysis.stats import significant
from xdplab.analysis.summary import PointSummary
from xdplab.methods import Figure

#: From this many on, ranges that do not overlap are a difference: of two that do not differ, four repetitions each give
#: such ranges in 2 of 70 studies, three each in 2 of 20 (two of the C(2n, n) orders).
MIN_REPETITIONS = 4
_CANNOT = "who is ahead cannot be said"


@dataclass(frozen=True)
class Contender:
    """A point in such a comparison; only those at the same place, and there of the same function, are compared."""

    point: PointSummary
    figure: Figure
    name: str
    #: `rxdrop`, or `stages at 128 frames per second`; and of which function.
    where: str
    of: str = ""

    @property
    def _repetitions(self) -> list[RepetitionFigures]:
        """The clean ones, or all where these are too few."""
        found = [one for one in self.point.by_repetition if one.value(self.figure.key)]
        clean = [one for one in found if not one.was_disturbed(self.figure.key)]
        return clean if len(clean) >= MIN_REPETITIONS else found

    @property
    def values(self) -> list[float]:
        """Of the repetitions that stand for it."""
        return [one.value(self.figure.key) or 0.0 for one in self._repetitions]

    @property
    def mostly_disturbed(self) -> bool:
        """Whether the machine disturbed more than half of them."""
        disturbed = sum(one.was_disturbed(self.figure.key) for one in self._repetitions)
        return 2 * disturbed > len(self._repetitions)

    @property
    def took_all(self) -> bool:
        """In most repetitions it took what the tester sent and might have taken more."""
        limited = sum(one.limited_by.get(self.figure.key) == "tester" for one in self._repetitions)
        return 2 * limited > len(self._repetitions)

    @property
    def bimodal(self) -> str:
        """Where the repetitions fall into two groups, in words."""
        split = bimodal(self.values)
        return split.text() if split else ""

    @property
    def amount(self) -> str:
        """Its median."""
        return f"{significant(median(self.values))} {self.unit}"

    @property
    def unit(self) -> str:
        """In sentences."""
        return self.figure.said_unit or self.figure.unit

    def speed(self, value: float) -> float:
        """More is better."""
        return value if self.figure.more else 1 / value


def standings(contenders: Sequence[Contender], points: Mapping[str, PointSummary]) -> Answer:
    """The same for console, report and Robot. `points`: all, also without a figure, by what they are called."""
    measured = [one for one in contenders if one.values]
    groups: dict[str, dict[str, list[Contender]]] = {}
    for one in measured:
        groups.setdefault(one.where, {}).setdefault(one.of, []).append(one)
    fewest = min((len(one.values) for one in measured), default=0)
    told = [] if fewest < MIN_REPETITIONS else [_told(where, of) for where, of in groups.items() if _several(of)]
    if not measured:
        words = ["Nothing was measured."]
    elif fewest < MIN_REPETITIONS:
        times = "1 repetition" if fewest == 1 else f"{fewest} repetitions"
        words = [f"Who is ahead cannot be said: too few: {times} of a case, {MIN_REPETITIONS} are needed."]
    elif all(one.mostly_disturbed for one in measured):
        told = []
        words = [
            "Who is ahead cannot be said: every case was disturbed in most repetitions: repeat on a quieter machine."
        ]
    else:
        words = told or ["Who is ahead cannot be said: no two cases of one workload were measured."]
    failed = [name for name, point in points.items() if point.status in ("failed", "partial")]
    noisy = {one.point.point_id for one in measured if one.mostly_disturbed and told}
    disturbed = [name for name, point in points.items() if point.point_id in noisy]
    words += [f"Failed: {', '.join(failed)}."] if failed else []
    words += [f"Disturbed in most repetitions: {', '.join(disturbed)}."] if disturbed else []
    return Answer(sentence=" ".join(words), said=any(_CANNOT not in each for each in told))


def _several(groups: dict[str, list[Contender]]) -> bool:
    return any(len(cases) > 1 for cases in groups.values())


def _told(where: str, groups: dict[str, list[Contender]]) -> str:
    parts = [(f"of {of} " if of else "") + _standing(cases) for of, cases in groups.items() if len(cases) > 1]
    return f"{where}: {'; '.join(parts)}."


def _standing(cases: Sequence[Contender]) -> str:
    """The case whose every repetition is better than every one of all others, or those that cannot be told apart."""
    clean = [one for one in cases if not one.mostly_disturbed]
    if len(clean) < 2:
        return f"{_CANNOT}: the machine was disturbed"
    leader, *others = sorted(clean, key=lambda one: one.speed(median(one.values)), reverse=True)
    worst = min(leader.speed(value) for value in leader.values)
    if any(one.took_all for one in others):  # they may do better than they did
        told = _list([f"{one.name} ({one.amount})" for one in clean if one.took_all])
        return f"{_CANNOT}: {told} took all that the tester sent, so the tester was the limit"
    tied = [one for one in others if max(one.speed(value) for value in one.values) >= worst]
    if tied:
        return f"{_list([f'{one.name} ({one.amount})' for one in (leader, *tied)])} cannot be told apart"
    second = others[0]
    ratio = leader.speed(median(leader.values)) / second.speed(median(second.values))
    closest = worst / max(second.speed(value) for value in second.values)
    limit, least = (", the tester's limit", "at least ") if leader.took_all else ("", "")
    much = "much" if leader.figure.more else "fast"
    return (
        f"{leader.name} is ahead with {leader.amount}{limit}, {least}{significant(ratio)} times as {much} as "
        f"{second.name}, the next ({significant(closest)} times where their repetitions are closest)"
    )


def _list(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
