# SPDX-License-Identifier: Apache-2.0
"""Two forwarders at each change, by the first figure that it has; all of them one family (Holm)."""

from collections.abc import Sequence

from xdplab.analysis.answer import Answer, metric_of
from xdplab.analysis.compare import Comparison, compare_points, corrected
from xdplab.analysis.pipelines import NEVER, parts, the_two
from xdplab.analysis.summary import PointSummary
from xdplab.methods.changes.figures import GAP, LOST
from xdplab.methods.figure import Figure
from xdplab.methods.registry import figure


def answer_by_change(
    wanted: tuple[str, str] | None, summaries: Sequence[PointSummary], figures: Sequence[Figure]
) -> Answer | None:
    """One sentence; None where the study names no two forwarders.

    It has no `comparison`: the ratios of a table are all of one figure, and changes have several.
    """
    if wanted is None:
        return None
    found: dict[str, Comparison | str] = {}
    several = len({one.pipeline for one in summaries}) > 1
    groups: dict[str, list[PointSummary]] = {}
    for one in summaries:
        of = f"{one.levels.get('change')}{f', {one.pipeline}' if several else ''}"
        groups.setdefault(of, []).append(one)
    for kind, points in groups.items():
        pair = the_two(wanted, points)
        if isinstance(pair, str):
            found[kind] = pair
            continue
        metric = metric_of(*pair, figures)
        if metric == GAP.key and not any(one.value(LOST) for side in pair for one in side.by_repetition):
            found[kind] = "neither lost a frame"
            continue
        found[f"{kind} ({figure(metric).name})"] = compare_points(*pair, metric) or NEVER
    told = corrected({kind: one for kind, one in found.items() if isinstance(one, Comparison)})
    words = "; ".join(parts({kind: told.get(kind, one) for kind, one in found.items()}))
    return Answer(
        sentence=f"{wanted[0]} against {wanted[1]}, by change under load: {words}.",
        said=any(one.known for one in told.values()),
    )
