# SPDX-License-Identifier: Apache-2.0
"""Micro-benchmarks of one socket, before there is a switch: what a program does at one port of the middle host."""

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field

from xdplab.api import (
    DRAIN_S,
    MPPS,
    UNDER_WAY_S,
    Column,
    CountingMethod,
    Dut,
    Figure,
    Forwarder,
    ForwarderSpec,
    InputError,
    MethodResult,
    MethodSpec,
    Page,
    Point,
    PointFailed,
    PointSummary,
    PortsPath,
    Published,
    RateRecord,
    Scalar,
    Section,
    Session,
    Shown,
    StreamSpec,
    StudySpec,
    TrafficSpec,
    TrialFigures,
    TrialSpec,
    figure_column,
    frames_received,
    in_role,
    link_counters,
    make_forwarder,
    range_columns,
    rate_chart,
    untested,
)

#: Frames are sent to a program for so long, to see whether it works.
_PROOF_S = 0.02

Workload = Literal["rxdrop", "txonly", "l2fwd"]


class MicroSpec(MethodSpec):
    """Method `micro`: receive and drop, send, send back."""

    name: Literal["micro"]
    #: What the program does.
    workloads: tuple[Workload, ...] = Field(default=get_args(Workload), min_length=1)
    #: Forwarder's title -> the workloads that it takes part in; one that is not here: all of them.
    only: dict[Shown, tuple[Workload, ...]] = {}
    #: Length of a trial.
    duration_s: float = Field(default=1.0, ge=0.05, le=3600)
    #: Traffic before it, which is not counted.
    warmup_s: float = Field(default=0.2, ge=0.05, le=60)
    #: What others found, to stand next to ours.
    published: Published | None = None


class Micro(CountingMethod[MicroSpec]):
    """One trial at one workload; the tester floods the program, or is not needed."""

    name: ClassVar[str] = "micro"
    spec_model: ClassVar[type[MethodSpec]] = MicroSpec
    own_rates: ClassVar[bool] = True
    sends_requests: ClassVar[bool] = True
    figures: ClassVar[tuple[Figure, ...]] = (MPPS,)
    records: ClassVar[tuple[type[TrialFigures], ...]] = (RateRecord,)
    columns: ClassVar[tuple[Column, ...]] = (
        Column("workload", "workload", lambda point: point.levels.get("workload"), str, left=True),
        figure_column(MPPS, "Mpps"),
        *range_columns(MPPS),
    )

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        return [self.spec.warmup_s + self.spec.duration_s]

    def check(self, study: StudySpec) -> None:
        """Every title of `only` is one of the study's."""
        there = [forwarder.title for forwarder in study.forwarders]
        for title in self.spec.only:
            if title not in there:
                raise InputError(f"study {study.name}: method.only: {title!r} is none of {', '.join(there)}")

    def levels(self, forwarder: ForwarderSpec) -> Sequence[dict[str, Scalar]]:
        own = self.spec.only.get(forwarder.title, self.spec.workloads)
        return [{"workload": workload} for workload in self.spec.workloads if workload in own]

    def frames_return(self, levels: Mapping[str, Scalar]) -> bool:
        """Of the workloads one sends frames back."""
        return levels["workload"] == "l2fwd"

    def path(self, levels: Mapping[str, Scalar]) -> PortsPath:
        return PortsPath.HAIRPIN

    def forwarder(self, point: Point) -> Forwarder[Any]:
        role: Any = point.levels["workload"]
        return in_role(make_forwarder(point.forwarder), role, point.traffic.smallest)

    def prove(self, session: Session) -> None:
        """Wait until the program receives or sends its first frames: a user's program does not report that it is ready.

        Raises:
            PointFailed: it does not within its `silent_s`, or has ended.
        """
        workload, forwarder = session.point.levels["workload"], session.forwarder
        if workload == "l2fwd":
            session.prove()
            return
        super().prove(session)
        traffic = session.point.traffic
        some = StreamSpec(kind="load", pps=1000, frame_bytes=traffic.smallest, **traffic.headers)
        begin, _ = _counted(session)
        deadline = time.monotonic() + forwarder.silent_s
        for number in itertools.count():
            if workload == "txonly":
                time.sleep(_PROOF_S)
            else:  # a card's link may be down for a while after a program was attached
                asked = TrialSpec(streams=(some,), duration_s=_PROOF_S, warmup_s=min(number, 2), drain_s=UNDER_WAY_S)
                session.send(asked)
            now, reason = _counted(session)
            if now > begin:
                return
            ended = forwarder.crashed()
            if ended or time.monotonic() > deadline:
                raise PointFailed(ended or reason or f"{workload}: no frame within {forwarder.silent_s:g} s")

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        spec, workload = self.spec, session.point.levels["workload"]
        if workload == "txonly":
            asked = TrialSpec(streams=(), duration_s=spec.duration_s, warmup_s=spec.warmup_s)
            session.measure_by(asked, lambda: self._sent(session))
            return
        flood = StreamSpec(kind="load", pps=None, frame_bytes=traffic.smallest, **traffic.headers)
        # what the tester counts, it can tell from the warm-up itself: no second process of it
        warmup_s = spec.warmup_s if workload == "l2fwd" else 0.0
        asked = TrialSpec(streams=(flood,), duration_s=spec.duration_s, warmup_s=warmup_s, drain_s=DRAIN_S)
        session.measure_by(asked, lambda: self._received(session, asked))

    def _sent(self, session: Session) -> MethodResult:
        time.sleep(self.spec.warmup_s)
        count, begin = _frames_sent(session.dut), time.monotonic()
        time.sleep(self.spec.duration_s)
        sent, elapsed_s = _frames_sent(session.dut) - count, time.monotonic() - begin
        if sent <= 0:
            raise PointFailed(f"nothing was sent: {count:,} frames before the trial, {count + sent:,} after it")
        result = untested(elapsed_s)
        return MethodResult(result, RateRecord.counted(sent / elapsed_s, result, limited=False))

    def _received(self, session: Session, asked: TrialSpec) -> MethodResult:
        """What came back by the tester's count, or what was dropped by the program's."""
        by_the_program = session.point.levels["workload"] == "rxdrop"
        if by_the_program:
            session.send(asked.model_copy(update={"duration_s": self.spec.warmup_s, "drain_s": UNDER_WAY_S}))
        begin = frames_received(session.forwarder) if by_the_program else 0
        result = session.send(asked)
        received = frames_received(session.forwarder) - begin if by_the_program else result.received
        if received <= 0:
            counts = f"; its count was {begin:,} before and {begin + received:,} after them" if by_the_program else ""
            raise PointFailed(
                f"nothing was received of {sum(each.sent for each in result.streams)} frames sent{counts}"
            )
        return MethodResult(result, RateRecord.counted(received / result.elapsed_s, result, limited=True))

    def where(self, point: PointSummary) -> str:
        return str(point.levels["workload"])

    def sections(self, page: Page) -> list[Section]:
        """The rates as table and bars, and what was published."""
        if not page.measured:
            return [page.section(self, "beside.html.j2", published=self.spec.published)]
        names = {point.point_id: f"{self.where(point)}: {point.forwarder}" for point in page.measured}
        chart = page.chart(rate_chart(page.measured, MPPS, names))
        return [page.section(self, "report.html.j2", plot=chart, published=self.spec.published)]


def _counted(session: Session) -> tuple[int, str]:
    """Frames that were sent, or received, up to now; or 0 and why the program's counter does not answer."""
    if session.point.levels["workload"] == "txonly":
        return _frames_sent(session.dut), ""
    try:
        return frames_received(session.forwarder), ""
    except PointFailed as exc:
        return 0, str(exc)


def _frames_sent(dut: Dut) -> int:
    """Frames that left the port, by the kernel's count."""
    return int(link_counters(dut.host, dut.ports[0].ifname)["tx"]["packets"])
