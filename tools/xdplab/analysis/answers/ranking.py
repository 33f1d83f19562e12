# SPDX-License-Identifier: Apache-2.0
"""Who is ahead among several that do the same, by how much, or why that is undecided.

For methods that rank (micro-benchmarks, functions, stages, applications), and for the advice of a report.

Each place (`rxdrop`) is decided by the comparisons of `compare` between a leader and all others; those of all places
are one family. The leader is the one with the best median, if its rounds with the others do not say the opposite.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from xdplab.analysis.compare import blocker_of, compare_points, corrected
from xdplab.analysis.doubts import searched
from xdplab.analysis.words import NEVER_PAIRED, figure_of, how_far, listed, ratio_text, verdict
from xdplab.measure.comparison import MAX_WORDS, Answer, Comparison
from xdplab.measure.figure import P50, Figure
from xdplab.measure.measured import Measured
from xdplab.measure.method import Method
from xdplab.measure.point import PointSummary
from xdplab.model import Model, RunRecord
from xdplab.model.digits import number
from xdplab.model.pipeline import TOPOLOGIES
from xdplab.model.study import RATES

_CANNOT = "no winner is named"
_NOBODY = "unknown"
_LIMITS = {
    "tester": "the tester was the limit",
    "budget": "the search ran out of time",
    "below-minimum": "it lost frames at the lowest load",
}


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
    def stands(self) -> list[Measured]:
        """Of the repetitions that stand for it."""
        key = self.figure.key
        return [one.figures[key] for one in searched(self.point, key)]

    @property
    def values(self) -> list[float]:
        """Those of them that have one."""
        return [one.value for one in self.stands if one.value is not None]

    @property
    def blocker(self) -> str:
        """Why nothing may be said of it next to any other; empty where something may."""
        return blocker_of(self.point, self.figure.key)

    def could_reach(self, other: "Contender") -> bool:
        """Whether a repetition leaves it open that this one is as good as another one's median, or hardly worse."""
        more, ends = self.figure.more, (_best_end(one, self.figure) for one in self.stands)
        best = max((end if more else 1 / end if end else math.inf) for end in ends)
        return best * (1 + self.point.equivalence_margin) >= other.speed

    @property
    def took_all(self) -> bool:
        """In some repetition it took what the tester sent and might have taken more."""
        return any(one.limited_by == "tester" for one in self.stands)

    @property
    def limit(self) -> str:
        """Why its rate is a bound; empty where it is its own."""
        limits = {one.limited_by for one in self.stands}
        return "; ".join(words for limit, words in _LIMITS.items() if limit in limits)

    @property
    def amount(self) -> str:
        """Its median, as a bound where it is one."""
        return figure_of(self.point, self.figure) if self.stands else "not measured"

    @property
    def speed(self) -> float:
        middle = median(self.values)
        return middle if self.figure.more else 1 / middle if middle else math.inf


def _best_end(one: Measured, of: Figure) -> float:
    """The best that the true one may be."""
    return one.high if of.more else one.low


def conditions(points: Sequence[PointSummary], without: Collection[str] = ()) -> dict[str, str]:
    """Point id -> `, 64-byte frames, busy_poll=on`: what of its setting is not the same in all of them.

    Only points with the same are compared. `without`: names of what is said elsewhere.
    """
    words = {point.point_id: _conditions(point) for point in points}
    names = dict.fromkeys(name for each in words.values() for name in each if name not in without)
    varying = [name for name in names if len({each.get(name) for each in words.values()}) > 1]
    return {
        point_id: "".join(f", {each[name]}" for name in varying if name in each) for point_id, each in words.items()
    }


def _conditions(point: PointSummary) -> dict[str, str]:
    set_to = {"flows": point.udp_flows, **point.profile, **point.levels, **point.knobs}
    return {
        "frames": point.frames,
        "path": f"path {point.path}",
        "pipeline": point.pipeline,
        "tester": f"by {point.tester}",
        **{name: f"{name}={value}" for name, value in set_to.items()},
    }


@dataclass(frozen=True)
class _Place:
    """Those that are known, the leader first, then by their medians, and the leader's comparisons with the others."""

    fit: list[Contender]
    with_leader: list[Comparison]
    #: Name -> why nothing is said of it.
    not_compared: dict[str, str]
    #: Those of them that may be as good as the leader, and as the next; a lost frame's percentile is not.
    maybe_ahead: list[Contender]
    maybe_next: list[Contender]

    @property
    def blocker(self) -> str:
        """Why nobody is named; empty where one is, or where there is no measurable difference."""
        limits = [one for one in self.fit if one.took_all]
        if len(self.fit) < 2:
            return next(iter(self.not_compared.values()))
        if self.behind or not self.undecided:
            return ""
        if limits:
            names = listed([f"{one.name} ({one.amount})" for one in limits])
            return f"{names} kept up with all that the tester sent, so the tester was the limit"
        why = [verdict(found) for _, found in self._compared if not _settled(found)]
        why += [self.not_compared[one.name] for one in self.maybe_ahead]
        return f"{listed([f'{one.name} ({one.amount})' for one in (self.fit[0], *self.undecided)])}: {why[0]}"

    @property
    def first(self) -> str:
        """The leader's name, or that there is none; of a place where it is decided."""
        if self.blocker:
            return _NOBODY
        return "no measurable difference" if any(one.alike for one in self.with_leader) else self.fit[0].name

    @property
    def undecided(self) -> list[Contender]:
        """Those of whom it is not known whether the leader is ahead."""
        return [*(one for one, found in self._compared if not _settled(found)), *self.maybe_ahead]

    @property
    def behind(self) -> list[Contender]:
        """Those that the leader is known to be ahead of."""
        return [one for one, found in self._compared if found.better]

    @property
    def _compared(self) -> list[tuple[Contender, Comparison]]:
        return list(zip(self.fit[1:], self.with_leader, strict=True))

    @property
    def without_statement(self) -> list[str]:
        """Of whom nothing is said next to a leader, and why."""
        return [] if self.blocker else [f"no statement about {name}: {why}" for name, why in self.not_compared.items()]

    @property
    def in_short(self) -> tuple[str, str]:
        """Who is first, and how far ahead of the next, for a table."""
        if len(self.fit) < 2:
            return _CANNOT, ""
        tied = self.undecided or [one for one, found in self._compared if found.alike]
        leader = self.fit[0]
        if tied:
            word = "not separated" if self.undecided else "no measurable difference"
            return f"{', '.join(one.name for one in (leader, *tied))}: {word}", ""
        second, found = self._compared[0]
        return f"{leader.name}, {leader.amount}", f"{ratio_text(found)} times {leader.figure.as_much} as {second.name}"

    def text(self) -> str:
        if self.blocker:
            return f"{_CANNOT}: {self.blocker}"
        leader = self.fit[0]
        if self.undecided:
            names = listed([f"{one.name} ({one.amount})" for one in (leader, *self.undecided)])
            others = listed([f"{one.name} ({one.amount})" for one in self.behind])
            return f"undecided between {names}; {leader.name} is ahead of {others}"
        tied = [(one, found) for one, found in self._compared if found.alike]
        if tied:
            names = listed([f"{one.name} ({one.amount})" for one in (leader, *(one for one, _ in tied))])
            remarks = dict.fromkeys(remark for _, found in tied for remark in found.remarks)
            return f"no measurable difference between {names}{''.join(f' ({each})' for each in remarks)}"
        second, found = self._compared[0]
        said = "".join(f" ({each})" for each in found.remarks)
        limit = ", the tester sent no more" * leader.took_all
        far = how_far(found, {second.point.forwarder: second.name})
        following = "the next that can be compared" if self.maybe_next else "the next"
        return f"{leader.name} is ahead with {leader.amount}{limit}, {far}, {following}{said}"


def _settled(found: Comparison) -> bool:
    """Whether the leader is ahead, or there is no measurable difference."""
    return bool(found.better) or found.alike


def ranking(contenders: Sequence[Contender], failed: Sequence[str]) -> Answer:
    """The same for console, report and Robot. `failed`: what points are called of which a repetition failed."""
    groups, places = _grouped(contenders)
    why = {place.blocker for place in places.values()}
    details = [_text(where, places) for where in dict.fromkeys(where for where, _ in places)]
    details += _without_statement(places)
    details += [f"Failed: {', '.join(failed)}."] if failed else []
    said = any(not place.blocker for place in places.values())
    if not groups:
        alone = any(one.values for one in contenders)
        sentence = "xdplab names no winner: no forwarder was measured." if alone else "Nothing was measured."
    elif not places:
        sentence = "xdplab names no winner: no two cases of one workload were measured."
    elif not said:
        reason = why.pop() if len(why) == 1 else "see below"
        sentence, details = f"xdplab names no winner: {reason}.", details if len(places) > 1 else details[1:]
    elif len(places) == 1:
        sentence, *details = details
    else:
        sentence = _ahead(places)
    return Answer(sentence=sentence, details=tuple(details), decided=said)


class Standing(NamedTuple):
    """Who is ahead at a place."""

    where: str
    #: In words, with those of whom nothing is said.
    text: str
    #: Whether the comparisons decide it.
    decided: bool
    #: The same for a table: who is first, how far ahead of the next.
    first: str
    ahead: str


def standings(contenders: Sequence[Contender]) -> list[Standing]:
    return [
        Standing(where, "; ".join([place.text(), *place.without_statement]), not place.blocker, *place.in_short)
        for (where, _), place in _grouped(contenders)[1].items()
    ]


def _grouped(
    contenders: Sequence[Contender],
) -> tuple[dict[tuple[str, str], list[Contender]], dict[tuple[str, str], _Place]]:
    """By place: forwarders with a value, and who is ahead where there are several."""
    groups: dict[tuple[str, str], list[Contender]] = {}
    for one in contenders:
        if one.values and one.point.forwards:
            groups.setdefault((one.where, one.of), []).append(one)
    return groups, _places({place: cases for place, cases in groups.items() if len(cases) > 1})


def _without_statement(places: Mapping[tuple[str, str], _Place]) -> list[str]:
    """Of whom nothing is said next to a leader, and why."""
    return [
        f"No statement about {name}{f' in {where}' if len(places) > 1 else ''}: {why}."
        for (where, _), place in places.items()
        if not place.blocker
        for name, why in place.not_compared.items()
    ]


def _ahead(places: Mapping[tuple[str, str], _Place]) -> str:
    """`Ahead in rxdrop: two; in l2fwd: one.`; how often each is, where the places are too many for a sentence."""
    named = {where: place for where, place in places.items() if place.blocker or not place.undecided}
    if not named:
        behind = sorted({len(place.behind) for place in places.values()})
        many = " to ".join(str(number) for number in dict.fromkeys((behind[0], behind[-1])))
        others = "other" if behind[-1] == 1 else "others"
        return (
            f"In none of {len(places)} comparisons is one ahead of all others; "
            f"the best of each is ahead of {many} {others}, named below."
        )
    rest = len(places) - len(named)
    more = f"; in {rest} more the first is undecided, see below" if rest else ""
    each = [f"in {where}{of and f' of {of}'}: {place.first}" for (where, of), place in named.items()]
    sentence = f"Ahead {'; '.join(each)}{more}."
    if len(sentence.split()) <= MAX_WORDS:
        return sentence
    counts = Counter(one.first for one in named.values())
    often = [f"{name} in {counts[name]}" for name in sorted(counts, key=lambda name: (name == _NOBODY, -counts[name]))]
    return f"Ahead, of {len(places)} comparisons: {', '.join(often)}{more}."


def _places(groups: Mapping[tuple[str, str], Sequence[Contender]]) -> dict[tuple[str, str], _Place]:
    led = {place: _led([one for one in cases if not one.blocker]) for place, cases in groups.items()}
    adjusted = corrected(
        {(*place, point_id): found for place, (_, by_id) in led.items() for point_id, found in by_id.items()}
    )
    return {
        place: _place(cases, led[place][0], {point_id: adjusted[*place, point_id] for point_id in led[place][1]})
        for place, cases in groups.items()
    }


def _led(cases: Sequence[Contender]) -> tuple[list[Contender], dict[str, Comparison]]:
    """The leader, then the others by their medians, and its comparisons with them by point.

    Where each one's pairs with some other say that it is behind, the last one leads, and is not ahead of that other.
    """
    fit = sorted(cases, key=lambda one: one.speed, reverse=True)
    order, found = fit, dict[str, Comparison]()
    for leader in fit:
        order = [leader, *(one for one in fit if one is not leader)]
        all_found = {one.point.point_id: compare_points(leader.point, one.point, one.figure.key) for one in order[1:]}
        found = {point_id: each for point_id, each in all_found.items() if each is not None}
        if not any(each.better is False for each in found.values()):
            break
    return order, found


def _place(cases: Sequence[Contender], fit: Sequence[Contender], adjusted: Mapping[str, Comparison]) -> _Place:
    paired = [one for one in fit[1:] if one.point.point_id in adjusted]
    apart = [one for one in fit[1:] if one not in paired]
    blocked = [one for one in cases if one.blocker]
    rivals = [one for one in (*blocked, *apart) if fit and one.point.value(one.figure.key) != math.inf]
    return _Place(
        fit=[*fit[:1], *paired],
        with_leader=[adjusted[one.point.point_id] for one in paired],
        not_compared={one.name: one.blocker for one in blocked} | {one.name: f"it was {NEVER_PAIRED}" for one in apart},
        maybe_ahead=[one for one in rivals if one.could_reach(fit[0])],
        maybe_next=[one for one in rivals if paired and one.could_reach(paired[0])],
    )


def _text(where: str, places: Mapping[tuple[str, str], _Place]) -> str:
    parts = [(f"of {of} " if of else "") + place.text() for (at, of), place in places.items() if at == where]
    return f"{where}: {'; '.join(parts)}."


# Which forwarder to use for which goal: the one that is ahead by a figure, by the rules of every comparison.

#: With two of them the answer says it all.
_FEWEST = 3
#: Settings that a paragraph has room for; of more, tables speak.
_SETTINGS = 3


class Advice(Model):
    """Which forwarder is ahead for a goal, or why none is named."""

    goal: str
    text: str
    #: The same for a table: who is first, how far ahead of the next.
    first: str = ""
    ahead: str = ""
    #: False where the comparisons do not decide it.
    decided: bool = True


def advice(run: RunRecord, method: Method[Any], points: Sequence[PointSummary]) -> list[Advice]:
    """A line for each goal of the method's figures, then who forwards what; [] where nothing can be said.

    Where some only pass frames from port to port, switches are compared among themselves as well.
    """
    measured = [point for point in points if point.repetitions and point.forwards]
    asked = {figure.key: method.goal_points(figure, measured) for figure in method.figures if figure.goal}
    settings = {_setting_of(point) for points_of_goal in asked.values() for point in points_of_goal}
    most = max((len({_setting_of(each) for each in points_of_goal}) for points_of_goal in asked.values()), default=0)
    if len({point.forwarder for point in measured}) < _FEWEST or not settings or most > _SETTINGS:
        return _pipelines(points)
    goals = [figure for figure in method.figures if figure.goal]
    chosen = [
        (figure, each) for figure in goals for each in _where_it_counts(figure, asked[figure.key], method.light_clause)
    ]
    wheres = conditions(measured, without=RATES)
    contenders = [
        Contender(each, figure, each.plain_name + each.variant, _goal(figure, each, wheres)) for figure, each in chosen
    ]
    switches = {title for title, pipelines in run.pipelines.items() if {*pipelines} - {"cross", *TOPOLOGIES}}
    among = [each for each in contenders if run.points[each.point.point_id].forwarder.title in switches]
    if len(among) < len(contenders):
        contenders += [replace(each, where=f"{each.where}, among switches") for each in among]
    ahead = [
        Advice(goal=each.where, text=each.text, decided=each.decided, first=each.first, ahead=each.ahead)
        for each in standings(contenders)
    ]
    lines = [*ahead, *_losses(measured, wheres)] if any(each.decided for each in ahead) else []
    return [*lines, *_pipelines(points)]


def _setting_of(point: PointSummary) -> tuple[Any, ...]:
    return point.setting, point.tester


def _where_it_counts(figure: Figure, points: Sequence[PointSummary], light_clause: str) -> Iterator[PointSummary]:
    """Of a median the light load, where frames meet no queue; of all others the study's load."""
    for point in points:
        each = point.by_clause.get(light_clause, point) if figure == P50 else point
        if figure.key in each.measured:
            yield each


def _goal(figure: Figure, point: PointSummary, wheres: Mapping[str, str]) -> str:
    at = f" at {number(point.offered_pps / 1e3)} kpps" if figure.at_load and point.offered_pps else ""
    return f"{figure.goal} ({figure.name}{at}{wheres.get(point.point_id, '')})"


def _losses(points: Sequence[PointSummary], wheres: Mapping[str, str]) -> list[Advice]:
    """Which forwarders lost frames at the study's load, in the trials that stand for them."""
    loads: dict[str, list[PointSummary]] = {}
    for point in points:
        if point.loss_ratio is not None and point.offered_pps:
            goal = f"frames lost at {number(point.offered_pps / 1e3)} kpps{wheres.get(point.point_id, '')}"
            loads.setdefault(goal, []).append(point)
    found = []
    for goal, group in loads.items():
        lost = [f"{each.plain_name} ({each.loss_text})" for each in group if each.loss_ratio]
        others = f"{len(group) - len(lost)} others" if lost else f"all {len(group)}"
        none = [f"none by {others}"] if len(lost) < len(group) else []
        text = "; ".join([listed(lost)] * bool(lost) + none)
        found.append(Advice(goal=goal, text=text, first=text))
    return found


def _pipelines(points: Sequence[PointSummary]) -> list[Advice]:
    """Which forwarders do which pipelines, of a study with several."""
    asked = list(dict.fromkeys(point.pipeline for point in points))
    if len(asked) < 2:
        return []
    by_name: dict[str, dict[str, bool]] = {}
    for point in points:
        own = by_name.setdefault(point.plain_name, {})
        own[point.pipeline] = own.get(point.pipeline, False) or bool(point.repetitions)
    parts = [f"{name} {_done(own)}" for name, own in by_name.items()]
    first = ", ".join(f"{name} {sum(own.values())}" for name, own in by_name.items())
    return [Advice(goal=f"which of the {len(asked)} pipelines work", text="; ".join(parts), first=first)]


def _done(own: dict[str, bool]) -> str:
    missing = [name for name, done in own.items() if not done]
    return f"{len(own) - len(missing)}" + (f" (not {listed(missing)})" if missing else "")
