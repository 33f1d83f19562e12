# SPDX-License-Identifier: Apache-2.0
"""Latency of probes at a rate, alone or next to a load (after RFC 2544 §26.2; RFC 8219 §7 for percentiles).

Deviations from RFC 2544 §26.2, stated in the report: shorter streams than 120 s, every probe frame is time-stamped
instead of one per stream, and forwarders take turns, or are interleaved.
"""

import random
from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from xdplab.analysis.columns import LOAD_COLUMNS, kpps, lost
from xdplab.measure.figure import CPU, P50, P99, Figure
from xdplab.measure.method import Method, Session
from xdplab.measure.page import Column, Page, Section
from xdplab.measure.point import PointSummary
from xdplab.measure.streams import load_streams, probe_streams
from xdplab.model import InputError, MethodSpec, RunRecord, StreamSpec, StudySpec, TrafficSpec, TrialSpec

#: Clause of the trial at the study's light load.
LIGHT_LOAD = "light load"


def _light(name: str) -> Callable[[PointSummary], float | None]:
    return lambda point: getattr(point.by_clause[LIGHT_LOAD], name) if LIGHT_LOAD in point.by_clause else None


def _lost(point: PointSummary) -> str:
    return lost(point.by_clause[LIGHT_LOAD]) if LIGHT_LOAD in point.by_clause else ""


def _light_loss(point: PointSummary) -> str:
    return point.by_clause[LIGHT_LOAD].loss_text if LIGHT_LOAD in point.by_clause else "-"


COLUMNS = (
    Column("light_pps", "kpps, light", _light("offered_pps"), kpps),
    Column("light_p50_us", "p50 µs, light", _light("p50_us"), subtext=_lost, ratio="times as fast", clause=LIGHT_LOAD,
           main=True),
    Column("light_loss_ratio", "loss, light", _light("loss_ratio"), words=_light_loss, places=("terminal",)),
    *LOAD_COLUMNS,
)  # fmt: skip


#: Length of the trial that measures the forwarding rate a load share refers to.
_RATE_TRIAL_S = 0.5


#: A turn is over when nothing more has come for so long.
_DRAIN_IDLE_S = 0.01


class LatencySpec(MethodSpec):
    """Method `latency`: probes at a rate, next to a load, after a warm-up that is not counted."""

    name: Literal["latency"] = "latency"
    #: Length of the trial.
    duration_s: float = Field(default=2.0, ge=0.05, le=3600)
    #: A light load in probes per second, measured first in a trial of its own: where a forwarder loses frames at
    #: the study's rate, its latency there is that of a queue, and only the light load compares.
    light_pps: float | None = Field(default=None, gt=0, le=100e6)
    #: Length of the trial at the light load.
    light_duration_s: float = Field(default=1.0, ge=0.05, le=3600)
    #: Traffic before each of them, which is not counted.
    warmup_s: float = Field(default=0.3, ge=0, le=60)
    #: How long late frames are waited for at the most.
    drain_s: float = Field(default=0.2, ge=0.01, le=10)
    #: Points stand side by side in each repetition, and take so many turns, a trial of each load in one; 0: one point
    #: after another.
    turns: int = Field(default=0, ge=0, le=200)
    #: How often each forwarder is started in a repetition, where points stand side by side: each takes the turns, so
    #: that what one start has to another averages out.
    instances: int = Field(default=1, ge=1, le=6)


class Latency(Method[LatencySpec]):
    """Probes next to a load, after a warm-up that is not counted."""

    name: ClassVar[str] = "latency"
    spec_model: ClassVar[type[MethodSpec]] = LatencySpec
    figures: ClassVar[tuple[Figure, ...]] = (P50, P99, CPU)
    columns: ClassVar[tuple[Column, ...]] = COLUMNS
    side_clauses: ClassVar[tuple[str, ...]] = (LIGHT_LOAD,)
    light_clause: ClassVar[str] = LIGHT_LOAD
    closed_loop: ClassVar[bool] = True
    sends_new_flows: ClassVar[bool] = True
    sends_requests: ClassVar[bool] = True
    swept: ClassVar[bool] = True

    def sends_load(self, traffic: TrafficSpec) -> bool:
        return (traffic.load_pps, traffic.load_share, traffic.load_of_line) != (None, None, None)

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """One trial; before it one at the light load, and a short one when the load is a share of a rate to measure."""
        light = [self.spec.warmup_s + self.spec.light_duration_s] if self.spec.light_pps else []
        extra = [_RATE_TRIAL_S] if traffic.load_share is not None else []
        return [*light, *extra, self.spec.warmup_s + self.spec.duration_s] * max(self.turns, 1)

    @property
    def turns(self) -> int:
        return self.spec.turns

    @property
    def instances(self) -> int:
        return self.spec.instances

    def check(self, study: StudySpec) -> None:
        if self.instances > 1 and not self.turns:
            raise InputError(f"study {study.name}: method.instances: {self.instances}: only with method.turns")

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """Probes and load, or the light load; a load that is a share of what the forwarder carries is none of them."""
        own = traffic.probes_per_s + (traffic.stated_load_pps or traffic.new_flows_pps or 0.0)
        return max(own, self.spec.light_pps or 0.0) * len(traffic.directions)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """A trial at each load, the light one first; in every second turn last, from a random one on."""
        loads = [*([self._at_light_load] if self.spec.light_pps else []), self._at_load]
        chance = random.Random(f"{session.point.id}:{session.number}")  # noqa: S311 - an order
        if self.turns and (session.turn + chance.randrange(2)) % 2:
            loads.reverse()
        for measured in loads:
            measured(session, traffic)

    def _at_light_load(self, session: Session, traffic: TrafficSpec) -> None:
        streams = probe_streams(traffic, self.spec.light_pps)
        session.trial(self._trial(streams, self.spec.light_duration_s), clause=LIGHT_LOAD)

    def _at_load(self, session: Session, traffic: TrafficSpec) -> None:
        """Before it, where the load is a share, the rate that it is a share of."""
        spec = self.spec
        load_pps = traffic.stated_load_pps
        if traffic.load_share is not None:
            load_pps = traffic.load_share * self._forwarding_rate(session, traffic)
        session.trial(self._trial((*probe_streams(traffic), *load_streams(traffic, load_pps)), spec.duration_s))

    def _trial(self, streams: tuple[StreamSpec, ...], duration_s: float) -> TrialSpec:
        return TrialSpec(
            streams=streams,
            duration_s=duration_s,
            warmup_s=self.spec.warmup_s,
            drain_s=self.spec.drain_s,
            drain_idle_s=_DRAIN_IDLE_S if self.turns else None,
        )

    def _forwarding_rate(self, session: Session, traffic: TrafficSpec) -> float:
        """Frames per second that come through when the tester's top rate is offered."""
        flood = StreamSpec(kind="load", pps=None, frame_bytes=traffic.frame_bytes, **traffic.headers)
        result = session.trial(TrialSpec(streams=(flood,), duration_s=_RATE_TRIAL_S, drain_s=0.2), purpose="search")
        return result.received / result.elapsed_s

    def sections(self, page: Page) -> list[Section]:
        """The table of points, the distributions, and what was lost."""
        if not page.measured:
            return []
        light = page.ratios(LIGHT_LOAD).values()
        with_light = [point.by_clause[LIGHT_LOAD] for point in page.measured if LIGHT_LOAD in point.by_clause]
        ratios = page.ratios().values()
        shown = {"ratios": ratios, "light_ratios": light, "with_light": with_light}
        result = page.section(self, "report.html.j2", **shown)
        return [result, page.pictures(), page.section(self, "loss.html.j2")]

    def remarks(self, run: RunRecord) -> list[str]:
        """Where it deviates from the RFC."""
        return [
            f"Latency after RFC 2544 §26.2, deviating: {self.spec.duration_s} s trials instead of 120 s, "
            f"{run.study.repetitions} repetitions instead of 20, every probe frame time-stamped, and at a stated rate "
            "rather than at the throughput. Frame sizes count the FCS (§9)."
        ]
