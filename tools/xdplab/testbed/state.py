# SPDX-License-Identifier: Apache-2.0
"""The lock and the state file of a testbed: one run at a time, and clean-up possible after kill -9."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, TextIO

from xdplab.model import InputError


def state_dir() -> Path:
    """Directory of locks and state files, private to root (`XDPLAB_STATE` overrides it)."""
    path = Path(os.environ.get("XDPLAB_STATE", "/run/xdplab"))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise InputError(f"{path}: {exc.strerror}; run as root, or set XDPLAB_STATE") from None
    return path


def working_folder(name: str) -> Path:
    """Where a run on testbed `name` keeps sockets, databases and logs of forwarders; gone with the run."""
    return state_dir() / f"{name}.dut"


class TestbedLock:
    """An exclusive lock on a testbed name, with what has been made or changed under it.

    The kernel drops the lock when its holder dies; the state file stays and tells `xdplab down` what to remove.
    """

    __test__ = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: TextIO | None = None
        self._path = state_dir() / f"{name}.json"

    @property
    def held(self) -> bool:
        """True while this object holds the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            InputError: another process holds it.
        """
        file = (state_dir() / f"{self.name}.lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise InputError(
                f"testbed {self.name}: in use by process {holder}; wait for it, or stop it and run `xdplab down`"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file

    def release(self) -> None:
        """Give the lock back; the empty lock file stays, so that no two holders ever see different files."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None

    def state(self) -> dict[str, Any]:
        """What the last holder left; empty when it cleaned up."""
        try:
            loaded = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}

    def remember(self, **state: Any) -> None:
        """Merge into the state file, atomically and before the thing itself is done."""
        merged = {**self.state(), **state}
        partial = self._path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(merged, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)

    def forget(self) -> None:
        """Everything has been removed and put back."""
        self._path.unlink(missing_ok=True)
