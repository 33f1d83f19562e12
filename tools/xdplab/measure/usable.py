# SPDX-License-Identifier: Apache-2.0
"""Which repetitions a figure is of."""

from collections.abc import Iterable

from xdplab.measure.measured import Measured, RepetitionFigures
from xdplab.measure.registry import find_figure
from xdplab.stats.interval import MIN_PAIRS


def usable_repetitions(repetitions: Iterable[RepetitionFigures], metric: str) -> list[RepetitionFigures]:
    """Those that a figure is of, where it was looked for: the clean ones if they are enough to compare by, else all."""
    searched = [one for one in repetitions if one.was_searched(metric)]
    clean = [one for one in searched if not one.was_disturbed(metric)]
    wanted = find_figure(metric)
    return clean if len(clean) >= (wanted.pairs if wanted else MIN_PAIRS) else searched


def measured_of(repetitions: Iterable[RepetitionFigures], metric: str) -> Measured | None:
    """A figure of a point; None where it was not looked for."""
    found = usable_repetitions(repetitions, metric)
    return Measured.over([one.figures[metric] for one in found]) if found else None
