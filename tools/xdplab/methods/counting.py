# SPDX-License-Identifier: Apache-2.0
"""What methods share that count by themselves: a rate in each trial's record, what limited it, who is ahead by it."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from xdplab.analysis.answers.ranking import Contender, conditions, ranking
from xdplab.analysis.compare import compare_points, corrected
from xdplab.analysis.summary import first_measured
from xdplab.measure.comparison import Answer, Comparison
from xdplab.measure.figure import CountedFigures, Figure
from xdplab.measure.measured import Measured, RepetitionFigures
from xdplab.measure.method import Method, Session, SpecT
from xdplab.measure.point import PointSummary
from xdplab.model import RunRecord, StreamSpec, TrialRecord, TrialResult, TrialSpec, Unsupported
from xdplab.model.digits import significant

#: Frames that a program handles; with the tester as its limit it might have taken more.
MPPS = Figure(key="mpps", name="rate", unit="Mpps", better="more", verb="handles", precision=1e6)
#: A program that took this share of what the tester sent might have taken more.
TOOK_ALL = 0.99
#: Wait for frames that are under way, in s.
DRAIN_S = 0.1
#: Until a program has met what was sent to it before it is counted; nothing of that comes back.
UNDER_WAY_S = 0.08
#: Of the frames that a program is given before it is asked again what is in force.
_FIRST_S = 0.02


class RateRecord(CountedFigures):
    """Frames that a program handled."""

    #: Mean rate over the trial, in millions of frames per second.
    mpps: float
    #: What the tester sent meanwhile, in frames per second; None: it sent nothing.
    sent_pps: float | None
    #: The program can handle no more than the tester sends.
    limited: bool

    @classmethod
    def counted(cls, pps: float, result: TrialResult, *, limited: bool) -> "RateRecord":
        """Of a rate, and what the tester says of its own."""
        sent_pps = result.sent / result.elapsed_s if result.streams else None
        return cls(text=f"{pps / 1e6:.3f} Mpps", mpps=pps / 1e6, sent_pps=sent_pps, limited=limited)

    @property
    def took_all(self) -> bool:
        """Whether the tester was the limit."""
        return bool(self.limited and self.sent_pps and 1e6 * self.mpps / self.sent_pps >= TOOK_ALL)


def figure_of_trial(value: float | None, *, took_all: bool, resolution: float = 0.0) -> Measured:
    """What a trial counted: a lower bound where the program took all that the tester sent."""
    if value is None or not took_all:
        return Measured(value=value, resolution=resolution)
    return Measured(value=value, low=value, high=math.inf, limited_by="tester", resolution=resolution)


def counting_trials(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The first of each repetition that has figures."""
    return first_measured(trial for trial in trials if trial.figures)


def first_frames(session: Session) -> None:
    """Give a program some frames where an option waits for them.

    Raises:
        Unsupported: an option is not in force.
    """
    if session.forwarder.ineffective() is None:
        return
    traffic = session.point.traffic
    some = StreamSpec(kind="load", pps=1000, frame_bytes=traffic.smallest, **traffic.headers)
    session.send(TrialSpec(streams=(some,), duration_s=_FIRST_S, drain_s=0.0))
    reason = session.forwarder.ineffective()
    if reason:
        raise Unsupported(reason)


class CountingMethod(Method[SpecT]):
    """A trial's record has a field for each of `figures` that it knows, with its key as name."""

    @property
    def one_way(self) -> bool:
        return False

    @abstractmethod
    def where(self, point: PointSummary) -> str:
        """Points of one place are compared: `rxdrop`."""

    def place(self, point: PointSummary, figure: Figure) -> Contender:
        """A point next to the others at its place."""
        return Contender(point, figure, point.forwarder + point.variant, self.where(point))

    def prove(self, session: Session) -> None:
        """What takes effect with the first frame, as busy polling before Linux 6.13, is given some and asked again."""
        first_frames(session)

    def record(self, trial: TrialRecord) -> CountedFigures:
        """As the one of `records` that has most of its fields.

        Raises:
            InputError: the line of the journal is not quite that.
        """
        kind = max(self.records, key=lambda each: len(each.model_fields.keys() & trial.figures.keys()))
        found = kind.of(trial)
        assert isinstance(found, CountedFigures)
        return found

    def values(self, record: CountedFigures) -> dict[str, float | None]:
        return {each.key: getattr(record, each.key) for each in self.figures if hasattr(record, each.key)}

    def resolution(self, figure: Figure, value: float | None) -> float:
        """Smallest relative difference that it resolves."""
        return 0.0

    def repetition_figures(self, trials: Sequence[TrialRecord]) -> list[RepetitionFigures]:
        """The values of each, and whether the tester was the limit."""
        return [
            RepetitionFigures(
                repetition=trial.repetition,
                figures={
                    each.key: figure_of_trial(
                        values[each.key], took_all=took_all, resolution=self.resolution(each, values[each.key])
                    )
                    for each in self.figures
                    if each.key in values
                },
            )
            for trial in counting_trials(trials)
            for record in [self.record(trial)]
            for values, took_all in [(self.values(record), isinstance(record, RateRecord) and record.took_all)]
        ]

    def contenders(self, points: Sequence[PointSummary]) -> list[Contender]:
        """Each point with the first of the figures that it has, next to those of the same conditions."""
        placed = [self.place(point, figure) for point in points if (figure := _first(self.figures, point))]
        under = self._conditions(points)
        return [replace(one, where=f"{one.where}{under[one.point.point_id]}") for one in placed]

    @staticmethod
    def _conditions(points: Sequence[PointSummary]) -> dict[str, str]:
        """But for the levels, which name the place."""
        return conditions(points, without={name for point in points for name in point.levels})

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer:
        """Who is ahead at each place."""
        under = self._conditions(summaries)
        failed = [
            f"{self.where(point)}{under[point.point_id]}: {point.forwarder}{point.variant}"
            for point in summaries
            if point.status in ("failed", "partial")
        ]
        return ranking(self.contenders(summaries), failed)


def _first(figures: Sequence[Figure], point: PointSummary) -> Figure | None:
    return next((each for each in figures if any(one.value(each.key) for one in point.by_repetition)), None)


# A rate over the number of cores or threads that work for it, and in what range it grows, as far as it is known.


@dataclass(frozen=True)
class Rung:
    """A rate with so many cores."""

    number: int
    row: Contender
    #: In words, where the number alone does not say it: `2 threads, 4 queues`.
    at: str = ""

    @property
    def values(self) -> list[float]:
        """Of the repetitions that stand for it; none: it was not measured, or no rate is known."""
        return self.row.values

    @property
    def rate(self) -> float | None:
        return median(self.values) if self.values else None

    @property
    def doubt(self) -> str:
        """Why it decides nothing: failed, or a bound; empty where it does."""
        return self.row.blocker or self.row.limit


@dataclass(frozen=True)
class Curve:
    """Rates of what differs in the number of cores; fewest first."""

    rungs: Sequence[Rung]

    @property
    def one(self) -> Rung | None:
        """The best with one core, which all others are parts of; None: `without`."""
        return None if self.without else self._best

    @property
    def without(self) -> str:
        """Why nothing is a part of the rate with one; empty where it is."""
        if self._best is None:
            return "it was not measured"
        return self._best.doubt or ("" if min(self._best.values) > 0 else "it forwarded nothing")

    @property
    def _best(self) -> Rung | None:
        """A lower bound may be of the best."""
        ones = [each for each in self.rungs if each.number == 1 and each.values]
        return max(ones, key=lambda each: each.row.point.measured[each.row.figure.key].high, default=None)

    def compared(self) -> dict[int, Comparison]:
        """Place of a rung -> it over one core, and over the one measured before it (`-place`); one family (Holm)."""
        found: dict[int, Comparison | None] = {}
        before = None
        for place, rung in enumerate(self.rungs):
            if not rung.values:
                continue
            for key, other in ((place, self._best), (-place, before)):
                if other is not None and other is not rung:
                    found[key] = compare_points(rung.row.point, other.row.point, rung.row.figure.key)
            before = rung
        return corrected(found)

    def share(self, rung: Rung) -> str:
        """Part of as many times the rate of one core, by its interval; empty where it is not known.

        `77 to 82 %`, `at least 78 %`, `at most 60 %`.
        """
        return self._over_one(rung, lambda end: f"{100 * end / rung.number:.0f}", " %")

    def times(self, rung: Rung) -> str:
        """Times the rate of one core, by its interval: `3.54 to 4.07`; empty where it is not known."""
        return self._over_one(rung, significant)

    def _over_one(self, rung: Rung, written: Callable[[float], str], unit: str = "") -> str:
        if self.one is None or rung.row.blocker:
            return ""
        found = self.compared().get(list(self.rungs).index(rung))
        if found is None or found.blockers or found.interval is None:
            return ""
        low, high = found.interval.low, found.interval.high
        if not low or not high:
            return ""
        match found.sense:
            case "at least":
                return f"at least {written(low)}{unit}"
            case "at most":
                return f"at most {written(high)}{unit}"
        return f"{written(low)} to {written(high)}{unit}"
