# SPDX-License-Identifier: Apache-2.0
"""Network functions as XDP program, on AF_XDP and as both; over cores; next to servers and jobs on their core."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from xdplab.api import (
    MPPS,
    Column,
    Contender,
    CountingMethod,
    Dut,
    Figure,
    Forwarder,
    ForwarderSpec,
    InputError,
    MethodSpec,
    Page,
    Part,
    Point,
    PointSummary,
    Port,
    PortsPath,
    RateRecord,
    RunRecord,
    Scalar,
    Section,
    Session,
    StudySpec,
    TrafficSpec,
    TrialFigures,
    TrialRecord,
    counting_trials,
    figure_column,
    make_forwarder,
    range_columns,
)
from xdplab_applications.functions.measuring import (
    FLOOD_MORE_S,
    ROUND_S,
    Colocated,
    JobRecord,
    NextToFlood,
    ServedRecord,
    beside_a_flood,
    seconds_asked,
    traffic_of,
    under_traffic,
)
from xdplab_applications.functions.nf import NfPoint, XskFunctions
from xdplab_applications.functions.rows import findings, function_of, sections
from xdplab_applications.functions.spec import FunctionFigures, FunctionsSpec
from xdplab_applications.servers import REQUESTS

#: Traffic that is for a program on the function's core, and comes in at its one port.
_BESIDE = ("local", "web", "job")


class Functions(CountingMethod[FunctionsSpec]):
    """One trial of one function in one mode at one kind of traffic."""

    name: ClassVar[str] = "functions"
    spec_model: ClassVar[type[MethodSpec]] = FunctionsSpec
    own_rates: ClassVar[bool] = True
    figures: ClassVar[tuple[Figure, ...]] = (MPPS, REQUESTS, ROUND_S)
    records: ClassVar[tuple[type[TrialFigures], ...]] = (RateRecord, ServedRecord, JobRecord)
    columns: ClassVar[tuple[Column, ...]] = (
        Column("traffic", "traffic", lambda point: point.levels.get("traffic"), str, left=True),
        figure_column(MPPS, "Mpps"),
        *range_columns(MPPS),
        figure_column(REQUESTS, "requests/s"),
        *range_columns(REQUESTS),
        figure_column(ROUND_S, "s per round"),
        *range_columns(ROUND_S),
    )

    def __init__(self, spec: FunctionsSpec) -> None:
        super().__init__(spec)
        self._cases = spec.cases()

    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """One; of a web server wrk counts whole seconds, and a flood begins before and ends after."""
        spec = self.spec
        asked = [seconds_asked(kind, spec.duration_s) if kind in _BESIDE else spec.duration_s for kind in spec.traffic]
        return [max(asked) + (FLOOD_MORE_S if any(spec.flood_pps) else spec.warmup_s)]

    def check(self, study: StudySpec) -> None:
        """A setting of the machine is the study's, or the matrix's."""
        for point, _ in self._cases.values():
            twice = sorted(set(study.knobs) & set(point.knobs))
            if twice:
                raise InputError(f"study {study.name}: knobs: {twice[0]} is set by the method's {point.title} as well")

    def levels(self, forwarder: ForwarderSpec) -> Sequence[dict[str, Scalar]]:
        """The kinds of traffic of a case."""
        _, kinds = self._cases.get(forwarder.title, (None, ()))
        return [{"traffic": kind} for kind in kinds]

    def frames_return(self, levels: Mapping[str, Scalar]) -> bool:
        """Those of one kind of traffic are to be dropped."""
        return levels["traffic"] != "dropped"

    def path(self, levels: Mapping[str, Scalar]) -> PortsPath:
        """Between two ports, or at the one behind which something runs."""
        return PortsPath.HAIRPIN if levels["traffic"] in _BESIDE else PortsPath.THROUGH

    def forwarder(self, point: Point) -> Forwarder[Any]:
        """The function with tables for its traffic."""
        made = make_forwarder(point.forwarder)
        if not isinstance(made, XskFunctions):
            raise InputError(f"forwarder {made.name}: method functions needs forwarder nf")
        return made.in_traffic(traffic_of(point), point.traffic.smallest)

    def unsupported(self, point: Point, dut: Dut, client: Port) -> str | None:
        """Programs that run next to it."""
        return Colocated(traffic_of(point), dut, client).why_not() if point.levels["traffic"] in _BESIDE else None

    def around(self, session: Session) -> AbstractContextManager[None]:
        """Addresses, and a way to the stack."""
        program = session.forwarder
        if session.point.levels["traffic"] not in _BESIDE:
            return nullcontext()
        assert isinstance(program, XskFunctions)
        return Colocated(traffic_of(session.point), session.dut, session.client).way_to_the_stack(program)

    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        if session.point.levels["traffic"] in _BESIDE:
            beside_a_flood(session, self.spec)
        else:
            under_traffic(session, self.spec)

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> FunctionFigures:
        """Which function it is, and misses of the last-level cache on its core."""
        records = map(self.record, counting_trials(trials))
        counted = {str(each.cache_misses) for each in records if isinstance(each, NextToFlood)}
        function = NfPoint.model_validate(point.forwarder.options)
        return FunctionFigures(function=function, cache_misses=tuple(sorted(counted)))

    def part(self, run: RunRecord, summaries: Sequence[PointSummary], *name: str) -> Part:
        """A function, or a chain of them, in one mode: all its sizes and kinds of traffic."""
        cases = [(point, function_of(point)) for point in summaries]
        return Part(points=[point for point, case in cases if ("+".join(case.functions), case.mode) == name])

    def where(self, point: PointSummary) -> str:
        return str(point.levels["traffic"])

    def place(self, point: PointSummary, figure: Figure) -> Contender:
        """Modes are compared within one function."""
        function = function_of(point)
        return Contender(point, figure, function.mode, self.where(point), function.group)

    def findings(self, run: RunRecord, summaries: Sequence[PointSummary]) -> list[str]:
        """How far the order of the modes is the published one, or how a rate grows with cores."""
        return findings(self, summaries)

    def sections(self, page: Page) -> list[Section]:
        """Rates, what runs on the core, the order of the modes, scaling, and what was published."""
        return sections(self, page)
