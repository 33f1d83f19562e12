# SPDX-License-Identifier: Apache-2.0
"""Latency of probes at a rate, alone or beside a load (after RFC 2544 §26.2; RFC 8219 §7 for percentiles).

Deviations from RFC 2544 §26.2, stated in the report: shorter streams than 120 s, every probe frame is time-stamped
instead of one per stream, and repetitions are interleaved with those of the other forwarders.
"""

from typing import ClassVar

from xdplab.methods.base import Method, Session
from xdplab.methods.streams import load_streams, probe_streams
from xdplab.model import LatencySpec, StreamSpec, TrafficSpec, TrialSpec

#: Clause of the trial at the study's light load.
LIGHT_LOAD = "light load"
#: Length of the trial that measures the forwarding rate a load share refers to.
_RATE_TRIAL_S = 0.5


class Latency(Method):
    """Probes beside a load, after a warm-up that is not counted."""

    name: ClassVar[str] = "latency"
    repeats_whole: ClassVar[bool] = True

    def __init__(self, spec: LatencySpec) -> None:
        self.spec = spec

    def trials(self, traffic: TrafficSpec) -> list[float]:
        """One trial; before it one at the light load, and a short one when the load is a share of a rate to measure."""
        light = [self.spec.warmup_s + self.spec.light_duration_s] if self.spec.light_pps else []
        extra = [_RATE_TRIAL_S] if traffic.load_share is not None else []
        return [*light, *extra, self.spec.warmup_s + self.spec.duration_s]

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """Probes and load, or the light load; a load that is a share of what the forwarder carries is none of them."""
        own = traffic.probes_per_s + (traffic.stated_load_pps or 0.0)
        return max(own, self.spec.light_pps or 0.0) * len(traffic.directions)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """The light load, then the load if it is a share, then the trial."""
        spec = self.spec
        if spec.light_pps:
            session.trial(self._trial(probe_streams(traffic, spec.light_pps), spec.light_duration_s), clause=LIGHT_LOAD)
        load_pps = traffic.stated_load_pps
        if traffic.load_share is not None:
            load_pps = traffic.load_share * self._forwarding_rate(session, traffic)
        session.trial(self._trial((*probe_streams(traffic), *load_streams(traffic, load_pps)), spec.duration_s))

    def _trial(self, streams: tuple[StreamSpec, ...], duration_s: float) -> TrialSpec:
        return TrialSpec(streams=streams, duration_s=duration_s, warmup_s=self.spec.warmup_s, drain_s=self.spec.drain_s)

    def _forwarding_rate(self, session: Session, traffic: TrafficSpec) -> float:
        """Frames per second that come through when the tester's top rate is offered."""
        flood = StreamSpec(
            kind="load",
            pps=None,
            frame_bytes=traffic.frame_bytes,
            flows=traffic.flows,
            vlan=traffic.vlan,
            ip=traffic.ip,
        )
        result = session.trial(TrialSpec(streams=(flood,), duration_s=_RATE_TRIAL_S, drain_s=0.2), purpose="search")
        return result.received / result.elapsed_s
