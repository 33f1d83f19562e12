# SPDX-License-Identifier: Apache-2.0
"""The run folder of a socket study: run.json, trials.jsonl, report.html, as for any run."""

import os
from pathlib import Path

from pydantic import ValidationError

from xdplab.model import InputError, JournalFailed
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
        """Both files; half a last line is left out.

        Raises:
            InputError: not the folder of a socket study.
        """
        try:
            record = SocketRunRecord.model_validate_json((self.path / "run.json").read_bytes())
            lines = (self.path / "trials.jsonl").read_bytes().split(b"\n")[:-1]
            return record, [SocketTrial.model_validate_json(line) for line in lines]
        except OSError as exc:
            raise InputError(f"{self.path}: not a run folder: {exc.strerror}") from None
        except ValidationError as exc:
            raise InputError(f"{self.path}: not a socket study: {exc.errors()[0]['msg']}") from None
