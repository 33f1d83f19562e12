# SPDX-License-Identifier: Apache-2.0
"""What a comparison found, and the answer of a run, as data: `analysis.compare` makes it, `analysis.words` says it."""

from typing import Literal

from xdplab.model import Model
from xdplab.stats import Interval

Sense = Literal["exact", "at least", "at most", "unknown"]
#: Two are called equal where the interval of their ratio lies within this share either way, unless the study names
#: another one.
EQUIVALENCE_MARGIN = 0.10
#: Of the sentence of an answer.
MAX_WORDS = 30


class Comparison(Model):
    """Point against a reference, as a ratio that is above 1 when the point is better, whatever the metric."""

    point: str
    reference: str
    point_id: str
    reference_id: str
    metric: str
    #: Of two runs, which were not measured in the same rounds.
    apart: bool = False
    #: `exact`: the ratio; of figures between two ends each, its middle. `at least`, `at most`: what is known of it, for
    #: figures of a side are bounds.
    #: `unknown`: nothing is, and `interval` is None.
    sense: Sense
    interval: Interval | None
    #: Rounds in which both were measured; of two runs, the repetitions of the one that has fewer.
    rounds: int
    #: Within this share either way of 1 an interval is no measurable difference.
    equivalence_margin: float = EQUIVALENCE_MARGIN
    #: Why no winner may be named whatever the interval says; each says what to do.
    blockers: tuple[str, ...] = ()
    #: What has to be said next to it.
    remarks: tuple[str, ...] = ()

    @property
    def better(self) -> bool | None:
        """True when the point is, False when the reference is, None when neither may be named."""
        if self.blockers or self.interval is None or not self.interval.differs:
            return None
        ahead = self.interval.ratio > 1
        return None if self.sense == ("at most" if ahead else "at least") else ahead

    @property
    def alike(self) -> bool:
        """Whether the whole interval lies so near to 1 that it is no measurable difference."""
        found, near = self.interval, 1 + self.equivalence_margin
        if self.blockers or found is None or self.sense != "exact" or self.better is not None:
            return False
        return found.low is not None and found.high is not None and found.low >= 1 / near and found.high <= near

    @property
    def decided(self) -> bool:
        """Whether it answers the question, be it that there is no measurable difference."""
        return self.better is not None or self.alike

    @property
    def more_rounds(self) -> int | None:
        """About how many more rounds would decide it, by the scatter of those there are; None: known, or no number."""
        if self.decided or self.blockers or self.sense != "exact" or self.apart or self.interval is None:
            return None
        return self.interval.rounds_until_known(self.equivalence_margin)


class Answer(Model):
    """The first sentence of a run, what stands behind it, and the comparison it is of (None when there is none)."""

    #: At most `MAX_WORDS` words.
    sentence: str
    #: Figures, how it was found, the other rate: a sentence each.
    details: tuple[str, ...] = ()
    #: False where nothing is decided; the sentence then says why.
    decided: bool = False
    comparison: Comparison | None = None
    #: With a light load, which `comparison` is of: the one at the study's rate.
    at_rate: Comparison | None = None

    def text(self) -> str:
        """For a terminal or a log: the sentence, and its details below."""
        return "\n".join([self.sentence, *(f"  {each}" for each in self.details)])
