# SPDX-License-Identifier: Apache-2.0
"""Where a frame's latency goes, by the forwarder's own probes; and what the probes themselves cost.

At each rate pairs of trials, one without and one with the probes attached, in turns of which comes first. The tester's
latency of the two tells what tracing costs; the stages are those of the traced ones and hold that cost.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from xdplab.forwarders import Dut
from xdplab.forwarders.base import ProbeTarget
from xdplab.forwarders.process import wait_until
from xdplab.hosts.kernel import xdp_attachment
from xdplab.methods.base import Method, Session
from xdplab.methods.stages import ProbeRecords, stage_figures
from xdplab.methods.streams import probe_streams
from xdplab.model import BreakdownSpec, PointFailed, TrafficSpec, TrialSpec, Unsupported
from xdplab.tools import bpf_program

CLAUSE = "breakdown"
#: Records that fit the ring of `bpf/ovsprobe`, which is read when all is over.
_ROOM = 60_000


class Breakdown(Method):
    """Pairs of trials at each rate of the spec."""

    name: ClassVar[str] = "breakdown"

    def __init__(self, spec: BreakdownSpec) -> None:
        self.spec = spec

    def trials(self, traffic: TrafficSpec) -> list[float]:
        """Two for each pair."""
        once = self.spec.warmup_s + self.spec.duration_s + self.spec.drain_s
        return [once] * (2 * self.spec.pairs * len(self.spec.rates_pps))

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Each rate in turn; a forwarder without probes is unsupported."""
        target = session.forwarder.probes(session.dut)
        with attached(session.dut, target, 1):
            pass  # so that a build without probes is told before anything is measured
        for rate in self.spec.rates_pps:
            for pair in range(self.spec.pairs):
                session.progress(f"  breakdown at {rate / 1e3:g} kpps, pair {pair + 1} of {self.spec.pairs}")
                for traced in (False, True) if pair % 2 == 0 else (True, False):
                    self._trial(session, target, traffic, rate, pair, traced)

    def _trial(
        self, session: Session, target: ProbeTarget, traffic: TrafficSpec, rate: float, pair: int, traced: bool
    ) -> None:
        spec = self.spec
        trial = TrialSpec(
            streams=probe_streams(traffic, rate),
            duration_s=spec.duration_s,
            warmup_s=spec.warmup_s,
            drain_s=spec.drain_s,
        )
        if not traced:
            first = (rate, pair) == (spec.rates_pps[0], 0)
            session.trial(trial, purpose="measure" if first else "search", clause=f"{CLAUSE} {rate:.0f} without")
            return
        every = max(1, round(2 * rate * (spec.warmup_s + spec.duration_s) / _ROOM))
        with attached(session.dut, target, every) as probes:
            session.trial(trial, purpose="search", clause=f"{CLAUSE} {rate:.0f} with")
            found = stage_figures(probes.end())
        if found["batches"]:  # none when the trial was answered from the journal of a resumed run
            session.found(f"{CLAUSE} {rate:.0f} stages {pair}", {"rate_pps": rate, "recorded_one_in": every, **found})


class Probes:
    """`bpf/ovsprobe` while it is attached."""

    def __init__(self, dut: Dut, argv: list[str]) -> None:
        self._host, self._output = dut.host, dut.rundir / "ovsprobe.out"
        self._running = dut.host.start(
            argv, log=dut.rundir / "ovsprobe.log", stdout=self._output, cpus=dut.layout.housekeeping, die_with_us=True
        )

    def wait_until_ready(self) -> None:
        """Until all probes are attached.

        Raises:
            Unsupported: they cannot be, with ovsprobe's own words.
        """
        wait_until(lambda: bool(self._text()) or self._running.poll() is not None, 5.0, "ovsprobe: its ready line")
        if self._running.poll() is not None:
            raise Unsupported((self._running.log_tail(1) or ("ovsprobe ended without a word",))[0])

    def end(self) -> ProbeRecords:
        """Detach and read what was recorded.

        Raises:
            PointFailed: ovsprobe broke.
        """
        self._running.stop(10.0)
        _, _, last = self._text().partition("\n")
        try:
            return ProbeRecords.of(json.loads(last))
        except (ValueError, KeyError, TypeError):
            raise PointFailed(f"ovsprobe: {' '.join(self._running.log_tail(1)) or 'its answer is no JSON'}") from None

    def close(self) -> None:
        """Be sure that it is gone."""
        self._running.stop()

    def _text(self) -> str:
        return self._host.read(str(self._output)) if self._host.exists(self._output) else ""


@contextmanager
def attached(dut: Dut, target: ProbeTarget, every: int) -> Iterator[Probes]:
    """The probes of a thread, one batch in `every` recorded.

    Raises:
        Unsupported: the program has no probes, or this kernel does not take them.
    """
    program = bpf_program("ovsprobe")
    if program is None:
        raise Unsupported("bpf/build/ovsprobe is not built; `make -C bpf` builds it")
    attachment = xdp_attachment(dut.host, target.ifname)
    numbers: dict[str, Any] = {
        "--pid": target.pid,
        "--tid": target.tid,
        "--every": every,
        **({"--prog-id": attachment.prog_id} if attachment else {}),
    }
    words = [word for name, value in numbers.items() for word in (name, str(value))]
    probes = Probes(dut, [dut.host.program(program), "--binary", target.program, *words])
    try:
        probes.wait_until_ready()
        yield probes
    finally:
        probes.close()
