# SPDX-License-Identifier: Apache-2.0
"""Two forwarders at each change, by the first figure that it has; all of them one family (Holm)."""

from collections.abc import Sequence

from xdplab.analysis.answers.pipelines import answer_by, headline
from xdplab.measure.comparison import Answer
from xdplab.measure.figure import Figure
from xdplab.measure.point import PointSummary
from xdplab.methods.changes.figures import GAP, LOST


def answer_by_change(
    wanted: tuple[str, str] | None, summaries: Sequence[PointSummary], figures: Sequence[Figure]
) -> Answer | None:
    """One sentence; None where the study names no two forwarders.

    It has no `comparison`: the ratios of a table are all of one figure, and changes have several.
    """
    if wanted is None:
        return None
    several = len({one.pipeline for one in summaries}) > 1
    compared, details = answer_by(
        wanted,
        summaries,
        lambda one: f"{one.levels.get('change')}{f', {one.pipeline}' if several else ''}",
        figures,
        _nothing,
        named=True,
    )
    said = any(one.known for one in compared.values())
    return Answer(sentence=headline(wanted, compared, "changes under load"), details=tuple(details), said=said)


def _nothing(ours: PointSummary, theirs: PointSummary, metric: str) -> str:
    lost = any(one.value(LOST) for side in (ours, theirs) for one in side.by_repetition)
    return "neither lost a frame" if metric == GAP.key and not lost else ""
