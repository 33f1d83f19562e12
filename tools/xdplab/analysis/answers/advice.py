# SPDX-License-Identifier: Apache-2.0
"""Which forwarder to use for which goal: the one that is ahead by a figure, by the rules of every comparison."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdplab.analysis.answers.ranking import Contender, conditions, standings
from xdplab.analysis.words import listed
from xdplab.measure.figure import P50, Figure
from xdplab.measure.method import Method
from xdplab.measure.point import PointSummary
from xdplab.model import Model, RunRecord
from xdplab.model.digits import number
from xdplab.model.pipeline import TOPOLOGIES
from xdplab.model.study import RATES

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
    settings = {_place(point) for points_of_goal in asked.values() for point in points_of_goal}
    most = max((len({_place(each) for each in points_of_goal}) for points_of_goal in asked.values()), default=0)
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


def _place(point: PointSummary) -> tuple[Any, ...]:
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
