# SPDX-License-Identifier: Apache-2.0
"""What a method is, and what it may ask of the run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from xdplab.forwarders import Dut, Forwarder
from xdplab.methods.column import Column
from xdplab.methods.figure import P50, P99, Figure
from xdplab.model import MethodSpec, Point, RunRecord, TrafficSpec, TrialRecord, TrialResult, TrialSpec
from xdplab.model.trial import Purpose

if TYPE_CHECKING:  # a method's folder spans all layers, and so do the types of its face; nothing of this is imported
    from xdplab.analysis.answer import Answer
    from xdplab.analysis.figures import RepetitionFigures
    from xdplab.analysis.summary import PointSummary
    from xdplab.report.page import Page, Section

SpecT = TypeVar("SpecT", bound=MethodSpec)


class Session(Protocol):
    """One visit to a point: the forwarder runs and the path has been proven."""

    @property
    def forwarder(self) -> Forwarder[Any]:
        """The forwarder that runs."""

    @property
    def dut(self) -> Dut:
        """Where it runs."""

    @property
    def ceiling_pps(self) -> float:
        """Highest load that the tester was calibrated to send, in frames per second over all directions."""

    @property
    def cannot(self) -> Mapping[str, str]:
        """Clauses that the tester has no figures for, and why."""

    def trial(
        self, spec: TrialSpec, purpose: Purpose = "measure", clause: str = "", restart_after_s: float | None = None
    ) -> TrialResult:
        """Run a trial and journal it.

        A step of a search (`purpose="search"`) is repeated while the machine disturbs it (bounded), for what the
        search asks next rests on it; every attempt is journaled. What is compared between forwarders
        (`purpose="measure"`) is never repeated here: see `Method.repeats_whole`. On a resumed run, trials that the
        journal holds are answered from it. With `restart_after_s` the forwarder is stopped and started again that long
        after the trial's beginning.

        Returns:
            The result; of a step of a search the first undisturbed one, or the last.
        """

    def found(self, clause: str, figures: dict[str, Any]) -> None:
        """Journal what a method found."""

    def progress(self, text: str) -> None:
        """Say how far it is, between trials."""


class Method(ABC, Generic[SpecT]):
    """Base of all methods: what measures is called by the runner, what reads by `analysis` and `report`."""

    name: ClassVar[str]
    spec_model: ClassVar[type[MethodSpec]]
    summary: ClassVar[str]
    #: What its points are compared by, the one that its answer goes by first.
    figures: ClassVar[tuple[Figure, ...]] = (P50, P99)
    #: Of its table, between what a point is and how often it was measured.
    columns: ClassVar[tuple[Column, ...]] = ()
    #: Clauses of trials that are measured beside the one that stands for the point, and have a summary of their own.
    beside: ClassVar[tuple[str, ...]] = ()
    #: True where a visit takes seconds: a repetition in which the machine disturbed a point's measured trial is then
    #: made anew for all points, so that no forwarder gets the best of several tries. Where a visit takes minutes,
    #: such a trial is only marked.
    repeats_whole: ClassVar[bool] = False
    #: True where it needs no load beside the probes, so that a tester which waits for each answer can carry it out.
    closed_loop: ClassVar[bool] = False
    #: True where the analysis of a sweep may ask which settings matter to its latencies.
    swept: ClassVar[bool] = False

    def __init__(self, spec: SpecT) -> None:
        self.spec = spec

    @abstractmethod
    def trials(self, traffic: TrafficSpec) -> list[float]:
        """Traffic seconds of each trial that a visit takes, for estimates."""

    def asked_pps(self, traffic: TrafficSpec) -> float:
        """Highest load, in frames per second over all directions, that it asks for whatever the tester can send.

        0.0 where it keeps below the tester's top rate by itself.
        """
        return 0.0

    @abstractmethod
    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Take the trials of one visit."""

    def repetitions(self, trials: "Sequence[TrialRecord]") -> "Sequence[RepetitionFigures]":
        """Its own figures of each repetition of a point; percentiles of the measured trial are there without it."""
        return ()

    def point_figures(self, run: RunRecord, point: Point, trials: Sequence[TrialRecord]) -> dict[str, Any]:
        """What it says of a point beside, for JSON and its section of the report."""
        return {}

    def unsupported_clauses(self, trials: Sequence[TrialRecord]) -> dict[str, str]:
        """Part of it -> why the tester has no figures for that."""
        return {}

    def notes(self, point: "PointSummary") -> list[str]:
        """Lines below the table on the terminal."""
        return []

    def answer(self, run: RunRecord, summaries: "Sequence[PointSummary]") -> "Answer | None":
        """The run's first sentence; None: that of the two forwarders which the study names, by the first figure."""
        return None

    def contribution(self, run: RunRecord, summaries: "Sequence[PointSummary]", title: str) -> str | None:
        """What a variant contributes against the study's reference, in words; None where it was not measured so."""
        return None

    def sections(self, page: "Page") -> "list[Section] | None":
        """Its sections of the report; None: the table of points, and the distributions of their latencies."""
        return None

    def remarks(self, run: RunRecord) -> list[str]:
        """What the report says of how far to trust it."""
        return []
