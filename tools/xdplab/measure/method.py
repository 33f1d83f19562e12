# SPDX-License-Identifier: Apache-2.0
"""What a method is, and what it may ask of the run."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from xdplab.forwarders import Dut, Forwarder, make_forwarder
from xdplab.measure.comparison import Answer
from xdplab.measure.figure import COMMON, P50, P99, CountedFigures, Figure, PointFigures, TrialFigures
from xdplab.measure.measured import RepetitionFigures
from xdplab.measure.page import Column, Page, Section
from xdplab.measure.point import PointSummary
from xdplab.model import (
    ForwarderSpec,
    InputError,
    MethodSpec,
    Path,
    Point,
    RunRecord,
    StudySpec,
    TrafficSpec,
    TrialRecord,
    TrialResult,
    TrialSpec,
    plugins,
)
from xdplab.model.design import Scalar
from xdplab.model.study import GROUP
from xdplab.model.trial import Purpose
from xdplab.testbed import Port

SpecT = TypeVar("SpecT", bound=MethodSpec)


class MethodResult(NamedTuple):
    """What the tester reports, and what was counted in addition."""

    result: TrialResult
    figures: CountedFigures | None = None


def untested(elapsed_s: float) -> TrialResult:
    """A trial without the tester."""
    return TrialResult(tester="none", sender="none", elapsed_s=elapsed_s, streams=())


class Part(NamedTuple):
    """One of several things that a method measures, as a row of a suite asks for it."""

    #: What came of it, a line each.
    lines: Sequence[str] = ()
    #: Why nothing did: the row is skipped.
    without: str = ""
    #: Why that is not good: the row fails.
    failed: str = ""
    #: The points that it is of, where these are all that there is to ask.
    points: Sequence[PointSummary] | None = None


class Trials(Protocol):
    """What a search needs of a session."""

    @property
    def ceiling_pps(self) -> float:
        """Highest load that the tester was calibrated to send, in frames per second over all directions."""

    def trial(
        self,
        spec: TrialSpec,
        purpose: Purpose = "measure",
        clause: str = "",
        restart_after_s: float | None = None,
        turn: int | None = None,
    ) -> TrialResult:
        """Run a trial and journal it.

        On a resumed run, trials that the journal holds are answered from it. With `restart_after_s` the forwarder is
        stopped and started again that long after the trial's beginning. `turn`: number of the trial, from 0 on, among
        those of which each is compared with the same of another point.
        """

    @property
    def sender_full(self) -> bool:
        """Whether the forwarder's own work filled the CPU of the sender in the trial before."""

    def record_figures(self, clause: str, figures: TrialFigures) -> None:
        """Journal what a method found."""

    def progress(self, text: str) -> None:
        """Say how far it is, between trials."""


class Session(Trials, Protocol):
    """One repetition of a point: the forwarder runs and the path has been proven."""

    @property
    def point(self) -> Point:
        """The point that is measured."""

    @property
    def number(self) -> int:
        """Of the repetition, from 0 on: for what is done in turns."""

    @property
    def turn(self) -> int:
        """Of the repetition, from 0 on; 0 where the method has none."""

    @property
    def forwarder(self) -> Forwarder[Any]:
        """The forwarder that runs."""

    @property
    def dut(self) -> Dut:
        """Host and ports that the forwarder runs on."""

    @property
    def client(self) -> Port:
        """The tester's first port, for a program that speaks to one behind the forwarder."""

    @property
    def cannot(self) -> Mapping[str, str]:
        """Clauses that the tester has no figures for, and why."""

    def measure_by(self, asked: TrialSpec, count: Callable[[], MethodResult], clause: str = "") -> TrialResult:
        """Journal as a measured trial what the method counts itself, with or without the tester.

        The machine is watched while `count` runs; what that raises ends the repetition. On a resumed run a trial that
        the journal holds is answered from it.
        """

    def send(self, spec: TrialSpec) -> TrialResult:
        """Send without journaling: a warm-up, some first frames, a flood next to what is counted."""

    def let_others(self) -> None:
        """Let points that stand beside this one measure, while its processes are frozen; returns at its next step."""

    def prove(self) -> None:
        """Be sure that frames come through in every direction, and that every option is in force.

        Raises:
            PointFailed: none came.
            Unsupported: an option was taken without a word and is not in force.
        """


class Method(ABC, Generic[SpecT]):
    """Base of all methods: what measures is called by the runner, what reads by `analysis` and `report`."""

    name: ClassVar[str]
    spec_model: ClassVar[type[MethodSpec]]
    #: What its points are compared by, the one that its answer goes by first.
    figures: ClassVar[tuple[Figure, ...]] = (P50, P99)
    #: What it journals of its trials, next to what the tester reports.
    records: ClassVar[tuple[type[TrialFigures], ...]] = ()
    #: Of its table, between what a point is and how often it was measured.
    columns: ClassVar[tuple[Column, ...]] = ()
    #: What its latencies are of, where the path does not say it.
    quantity: ClassVar[str] = ""
    #: Clauses of trials that are measured next to the point's own, and have a summary of their own.
    side_clauses: ClassVar[tuple[str, ...]] = ()
    #: The one of them that is the same work at a light load: who is ahead there comes first.
    light_clause: ClassVar[str] = ""
    #: True where it needs no load next to the probes, so that a tester which waits for each answer can carry it out.
    closed_loop: ClassVar[bool] = False
    #: True where it sends at rates of its own: `traffic.probe_pps` is nothing to it.
    own_rates: ClassVar[bool] = False
    #: True where it sends the new flows of a profile.
    sends_new_flows: ClassVar[bool] = False
    #: True where it sends the request of a profile.
    sends_requests: ClassVar[bool] = False
    #: True where programs of its own send and receive at both ends: the study's tester is not needed.
    own_ends: ClassVar[bool] = False
    #: True where it sets or watches interfaces of the kernel, of which a port that a program's own driver has is none.
    at_interfaces: ClassVar[bool] = False
    #: True where it says itself when points that stand beside its own may measure (`Session.let_others`); else that is
    #: after each turn, or after each trial of a method without turns.
    lets_others: ClassVar[bool] = False
    #: True where the analysis of a sweep may ask which settings matter to its latencies.
    swept: ClassVar[bool] = False

    def __init__(self, spec: SpecT) -> None:
        self.spec = spec

    @property
    def one_way(self) -> bool:
        """Whether what it says of path `through` has a one-way latency in it, which needs one clock."""
        return True

    @abstractmethod
    def trial_seconds(self, traffic: TrafficSpec) -> list[float]:
        """Traffic seconds of each trial that a repetition takes, for estimates."""

    def sends_load(self, traffic: TrafficSpec) -> bool:
        """True when it sends the load of a profile as `streams.load_streams` has it."""
        return False

    def loads_at_once(self) -> int:
        """Loads that the largest of its trials has in one direction."""
        return 1

    def new_flows(self, point: Point) -> float:
        """The most new flows that a trial has, in one direction."""
        return (point.traffic.new_flows_pps or 0.0) * max(self.trial_seconds(point.traffic), default=0.0)

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """Highest load, in frames per second over all directions, that it asks for whatever the tester can send.

        0.0 where it keeps below the tester's top rate by itself.
        """
        return 0.0

    @abstractmethod
    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Take the trials of one repetition, or of one turn of it."""

    @property
    def turns(self) -> int:
        """How often `measure` is called in a repetition, side by side where points can be; 0: once."""
        return 0

    @property
    def instances(self) -> int:
        """How often each forwarder is started in a repetition, to stand beside itself where points can."""
        return 1

    def check(self, study: StudySpec) -> None:
        """What only it can check of a study.

        Raises:
            InputError: something in it cannot be.
        """

    def levels(self, forwarder: ForwarderSpec) -> Sequence[dict[str, Scalar]]:
        """What it does of several things it can do, each a point: `{"workload": "rxdrop"}`."""
        return ({},)

    def frames_return(self, levels: Mapping[str, Scalar]) -> bool:
        """Whether what was forwarded arrives at the tester; where it does not, a point has no loss."""
        return True

    def path(self, levels: Mapping[str, Scalar]) -> Path | None:
        """The way of the frames, where that is not the study's to say."""
        return None

    def forwarder(self, point: Point) -> Forwarder[Any]:
        """The forwarder of a point, ready to start.

        Raises:
            InputError: unknown name or option, or it cannot do what the method wants of it.
        """
        return make_forwarder(point.forwarder)

    def unsupported(self, point: Point, dut: Dut, client: Port) -> str | None:
        """None, or why this machine lacks what it needs next to forwarder and tester."""
        return None

    @property
    def clause(self) -> str:
        """The one that is all it measures, as `cannot` of testers and forwarders calls it; "": it has others."""
        return ""

    def around(self, session: Session) -> AbstractContextManager[None]:
        """What stands from before the forwarder's start until after its stop."""
        return nullcontext()

    def prove(self, session: Session) -> None:
        """Be sure, before anything is measured, that the forwarder does what it is there for."""
        session.prove()

    def repetition_figures(self, trials: Sequence[TrialRecord]) -> Sequence[RepetitionFigures]:
        """Its own figures of each repetition of a point; percentiles of the measured trial are there without it."""
        return ()

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> PointFigures:
        """What it says of a point beside, for JSON and its section of the report."""
        return PointFigures()

    def unsupported_clauses(self, trials: Sequence[TrialRecord]) -> dict[str, str]:
        """Part of it -> why the tester has no figures for that."""
        return {}

    def goal_points(self, figure: Figure, points: Sequence[PointSummary]) -> Sequence[PointSummary]:
        """Of points, those that a reader who chooses by a figure with a `goal` looks at."""
        return points

    def findings(self, run: RunRecord, summaries: Sequence[PointSummary]) -> list[str]:
        """What it says of several points, below the answer, a line each."""
        return []

    def notes(self, point: PointSummary) -> list[str]:
        """Lines below the table on the terminal."""
        return []

    def answer(self, run: RunRecord, summaries: Sequence[PointSummary]) -> Answer | None:
        """The run's first sentence; None: that of the two forwarders which the study names, by the first figure."""
        return None

    def part(self, run: RunRecord, summaries: Sequence[PointSummary], *name: str) -> Part:
        """One of several things that it measures: a clause, a way, what a variant contributes."""
        return Part(without=f"method {self.name} has no parts")

    def sections(self, page: Page) -> list[Section] | None:
        """Its sections of the report; None: the table of points, and the distributions of their latencies."""
        return None

    def remarks(self, run: RunRecord) -> list[str]:
        """What the report says of how far to trust it."""
        return []


# Finding methods by name, and figures by their key: ours and those of other packages alike.

#: Name -> class of those that were asked for: of most runs one, and what the others import takes 0.1 s.
_asked_for: dict[str, type[Method[Any]]] = {}


def method_names() -> list[str]:
    """All names that a study may use; several may be of one method."""
    return plugins.names(GROUP)


def method_class(name: str) -> type[Method[Any]]:
    """The class behind a name.

    Raises:
        InputError: no such method.
    """
    found: type[Method[Any]] = plugins.find(GROUP, "method", name)
    _asked_for[name] = found
    return found


def make_method(spec: MethodSpec) -> Method[Any]:
    """The method that a study asks for."""
    return method_class(spec.name)(spec)


def figure(key: str) -> Figure:
    """What a figure is.

    Raises:
        InputError: no method has it.
    """
    found = find_figure(key)
    if found is None:
        raise InputError(f"figure {key!r}: no method that is installed has it")
    return found


def find_figure(key: str) -> Figure | None:
    """The same; None of a value that nothing is compared by."""
    asked_for = [*COMMON, *(each for method in _asked_for.values() for each in method.figures)]
    return next((each for each in asked_for if each.key == key), None) or _figures(tuple(sys.path)).get(key)


@cache
def _figures(where: tuple[str, ...]) -> dict[str, Figure]:
    """Of all methods that these folders hold.

    Raises:
        InputError: a key is not the same figure in two methods.
    """
    found = {each.key: each for each in COMMON}
    for method in dict.fromkeys(method_class(name) for name in method_names()):
        for each in method.figures:
            if found.setdefault(each.key, each) != each:
                raise InputError(f"method {method.name}: figure {each.key!r} is another one of another method")
    return found
