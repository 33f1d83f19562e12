# SPDX-License-Identifier: Apache-2.0
"""Who learns how far a run is."""

from xdplab.model import Point, TrialRecord
from xdplab.runner.plan import Plan


class Listener:
    """Hears everything and says nothing; a front end overrides what it shows.

    Called between trials only: a screen must not be drawn on a measured core.
    """

    def begin(self, plan: Plan, left: int, seconds: float) -> None:
        """The run starts; `left` repetitions, `seconds` expected."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def progress(self, text: str) -> None:
        """Something that changes often within a repetition, worth showing and not worth keeping."""

    def starting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        """Repetition `number` of `of` starts."""

    def trial(self, point: Point, record: TrialRecord) -> None:
        """A trial has been journaled."""
