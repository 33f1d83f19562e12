# SPDX-License-Identifier: Apache-2.0
"""Measuring the measurement: what each way of following a frame through the forwarder costs that frame.

At each rate rounds of trials: one without tracing and one for each way, in turns of which end of the row comes first.
The tester's time stamps travel in the frames and are there in all of them: they tell what tracing costs, and what the
traced stages should add up to.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

from xdplab.methods.base import Method, Session
from xdplab.methods.probes import attached, one_in, recorded_by_perf
from xdplab.methods.stages import ProbeRecords, traced_figures
from xdplab.methods.streams import probe_streams
from xdplab.model import PointFailed, TraceWay, TracingSpec, TrafficSpec, TrialSpec, Unsupported, XdplabError

CLAUSE = "tracing"
WITHOUT = "without"


class Tracing(Method):
    """Rounds of trials at each rate of the spec."""

    name: ClassVar[str] = "tracing"

    def __init__(self, spec: TracingSpec) -> None:
        self.spec = spec

    def trials(self, traffic: TrafficSpec) -> list[float]:
        """In each round one without, and one for each way."""
        once = self.spec.warmup_s + self.spec.duration_s + self.spec.drain_s
        return [once] * ((1 + len(self.spec.ways)) * self.spec.pairs * len(self.spec.rates_pps))

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """The highest of its own rates."""
        return max(self.spec.rates_pps) * len(traffic.directions)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Each rate in turn. A way that this machine or forwarder has not is left out, and the record says why.

        Raises:
            Unsupported: it has none of them.
        """
        ways = self._possible(session)
        for rate in self.spec.rates_pps:
            for pair in range(self.spec.pairs):
                session.progress(f"  tracing at {rate / 1e3:g} kpps, round {pair + 1} of {self.spec.pairs}")
                for way in (None, *ways) if pair % 2 == 0 else (*reversed(ways), None):
                    self._trial(session, traffic, rate, pair, way)

    def _possible(self, session: Session) -> list[TraceWay]:
        ways: list[TraceWay] = []
        reasons: dict[str, str] = {}
        for way in self.spec.ways:
            try:
                with traced(session, way, 1) as end:
                    end()
                ways.append(way)
            except (Unsupported, PointFailed) as exc:
                reasons[way] = str(exc)
                session.found(f"{CLAUSE} {way} unsupported", {"way": way, "reason": str(exc)})
        if not ways:
            raise Unsupported("; ".join(dict.fromkeys(reasons.values())))
        return ways

    def _trial(self, session: Session, traffic: TrafficSpec, rate: float, pair: int, way: TraceWay | None) -> None:
        spec = self.spec
        trial = TrialSpec(
            streams=probe_streams(traffic, rate),
            duration_s=spec.duration_s,
            warmup_s=spec.warmup_s,
            drain_s=spec.drain_s,
        )
        clause = f"{CLAUSE} {rate:.0f} {way or WITHOUT}"
        if way is None:
            first = (rate, pair) == (spec.rates_pps[0], 0)
            session.trial(trial, purpose="measure" if first else "search", clause=clause)
            return
        every = one_in(rate, spec.warmup_s + spec.duration_s)
        with traced(session, way, every) as end:
            session.trial(trial, purpose="search", clause=clause)
            found = traced_figures(end())
        session.found(f"{clause} stages {pair}", {"rate_pps": rate, "way": way, **found})


@contextmanager
def traced(session: Session, way: TraceWay, every: int) -> Iterator[Callable[[], ProbeRecords]]:
    """The forwarder of a session traced in one way; yields what ends it and gives the records.

    Raises:
        Unsupported: it cannot be.
    """
    if way == "in-band":
        session.forwarder.start_recording()
        ended: list[ProbeRecords] = []

        def end() -> ProbeRecords:
            ended.append(ProbeRecords.of(session.forwarder.end_recording()))
            return ended[-1]

        try:
            yield end
        finally:
            if not ended:
                with suppress(XdplabError):  # what ended the trial is told, not what came of it
                    end()
        return
    recorder = attached if way == "bpf" else recorded_by_perf
    with recorder(session.dut, session.forwarder.probes(session.dut), every) as probes:
        yield probes.end
