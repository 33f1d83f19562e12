# SPDX-License-Identifier: Apache-2.0
"""The lock and the state file of a testbed: one run at a time, and clean-up possible after kill -9."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, TextIO

from xdplab.hosts import Host
from xdplab.model import InputError, XdplabError

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def volatile_dir() -> Path:
    """Directory of what ends with this boot: locks and working folders, private to root."""
    return _private("/run/xdplab")


def lasting_dir() -> Path:
    """Directory of what a reboot of this machine must not take: what is to be put back on hosts that stayed up."""
    return _private("/var/lib/xdplab")


def _private(default: str) -> Path:
    """That folder, or the one that `XDPLAB_STATE` names, made if it is missing.

    Raises:
        InputError: it cannot be made.
    """
    path = Path(os.environ.get("XDPLAB_STATE", default))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise InputError(f"{path}: {exc.strerror}; run as root, or set XDPLAB_STATE") from None
    return path


def working_folder(name: str) -> Path:
    """Where a run on testbed `name` keeps sockets, databases and logs of forwarders; gone with the run."""
    return volatile_dir() / f"{name}.dut"


class TestbedLock:
    """An exclusive lock on a testbed name, with what has been made or changed under it.

    The kernel drops the lock when its holder dies; the state file stays and tells `xdplab restore` what to remove.
    """

    __test__ = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: TextIO | None = None
        self.path = lasting_dir() / f"{name}.json"

    @property
    def held(self) -> bool:
        """True while this object holds the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            InputError: another process holds it.
        """
        file = (volatile_dir() / f"{self.name}.lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise InputError(
                f"testbed {self.name}: in use by process {holder}; wait for it, or stop it and run `xdplab restore`"
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
        """What the last holder left; empty when it cleaned up.

        Raises:
            XdplabError: the file cannot be understood: what it named is to be put back by hand.
        """
        try:
            loaded = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            raise XdplabError(f"{self.path}: {exc}; put back what it names, and remove it") from None
        if not isinstance(loaded, dict):
            raise XdplabError(f"{self.path}: no object; put back what it names, and remove it")
        return loaded

    def remember(self, **state: Any) -> None:
        """Merge into the state file, atomically and before the thing itself is done; it survives a loss of power."""
        before = self.state()
        merged = {**before, **state}
        if merged == before and self.path.exists():
            return
        partial = self.path.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(merged, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remember_boots(self, *hosts: Host) -> None:
        """Which boot of each host what is remembered belongs to."""
        self.remember(boots={host.name: host.read(_BOOT_ID) for host in hosts})

    def rebooted(self, host: Host) -> bool:
        """Whether the host was started anew since: what was changed on it is then as its start made it."""
        boot = self.state().get("boots", {}).get(host.name)
        return boot is not None and host.read(_BOOT_ID) != boot

    def forget(self) -> None:
        """Everything has been removed and put back."""
        self.path.unlink(missing_ok=True)
