# SPDX-License-Identifier: Apache-2.0
"""Which points of a run stand side by side and take turns, and why not all."""

from collections.abc import Iterable, Sequence

from xdplab.knobs import make_knob
from xdplab.model import Point, StudySpec
from xdplab.model.design import UNSET, Scalar
from xdplab.model.digits import number_of
from xdplab.runner.plan import Plan, Repetition, why_alone

#: Points that stand side by side whatever they differ in; of more, those that are compared.
MOST_BESIDE = 12
#: Of a dry run.
_NAMED = 4


def system_settings(plan: Plan, point: Point) -> dict[str, Scalar]:
    """Those of the whole machine that it asks for."""
    wanted = {**plan.method.forwarder(point).required_knobs(), **point.knobs}
    return {name: value for name, value in wanted.items() if value != UNSET and make_knob(name).scope == "system"}


def has_system_setting(plan: Plan, points: Iterable[Point]) -> bool:
    """Whether one of them has a setting of the machine."""
    return any(system_settings(plan, point) for point in points)


def _unshared(plan: Plan, point: Point) -> list[str]:
    """Settings of the machine of which each point needs its own."""
    return [name for name in system_settings(plan, point) if not make_knob(name).shared]


def instances_of(plan: Plan, point: Point) -> int:
    """How often its forwarder is started in a repetition."""
    return plan.instances if plan.instances > 1 and not _unshared(plan, point) else 1


def in_groups(plan: Plan, study: StudySpec, order: Sequence[Repetition], alone: str) -> list[list[Repetition]]:
    """Which stand side by side, in the order of their first members.

    Each by itself where `alone` says why, and where it has a setting of the whole machine that points cannot share.
    Else, of those that want the same settings of the machine, all points of a round, where they are few, or those of
    one setting, which are compared; of a sweep, whose settings are compared, as many as stand next to one another in
    the round's random order.
    """
    swept = study.sweep is not None
    few = swept or len(plan.points) * plan.instances <= MOST_BESIDE
    groups: list[list[Repetition]] = []
    open_groups: dict[tuple[int, str, str], list[Repetition]] = {}
    for each in order:
        if alone or _unshared(plan, each.point):
            groups.append([each])
            continue
        machine = str(sorted(system_settings(plan, each.point).items()))
        key = each.number, "" if few else each.point.setting, machine
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
    if len(points) < 2:
        return turns.removeprefix(", ") if plan.instances > 1 else ""
    if alone := why_alone(study, kind):
        return f"points one after another: {alone}{turns}"
    groups = in_groups(plan, study, [each for each in left if each.number == left[0].number], "")
    sizes = [len(group) for group in groups if len(group) > 1]
    single: dict[str, list[str]] = {}
    for group in groups:
        if len(group) == 1:
            single.setdefault(_why_single(plan, group[0].point), []).append(plan.called(group[0].point))
    beside = f"{number_of(sizes[0], 'point')} side by side" if len(sizes) == 1 else ""
    if len(sizes) > 1:
        beside = f"points side by side in {len(sizes)} groups of up to {max(sizes)}"
    apart = [
        f"{len(names)} by themselves ({'; '.join(names[:_NAMED])}{'; ...' if names[_NAMED:] else ''}): {why}"
        for why, names in single.items()
    ]
    return f"{', '.join([beside, *apart] if beside else apart)}{turns}"


def _why_single(plan: Plan, point: Point) -> str:
    if own := _unshared(plan, point):
        return f"each needs {', '.join(own)} of its own"
    return "nothing is left to stand beside them"
