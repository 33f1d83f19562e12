# SPDX-License-Identifier: Apache-2.0
"""What applications get: TCP and UDP between programs on A and C, with every byte checked."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import ClassVar, get_args

from xdplab.api import (
    BY_APPLICATIONS,
    P50,
    P99,
    UNCHANGING,
    Column,
    CountedFigures,
    CountingMethod,
    CpuUse,
    Dut,
    Figure,
    ForwarderSpec,
    InputError,
    MethodResult,
    MethodSpec,
    Page,
    Part,
    Point,
    PointFailed,
    PointFigures,
    PointSummary,
    Port,
    PortsPath,
    RunRecord,
    Scalar,
    Section,
    Session,
    Shown,
    StreamResult,
    StudySpec,
    TrafficSpec,
    TrialFigures,
    TrialRecord,
    TrialResult,
    TrialSpec,
    Unsupported,
    counting_trials,
    cpu_use,
    figure_column,
    link_mtu,
    mode_in_use,
    mode_name,
    percent,
    significant,
)
from xdplab_applications.applications.diagnosis import diagnose, unavailable_offloads
from xdplab_applications.applications.ends import Ends
from xdplab_applications.applications.programs import NEEDS, Outcome, Programs, missing
from xdplab_applications.applications.spec import (
    DEFAULT_OFFLOADS,
    ApplicationsSpec,
    Direction,
    Kind,
    Workload,
    features_of,
)
from xdplab_applications.servers import REQUESTS, wrk_seconds

GOODPUT = Figure(key="goodput_mbps", name="goodput", unit="Mbit/s", better="more", verb="carries",
                 goal="most payload")  # fmt: skip
CONNECTIONS = Figure(key="connections_per_s", name="connections", unit="connections/s", better="more", verb="makes")
CPU_PER_GBIT = Figure(key="cpu_s_per_gbit", name="CPU time", unit="s per Gbit", better="less", price=True,
                      precision=1e3)  # fmt: skip
CPU_PER_REQUEST = Figure(key="cpu_us_per_request", name="CPU time", unit="µs per request", better="less", price=True,
                         precision=1e3)  # fmt: skip
#: Key of a figure with a goal -> the workload that a reader chooses by.
_KIND_OF_GOAL: dict[str, Kind] = {P50.key: "requests", P99.key: "requests"}
#: Clause of what was found before a trial.
DIAGNOSIS = "diagnosis"
#: Of Ethernet, IPv4, TCP with timestamps, FCS; and the longest frame.
_HEADERS, _LONGEST = 14 + 20 + 32 + 4, 1518


class ApplicationRecord(CountedFigures):
    """What came through in a trial, and at what price; a field of what the workload has not is left out."""

    #: Payload that arrived.
    goodput_mbps: float | None = None
    #: Answers to requests.
    requests_per_s: float | None = None
    #: Answers to requests that had a connection each.
    connections_per_s: float | None = None
    #: Datagrams that did not arrive, of those sent.
    datagram_loss_ratio: float | None = None
    #: Segments retransmitted, of all that the kernels of A and C sent.
    retransmitted_ratio: float | None = None
    #: Time of all CPUs of the forwarder's machine per Gbit of payload.
    cpu_s_per_gbit: float | None = None
    #: The same per request or connection.
    cpu_us_per_request: float | None = None


class Diagnosis(TrialFigures):
    """What was found before a trial."""

    #: What slows TCP, and the command that fixes it.
    finding: Shown


class ApplicationFigures(PointFigures):
    """What was found before and next to the figures."""

    #: What slows TCP, and the command that fixes it, as the first repetition that found something says it.
    findings: tuple[str, ...] = ()
    #: Segments that were retransmitted, of all; the largest share of a repetition.
    retransmitted_ratio: float | None = None
    #: Datagrams that were lost, of all; the largest share of a repetition.
    datagram_loss_ratio: float | None = None


def _share(key: str, title: str) -> Column:
    return Column(key, title, lambda point: getattr(ApplicationFigures.of(point), key), percent)


class Applications(CountingMethod[ApplicationsSpec]):
    """One trial of one workload."""

    name: ClassVar[str] = "applications"
    spec_model: ClassVar[type[MethodSpec]] = ApplicationsSpec
    own_rates: ClassVar[bool] = True
    own_ends: ClassVar[bool] = True
    at_interfaces: ClassVar[bool] = True
    quantity: ClassVar[str] = "from a request to its answer"
    figures: ClassVar[tuple[Figure, ...]] = (GOODPUT, REQUESTS, CONNECTIONS, P50, P99, CPU_PER_GBIT, CPU_PER_REQUEST)
    records: ClassVar[tuple[type[TrialFigures], ...]] = (ApplicationRecord, Diagnosis)
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "workload",
            "workload",
            lambda point: point.levels.get("workload"),
            lambda text: str(Workload.of(text)),
            left=True,
        ),
        Column("direction", "direction", lambda point: point.levels.get("direction"), str, left=True),
        Column("offloads", "offloads", lambda point: point.levels.get("offloads"), str, left=True),
        Column("mtu", "MTU", lambda point: point.levels.get("mtu"), str),
        figure_column(GOODPUT, "Mbit/s"),
        figure_column(REQUESTS, "requests/s"),
        figure_column(CONNECTIONS, "connections/s"),
        figure_column(P50, "p50 µs"),
        figure_column(P99, "p99 µs"),
        _share("retransmitted_ratio", "retransmitted"),
        _share("datagram_loss_ratio", "datagrams lost"),
        figure_column(CPU_PER_GBIT, "CPU s per Gbit"),
        figure_column(CPU_PER_REQUEST, "CPU µs per request"),
    )

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """One; programs of others run for whole seconds."""
        spec, kinds = self.spec, {Workload.of(each).kind for each in self.spec.workloads}
        whole = [wrk_seconds(spec.duration_s)] if {*NEEDS} & kinds else []
        return [spec.warmup_s + max([spec.duration_s, *whole])]

    def check(self, study: StudySpec) -> None:
        """Applications speak to one another as if they were on one wire."""
        for pipeline in study.pipeline:
            if pipeline.kind not in UNCHANGING:
                raise InputError(
                    f"study {study.name}: pipeline {pipeline.kind}: method applications has A and C in one network; "
                    f"give {', '.join(UNCHANGING)}"
                )

    def levels(self, forwarder: ForwarderSpec) -> Sequence[dict[str, Scalar]]:
        """Each workload with each of its settings."""
        return list(self.spec.levels())

    def path(self, levels: Mapping[str, Scalar]) -> PortsPath:
        """From A to C, and back."""
        return PortsPath.THROUGH

    def unsupported(self, point: Point, dut: Dut, client: Port) -> str | None:
        """Ports that no application can use, programs that are not installed."""
        ends = self._ends(point, dut)
        return ends.why_not() or missing(ends, workload_of(point.levels))

    def around(self, session: Session) -> AbstractContextManager[None]:
        return self._ends(session.point, session.dut).in_use(_folder(session.dut))

    def prove(self, session: Session) -> None:
        """TCP comes through; where it does not, what keeps it from that is named.

        Raises:
            Unsupported: what the ports of A and C are set to breaks it; the reason has the command that fixes it.
            PointFailed: it does not come through whatever they are set to.
        """
        dut, ends = session.dut, self._ends(session.point, session.dut)
        ends.verify()
        mtu = min(link_mtu(port.host, port.ifname) for port in ends.forwarders or ends.ports)
        in_use = mode_in_use(session.forwarder, dut)
        mode = mode_name(in_use)
        native = [name for name, each in in_use["xdp"].items() if each["mode"] == "native"]
        unavailable = unavailable_offloads(ends, native)
        found = diagnose(self._programs(session, ends.without_unavailable()), mtu, mode)
        if found and found.breaks:
            raise Unsupported(found.text)
        if words := "; ".join(filter(None, [unavailable, found.text if found else ""])):
            session.record_figures(DIAGNOSIS, Diagnosis(finding=words))
        idle = session.forwarder.ineffective()
        if idle:
            raise Unsupported(idle)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        spec, workload = self.spec, workload_of(session.point.levels)
        asked = TrialSpec(streams=(), duration_s=spec.duration_s, warmup_s=spec.warmup_s)
        programs = self._programs(session, self._ends(session.point, session.dut))
        take = partial(programs.run, workload, direction_of(spec, session.point.levels))
        session.measure_by(asked, lambda: self._once(session, programs.ends, asked, take))

    def _ends(self, point: Point, dut: Dut) -> Ends:
        setting = self.spec.setting
        client, server = dut.peers
        named = str(setting(point.levels, "offloads"))
        offloads, mtu = features_of(named), int(setting(point.levels, "mtu"))
        best_effort = named == DEFAULT_OFFLOADS
        return Ends(client, server, dut.ports, offloads, mtu, self.spec.tag(offloads), best_effort)

    def _programs(self, session: Session, ends: Ends) -> Programs:
        return Programs(ends, self.spec, session.dut.layout, _folder(session.dut))

    def _once(self, session: Session, ends: Ends, asked: TrialSpec, take: Callable[[], Outcome]) -> MethodResult:
        workload = workload_of(session.point.levels)
        before = ends.counts()
        with BusyCpus(session.dut, asked.warmup_s, asked.duration_s) as busy_cpus:
            found = take()
        counts = ends.counts().since(before)
        if counts.checksum_errors and "checksum" not in ends.offloads:
            raise PointFailed(f"payload damaged: {counts.checksum_errors} segments arrived with a wrong checksum")
        record = ApplicationRecord(
            text=_words(found),
            **_said(found),
            retransmitted_ratio=counts.retransmitted_ratio if workload.kind != "udp" else None,
            **price_of(found, busy_cpus()),
        )
        return MethodResult(_result(workload, self.spec, found), record)

    def values(self, record: CountedFigures) -> dict[str, float | None]:
        return {key: value for key, value in super().values(record).items() if value is not None}

    def where(self, point: PointSummary) -> str:
        levels = dict(point.levels)
        workload = str(Workload.of(levels.pop("workload")))
        return ", ".join([workload, *(f"{name} {value}" for name, value in levels.items())])

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> ApplicationFigures:
        """What slows it, what was retransmitted, what was lost."""
        texts = [Diagnosis.of(each).finding for each in trials if each.clause == DIAGNOSIS]
        records = [ApplicationRecord.of(each) for each in counting_trials(trials)]
        return ApplicationFigures(
            findings=tuple(texts[:1]),
            retransmitted_ratio=_largest(each.retransmitted_ratio for each in records),
            datagram_loss_ratio=_largest(each.datagram_loss_ratio for each in records),
        )

    def goal_points(self, figure: Figure, points: Sequence[PointSummary]) -> list[PointSummary]:
        """A goal is asked of one workload: goodput of bulk, latency of requests alone."""
        asked = Workload(_KIND_OF_GOAL.get(figure.key, "bulk"), 1)
        return [point for point in points if workload_of(point.levels) == asked]

    def findings(self, run: RunRecord, summaries: Sequence[PointSummary]) -> list[str]:
        """What was found to slow TCP, and the command that fixes it."""
        found: dict[tuple[str, Scalar, Scalar], str] = {}
        for point in summaries:
            offloads, mtu = (self.spec.setting(point.levels, name) for name in ("offloads", "mtu"))
            for line in ApplicationFigures.of(point).findings:
                found.setdefault((point.forwarder, offloads, mtu), f"{point.forwarder}: {line}")
        return [*found.values()]

    def part(self, run: RunRecord, summaries: Sequence[PointSummary], *name: str) -> Part:
        """A workload, with all its settings; or one kind of offloads."""
        return Part(
            points=[
                point
                for point in summaries
                if {str(point.levels["workload"]), str(self.spec.setting(point.levels, "offloads"))} & {*name}
            ]
        )

    def sections(self, page: Page) -> list[Section]:
        """The table of points, and how requests took."""
        table = page.section(self, "report.html.j2", findings=self.findings(page.run, page.summaries))
        return [table, page.pictures()] if page.measured else [table]

    def remarks(self, run: RunRecord) -> list[str]:
        """Whose core pays, and what a latency is of."""
        return [
            "Applications: both ends run on the tester's CPUs and share them with the kernel's TCP. Goodput is "
            "payload, each byte of which our own programs compare with what was sent. Latencies of bulk are those of "
            "small requests over a connection of their own next to it, from when each was due; of requests, each "
            "connection sends the next as soon as the answer before is there. CPU time is that of all CPUs of the "
            "machine in the middle of a trial, applications and polling included. On veth the kernel receives for C on "
            "the forwarder's CPU: that its thread waits for that is part of the path and disturbs no trial."
        ]


def _folder(dut: Dut) -> Path:
    """Of the hosts of A and C, next to that of the forwarder."""
    return dut.rundir.with_name("applications")


def workload_of(levels: Mapping[str, Scalar]) -> Workload:
    return Workload.of(str(levels["workload"]))


def direction_of(spec: ApplicationsSpec, levels: Mapping[str, Scalar]) -> Direction:
    """Of a point; `forward` where it makes no difference."""
    return next(each for each in get_args(Direction) if each == spec.setting(levels, "direction"))


def price_of(found: Outcome, busy_cpus: float | None) -> dict[str, float]:
    """CPU time per Gbit of payload, and per request or connection."""
    if busy_cpus is None:
        return {}
    per_s = found.requests_per_s or found.connections_per_s
    price = {CPU_PER_GBIT.key: 1e3 * busy_cpus / found.goodput_mbps} if found.goodput_mbps else {}
    return price | ({CPU_PER_REQUEST.key: 1e6 * busy_cpus / per_s} if per_s else {})


def _said(found: Outcome) -> dict[str, float]:
    keys = ("goodput_mbps", "requests_per_s", "connections_per_s", "datagram_loss_ratio")
    return {key: value for key in keys if (value := getattr(found, key)) is not None}


def _words(found: Outcome) -> str:
    units = {"goodput_mbps": "Mbit/s", "requests_per_s": "requests/s", "connections_per_s": "connections/s"}
    return ", ".join(f"{significant(value)} {units[key]}" for key, value in _said(found).items() if key in units)


def _result(workload: Workload, spec: ApplicationsSpec, found: Outcome) -> TrialResult:
    """As a tester would say it: each request a frame, whose latency is that of the answer."""
    streams: tuple[StreamResult, ...] = ()
    if found.asked:
        stream = StreamResult(
            kind="latency",
            frame_bytes=min(spec.request_bytes + _HEADERS, _LONGEST),
            offered_pps=None,
            intended=found.asked,
            sent=found.asked,
            received=found.answered,
            lost=found.asked - found.answered,
            achieved_pps=found.asked / found.elapsed_s,
            rx_pps=found.answered / found.elapsed_s,
            latency=found.latency,
            lateness=found.lateness,
        )
        streams = (stream,)
    name = workload.kind if workload.kind in NEEDS else "xdpapp"
    return TrialResult(tester=name, sender=BY_APPLICATIONS, elapsed_s=found.elapsed_s, streams=streams)


def _largest(shares: Iterable[float | None]) -> float | None:
    return max((share for share in shares if share is not None), default=None)


# How many CPUs are busy in the middle of a trial: the price of what comes through, whoever pays it.


class BusyCpus:
    """Watches the forwarder's machine while a trial runs; on one machine that is applications, switch and kernel.

    Time that the hypervisor took counts neither as busy nor as idle. Resolution: a clock tick (10 ms) of each CPU.
    """

    def __init__(self, dut: Dut, warmup_s: float, duration_s: float) -> None:
        self._host = dut.host
        self._begin_s, self._length_s = warmup_s + 0.2 * duration_s, 0.6 * duration_s
        self._ended = threading.Event()
        self._found: float | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Callable[[], float | None]:
        self._thread.start()
        return lambda: self._found

    def __exit__(self, *args: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        if self._ended.wait(self._begin_s):
            return
        before, began_s = cpu_use(self._host), time.monotonic()
        if not self._ended.wait(self._length_s):
            self._found = busy_cpus(before, cpu_use(self._host), time.monotonic() - began_s)


def busy_cpus(before: dict[int, CpuUse], after: dict[int, CpuUse], elapsed_s: float) -> float:
    """Mean number of CPUs that were busy between two readings."""
    away_s = [(after[cpu].away_ns - before[cpu].away_ns) / 1e9 for cpu in before.keys() & after.keys()]
    return sum(max(0.0, 1 - each / elapsed_s) for each in away_s)
