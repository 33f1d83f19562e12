# SPDX-License-Identifier: Apache-2.0
"""The course of a run: a strip of turns over its time for each point, and above them what the machine took."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from xdplab.analysis.answers.order import in_order
from xdplab.analysis.run import Run
from xdplab.analysis.tables.columns import figure_text, kpps
from xdplab.measure.distribution import sample_of
from xdplab.measure.point import PointSummary
from xdplab.model import TrialRecord
from xdplab.model.digits import loss, percent

#: Of a picture, which the page stretches.
_WIDTH, _HEIGHT = 1000, 30
#: Latencies of so many times the median, and of that part of it, are at its edges.
_EDGE = 2.0
#: Of trials that are of no clause.
_STUDY = "the study's load"


def course(run: Run) -> dict[str, Any]:
    """What strip.html.j2 shows; nothing of a run without trials."""
    times = {trial.started: datetime.fromisoformat(trial.started).timestamp() for trial in run.trials}
    if not times:
        return {}
    begun = min(times.values())
    span = max(times.values()) - begun or 1.0
    at = {started: round(_WIDTH * (time - begun) / span, 1) for started, time in times.items()}
    first: dict[int, float] = {}
    taken: dict[int, float] = {}
    for trial in run.trials:
        x = at[trial.started]
        first[trial.repetition] = min(first.get(trial.repetition, x), x)
        if trial.disturbance:
            taken[round(x)] = max(taken.get(round(x), 0.0), trial.disturbance.taken_share)
    shown = [] if run.sweeps else in_order(run.method, run.points)  # a sweep has hundreds
    rows = [_row(run, point, at) for point in shown if point.repetitions]
    most = max(taken.values(), default=0.0)
    return {
        "rows": rows,
        "labels": [*dict.fromkeys(label for row in rows for label in row["paths"])],
        "rounds": "".join(f"M{x:g} 0v{_HEIGHT}" for x in sorted(first.values())[1:]),
        "taken": "".join(f"M{x} {_HEIGHT}v-{_HEIGHT * share / most:.1f}" for x, share in taken.items() if share),
        "most": percent(most),
        "minutes": span / 60,
        "searched": any(row["searched"] for row in rows),
    }


def _row(run: Run, point: PointSummary, at: Mapping[str, float]) -> dict[str, Any]:
    trials = run.by_point.get(point.point_id, ())
    places: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.purpose == "measure" and (value := _value(trial)):
            places.setdefault(trial.clause or _STUDY, []).append((at[trial.started], value))
    searched = not places
    for trial in trials if searched else ():
        if trial.purpose == "search" and trial.result and trial.result.achieved_pps:
            label = "load, frames lost" if trial.result.lost else "load, nothing lost"
            places.setdefault(label, []).append((at[trial.started], trial.result.achieved_pps))
    every = [value for own in places.values() for _, value in own]
    paths = {label: _path(own, (min(every), max(every)) if searched else None) for label, own in places.items()}
    sides = [*point.by_clause.values(), point]
    figure = next((each for each in run.method.figures if point.searched(each.key)), None)
    text = ", ".join(figure_text(side, figure) for side in sides if side.searched(figure.key)) if figure else ""
    return {
        "name": point.plain_name + point.variant,
        "more": [*point.settings],
        "paths": paths,
        "searched": searched,
        "text": f"{text} {figure.unit}" if figure else "",
        "rounds": _rounds(run, point),
    }


def _value(trial: TrialRecord) -> float | None:
    """Its median latency by rank of what was sent, or the rate that came through where no frame has a time stamp."""
    if trial.result is None:
        return None
    sample = sample_of([trial])
    return sample.percentile_us(50) if sample.arrived.count else trial.result.received / trial.result.elapsed_s


def _path(places: Sequence[tuple[float, float]], ends: tuple[float, float] | None) -> str:
    """Dots; log scale, between the ends, or about the median."""
    values = sorted(value for _, value in places)
    middle = values[len(values) // 2]
    low, high = ends or (middle / _EDGE, middle * _EDGE)
    height = math.log(high / low) if low < high < math.inf else 1.0

    def y(value: float) -> float:
        share = math.log(min(max(value, low), high) / low) / height if math.isfinite(low) else 1.0
        return _HEIGHT - 2 - share * (_HEIGHT - 4)

    return "".join(f"M{x:g} {y(value):.1f}h0" for x, value in places)


def _rounds(run: Run, point: PointSummary) -> list[dict[str, str]]:
    """Each round of each load as a row of a table: its figures, its loss and what was sent."""
    figures = [each for each in run.method.figures if point.searched(each.key)]
    sides = {**point.by_clause, "": point}
    return [
        {
            **({"load": clause or _STUDY} if len(sides) > 1 else {}),
            "round": str(one.repetition + 1),
            **{
                each.title: one.figures[each.key].text(each.per) if each.key in one.figures else "–" for each in figures
            },
            "loss": loss(one.loss_ratio),
            "sent kpps": kpps(one.achieved_pps) if one.achieved_pps else "–",
        }
        for clause, side in sides.items()
        for one in side.by_repetition
    ]
