# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side: the points that both have, and what the runs differ in."""

from collections.abc import Iterable, Sequence
from typing import Any

from xdplab.analysis.compare import compare_apart, corrected
from xdplab.measure.comparison import Comparison
from xdplab.measure.figure import P50, P99, Figure
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord


def compare_runs(
    first: Iterable[PointSummary],
    second: Iterable[PointSummary],
    figures: Sequence[Figure] = (P50, P99),
    apart: Iterable[str] = (),
) -> list[tuple[PointSummary, PointSummary, dict[str, Comparison | None]]]:
    """The points that two runs share. Runs are not interleaved: their difference includes the time between them.

    `figures`: what their points are compared by; `apart`: what the runs differ in (`what_differs`); with more than one
    thing no ratio says which of them it is.
    """
    metrics = [each.key for each in figures]
    things = list(apart)
    several = (f"the runs differ in {', '.join(things)}: nothing says which of them it is",) if len(things) > 1 else ()
    earlier = {summary.point_id: summary for summary in first}
    shared = [s for s in second if s.point_id in earlier and s.repetitions and earlier[s.point_id].repetitions]
    found = {
        (s.point_id, metric): compare_apart(s, earlier[s.point_id], metric)
        for s in shared
        for metric in metrics
        if s.searched(metric) and earlier[s.point_id].searched(metric)
    }
    family = corrected({key: one for key, one in found.items() if one is not None})
    family = {key: one.model_copy(update={"hindrances": (*several, *one.hindrances)}) for key, one in family.items()}
    return [(earlier[s.point_id], s, {metric: family.get((s.point_id, metric)) for metric in metrics}) for s in shared]


def what_differs(first: RunRecord, second: RunRecord) -> dict[str, tuple[Any, Any]]:
    """What two runs were done by, where it differs: a ratio between them is of one such thing, or of none.

    Machine, kernel, programs, method, tester; not what changes with each start, nor our own revision.
    """
    sides = []
    for run in (first, second):
        environment = run.environment
        sides.append(
            {
                "method": run.study.method.model_dump(mode="json"),
                "tester": run.study.all_testers,
                "testbed": run.testbed.name,
                "kernel": environment.kernel,
                "cpu_model": environment.cpu_model,
                "governor": environment.governor,
                **{f"versions.{name}": v for name, v in environment.versions.items() if name != "xdplab"},
            }
        )
    keys = [*sides[0], *(key for key in sides[1] if key not in sides[0])]
    return {key: (sides[0].get(key), sides[1].get(key)) for key in keys if sides[0].get(key) != sides[1].get(key)}


def environment_difference(first: RunRecord, second: RunRecord) -> dict[str, tuple[Any, Any]]:
    """Key -> (value in the first run, value in the second) for every part of the environment that differs."""
    one, two = first.environment.facts(), second.environment.facts()
    return {key: (one.get(key), two.get(key)) for key in sorted({**one, **two}) if one.get(key) != two.get(key)}
