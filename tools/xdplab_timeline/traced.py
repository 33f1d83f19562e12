# SPDX-License-Identifier: Apache-2.0
"""What the methods that follow frames through a forwarder share: trials in pairs, with a recorder and without."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import median
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field

from xdplab.api import (
    Method,
    MethodSpec,
    Session,
    TrafficSpec,
    TrialFigures,
    TrialRecord,
    TrialSpec,
    distribution,
    if_enough_samples,
    probe_streams,
)
from xdplab_timeline.batches import BatchCounts, ProbeRecords
from xdplab_timeline.recorders import Recorder, one_in, recording

#: In the clause of a trial that is not traced.
WITHOUT = "without"
#: Probes that a frame waits for until it is sent: receive and transmit.
PROBES_ON_THE_WAY = 2
#: Frames per batch up to which a frame is alone: above, the probes' cost is shared and makes others wait.
ALONE = 1.1
FiguresT = TypeVar("FiguresT", bound=TrialFigures)


class PairsAtRate(BatchCounts):
    """Medians over the pairs of trials at one rate, and counts of all batches."""

    #: Probes per second.
    rate_pps: float
    #: Pairs of trials with both sides.
    pairs: int
    #: p50 and p99 of the tester's latency without tracing.
    without_us: dict[str, float]
    #: The same with it.
    with_us: dict[str, float]


def at_rate(
    rate_pps: float,
    pairs: Sequence[tuple[TrialRecord, ...]],
    sides: Sequence[dict[str, list[float]]],
    counts: Sequence[BatchCounts],
) -> PairsAtRate:
    """`sides`: the `percentiles` of both. `counts`: of each traced trial."""
    without_us, with_us = ({name: median(values) for name, values in each.items() if values} for each in sides)
    return PairsAtRate(
        rate_pps=rate_pps,
        pairs=len(pairs),
        without_us=without_us,
        with_us=with_us,
        **{name: sum(getattr(one, name) for one in counts) for name in BatchCounts.model_fields},
    )


def paired_trials(trials: Iterable[TrialRecord], *clauses: str) -> list[tuple[TrialRecord, ...]]:
    """Trials of each clause, paired in their order within a repetition.

    Which trials of a repetition that broke off belong together is not known: it has none. A pair with a side of which
    no frame arrived has no p50 to compare.
    """
    last = {(trial.repetition, trial.trial, trial.clause): trial for trial in trials if trial.result is not None}
    found: dict[int, dict[str, list[TrialRecord]]] = {}
    for repetition, number, clause in sorted(last):
        by_clause = found.setdefault(repetition, {each: [] for each in clauses})
        if clause in by_clause:
            by_clause[clause].append(last[repetition, number, clause])
    whole = [sides for sides in found.values() if len({len(each) for each in sides.values()}) == 1]
    pairs = [pair for sides in whole for pair in zip(*sides.values(), strict=True)]
    return [pair for pair in pairs if all(percentiles([trial])["p50_us"] for trial in pair)]


def journaled(kind: type[FiguresT], trials: Iterable[TrialRecord], clause: str) -> list[FiguresT]:
    """Figures of the clauses that match a pattern: `tracing 10000 bpf stages *`."""
    return [kind.of(each) for each in trials if each.purpose == "figures" and fnmatchcase(each.clause, clause)]


def percentiles(trials: Iterable[TrialRecord]) -> dict[str, list[float]]:
    """p50 and p99 of each trial in us; no p99 where the trials together do not carry one."""
    trials = list(trials)
    merged = [distribution([trial]) for trial in trials]
    known = {"p50_us": 50.0, **({"p99_us": 99.0} if if_enough_samples(trials, 99, 0.0) is not None else {})}
    found = {name: [one.percentile_us(percent) for one in merged] for name, percent in known.items()}
    return {name: [value for value in values if value is not None] for name, values in found.items()}


class TracedSpec(MethodSpec):
    """At each rate, trials with tracing next to trials without."""

    #: Probes per second.
    rates_pps: tuple[Annotated[float, Field(gt=0, le=10e6)], ...] = Field(default=(10e3, 50e3, 100e3), min_length=1)
    #: Rounds at each rate.
    pairs: int = Field(default=3, ge=1, le=100)
    #: Length of a trial.
    duration_s: float = Field(default=0.5, ge=0.05, le=60)
    #: Traffic before it, which is not counted.
    warmup_s: float = Field(default=0.1, ge=0, le=10)
    #: How long late frames are waited for at the most.
    drain_s: float = Field(default=0.1, ge=0.01, le=10)


TracedT = TypeVar("TracedT", bound=TracedSpec)


class TracedTrial(NamedTuple):
    """One with a recorder around it, which kept one batch in `every`."""

    rate_pps: float
    round: int
    way: str
    every: int


class TracedMethod(Method[TracedT]):
    """At each rate rounds of trials: one without, one for each way, in turns of which end of the row comes first."""

    own_rates: ClassVar[bool] = True
    lets_others: ClassVar[bool] = True

    @property
    @abstractmethod
    def ways(self) -> Mapping[str, Recorder]:
        """How frames are followed, as in the clauses of trials, and who records it."""

    @abstractmethod
    def possible(self, session: Session) -> Sequence[str]:
        """Those of the ways that forwarder and machine have, found out before anything is measured.

        Raises:
            Unsupported: none.
        """

    @abstractmethod
    def keep(self, session: Session, traced: TracedTrial, found: ProbeRecords) -> None:
        """Journal what was recorded: nothing where the journal of a resumed run answered the trial."""

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """In each round one without, and one for each way."""
        once = self.spec.warmup_s + self.spec.duration_s + self.spec.drain_s
        return [once] * ((1 + len(self.ways)) * self.spec.pairs * len(self.spec.rates_pps))

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """The highest of its own rates."""
        return max(self.spec.rates_pps) * len(traffic.directions)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Each rate in turn.

        Raises:
            Unsupported: frames can be followed in none of the ways.
        """
        spec, ways = self.spec, self.possible(session)
        purpose: Literal["measure", "search"] = "measure"
        for rate in spec.rates_pps:
            streams = probe_streams(traffic, rate)
            trial = TrialSpec(streams=streams, duration_s=spec.duration_s, warmup_s=spec.warmup_s, drain_s=spec.drain_s)
            every = one_in(rate, spec.warmup_s + spec.duration_s)
            for number in range(spec.pairs):
                if number or rate != spec.rates_pps[0]:
                    session.let_others()  # between two rows, when nothing is attached
                session.progress(f"  {self.name} at {rate / 1e3:g} kpps, round {number + 1} of {spec.pairs}")
                for way in (None, *ways) if number % 2 == 0 else (*reversed(ways), None):
                    clause = f"{self.name} {rate:.0f} {way or WITHOUT}"
                    if way is None:
                        session.trial(trial, purpose=purpose, clause=clause)
                        purpose = "search"
                        continue
                    with recording(session, self.ways[way], every) as end:
                        session.trial(trial, purpose="search", clause=clause)
                        found = end()
                    self.keep(session, TracedTrial(rate, number, way, every), found)
