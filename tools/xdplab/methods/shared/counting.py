# SPDX-License-Identifier: Apache-2.0
"""What methods share that count by themselves: a figure in each trial's record, and who is ahead by it."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdplab.analysis.answers.standing import Contender, standings
from xdplab.measure import Figure, Method, Session
from xdplab.measure.comparison import Answer
from xdplab.measure.measured import RepetitionFigures
from xdplab.measure.method import SpecT
from xdplab.measure.point import PointSummary
from xdplab.methods.shared.rates import counted_figure, counted_trials, first_frames
from xdplab.model import RunRecord, TrialRecord


class CountingMethod(Method[SpecT]):
    """A trial has the values of `figures` by their keys."""

    repeats_whole: ClassVar[bool] = True

    @property
    def one_way(self) -> bool:
        """It counts."""
        return False

    @abstractmethod
    def where(self, point: PointSummary) -> str:
        """Points of one place are compared: `rxdrop`."""

    def place(self, point: PointSummary, figure: Figure) -> Contender:
        """A point beside the others at its place."""
        return Contender(point, figure, point.forwarder, self.where(point))

    def prove(self, session: Session) -> None:
        """What takes effect with the first frame, as busy polling before Linux 6.13, is given some and asked again."""
        first_frames(session)

    def values(self, trial: TrialRecord) -> dict[str, float | None]:
        """Of one trial."""
        return {each.key: trial.figures[each.key] for each in self.figures if each.key in trial.figures}

    def repetitions(self, trials: Sequence[TrialRecord]) -> list[RepetitionFigures]:
        """The values of each, and whether the tester was the limit."""
        return [
            RepetitionFigures(
                repetition=trial.repetition,
                figures={
                    each.key: counted_figure(values[each.key], trial, each)
                    for each in self.figures
                    if each.key in values
                },
            )
            for trial in counted_trials(trials)
            for values in [self.values(trial)]
        ]

    def contenders(self, points: Sequence[PointSummary]) -> list[Contender]:
        """Each point with the first of the figures that it has."""
        found = [(point, figure) for point in points if (figure := _first(self.figures, point))]
        return [self.place(point, figure) for point, figure in found]

    def notes(self, point: PointSummary) -> list[str]:
        """A bimodal figure."""
        splits = [one.bimodal for one in self.contenders([point]) if one.figure.more and one.bimodal]
        return [f"{self.where(point)}: {point.forwarder}: bimodal, {self.figures[0].unit}: {each}" for each in splits]

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer:
        """Who is ahead at each place."""
        called = {f"{self.where(point)}: {point.forwarder}": point for point in summaries}
        return standings(self.contenders(summaries), called)


def _first(figures: Sequence[Figure], point: PointSummary) -> Figure | None:
    return next((each for each in figures if any(one.value(each.key) for one in point.by_repetition)), None)
