# SPDX-License-Identifier: Apache-2.0
"""The run folder of a socket study: run.json, trials.jsonl, report.html, as for any run."""

import os
from pathlib import Path

from pydantic import ValidationError

from xdplab.model import SCHEMA_VERSION, InputError, JournalFailed
from xdplab.model.sockets import SocketRunRecord, SocketTrial


class SocketFolder:
    """`results/<run>/`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def report(self) -> Path:
        """Where the report goes."""
        return self.path / "report.html"

    def head(self, record: SocketRunRecord) -> None:
        """Write run.json, atomically."""
        partial = self.path / ".run.json.partial"
        partial.write_text(record.model_dump_json(indent=1, by_alias=True) + "\n", encoding="utf-8")
        partial.replace(self.path / "run.json")

    def append(self, trial: SocketTrial) -> None:
        """Append one line and wait for the disk.

        Raises:
            JournalFailed: it cannot be written.
        """
        path = self.path / "trials.jsonl"
        try:
            with path.open("ab") as file:
                file.write(trial.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            raise JournalFailed(f"{path}: {exc.strerror}; the trials before are kept") from None

    def load(self) -> tuple[SocketRunRecord, list[SocketTrial]]:
        """Both files; half a last line is left out, and before the first trial there is no trials.jsonl.

        Raises:
            InputError: not the folder of a socket study, or a trial is not of that study.
        """
        head = self.path / "run.json"
        try:
            record = SocketRunRecord.model_validate_json(head.read_bytes())
            if record.schema_version != SCHEMA_VERSION:
                found = record.schema_version
                raise InputError(f"{head}: schema version {found}, this xdplab reads {SCHEMA_VERSION}")
            return record, self._trials(record)
        except OSError as exc:
            raise InputError(f"{self.path}: not a run folder: {exc.strerror}") from None
        except ValidationError as exc:
            raise InputError(f"{head}: not a socket study: {_first(exc)}") from None

    def _trials(self, record: SocketRunRecord) -> list[SocketTrial]:
        path = self.path / "trials.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        cases = {case.title for case in record.study.all_cases()}
        trials = []
        for number, line in enumerate(lines, start=1):
            try:
                trial = SocketTrial.model_validate_json(line)
            except ValidationError as exc:
                raise InputError(f"{path}:{number}: not a trial of a socket study: {_first(exc)}") from None
            if trial.workload not in record.study.workloads or trial.case not in cases:
                raise InputError(f"{path}:{number}: {trial.workload}: {trial.case}: not a cell of its study")
            trials.append(trial)
        return trials


def _first(exc: ValidationError) -> str:
    """What is wrong first, and where."""
    error = exc.errors(include_url=False)[0]
    return ": ".join(filter(None, (".".join(map(str, error["loc"])), error["msg"])))
