# SPDX-License-Identifier: Apache-2.0
"""The run folder of a socket study: run.json, trials.jsonl, report.html, as for any run."""

from pathlib import Path

from xdplab.model import InputError, JournalFailed
from xdplab.model.sockets import SocketRunRecord, SocketTrial
from xdplab.results.reading import head_as, read_head, read_trials
from xdplab.results.writing import append_whole, write_whole


class SocketFolder:
    """`results/<run>/`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def report(self) -> Path:
        """Where the report goes."""
        return self.path / "report.html"

    def head(self, record: SocketRunRecord) -> None:
        """Write run.json, atomically.

        Raises:
            JournalFailed: it cannot be written; what was there stays.
        """
        try:
            write_whole(self.path / "run.json", record.model_dump_json(indent=1, by_alias=True) + "\n")
        except OSError as exc:
            raise JournalFailed(f"{self.path / 'run.json'}: {exc.strerror}; what was measured is kept") from None

    def append(self, trial: SocketTrial) -> None:
        """Append one line and wait for the disk.

        Raises:
            JournalFailed: it cannot be written; the file is cut back to its last whole line.
        """
        path = self.path / "trials.jsonl"
        try:
            append_whole(path, trial.model_dump_json().encode() + b"\n")
        except OSError as exc:
            raise JournalFailed(f"{path}: {exc.strerror}; the trials before are kept") from None

    def load(self) -> tuple[SocketRunRecord, list[SocketTrial]]:
        """Both files; half a last line is left out, and before the first trial there is no trials.jsonl.

        Raises:
            InputError: not the folder of a socket study, or a trial is not of that study.
        """
        data = read_head(self.path)
        if data.get("kind") != "sockets":
            raise InputError(f"{self.path}: not a socket study")
        record = head_as(SocketRunRecord, data, self.path)
        path = self.path / "trials.jsonl"
        trials = read_trials(path, SocketTrial)
        cases = {case.title for case in record.study.all_cases()}
        for number, trial in enumerate(trials, start=1):
            if trial.workload not in record.study.workloads or trial.case not in cases:
                raise InputError(f"{path}:{number}: {trial.workload}: {trial.case}: not a cell of its study")
        return record, trials
