# SPDX-License-Identifier: Apache-2.0
"""How a throughput grows with the threads that forward: PMD threads of Open vSwitch, workers of VPP."""

from collections.abc import Sequence
from statistics import median

from xdplab.analysis.standing import Contender
from xdplab.analysis.stats import MIN_REPETITIONS, significant
from xdplab.analysis.summary import PointSummary
from xdplab.methods.rfc2544.figures import NDR
from xdplab.model import Model, Point, RunRecord

#: Options that say how many threads there are.
_THREADS = ("pmd_cores", "workers")
_QUEUES = "n_rxq"


class ThreadsFigure(Model):
    """One number of threads and queues."""

    threads: int
    queues: int
    #: Frames per second of each repetition; none: `reason`.
    values: tuple[float, ...]
    reason: str
    #: The tester sent no more: the rate is a lower bound.
    bounded: bool
    #: Part of as many times the rate of one thread, lowest and highest between any two repetitions; None: not known.
    efficiency: tuple[float, float] | None

    @property
    def text(self) -> str:
        """`2 threads, 2 queues: 1.9 Mpps, 79 to 86 % of 2 times one thread`."""
        where = f"{_counted(self.threads, 'thread')}, {_counted(self.queues, 'queue')}"
        if not self.values:
            return f"{where}: {self.reason or 'not measured'}"
        least, rate = "at least " if self.bounded else "", significant(median(self.values) / 1e6)
        told = f"{where}: {least}{rate} Mpps"
        if self.efficiency is not None:
            low, high = (f"{100 * each:.0f}" for each in self.efficiency)
            told += f", {least}{low}{'' if self.bounded else f' to {high}'} % of {self.threads} times one thread"
        return told + (" (limited by the tester)" if self.bounded else "")


class Curve(Model):
    """One forwarder with its other options, on one path at one frame size; fewest threads and queues first."""

    title: str
    figures: tuple[ThreadsFigure, ...]

    @property
    def lines(self) -> list[str]:
        """A line each, and why there is no efficiency."""
        told = [f"{self.title}: {figure.text}" for figure in self.figures]
        ones = [figure for figure in self.figures if figure.threads == 1 and figure.values]
        few = min((len(figure.values) for figure in self.figures if figure.values), default=0)
        if not ones:
            return [*told, f"{self.title}: no efficiency: one thread was not measured"]
        if all(figure.bounded for figure in ones):
            return [*told, f"{self.title}: no efficiency: one thread took all that the tester sent"]
        if few < MIN_REPETITIONS:
            told.append(f"{self.title}: too few repetitions to call it: {few}, {MIN_REPETITIONS} are needed")
        return told


def curves(run: RunRecord, summaries: Sequence[PointSummary]) -> list[Curve]:
    """Those of all forwarders whose threads vary."""
    groups: dict[str, dict[tuple[int, int], PointSummary]] = {}
    for summary in summaries:
        point = run.points[summary.point_id]
        name = next((name for name in _THREADS if point.forwarder.options.get(name)), None)
        if name is None:
            continue
        options = point.forwarder.options
        at = int(options[name]), int(options.get(_QUEUES, 1))
        groups.setdefault(_title(point, summary, name), {})[at] = summary
    return [
        Curve(title=title, figures=_figures(found))
        for title, found in groups.items()
        if len({threads for threads, _ in found}) > 1
    ]


def _title(point: Point, summary: PointSummary, threads: str) -> str:
    rest = {key: value for key, value in point.forwarder.options.items() if key not in (threads, _QUEUES)}
    knobs = {**rest, **point.knobs}
    told = [f"{key}={value}" for key, value in knobs.items()]
    parts = [point.forwarder.name, *told, f"{summary.frame_bytes} bytes"]
    return ", ".join([*parts, *([summary.pipeline] if summary.pipeline != "cross" else []), summary.path])


def _figures(found: dict[tuple[int, int], PointSummary]) -> tuple[ThreadsFigure, ...]:
    rows = {at: Contender(summary, NDR, summary.forwarder, "") for at, summary in sorted(found.items())}
    ones = [row for (threads, _), row in rows.items() if threads == 1 and row.values and not row.took_all]
    one = max(ones, key=lambda row: median(row.values), default=None)
    return tuple(
        ThreadsFigure(
            threads=threads,
            queues=queues,
            values=tuple(row.values),
            reason=row.point.reason,
            bounded=bool(row.values) and row.took_all,
            efficiency=_efficiency(threads, row, one),
        )
        for (threads, queues), row in rows.items()
    )


def _efficiency(threads: int, row: Contender, one: Contender | None) -> tuple[float, float] | None:
    if one is None or threads == 1 or not row.values:
        return None
    return min(row.values) / max(one.values) / threads, max(row.values) / min(one.values) / threads


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
