# SPDX-License-Identifier: Apache-2.0
"""The trials of a point as strips over their time: the median of each slice, and the slices that a clock marks."""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from xdplab.model import Slices, TrialRecord

_WIDTH, _HEIGHT, _MARK, _GAP = 600.0, 18, 4, 6
#: A median is drawn over the range of its trial, which is at least this factor wide.
_LEAST_RANGE = 2.0


def strips(trials: Sequence[TrialRecord]) -> Markup:
    """One strip for each trial that has slices, as an <svg>; empty where none has."""
    rows = [(trial, trial.result.slices) for trial in trials if trial.result and trial.result.slices]
    if not rows:
        return Markup()
    parts = [_strip(trial, slices, at * (_HEIGHT + _MARK + _GAP)) for at, (trial, slices) in enumerate(rows)]
    height = len(rows) * (_HEIGHT + _MARK + _GAP)
    opened = f'<svg class="strips" role="img" viewBox="0 0 {_WIDTH + 150:g} {height}" width="{_WIDTH + 150:g}">'
    named = "<title>median latency of each slice of time, and below it the slices that a clock marks</title>"
    return Markup(f"{opened}{named}{''.join(parts)}</svg>")  # noqa: S704 - of numbers, and escaped


def _strip(trial: TrialRecord, slices: Slices, top: int) -> str:
    medians, marked = slices.medians_us(), slices.marked()
    known = [value for value in medians if math.isfinite(value) and value > 0]
    low, high = (min(known), max(max(known), _LEAST_RANGE * min(known))) if known else (1.0, _LEAST_RANGE)
    step = _WIDTH / slices.count
    path, marks = [], []
    for number, median in enumerate(medians):
        left = number * step
        if math.isfinite(median) and median > 0:
            share = math.log(median / low) / math.log(high / low)
            path.append(f"M{left:.1f} {top + _HEIGHT * (1 - share):.1f}h{step:.1f}")
        if marked[number]:
            marks.append(f"M{left:.1f} {top + _HEIGHT + _MARK / 2}h{step:.1f}")
    told = escape(f"#{trial.repetition + 1} {trial.clause}".strip() + f": {low:.3g} to {high:.3g} µs")
    return (
        f'<path d="{"".join(path)}" stroke="var(--c0, #0072B2)" stroke-width="2" fill="none"/>'
        f'<path d="{"".join(marks)}" stroke="var(--c1, #D55E00)" stroke-width="{_MARK}" fill="none"/>'
        f'<text x="{_WIDTH + 8:g}" y="{top + _HEIGHT - 4}" font-size="11" fill="var(--ink, #000)">{told}</text>'
    )
