# SPDX-License-Identifier: Apache-2.0
"""Several runs side by side: what was measured where, and the points that more than one testbed measured.

Ratios with intervals stay within a run, whose points were interleaved on one testbed. Between testbeds, only the
spread of the same point is given: it says how far a figure depends on the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import median

from xdplab.analysis.doubts import undoubted
from xdplab.analysis.run import Run
from xdplab.analysis.runs.apart import environment_difference
from xdplab.measure import Figure
from xdplab.measure.point import PointSummary


@dataclass(frozen=True)
class SharedPoint:
    """One point that runs on different testbeds measured; values by testbed."""

    title: str
    figure: Figure
    values: dict[str, float]

    @property
    def spread(self) -> float:
        """The highest over the lowest."""
        return max(self.values.values()) / min(self.values.values())


def main_figures(runs: Sequence[Run]) -> list[Figure]:
    """Of the methods of these runs, those that a page over several has room for."""
    found = [each for run in runs for each in run.method.figures if each.main]
    return sorted({each.key: each for each in found}.values(), key=lambda each: not each.at_load)


def shared_points(runs: Sequence[Run]) -> list[SharedPoint]:
    """Points of which at least two testbeds have a figure that is no bound, with the median of each testbed's runs.

    The same point is one by the same method and tester.
    """
    found = []
    by_point: dict[tuple[str, ...], list[tuple[Run, PointSummary]]] = {}
    for run in runs:
        for summary in run.points:
            if summary.repetitions:
                key = summary.point_id, run.record.study.method.model_dump_json(), _tester(run, summary)
                by_point.setdefault(key, []).append((run, summary))
    titles = _titles([measured[0] for measured in by_point.values()])
    for title, measured in zip(titles, by_point.values(), strict=True):
        for figure in main_figures(runs):
            values: dict[str, list[float]] = {}
            for run, summary in measured:
                if value := undoubted(summary, figure.key):
                    values.setdefault(run.testbed, []).append(value)
            if len(values) > 1:
                middle = {testbed: median(each) for testbed, each in sorted(values.items())}
                found.append(SharedPoint(title, figure, middle))
    return found


def testbed_differences(runs: Sequence[Run]) -> dict[str, dict[str, tuple[object, object]]]:
    """Testbed -> what of its environment differs from that of the first run's testbed."""
    first = runs[0]
    return {
        run.testbed: environment_difference(first.record, run.record)
        for run in reversed(runs)
        if run.testbed != first.testbed
    }


def _tester(run: Run, summary: PointSummary) -> str:
    return summary.tester or run.record.study.all_testers[0]


def _titles(measured: Sequence[tuple[Run, PointSummary]]) -> list[str]:
    """Each with its settings, and of rate, method and tester what is not the same in all."""
    often = []
    for run, summary in measured:
        study = run.record.study
        method = study.method.model_dump(mode="json", exclude_defaults=True)
        words = " ".join(f"{key}={value}" for key, value in method.items() if key != "name")
        probes = run.record.points[summary.point_id].traffic.probes_text
        often.append((f"probes {probes}", f"{study.method.name} {words}".strip(), f"by {_tester(run, summary)}"))
    differs = [len(set(column)) > 1 for column in zip(*often, strict=True)]
    return [
        ", ".join([summary.forwarder, summary.path, summary.size, *summary.settings, *compress(words, differs)])
        for (_, summary), words in zip(measured, often, strict=True)
    ]
