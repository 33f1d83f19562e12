# SPDX-License-Identifier: Apache-2.0
"""What a comparison found, and the answer of a run, as data: `analysis.compare` makes it, `analysis.words` says it."""

from typing import Literal

from xdplab.model import Model
from xdplab.stats.interval import Interval

Sense = Literal["exact", "at least", "at most", "within", "unknown"]
#: What decided: turns that two points took; pairs that the machine left undisturbed; pairs that were disturbed, by what
#: their disturbed part may have been; the means of two runs; or nothing, because there are too few.
Basis = Literal["turns", "clean", "bounds", "runs", "few"]
#: "No measurable difference" is said of an interval within this share either way, where the study names no other.
ALIKE_WITHIN = 0.25
#: Of the sentence of an answer.
MAX_WORDS = 30


class Comparison(Model):
    """Point against a reference, as a ratio that is above 1 when the point is better, whatever the metric."""

    point: str
    reference: str
    point_id: str
    reference_id: str
    metric: str
    #: What decided.
    basis: Basis
    #: `exact`: the ratio. `at least`, `at most`, `within`: what is known of it, for figures of a side are bounds.
    #: `unknown`: nothing is, and `interval` is None.
    sense: Sense
    interval: Interval | None
    #: The plain ratio of all pairs, disturbed or not: what stands next to a bound.
    estimate: Interval | None = None
    #: The same over the first attempts alone; None where nothing was repeated.
    first: Interval | None = None
    #: Pairs that the machine disturbed on neither side, and all.
    clean: int
    repetitions: int
    #: The largest share of a trial that it disturbed; None where that is not known.
    share: float | None = None
    #: The largest share of every trial at which the same would still be said; None: not decided by bounds.
    breakdown: float | None = None
    #: Within this share either way of 1 an interval is no measurable difference.
    alike_within: float = ALIKE_WITHIN
    #: Why no winner may be named whatever the interval says; each says what to do.
    hindrances: tuple[str, ...] = ()
    #: What has to be said next to it.
    remarks: tuple[str, ...] = ()

    @property
    def better(self) -> bool | None:
        """True when the point is, False when the reference is, None when neither may be named."""
        if self.hindrances or self.interval is None or self.sense == "within" or not self.interval.differs:
            return None
        ahead = self.interval.ratio > 1
        return None if self.sense == ("at most" if ahead else "at least") else ahead

    @property
    def alike(self) -> bool:
        """Whether the whole interval lies so near to 1 that it is no measurable difference."""
        found, near = self.interval, 1 + self.alike_within
        if self.hindrances or found is None or self.sense not in ("exact", "within") or self.better is not None:
            return False
        return found.low is not None and found.high is not None and found.low >= 1 / near and found.high <= near

    @property
    def known(self) -> bool:
        """Whether it answers the question, be it that there is no measurable difference."""
        return self.better is not None or self.alike

    @property
    def depends_on_repeats(self) -> bool:
        """True when the first attempts alone say something else."""
        if self.first is None or self.interval is None:
            return False
        found = [(each.differs, each.differs and each.ratio > 1) for each in (self.first, self.interval)]
        return found[0] != found[1]


class Answer(Model):
    """The first sentence of a run, what stands behind it, and the comparison it is of (None when there is none)."""

    #: At most `MAX_WORDS` words.
    sentence: str
    #: Figures, how it was found, the other rate: a sentence each.
    details: tuple[str, ...] = ()
    #: False where nothing is decided; the sentence then says why.
    said: bool = False
    comparison: Comparison | None = None
    #: With a light load, which `comparison` is of: the one at the study's rate.
    at_rate: Comparison | None = None

    def text(self) -> str:
        """For a terminal or a log: the sentence, and its details below."""
        return "\n".join([self.sentence, *(f"  {each}" for each in self.details)])
