# SPDX-License-Identifier: Apache-2.0
"""What a method is, and what it may ask of the run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from xdplab.forwarders import Dut, Forwarder
from xdplab.model import TrafficSpec, TrialResult, TrialSpec
from xdplab.model.trial import Purpose


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


class Method(ABC):
    """Base of all methods."""

    name: ClassVar[str]
    #: True where a visit takes seconds: a repetition in which the machine disturbed a point's measured trial is then
    #: made anew for all points, so that no forwarder gets the best of several tries. Where a visit takes minutes,
    #: such a trial is only marked.
    repeats_whole: ClassVar[bool] = False

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
