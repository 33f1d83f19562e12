# SPDX-License-Identifier: Apache-2.0
"""From the frames counted to the number: trials, formula, interval. Of one point."""

import math
from collections.abc import Iterator, Sequence
from statistics import median

from xdplab.analysis.columns import figure_text
from xdplab.analysis.summary import trials_used
from xdplab.analysis.words import ratio_text, verdict
from xdplab.measure import Figure, make_method
from xdplab.measure.comparison import Answer
from xdplab.measure.datapath import datapath_stats, offloaded
from xdplab.measure.measured import RepetitionFigures
from xdplab.measure.point import PointSummary
from xdplab.model import InputError, RunRecord, TrialRecord
from xdplab.model.digits import number_of, significant
from xdplab.model.study import Names


def find_point(run: RunRecord, name: str) -> str:
    """The id of a point by its id, the beginning of it, or its title.

    Raises:
        InputError: none is called so, or several are; tells which.
    """
    found = [point_id for point_id, point in run.points.items() if point_id.startswith(name) or point.title == name]
    found = found or [point_id for point_id, point in run.points.items() if point.forwarder.title == name]
    if len(found) == 1:
        return found[0]
    points = {point_id: run.points[point_id] for point_id in (found or run.points)}
    names = Names(points.values())
    notes = ", ".join(f"{point_id} ({names.of(point)})" for point_id, point in points.items())
    raise InputError(f"point {name!r}: {'several are called so' if found else 'there is none'}; there are {notes}")


def derivation(
    run: RunRecord, summary: PointSummary, own: Sequence[TrialRecord], answer: Answer, *, turns: bool = True
) -> Iterator[str]:
    """Line by line, for the terminal and for the report; `own` are the point's trials. `turns`: those of turns too."""
    method, point = make_method(run.study.method), run.points[summary.point_id]
    used = {(trial.repetition, trial.trial) for trial in trials_used(method, own)}
    what = f"path {point.path.value}, {point.traffic.frame_bytes} bytes, pipeline {point.pipeline}"
    yield f"point {summary.point_id}: {point.title}, {what}"
    yield f"{summary.status}{f': {summary.reason}' if summary.reason else ''}"
    listed = [trial for trial in own if turns or trial.turn is None]
    for trial in listed:
        yield _of_trial(trial, (trial.repetition, trial.trial) in used)
    if left := len(own) - len(listed):
        yield f"{number_of(left, 'trial')} in turns: `xdplab show {run.run_id} {summary.point_id}`"
    for figure in method.figures:
        yield from _of_figure(figure, summary)
    for comparison in filter(None, (answer.comparison, answer.at_rate)):
        if summary.point_id in (comparison.point_id, comparison.reference_id):
            yield (
                f"ratio {comparison.point} over {comparison.reference}: {ratio_text(comparison)}, "
                f"{number_of(comparison.rounds, 'round')}: {verdict(comparison)}"
            )


def _of_trial(trial: TrialRecord, stands: bool) -> str:
    where = f"repetition {trial.repetition + 1}, trial {trial.trial + 1}"
    where += f", turn {trial.turn + 1}" if trial.turn is not None else ""
    what = f" ({trial.purpose}{f', {trial.clause}' if trial.clause else ''})"
    status = f"{trial.status}{f': {trial.reason}' if trial.reason else ''}"
    if trial.result is None:
        return f"{where}{what}: {status}"
    result = trial.result
    frames = f"{result.sent} frames sent, {result.received} received, {result.lost} lost in {result.elapsed_s:.3f} s"
    notes = f"; {trial.figures['text']}" if "text" in trial.figures else ""
    notes += f"; {in_xdp.text()}" if (in_xdp := offloaded([trial])) else ""
    met = datapath_stats([trial])
    notes += f"; {met.text()}" if met and met.text() else ""
    if trial.free_buffers and trial.free_buffers[1] < trial.free_buffers[0]:
        notes += f"; free buffers {trial.free_buffers[0]:,} to {trial.free_buffers[1]:,}"
    used = "; is used" if stands else ""
    return f"{where}{what}: {frames}{notes}; {status}{used}"


def _of_figure(figure: Figure, summary: PointSummary) -> Iterator[str]:
    found = [one for one in summary.by_repetition if one.was_searched(figure.key)]
    if not found:
        return
    known = [value / figure.per for one in found if (value := one.value(figure.key)) is not None]
    values = ", ".join(_value(one, figure) for one in found)
    yield f"{figure.title}: median of {number_of(len(found), 'repetition')}: {values}" + (
        f" = {significant(median(known), 4)}" if known else ""
    )
    shown = figure_text(summary, figure)
    measured = [one.figures[figure.key] for one in found]
    bounds = sorted({each.limited_by for each in measured} - {"forwarder"})
    doubts = [*dict.fromkeys(each.doubt for each in measured if each.doubt)]
    if bounds or doubts:
        limits = [f"limited by {', '.join(bounds)}"] if bounds else []
        yield f"  reported as {shown}: {'; '.join([*limits, *doubts])}"
    resolution = max((each.resolution for each in measured), default=0.0)
    if resolution:
        yield f"  resolution of the measure: {significant(100 * resolution, 2)} %"


def _value(one: RepetitionFigures, figure: Figure) -> str:
    found = one.figures[figure.key]
    if found.value is None:
        return f"#{one.repetition + 1} nothing found"
    return f"#{one.repetition + 1} {'∞' if math.isinf(found.value) else significant(found.value / figure.per, 4)}"
