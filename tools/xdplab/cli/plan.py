# SPDX-License-Identifier: Apache-2.0
"""`xdplab run --dry-run`: what a study would do."""

from collections import Counter
from collections.abc import Collection, Mapping

from xdplab.model import Point, StudySpec
from xdplab.model.cells import columns
from xdplab.model.digits import duration, number_of
from xdplab.model.study import RATES, unusual
from xdplab.runner import Plan
from xdplab.runner.turns import described

#: What says nothing, where no row of its column says anything else.
_USUAL = {"-", "cross"}


def plan_table(
    plan: Plan,
    study: StudySpec,
    unsupported: Mapping[str, str] | str,
    done: Collection[tuple[str, int]] = (),
    kind: str = "embedded",
) -> str:
    """What a study would do: its points, those that cannot be measured here with their reasons, and the time.

    `done`: point and number of each repetition that a run which goes on has completed; points without others are left
    out. `kind`: of the testbed.
    """
    reasons = {} if isinstance(unsupported, str) else unsupported
    possible = [each for each in plan.order if each.point.id not in reasons]
    left = [each for each in possible if (each.point.id, each.number) not in done]
    to_do = {each.point.id for each in left}
    head = ("forwarder", "pipeline", "path", "bytes", "probes", "load", "settings")
    rows = [head, *(_row(point, plan.method.own_rates) for point in plan.points if point.id in to_do)]
    kept = [column for column in zip(*rows, strict=True) if not set(column[1:]) <= _USUAL]
    lines = [columns(list(zip(*kept, strict=True)))] if kept else []
    left_out = f" (constraints leave out {number_of(plan.left_out, 'combination')})" if plan.left_out else ""
    lines.append(f"{number_of(len(plan.points), 'point')}, design {study.design.kind}{left_out}")
    if isinstance(unsupported, str):
        lines.append(f"unsupported points: not checked: {unsupported}")
    lines += [f"{count} unsupported: {reason}" for reason, count in Counter(reasons.values()).most_common()]
    still = f"{len(left)} of them still to do, " if done else ""
    lines.append(
        f"{number_of(study.repetitions, 'repetition')} of each, {len(possible)} in all, {still}"
        f"{duration(plan.traffic_seconds(left))} of traffic, about {duration(plan.seconds(left))} with starts, without "
        "calibration"
    )
    if turns := described(plan, study, left, kind):
        lines.append(turns)
    return "\n".join(lines)


def _row(point: Point, own_rates: bool) -> tuple[str, ...]:
    """`own_rates`: its method asks nobody how many probes to send."""
    traffic, stated = point.traffic, point.traffic.stated_load_pps
    share = f"{traffic.load_share:.0%} of its rate" if traffic.load_share else ""
    load = share or (f"{stated / 1000:g} kpps" if stated else "-")
    hidden = point.forwarder.options if point.forwarder.label else {}
    changed = {**hidden, **point.knobs, **unusual(traffic, *RATES)}
    settings = " ".join(f"{key}={value}" for key, value in changed.items()) or "-"
    probes = "-" if own_rates else traffic.probes_text
    return point.title, str(point.pipeline), point.path.value, str(traffic.frame_bytes), probes, load, settings
