# SPDX-License-Identifier: Apache-2.0
"""A run folder on disk. A trial is safe once `append` has returned: it is on the disk before the next one starts."""

import os
from datetime import UTC, datetime
from pathlib import Path

from xdplab.model import InputError, JournalFailed, RunRecord, TrialRecord
from xdplab.results.reading import head_as, read_head, read_trials
from xdplab.results.writing import append_whole, write_whole


class RunFolder:
    """`results/<run>/`; also the `Journal` that a run writes to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._trials = path / "trials.jsonl"

    @property
    def name(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def report(self) -> Path:
        """Where the report goes."""
        return self.path / "report.html"

    def head(self, record: RunRecord) -> None:
        """Write run.json, atomically."""
        try:
            write_whole(self.path / "run.json", record.model_dump_json(indent=1, by_alias=True) + "\n")
        except OSError as exc:
            raise JournalFailed(f"{self.path / 'run.json'}: {exc.strerror}; what was measured is kept") from None

    def append(self, record: TrialRecord) -> None:
        """Append one line and wait for the disk.

        Raises:
            JournalFailed: it cannot be written; the file is cut back to its last whole line.
        """
        line = record.model_dump_json().encode() + b"\n"
        try:
            append_whole(self._trials, line)
        except OSError as exc:
            raise JournalFailed(
                f"{self._trials}: {exc.strerror}; the trials before are kept; make room and use "
                f"`xdplab run --resume {self.path}`"
            ) from None

    def load(self) -> RunRecord:
        """run.json as a model.

        Raises:
            InputError: not a run folder, or written by another version.
        """
        data = read_head(self.path)
        if data.get("kind") == "sockets":
            raise InputError(f"{self.path}: of a socket study, which is a method of `xdplab run` now: measure again")
        return head_as(RunRecord, data, self.path)

    def trials(self) -> list[TrialRecord]:
        """All whole lines of trials.jsonl: a last one that kill -9 cut off is left out, any other bad one is an error.

        Raises:
            InputError: a line in the middle cannot be read.
        """
        return read_trials(self._trials, TrialRecord)

    def mend(self) -> None:
        """Cut off half a last line, before a resumed run appends to it."""
        if self._trials.exists():
            data = self._trials.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.truncate(self._trials, whole)


def new_run(results: Path, study: str) -> RunFolder:
    """A new folder `results/<study>-<time>`, private to the user, with `results/latest` pointing at it.

    Raises:
        InputError: it cannot be made.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        path = results / f"{study}-{stamp}{suffix}"
        try:
            path.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            continue
        except OSError as exc:
            raise InputError(f"{path}: {exc.strerror}; choose another folder with --results") from None
        link = results / f".latest.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(path.name)
        link.replace(results / "latest")
        return RunFolder(path)
    raise InputError(f"{results}: no free name for a run of {study}")


def find_run(name: str, results: Path) -> RunFolder:
    """The run folder of that path, or of that name within `results`.

    Raises:
        InputError: there is none.
    """
    for path in (Path(name), results / name):
        if (path / "run.json").is_file():
            return RunFolder(path.resolve())
    raise InputError(f"run {name!r}: no run.json there or in {results}; `xdplab run` makes runs")
