# SPDX-License-Identifier: Apache-2.0
"""Which points of a run stand side by side and take turns, and why not all."""

from collections import Counter
from collections.abc import Iterable, Sequence

from xdplab.knobs import make_knob
from xdplab.model import Point, StudySpec
from xdplab.model.design import UNSET
from xdplab.model.digits import number_of
from xdplab.runner.plan import Plan, Repetition

#: Points that stand side by side whatever they differ in; of more, those that are compared.
MOST_BESIDE = 12


def why_alone(plan: Plan, study: StudySpec, points: Sequence[Point], kind: str) -> str:
    """Why points cannot stand side by side on a testbed of that kind; empty where they can."""
    if not plan.method.beside:
        return f"method {plan.method.name} looks at the whole machine"
    if kind != "embedded":
        return "its ports are there once"
    if len(study.all_testers) > 1:
        return "one tester at a time has the ports"
    if any(pipeline.pods for pipeline in study.pipeline):
        return "its containers are there once"
    if has_system_setting(plan, points):
        return "one of them has a setting of the whole machine"
    return ""


def has_system_setting(plan: Plan, points: Iterable[Point]) -> bool:
    """Whether one of them has a setting of the machine."""
    wanted = [{**plan.method.forwarder(point).required_knobs(), **point.knobs}.items() for point in points]
    return any(make_knob(name).scope == "system" for name in {k for each in wanted for k, v in each if v != UNSET})


def group_of(plan: Plan, repetition: Repetition) -> tuple[int, str]:
    """The round, and which of its points stand side by side: one setting's, or all."""
    return repetition.number, "" if len(plan.points) <= MOST_BESIDE else repetition.point.setting


def in_groups(plan: Plan, order: Sequence[Repetition]) -> list[Repetition]:
    """The same with the members of each group next to one another, groups as their first members come."""
    first: dict[tuple[int, str], int] = {}
    for at, each in enumerate(order):
        first.setdefault(group_of(plan, each), at)
    return sorted(order, key=lambda each: (each.number, first[group_of(plan, each)]))


def described(plan: Plan, study: StudySpec, left: Sequence[Repetition], kind: str) -> str:
    """For a dry run: `8 points side by side, 6 turns in each repetition`; empty of one point."""
    points = {each.point.id: each for each in left}
    turns = f", {plan.method.turns} turns in each repetition" if plan.method.turns else ""
    if len(points) < 2:
        return ""
    if alone := why_alone(plan, study, [each.point for each in points.values()], kind):
        return f"points one after another: {alone}{turns}"
    sizes = Counter(group_of(plan, each)[1] for each in points.values())
    if len(sizes) == 1:
        return f"{number_of(len(points), 'point')} side by side{turns}"
    return f"points that are compared side by side: {len(sizes)} groups of up to {max(sizes.values())}{turns}"
