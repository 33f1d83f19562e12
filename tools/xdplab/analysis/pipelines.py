# SPDX-License-Identifier: Apache-2.0
"""Which forwarder for which work: two forwarders compared at each pipeline, all of them one family (Holm)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from xdplab.analysis.compare import Comparison, compare_points, corrected
from xdplab.analysis.point import PointSummary
from xdplab.methods import Figure, figure
from xdplab.model.digits import significant

_NO_METRIC = "nothing was measured"


def by_pipeline(
    wanted: tuple[str, str], summaries: Sequence[PointSummary], figures: Sequence[Figure]
) -> dict[str, Comparison | str]:
    """Pipeline -> the comparison of its first setting at which both were measured, or why there is none."""
    found: dict[str, Comparison | str] = {}
    for work in dict.fromkeys(one.pipeline for one in summaries):
        points = [[one for one in summaries if one.pipeline == work and one.forwarder == title] for title in wanted]
        pairs = [(one, other) for one in points[0] for other in points[1] if one.setting == other.setting]
        measured = [pair for pair in pairs if all(each.repetitions for each in pair)]
        if not measured:
            silent = next((each for pair in pairs for each in pair if not each.repetitions), None)
            found[work] = f"{silent.forwarder} was not measured: {silent.reason}" if silent else "not part of this run"
            continue
        ours, theirs = measured[0]
        metric = next(
            (each.key for each in figures if any(one.was_searched(each.key) for one in ours.by_repetition)), ""
        )
        found[work] = (compare_points(ours, theirs, metric) if metric else None) or _NO_METRIC
    told = corrected({work: one for work, one in found.items() if isinstance(one, Comparison)})
    return {work: told.get(work, one) for work, one in found.items()}


def answer_by_pipeline(
    wanted: tuple[str, str], summaries: Sequence[PointSummary], figures: Sequence[Figure]
) -> dict[str, Any]:
    """What an `Answer` of several pipelines is made of."""
    found = by_pipeline(wanted, summaries, figures)
    compared = {work: one for work, one in found.items() if isinstance(one, Comparison)}
    metric = next((figure(one.metric) for one in compared.values()), None)
    named = any(one.better is not None for one in compared.values())
    about = f"{wanted[0]} against {wanted[1]}" + (f", {metric.name}" if metric else "")
    first = next(iter(compared.values()), None)  # whose reference the table's ratios are of
    return {"sentence": f"{about}, by work: {'; '.join(_parts(found))}.", "said": named, "comparison": first}


def _parts(found: Mapping[str, Comparison | str]) -> list[str]:
    """Each pipeline by itself; those that cannot be told apart, or of which nothing can be said, together."""
    parts, alike, unsaid = [], [], {}  # type: list[str], list[str], dict[str, list[str]]
    for work, one in found.items():
        if isinstance(one, str):
            unsaid.setdefault(one, []).append(work)
        elif one.hindrances:
            unsaid.setdefault(one.hindrances[0], []).append(work)
        elif one.better is None:
            alike.append(f"{work} ({one.text()})")
        else:
            parts.append(f"{work} {_ratio(one)}")
    parts += [f"cannot be told apart in {', '.join(alike)}"] if alike else []
    if len(unsaid) > 1:
        why = max(unsaid, key=lambda each: len(unsaid[each]))
        unsaid = {
            f"{why} (so {', '.join(unsaid[why])}; the others for other reasons)": [*itertools.chain(*unsaid.values())]
        }
    return parts + [f"nothing is said of {', '.join(works)}: {why}" for why, works in unsaid.items()]


def _ratio(found: Comparison) -> str:
    """How far the first is ahead, or behind."""
    assert found.interval is not None
    words = "as much" if figure(found.metric).more else "as fast"
    ahead = found.interval if found.better else found.interval.inverted()
    who = "" if found.better else f"{found.reference} "
    if found.sense != "exact":
        return f"{who}at least {significant(ahead.low or 1)} times {words}"
    if ahead.method == "each-pair":
        return f"{who}at least {significant(ahead.least or 1)} times {words} in each of {ahead.pairs} repetitions"
    return f"{who}{significant(ahead.ratio)} times {words} ({ahead.spread()})"
