# SPDX-License-Identifier: Apache-2.0
"""Rules of a node that the same frames met with one forwarder and not with another: where their datapaths differ."""

from collections.abc import Iterable

from xdplab.model import RunRecord, TrialRecord

#: Of each pair; what one datapath does otherwise, all tables behind it do.
_MOST = 6


def rule_differences(run: RunRecord, trials: Iterable[TrialRecord]) -> list[str]:
    """A sentence for each rule, of the first forwarder of a setting against each other one."""
    met: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for trial in trials:
        point = run.points.get(trial.point_id)
        rules = trial.mode.get("rules") if trial.mode else None
        if point is not None and isinstance(rules, dict) and "met" in rules:
            title = run.plain_names.get(point.forwarder.title, point.forwarder.title)
            place = met.setdefault((str(point.pipeline), point.setting), {}).setdefault(title, {})
            place.update(dict.fromkeys(map(str, rules["met"])))
    found: list[str] = []
    for (pipeline, _), by_forwarder in met.items():
        (first, ours), *others = by_forwarder.items()
        for other, theirs in others:
            found += _between(pipeline, (first, ours), (other, theirs))
    return list(dict.fromkeys(found))


def _between(pipeline: str, one: tuple[str, dict[str, None]], two: tuple[str, dict[str, None]]) -> list[str]:
    lines = [
        f"Pipeline {pipeline}: frames met this rule with {here}, and not with {there}: {rule}"
        for (here, ours), (there, theirs) in ((one, two), (two, one))
        for rule in ours
        if rule not in theirs
    ]
    more = len(lines) - _MOST
    return lines[:_MOST] + ([f"Pipeline {pipeline}: and {more} rules more between these two."] if more > 0 else [])
