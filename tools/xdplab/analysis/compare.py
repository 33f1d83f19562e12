# SPDX-License-Identifier: Apache-2.0
"""Comparisons are paired: the same repetition of two points, taken minutes apart on the same machine.

What a comparison may say is decided here, once, by the rules of docs/claims.md; tables, answers and suites print it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from xdplab.analysis.doubts import doubts_of
from xdplab.analysis.figures import RepetitionFigures
from xdplab.analysis.stats import MIN_PAIRS, Interval, ratio_interval, together
from xdplab.analysis.summary import PointSummary
from xdplab.methods import P50, P99, Figure, figure
from xdplab.model import Model, RunRecord
from xdplab.model.digits import significant

Key = TypeVar("Key")
Pair = tuple[RepetitionFigures, RepetitionFigures]
Sense = Literal["exact", "at least", "at most", "within", "unknown"]


class Comparison(Model):
    """Point against a reference, as a ratio that is above 1 when the point is better, whatever the metric.

    The ratio is of the pairs that the machine left undisturbed, of all where those are too few.
    """

    point: str
    reference: str
    point_id: str
    reference_id: str
    metric: str
    #: `exact`: the ratio. `at least`, `at most`, `within`: what is known of it, for figures of a side are bounds.
    #: `unknown`: nothing is, and `interval` is None.
    sense: Sense
    interval: Interval | None
    #: The same over the first attempts, disturbed or not; None where they are the same pairs.
    first: Interval | None = None
    clean: int
    repetitions: int
    #: Why no winner may be named whatever the interval says; each says what to do.
    hindrances: tuple[str, ...] = ()
    #: What has to be said beside it.
    remarks: tuple[str, ...] = ()

    @property
    def better(self) -> bool | None:
        """True when the point is, False when the reference is, None when neither may be named."""
        if self.hindrances or self.interval is None or self.sense == "within" or not self.interval.differs:
            return None
        ahead = self.interval.ratio > 1
        return None if self.sense == ("at most" if ahead else "at least") else ahead

    @property
    def depends_on_repeats(self) -> bool:
        """True when the first attempts alone say something else."""
        if self.first is None or self.interval is None:
            return False
        told = [(each.differs, each.differs and each.ratio > 1) for each in (self.first, self.interval)]
        return told[0] != told[1]

    def verdict(self) -> str:
        """In words."""
        if self.hindrances:
            return f"cannot be said: {self.hindrances[0]}"
        if self.better is None:
            return (
                "cannot be told apart" if self.sense in ("exact", "within") else "cannot be said: a figure is a bound"
            )
        words = "has more" if figure(self.metric).more else "is faster"
        repeats = ", but the first attempts do not say so" if self.depends_on_repeats else ""
        return f"{self.point if self.better else self.reference} {words}{repeats}"

    @property
    def known(self) -> bool:
        """Whether it answers the question, be it that the two cannot be told apart."""
        return not self.hindrances and (self.better is not None or self.sense in ("exact", "within"))

    def ahead(self) -> tuple[str, str, str]:
        """How far the better one is: `3 times`; in how many repetitions; its interval. The last two may be empty."""
        assert self.interval is not None
        ratio = self.interval if self.better else self.interval.inverted()
        if self.sense != "exact":
            return f"at least {significant(ratio.low or 1)} times", "", ""
        if ratio.method == "each-pair":
            return f"at least {significant(ratio.least or 1)} times", f" in each of {ratio.pairs} repetitions", ""
        return f"{significant(ratio.ratio)} times", "", f" ({ratio.confidence:.0%} interval {ratio.spread()})"

    @property
    def beside(self) -> list[str]:
        """What has to be said beside how far one is ahead."""
        return [*self.remarks, *(["this depends on repeats"] if self.depends_on_repeats else [])]

    @property
    def figure(self) -> str:
        """The ratio, or the bound of it; `not said` where there is a hindrance."""
        known = self.interval
        if self.hindrances:
            return "not said"
        if known is None or self.sense == "within":
            return "–" if known is None else f"within {significant(known.low or 0)} to {significant(known.high or 0)}"
        bound = {"at least": known.low, "at most": known.high}.get(self.sense)
        return significant(known.ratio) if bound is None else f"{self.sense} {significant(bound)}"

    @property
    def spread(self) -> str:
        """Its interval; empty for a bound, and where the ratio is not said."""
        if self.interval is None or self.sense != "exact" or self.hindrances:
            return ""
        return self.interval.spread()

    def text(self) -> str:
        """Both."""
        return f"{self.figure} ({self.spread})" if self.spread else self.figure

    def told(self) -> str:
        """Both, or why neither is said."""
        return f"{self.text()}: {self.hindrances[0]}" if self.hindrances else self.text()


class Paired(NamedTuple):
    """Repetitions that both sides have: all, those that the machine disturbed on neither, and those that stand."""

    pairs: list[Pair]
    clean: list[Pair]
    used: list[Pair]


def paired_repetitions(point: PointSummary, reference: PointSummary, metric: str) -> Paired | None:
    """By their number; None when no repetition is there on both sides."""
    ours = {figures.repetition: figures for figures in point.by_repetition}
    theirs = {figures.repetition: figures for figures in reference.by_repetition}
    pairs = [
        (ours[number], theirs[number])
        for number in sorted(ours.keys() & theirs.keys())
        if ours[number].was_searched(metric) and theirs[number].was_searched(metric)
    ]
    clean = [pair for pair in pairs if not any(figures.was_disturbed(metric) for figures in pair)]
    return Paired(pairs, clean, clean if len(clean) >= MIN_PAIRS else pairs) if pairs else None


def compare_points(point: PointSummary, reference: PointSummary, metric: str = "p50_us") -> Comparison | None:
    """Pairs repetitions of the same number; None when no repetition is there on both sides."""
    paired = paired_repetitions(point, reference, metric)
    if paired is None:
        return None
    pairs, clean, used = paired
    first = [pair for pair in pairs if pair[0].repetition < point.planned]
    sense, interval = _interval(used, metric)
    doubts = doubts_of((point, reference), metric, len(pairs), len(clean))
    unordered = ("both figures are bounds, and nothing says which is higher",)
    return Comparison(
        point=point.forwarder,
        reference=reference.forwarder,
        point_id=point.point_id,
        reference_id=reference.point_id,
        metric=metric,
        sense=sense,
        interval=interval,
        first=None if first == used else _interval(first, metric)[1],
        clean=len(clean),
        repetitions=len(pairs),
        hindrances=doubts.hindrances or (unordered if sense == "unknown" else ()),
        remarks=doubts.remarks,
    )


def compare_all(
    points: Iterable[PointSummary], reference: PointSummary | None, metric: str = "p50_us"
) -> dict[str, Comparison]:
    """Point id -> comparison with the reference's forwarder at the same setting: no ratio mixes paths, sizes or knobs.

    `points` is what a table shows: its comparisons are a family and corrected together (Holm).
    """
    points = list(points)
    at_setting = {one.setting: one for one in points if reference is not None and one.forwarder == reference.forwarder}
    found = {
        one.point_id: compare_points(one, at_setting[one.setting], metric)
        for one in points
        if one.setting in at_setting and one.point_id != at_setting[one.setting].point_id
    }
    return corrected({point_id: one for point_id, one in found.items() if one is not None})


def corrected(family: Mapping[Key, Comparison]) -> dict[Key, Comparison]:
    """The comparisons of one table, corrected together (Holm)."""
    told = together([one.interval for one in family.values()])
    first = together([one.first or one.interval for one in family.values()])
    return {
        key: one.model_copy(update={"interval": interval, "first": one.first and alone})
        for (key, one), interval, alone in zip(family.items(), told, first, strict=True)
    }


def unsaid(comparisons: Iterable[Comparison | None]) -> dict[str, list[str]]:
    """Why a table has no ratio -> of which points."""
    found: dict[str, list[str]] = {}
    for one in filter(None, comparisons):
        for hindrance in one.hindrances:
            found.setdefault(hindrance, []).append(one.point)
    return found


def _interval(pairs: Sequence[Pair], metric: str) -> tuple[Sense, Interval | None]:
    """What is known of the ratio, from what is known of each side of each pair."""
    known = [tuple(bounds(figures, metric) for figures in pair) for pair in pairs]
    more = figure(metric).more
    over = [pair if more else pair[::-1] for pair in known]
    resolution = max((figures.resolution.get(metric, 0.0) for pair in pairs for figures in pair), default=0.0)
    lowest = _ratio([(above[0], below[1]) for above, below in over], resolution)
    highest = _ratio([(above[1], below[0]) for above, below in over], resolution)
    if all(low == high for pair in known for low, high in pair):
        return ("exact", lowest) if lowest else ("unknown", None)
    if highest is None or (lowest is not None and lowest.differs and lowest.ratio > 1):
        return ("at least", lowest) if lowest else ("unknown", None)
    if lowest is None or (highest.differs and highest.ratio < 1):
        return "at most", highest
    if lowest.low is None or highest.high is None:
        return "unknown", None
    # neither end tells: all that is known is where it lies, and no correction makes that wider or narrower
    middle = math.sqrt(lowest.ratio * highest.ratio)
    return "within", Interval(ratio=middle, low=lowest.low, high=highest.high, pairs=len(pairs))


def _ratio(pairs: Sequence[tuple[float, float]], resolution: float) -> Interval | None:
    """None when a pair is without bound: it may not be left out."""
    usable = all(0 < value < math.inf for pair in pairs for value in pair)
    return ratio_interval(pairs, resolution=resolution) if usable else None


def bounds(figures: RepetitionFigures, metric: str) -> tuple[float, float]:
    """Between what and what the true figure lies."""
    value = figures.value(metric)
    if value is None:  # searched, and no load was found good
        return 0.0, figures.at_most.get(metric, math.inf)
    limit = figures.limited_by.get(metric)
    if not figure(metric).more:  # of latencies a limit is a doubt (`doubts_of`)
        return (0.0 if limit == "below-minimum" else value), value
    match limit:
        case "tester" | "budget":
            return value, figures.at_most.get(metric, math.inf)
        case "below-minimum":
            return 0.0, figures.at_most.get(metric, value)
    return value, value


def self_comparisons(point: PointSummary, twin: PointSummary, group: int, metric: str = "p50_us") -> list[Comparison]:
    """Comparisons of a point with itself under another label, each over `group` consecutive repetitions."""
    found = []
    count = min(len(point.by_repetition), len(twin.by_repetition)) // group
    for start in range(0, count * group, group):
        part = {"by_repetition": point.by_repetition[start : start + group]}
        other = {"by_repetition": twin.by_repetition[start : start + group]}
        comparison = compare_points(point.model_copy(update=part), twin.model_copy(update=other), metric)
        if comparison is not None:
            found.append(comparison)
    return found


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
        (s.point_id, metric): compare_points(_called(s, "after"), _called(earlier[s.point_id], "before"), metric)
        for s in shared
        for metric in metrics
    }
    told = corrected({key: one for key, one in found.items() if one is not None})
    told = {key: one.model_copy(update={"hindrances": (*several, *one.hindrances)}) for key, one in told.items()}
    return [(earlier[s.point_id], s, {metric: told.get((s.point_id, metric)) for metric in metrics}) for s in shared]


def _called(summary: PointSummary, when: str) -> PointSummary:
    """The two sides are of one forwarder: a verdict has to say of which run."""
    return summary.model_copy(update={"forwarder": f"{summary.forwarder} ({when})"})


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
