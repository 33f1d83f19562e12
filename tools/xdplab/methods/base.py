# SPDX-License-Identifier: Apache-2.0
"""What a method is, and what it may ask of the run."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, Protocol

from xdplab.model import TrafficSpec, TrialResult, TrialSpec


class Session(Protocol):
    """One visit to a point: the forwarder runs and the path has been proven."""

    def trial(self, spec: TrialSpec, purpose: Literal["measure", "rate"] = "measure") -> TrialResult:
        """Run a trial, repeat it while the machine disturbs it (bounded), and journal every attempt.

        Returns:
            The first undisturbed result, or the last one.
        """


class Method(ABC):
    """Base of all methods."""

    name: ClassVar[str]

    @abstractmethod
    def trials(self, traffic: TrafficSpec) -> list[float]:
        """Traffic seconds of each trial that a visit takes, for estimates."""

    @abstractmethod
    def measure(self, session: Session, traffic: TrafficSpec) -> None:
        """Take the trials of one visit."""
