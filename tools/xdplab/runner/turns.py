# SPDX-License-Identifier: Apache-2.0
"""Which points of a run stand side by side and take turns, and why not all."""

from collections.abc import Iterable, Sequence

from xdplab.knobs import make_knob
from xdplab.model import Point, StudySpec
from xdplab.model.design import UNSET
from xdplab.model.digits import number_of
from xdplab.runner.plan import Plan, Repetition, why_alone

#: Points that stand side by side whatever they differ in; of more, those that are compared.
MOST_BESIDE = 12
#: Of a dry run.
_NAMED = 4


def has_system_setting(plan: Plan, points: Iterable[Point]) -> bool:
    """Whether one of them has a setting of the machine."""
    wanted = [{**plan.method.forwarder(point).required_knobs(), **point.knobs}.items() for point in points]
    return any(make_knob(name).scope == "system" for name in {k for each in wanted for k, v in each if v != UNSET})


def instances_of(plan: Plan, point: Point) -> int:
    """How often its forwarder is started in a repetition."""
    return plan.instances if plan.instances > 1 and not has_system_setting(plan, [point]) else 1


def in_groups(plan: Plan, study: StudySpec, order: Sequence[Repetition], alone: str) -> list[list[Repetition]]:
    """Which stand side by side, in the order of their first members.

    Each by itself where `alone` says why, and where it has a setting of the whole machine, which others would have too.
    Else all points of a round, where they are few, or those of one setting, which are compared; of a sweep, whose
    settings are compared, as many as stand next to one another in the round's random order.
    """
    swept = study.sweep is not None
    few = swept or len(plan.points) * plan.instances <= MOST_BESIDE
    groups: list[list[Repetition]] = []
    open_groups: dict[tuple[int, str], list[Repetition]] = {}
    for each in order:
        if alone or has_system_setting(plan, [each.point]):
            groups.append([each])
            continue
        key = each.number, "" if few else each.point.setting
        if key not in open_groups or (swept and len(open_groups[key]) == MOST_BESIDE):
            open_groups[key] = []
            groups.append(open_groups[key])
        open_groups[key].append(each)
    return groups


def described(plan: Plan, study: StudySpec, left: Sequence[Repetition], kind: str) -> str:
    """For a dry run: `8 points side by side, 6 turns in each repetition`; empty of one point."""
    points = {each.point.id: each for each in left}
    turns = f", {plan.method.turns} turns in each repetition" if plan.method.turns else ""
    if plan.instances > 1:
        turns = f", {plan.instances} of each{turns}"
    elif len(points) < 2:
        return ""
    if alone := why_alone(study, kind):
        return f"points one after another: {alone}{turns}"
    first = [each for each in left if each.number == left[0].number]
    groups = in_groups(plan, study, first, "")
    apart = [plan.called(each.point) for each in first if has_system_setting(plan, [each.point])]
    named = f" ({'; '.join(apart[:_NAMED])}{'; ...' if apart[_NAMED:] else ''})"
    by_itself = f", {len(apart)} by themselves{named}: they have a setting of the whole machine" if apart else ""
    sizes = [len(group) for group in groups if len(group) > 1]
    if len(sizes) == 1:
        return f"{number_of(sizes[0], 'point')} side by side{by_itself}{turns}"
    if not sizes:
        return f"points one after another: they have settings of the whole machine{turns}"
    return f"points side by side in {len(sizes)} groups of up to {max(sizes)}{by_itself}{turns}"
