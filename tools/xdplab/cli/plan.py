# SPDX-License-Identifier: Apache-2.0
"""`xdplab run --dry-run`: what a study would do."""

from collections import Counter
from collections.abc import Mapping

from xdplab.cli.tables import columns
from xdplab.model import StudySpec
from xdplab.report import duration
from xdplab.runner import Plan
from xdplab.runner.plan import OVERHEAD_S


def plan_table(plan: Plan, study: StudySpec, unsupported: Mapping[str, str] | str) -> str:
    """What a study would do: its points, those that cannot be measured here with their reasons, and the time."""
    reasons = {} if isinstance(unsupported, str) else unsupported
    rows = [["forwarder", "path", "bytes", "probes", "load", "knobs"]]
    for point in plan.points:
        if point.id in reasons:
            continue
        traffic = point.traffic
        share = f"{traffic.load_share:.0%} of its rate" if traffic.load_share else ""
        stated = traffic.stated_load_pps
        load = share or (f"{stated / 1000:g} kpps" if stated else "-")
        knobs = " ".join(f"{key}={value}" for key, value in point.knobs.items()) or "-"
        rows.append([point.title, point.path, str(traffic.frame_bytes), traffic.probes_text, load, knobs])
    left = [each for each in plan.order if each.point.id not in reasons]
    traffic_s = sum(sum(plan.method.trials(each.point.traffic)) for each in left)
    left_out = f" ({plan.left_out} combinations are left out by constraints)" if plan.left_out else ""
    lines = [columns(rows), f"{len(plan.points)} points, design {study.design.kind}{left_out}"]
    if isinstance(unsupported, str):
        lines.append(f"unsupported points: not looked for: {unsupported}")
    lines += [f"unsupported: {count} of them: {reason}" for reason, count in Counter(reasons.values()).most_common()]
    lines.append(
        f"{study.repetitions} repetitions of each, {len(left)} in all, {duration(traffic_s)} of traffic, about "
        f"{duration(traffic_s + OVERHEAD_S * len(left))} with starts, without calibration and repeats"
    )
    return "\n".join(lines)
