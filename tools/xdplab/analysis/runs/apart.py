# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side: the points that both have, and what the runs differ in."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xdplab.analysis.compare import compare_between_runs, corrected
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
    several = (f"the runs differ in {', '.join(things)}: each of them may be the cause",) if len(things) > 1 else ()
    earlier = {summary.point_id: summary for summary in first}
    shared = [s for s in second if s.point_id in earlier and s.repetitions and earlier[s.point_id].repetitions]
    found = {
        (s.point_id, metric): compare_between_runs(s, earlier[s.point_id], metric)
        for s in shared
        for metric in metrics
        if s.searched(metric) and earlier[s.point_id].searched(metric)
    }
    family = corrected(found)
    family = {key: one.model_copy(update={"blockers": (*several, *one.blockers)}) for key, one in family.items()}
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


class Environments(NamedTuple):
    """Of several runs, by their names."""

    #: Runs that have the same environment in everything, the first run's first.
    groups: list[list[str]]
    #: Fact -> its value in each group, None where there is none; of those that differ.
    differing: dict[str, list[str | None]]
    #: How many facts are the same in all.
    same: int


def environments(runs: Sequence[tuple[str, RunRecord]]) -> Environments:
    """Compare them fact by fact, and what programs printed line by line."""
    groups: list[tuple[dict[str, str], list[str]]] = []
    for name, run in runs:
        facts = _facts(run)
        own = next((names for known, names in groups if known == facts), None)
        if own is None:
            groups.append((facts, own := []))
        own.append(name)
    keys = dict.fromkeys(key for facts, _ in groups for key in facts)
    values = {key: [facts.get(key) for facts, _ in groups] for key in keys}
    found = [(key, each) for key, each in values.items() if len(set(each)) > 1]
    # what has several values comes before what some do not have, such as cards
    differing = dict(sorted(found, key=lambda pair: len({*pair[1]} - {None}) < 2))
    return Environments([names for _, names in groups], differing, len(values) - len(differing))


def _facts(run: RunRecord) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in run.environment.facts().items():
        text = str(value)
        lines = text.splitlines() if "\n" in text else []
        if not lines:
            found[key] = text
        seen: Counter[str] = Counter()
        for line in lines:
            name, colon, content = line.strip().partition(":")
            seen[name] += 1  # `ethtool -g` has what can be and what is under the same names
            again = f" ({seen[name]})" if seen[name] > 1 else ""
            found[f"{key}: {name}{again}"] = content.strip() if colon else "there"
    return found
