# SPDX-License-Identifier: Apache-2.0
"""Progress of a run on Robot's console."""

from robot.api import logger

from xdplab.model import Point, TrialRecord, plain
from xdplab.report import describe, duration
from xdplab.runner import Listener, Plan


class RobotListener(Listener):
    """Progress as lines on the console; Robot's own output has no bar to move."""

    def __init__(self) -> None:
        self._left_s = 0.0

    def begin(self, plan: Plan, left: int, seconds: float) -> None:
        """Say how much is ahead."""
        self.note(f"{left} repetitions over {len(plan.points)} points, about {duration(seconds)}")

    def note(self, text: str) -> None:
        """A line of its own."""
        logger.info(plain(text))
        logger.console(f"  {plain(text)}")

    def progress(self, text: str) -> None:
        """A line on the console, not in the log."""
        logger.console(f"  {text}")

    def starting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        """Remember the time left for the trial's line."""
        self._left_s = left_s

    def trial(self, point: Point, record: TrialRecord) -> None:
        """One line per trial."""
        left = duration(self._left_s)
        self.note(f"{point.title} #{record.repetition + 1}: {describe(record)}   [left {left}]")
