# SPDX-License-Identifier: Apache-2.0
"""What the methods that follow frames through a forwarder share: trials in pairs, with something and without it."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from pydantic import Field

from xdplab.forwarders import Dut
from xdplab.forwarders.base import ProbeTarget
from xdplab.hosts import perf_probe
from xdplab.hosts.bpf import built
from xdplab.hosts.waiting import wait_until
from xdplab.measure.distribution import distribution, if_enough_samples
from xdplab.measure.method import Method, Session
from xdplab.measure.streams import probe_streams
from xdplab.methods.shared.batches import BatchCounts, ProbeRecords
from xdplab.model import MethodSpec, PointFailed, TrafficSpec, TrialRecord, TrialSpec, Unsupported
from xdplab.model.trial import Purpose


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


def percentiles(trials: Iterable[TrialRecord]) -> dict[str, list[float]]:
    """p50 and p99 of each trial in us; no p99 where the trials together do not carry one."""
    trials = list(trials)
    merged = [distribution([trial]) for trial in trials]
    known = {"p50_us": 50.0, **({"p99_us": 99.0} if if_enough_samples(trials, 99, 0.0) is not None else {})}
    found = {name: [one.percentile_us(percent) for one in merged] for name, percent in known.items()}
    return {name: [value for value in values if value is not None] for name, values in found.items()}


#: Probes that a frame waits for until it is sent: receive and transmit.
PROBES_ON_THE_WAY = 2
#: Frames per batch up to which a frame is alone: above, the probes' cost is shared and makes others wait.
ALONE = 1.1
#: In the clause of a trial that is not traced.
WITHOUT = "without"


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
    """One that the method has to take itself, with a recorder around it that keeps one batch in `every`."""

    rate_pps: float
    round: int
    way: str
    every: int
    spec: TrialSpec
    clause: str


class TracedMethod(Method[TracedT]):
    """At each rate rounds of trials: one without, one for each way, in turns of which end of the row comes first."""

    own_rates: ClassVar[bool] = True
    lets_others: ClassVar[bool] = True

    @property
    @abstractmethod
    def ways(self) -> Sequence[str]:
        """How frames are followed, as in the clauses of trials."""

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """In each round one without, and one for each way."""
        once = self.spec.warmup_s + self.spec.duration_s + self.spec.drain_s
        return [once] * ((1 + len(self.ways)) * self.spec.pairs * len(self.spec.rates_pps))

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """The highest of its own rates."""
        return max(self.spec.rates_pps) * len(traffic.directions)

    def rounds(self, session: Session, traffic: TrafficSpec, ways: Sequence[str]) -> Iterator[TracedTrial]:
        """Take the trials without tracing; yields the others, each in its turn."""
        spec = self.spec
        first: Purpose = "measure"
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
                    if way is not None:
                        yield TracedTrial(rate, number, way, every, trial, clause)
                        continue
                    session.trial(trial, purpose=first, clause=clause)
                    first = "search"


# Recorders of the static probes of a forwarding thread: `bpf/ovsprobe`, and perf as the delay study used it.

#: Records that fit the ring of `bpf/ovsprobe`, which is read when all is over.
ROOM = 60_000
#: perf opens events, and reads back all that it recorded.
_PERF_READY_S, _PERF_END_S = 20.0, 60.0
#: Provider -> its probes of receive, transmit and end of kick, and which of their arguments is the frames, from 1.
_PROBES = {"netdev_afxdp": (("rx_batch", "tx_batch", "tx_kick_end"), 3), "xsk": (("rx", "tx", "kick_end"), 2)}


def one_in(rate_pps: float, seconds: float) -> int:
    """How thinly to record so that what both directions may bring fits."""
    return max(1, round(2 * rate_pps * seconds / ROOM))


class Probes:
    """A recorder while it is attached."""

    def __init__(self, dut: Dut, name: str, argv: Sequence[str], end_s: float = 10.0) -> None:
        self._host, self._output, self._name, self._end_s = dut.host, dut.rundir / f"{name}.out", name, end_s
        self._running = dut.host.start(
            argv, log=dut.rundir / f"{name}.log", stdout=self._output, cpus=dut.layout.housekeeping
        )

    def wait_until_ready(self, timeout_s: float = 5.0) -> None:
        """Until all probes are attached.

        Raises:
            Unsupported: they cannot be, with the recorder's own words.
        """
        wait_until(
            lambda: bool(self._text()) or self._running.poll() is not None, timeout_s, f"{self._name}: its ready line"
        )
        if self._running.poll() is not None:
            raise Unsupported((self._running.log_tail(1) or (f"{self._name} exited without a message",))[0])

    def end(self) -> ProbeRecords:
        """Detach and read what was recorded.

        Raises:
            PointFailed: the recorder broke.
        """
        self._running.stop(self._end_s)
        _, _, last = self._text().partition("\n")
        try:
            return ProbeRecords.of(json.loads(last))
        except (ValueError, KeyError, TypeError):
            words = " ".join(self._running.log_tail(1)) or "its output is not valid JSON"
            raise PointFailed(f"{self._name}: {words}") from None

    def close(self) -> None:
        """Be sure that it is gone."""
        self._running.stop()

    def _text(self) -> str:
        return self._host.read(str(self._output)) if self._host.exists(self._output) else ""


@contextmanager
def attached(dut: Dut, target: ProbeTarget, every: int) -> Iterator[Probes]:
    """The probes of a thread, one batch in `every` recorded by `bpf/ovsprobe`.

    Raises:
        Unsupported: the program has no probes, or this kernel does not take them.
    """
    program = built("ovsprobe", dut.host)
    attachment = dut.host.xdp(target.ifname) if target.ifname else None
    numbers: dict[str, Any] = {
        "--pid": target.pid,
        "--tid": target.tid,
        "--every": every,
        "--provider": target.provider,
        **({"--prog-id": attachment.prog_id} if attachment else {}),
    }
    words = [word for name, value in numbers.items() for word in (name, str(value))]
    probes = Probes(dut, "ovsprobe", [program, "--binary", target.program, *words])
    try:
        probes.wait_until_ready()
        yield probes
    finally:
        probes.close()


@contextmanager
def recorded_by_perf(dut: Dut, target: ProbeTarget, every: int) -> Iterator[Probes]:
    """The same by perf, which sees no XDP redirect.

    Raises:
        Unsupported: perf is missing, or it cannot do this here.
    """
    names, frames_argument = _PROBES[target.provider]
    script = dut.host.program(Path(perf_probe.__file__))
    given = [target.program, str(target.tid), str(every), str(dut.rundir), str(frames_argument)]
    argv = [dut.host.python, script, *given, *(f"{target.provider}:{name}" for name in names)]
    probes = Probes(dut, "perf_probe", argv, _PERF_END_S)
    try:
        probes.wait_until_ready(_PERF_READY_S)
        yield probes
    finally:
        probes.close()
