# SPDX-License-Identifier: Apache-2.0
"""Progress on a terminal or in a log. Drawn between trials only, so that it never runs on a core that is measured."""

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from xdplab.model import Point, TrialRecord, plain
from xdplab.model.digits import duration
from xdplab.report import describe
from xdplab.runner import Listener, Plan


class ConsoleListener(Listener):
    """A bar with the time left on a terminal; one line per trial elsewhere. Everything goes to stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress: Progress | None = None
        self._task = None
        self._left_s = 0.0
        self._called: Callable[[Point], str] = lambda point: point.title

    def __enter__(self) -> "ConsoleListener":
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, plan: Plan, left: int, seconds: float) -> None:
        self._called = plan.called
        self.note(f"{left} repetitions over {len(plan.points)} points, about {duration(seconds)}")
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                       TextColumn("left {task.fields[left]}"), TextColumn("{task.fields[detail]}"))  # fmt: skip
            self._progress = Progress(*columns, console=self._console, auto_refresh=False)
            self._task = self._progress.add_task("", total=left, left=duration(seconds), detail="")  # type: ignore[assignment]
            self._progress.start()

    def note(self, text: str) -> None:
        (self._progress.console if self._progress else self._console).print(plain(text), markup=False, soft_wrap=True)

    def progress(self, text: str) -> None:
        """On a terminal next to the bar; without one as a line."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, detail=text.strip())
            self._progress.refresh()
        else:
            self.note(text)

    def starting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        """Move the bar; without a terminal remember the time left for the trial's line."""
        self._left_s = left_s
        if self._progress is not None and self._task is not None:
            name = f"{self._called(point)} #{repetition + 1}"
            self._progress.update(self._task, completed=number - 1, total=of, description=name, left=duration(left_s))
            self._progress.refresh()

    def trial(self, point: Point, record: TrialRecord) -> None:
        text = f"{self._called(point)} #{record.repetition + 1}: {describe(record)}"
        self.note(text if self._progress else f"{text}   [left {duration(self._left_s)}]")
