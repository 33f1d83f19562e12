# SPDX-License-Identifier: Apache-2.0
"""The lock and the state file of a testbed: one run at a time, and clean-up possible after kill -9."""

import fcntl
import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, TextIO

from pydantic import BaseModel, ValidationError

from xdplab.hosts import Host
from xdplab.model import InputError, XdplabError
from xdplab.model.testbed import PortRole
from xdplab.tools import folder_of

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: How long a lock may be held by nobody known: who takes it, or gives it back, is between two system calls.
_UNKNOWN_S = 1.0
#: What the lock of a restore has after its process, and how long others wait for it: it connects to each host, and
#: some cards take 10 s for each setting.
_RESTORING, _RESTORING_S = "restoring what a run left", 300.0


class _State(BaseModel):
    """What a state file may hold; what it holds next to that is kept."""

    #: The testbed file, and what tells each host from another: what is remembered is of these alone.
    file: str = ""
    hosts: dict[str, dict[str, str]] = {}
    boots: dict[str, str] = {}
    netns: list[str] = []
    cgroups: list[str] = []
    links: list[str] = []
    ports: dict[PortRole, dict[str, Any]] = {}
    #: What a run set, next to what it had found.
    ports_set: dict[PortRole, dict[str, Any]] = {}
    settings_set: dict[str, Any] = {}
    own_settings_set: dict[PortRole, dict[str, Any]] = {}
    #: Of the ports whose settings are remembered.
    ifnames: dict[PortRole, str] = {}
    #: Of each host what its agent saw of interfaces when the run's last session ended.
    left: dict[str, dict[str, list[Any]]] = {}
    cards: dict[PortRole, dict[str, Any]] = {}
    settings: dict[str, Any] = {}
    settings_ports: list[PortRole] = []
    own_settings: dict[PortRole, dict[str, Any]] = {}


def _boot_of(host: Host) -> str:
    """Boot id of a host.

    Raises:
        XdplabError: it reports none, so whether it was rebooted is not known.
    """
    found = host.read(_BOOT_ID)
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found.strip()):
        raise XdplabError(f"{host.name}: {_BOOT_ID} holds {found[:80]!r}, not a boot id")
    return found


def volatile_dir() -> Path:
    """Directory of what ends with this boot: locks and working folders, private to root."""
    return _private("/run/xdplab")


def lasting_dir() -> Path:
    """Directory of what a reboot of this machine must not take: what is to be put back on hosts that stayed up."""
    return _private("/var/lib/xdplab")


def _private(default: str) -> Path:
    """That folder, or the one that `XDPLAB_STATE` names, made if it is missing.

    Raises:
        InputError: it cannot be made, or others could have put there what is in it.
    """
    path = folder_of("XDPLAB_STATE", Path(default))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as exc:
        raise InputError(f"{path}: {exc.strerror}; run as root, or set XDPLAB_STATE") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise InputError(
            f"{path}: a link, of another user, or writable for others: what is put back must not come from them; "
            f"`rm`, `chown` or `chmod go-w` it, or set XDPLAB_STATE to a folder of user {os.geteuid()}"
        )
    return path


def working_folder(name: str) -> Path:
    """Where a run on testbed `name` keeps sockets, databases and logs of forwarders; gone with the run."""
    return volatile_dir() / f"{name}.dut"


# What a killed forwarder leaves in shared memory: found by its name, which the folder of its run gives it.

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where POSIX shared memory is


def shared_memory_prefix(rundir: PurePath) -> str:
    """How names begin of what a forwarder with this folder makes there; the same after a kill."""
    return "xdplab-" + hashlib.sha256(str(rundir).encode()).hexdigest()[:8]


def remove_shared_memory(host: Host, rundir: PurePath) -> list[str]:
    """Remove that of a forwarder that has ended; the paths of what was there."""
    if not host.exists(_SHARED_MEMORY):
        return []
    found = ["find", _SHARED_MEMORY, "-maxdepth", "1", "-name", f"{shared_memory_prefix(rundir)}-*"]
    return host.run([*found, "-print", "-delete"]).stdout.split()


class TestbedLock:
    """An exclusive lock on a testbed name, with what has been made or changed under it.

    The kernel drops the lock when its holder dies; the state file stays and tells `xdplab restore` what to remove.
    """

    __test__ = False

    def __init__(self, name: str, file: str = "") -> None:
        """`file`: of the testbed; empty: what is remembered is of this machine, whichever file names it."""
        self.name = name
        self._testbed_file = file
        self._title = f"testbed {name}"
        self._file: TextIO | None = None
        self.path = lasting_dir() / f"{name}.json"

    @property
    def held(self) -> bool:
        """True while this object holds the lock."""
        return self._file is not None

    def acquire(self, *, restoring: bool = False) -> None:
        """Take the lock; a restore that holds it is waited for.

        Args:
            restoring: the lock is for a restore.

        Raises:
            InputError: another process holds it.
        """
        file = (volatile_dir() / f"{self.name}.lock").open("a+", encoding="utf-8")
        began, before = time.monotonic(), ""
        while not _locked(file):
            file.seek(0)
            holder = file.read().strip()
            if holder != before:
                began, before = time.monotonic(), holder
                if _RESTORING in holder:
                    sys.stderr.write(f"xdplab: {self._title}: waiting for process {holder}\n")
            # the files of a process that was killed are closed a moment later
            limit_s = 0.0 if holder and not restoring else _UNKNOWN_S
            if time.monotonic() - began > (_RESTORING_S if _RESTORING in holder else limit_s):
                file.close()
                raise InputError(
                    f"{self._title}: in use by process {holder or 'unknown'}; wait for it, or stop it and run "
                    f"`xdplab restore`"
                )
            time.sleep(0.01)
        self._file = file
        with suppress(OSError):  # on a full disk the lock holds all the same, and nobody learns whose it is
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), f"{os.getpid()}{f' ({_RESTORING})' if restoring else ''}".encode(), 0)
        try:
            self._refuse_other_file()
        except BaseException:
            self.release()
            raise

    def _refuse_other_file(self) -> None:
        theirs = self.state().get("file", "") if self._testbed_file and self.changed else ""
        if theirs not in ("", self._testbed_file) and Path(theirs).exists():
            raise InputError(
                f"{self._title}: {theirs} has this name too, and its settings are not restored: "
                f"`xdplab restore --testbed {theirs}`; then give one of both another `name`"
            )

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
            _State.model_validate(loaded)
        except FileNotFoundError:
            return {}
        except ValidationError as exc:
            first = exc.errors()[0]
            where = ".".join(map(str, first["loc"]))
            reason = f"{where}: {first['msg']}" if where else "no object"
        except (OSError, ValueError) as exc:
            reason = str(exc)
        else:
            return dict(loaded)
        raise XdplabError(f"{self.path}: {reason}; put back what it names, and remove it")

    def remember(self, **state: Any) -> None:
        """Merge into the state file, atomically and before the thing itself is done; it survives a loss of power.

        Raises:
            XdplabError: it cannot be written, and is as before.
        """
        before = self.state()
        merged = {**before, **state}
        if merged == before and self.path.exists():
            return
        try:
            self._write(json.dumps(merged).encode())
        except OSError as exc:
            raise XdplabError(f"{self.path}: {exc.strerror}; `xdplab restore` puts back what it names") from None

    def _write(self, data: bytes) -> None:
        partial = self.path.with_suffix(".partial")
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError:
            size = self.path.stat().st_size if self.path.exists() else 0
            if len(data) > size:
                raise
            with self.path.open("rb+") as file:  # the disk is full: what is put back goes from the file all the same
                file.write(data.ljust(size))
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @property
    def changed(self) -> bool:
        """Whether the state file names something that is to be put back or removed."""
        state = self.state()
        return any(
            state.get(key) for key in ("netns", "cgroups", "ports", "cards", "links", "settings", "own_settings")
        )

    def acquire_unchanged(self) -> None:
        """Take the lock for building: what a killed run left would be forgotten, or taken for the state before.

        Raises:
            InputError: another process holds it, or a run left something.
        """
        self.acquire()
        try:
            if self.changed:
                raise InputError(f"{self._title}: a run left it changed; `xdplab restore` puts it back")
        except BaseException:
            self.release()
            raise

    def remember_boots(self, *hosts: Host) -> None:
        """Which file, machines and boots what is remembered belongs to."""
        self.remember(
            file=self._testbed_file,
            hosts={host.name: host.identity for host in hosts},
            boots={host.name: _boot_of(host) for host in hosts},
            left={},
        )

    def rebooted(self, host: Host) -> bool:
        """Whether the host was rebooted since: what was changed on it is then as after its boot."""
        boot = self.state().get("boots", {}).get(host.name)
        return boot is not None and _boot_of(host) != boot

    @property
    def roles(self) -> set[PortRole]:
        """Ports on which something is to be put back."""
        state = self.state()
        return {*state.get("settings_ports", ())}.union(
            *(state.get(key, {}) for key in ("ports", "cards", "own_settings"))
        )

    def forget_ports(self, ports: Collection[str], titles: Mapping[str, str]) -> None:
        """Nothing is put back any more on ports that are gone, nor on the forwarder's host without them.

        `titles`: role -> interface of the testbed file, for state files that have no names.

        Raises:
            InputError: nothing is remembered of one.
        """
        if unknown := sorted({*ports} - self.roles):
            there = f"only on {', '.join(sorted(self.roles))}" if self.roles else "nor on another port"
            raise InputError(f"{self._title}: --forget {unknown[0]}: nothing is to be put back on it, {there}")
        state = self.state()
        of_forwarder = {*ports} & {*state.get("settings_ports", ())}
        gone = [name for role, name in {**titles, **state.get("ifnames", {})}.items() if role in of_forwarder]
        for key in ("ports", "cards", "own_settings"):
            state[key] = {role: saved for role, saved in state.get(key, {}).items() if role not in ports}
        state["settings_ports"] = [role for role in state.get("settings_ports", ()) if role not in ports]
        for key in ("settings", "settings_set"):
            kept = {name: _without(saved, gone) for name, saved in state.get(key, {}).items()}
            state[key] = {name: saved for name, saved in kept.items() if saved != {}}
        if {"b0", "b1"} & {*ports} and not {"b0", "b1"} & {*state["ports"]}:
            state |= {"links": [], "settings": {}}
        self.remember(**state)

    def forget_unchanged(self) -> None:
        """Remove the state file, unless something is left to be put back."""
        if not self.changed:
            self.path.unlink(missing_ok=True)


class SystemLock(TestbedLock):
    """The lock on settings of a machine: two testbeds of one machine must not save each other's values."""

    def __init__(self, machine: Host) -> None:
        # no testbed can be called so; a digest, because a host's own words are no file name
        super().__init__(f"system_{hashlib.sha256(machine.read(_BOOT_ID).encode()).hexdigest()[:32]}")
        self._title = f"settings of {machine.name}"


def _without(saved: Any, ifnames: Collection[str]) -> Any:
    """What a knob has saved, but for these interfaces."""
    if not isinstance(saved, dict):
        return saved
    return {ifname: value for ifname, value in saved.items() if ifname not in ifnames}


def _locked(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
