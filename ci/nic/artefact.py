# SPDX-License-Identifier: Apache-2.0
"""QEMU, kernel and initial archive, made of pinned Debian packages once and kept in the cache."""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from nic.archive import base_archive, modules_in_order
from nic.errors import MissingPart
from private_apt import AptError, PrivateApt

PINS = Path(__file__).with_name("packages.txt")
#: Drivers under test, and what mounts the folders of this machine; what they depend on comes by itself.
MODULES = ("9p", "9pnet_virtio", "virtio_net", "igb")
#: Goes up when what is made of the same packages changes.
_FORMAT = 1
#: Of QEMU's packages; the rest is other machines' firmware, documentation and tools.
_QEMU_KEPT = ("usr/bin/qemu-system-x86_64", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/share/qemu",
              "usr/share/seabios")  # fmt: skip
_UNPACK_TIMEOUT_S = 300


@dataclass(frozen=True)
class Pin:
    """A package in the one version that the lane is tested with."""

    package: str
    version: str
    suite: str


@dataclass(frozen=True)
class Artefact:
    """A folder of the cache."""

    folder: Path

    @property
    def qemu(self) -> Path:
        """Root of QEMU's own files and libraries."""
        return self.folder / "qemu"

    @property
    def kernel(self) -> Path:
        """The kernel's image."""
        return self.folder / "vmlinuz"

    @property
    def archive(self) -> Path:
        """The initial archive, to which a run adds its own."""
        return self.folder / "base.cpio"

    @property
    def complete(self) -> bool:
        """Whether all of it is there."""
        return (self.folder / "packages.json").exists()


def read_pins(path: Path = PINS) -> tuple[Pin, ...]:
    """The pinned packages.

    Raises:
        MissingPart: A line has not three words.
    """
    pins = []
    for line in path.read_text(encoding="ascii").splitlines():
        words = line.partition("#")[0].split()
        if len(words) not in (0, 3):
            raise MissingPart(f"{path}: {line!r} is not a package, a version and a suite")
        if words:
            pins.append(Pin(*words))
    return tuple(pins)


def cache_key(pins: Sequence[Pin], modules: Sequence[str] = MODULES) -> str:
    """16 hexadecimal digits over all that decides what is in the folder."""
    text = json.dumps([_FORMAT, sorted(astuple(pin) for pin in pins), list(modules)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cache_folder() -> Path:
    """`nic` in $XDPLAB_CACHE, or in ~/.cache/xdplab."""
    return Path(os.environ.get("XDPLAB_CACHE") or Path.home() / ".cache/xdplab") / "nic"


def obtain(cache: Path, pins: Sequence[Pin], say: Callable[[str], None]) -> Artefact:
    """The artefact of these packages: from the cache, or made now; one maker at a time.

    Raises:
        MissingPart: A package is not to be had, or this machine cannot run it.
    """
    if platform.machine() != "x86_64":
        raise MissingPart(f"the NIC lane's packages are for x86_64; this machine is {platform.machine()}")
    cache.mkdir(parents=True, exist_ok=True)
    artefact = Artefact(cache / cache_key(pins))
    with _locked(cache / f".{artefact.folder.name}.lock"):
        if artefact.complete:
            return artefact
        say("fetching QEMU and a kernel from newer Debian (230 MB); a minute, once")
        with tempfile.TemporaryDirectory(dir=cache, prefix=".make-") as scratch:
            fresh = Path(scratch) / "artefact"
            _make(Path(scratch), fresh, pins)
            shutil.rmtree(artefact.folder, ignore_errors=True)
            fresh.rename(artefact.folder)
    return artefact


def _make(work: Path, fresh: Path, pins: Sequence[Pin]) -> None:
    apt = PrivateApt(work / "apt", tuple(dict.fromkeys(pin.suite for pin in pins)))
    qemu, others = work / "qemu", work / "others"
    try:
        apt.update()
    except AptError as error:
        raise MissingPart(f"{', '.join(pin.package for pin in pins)} of Debian: {error}") from None
    for pin in pins:
        _require(apt, pin)
    try:
        emulator = next(pin for pin in pins if pin.package.startswith("qemu-system"))
        apt.run("apt-get", "--yes", "--no-install-recommends", "--download-only", "install", _exact(emulator))
        apt.run("apt-get", "download", *(_exact(pin) for pin in pins if pin is not emulator))
    except AptError as error:
        raise MissingPart(f"packages of the NIC lane: {error}") from None
    needed = sorted((apt.work / "cache/archives").glob("*.deb"))
    for package in needed:
        _unpack(package, qemu)
    for package in sorted(apt.work.glob("*.deb")):
        _unpack(package, others)
    fresh.mkdir()
    for path in _QEMU_KEPT:
        (fresh / "qemu" / path).parent.mkdir(parents=True, exist_ok=True)
        (qemu / path).rename(fresh / "qemu" / path)
    (modules,) = (others / "usr/lib/modules").iterdir()
    (modules / "vmlinuz").rename(fresh / "vmlinuz")
    busybox = (others / "usr/bin/busybox").read_bytes()
    (fresh / "base.cpio").write_bytes(base_archive(busybox, modules_in_order(modules, MODULES)))
    told = {"pins": [asdict(pin) for pin in pins], "of QEMU": [path.stem for path in needed]}
    (fresh / "packages.json").write_text(json.dumps(told, indent=2) + "\n")


def _exact(pin: Pin) -> str:
    return f"{pin.package}={pin.version}"


def _require(apt: PrivateApt, pin: Pin) -> None:
    """Debian keeps one version of a package in a suite: a pinned one goes when the next comes."""
    offered = apt.run("apt-cache", "madison", pin.package).splitlines()
    versions = [fields[1].strip() for line in offered if len(fields := line.split("|")) == 3]
    if pin.version in versions:
        return
    there = versions or _relatives(apt, pin.package)
    raise MissingPart(
        f"{pin.package} {pin.version} is not in Debian {pin.suite} (any more); "
        f"there is {', '.join(there) or 'nothing like it'}: put a version that is there into {PINS}, "
        f"or copy the folder {cache_folder()} from a machine that has it"
    )


def _relatives(apt: PrivateApt, package: str) -> list[str]:
    """Packages of another kernel version: linux-binary-7.2.12+deb13-amd64 -> linux-binary-7.3.4+deb13-amd64."""
    stem = re.split(r"-\d", package, maxsplit=1)[0]
    names = apt.run("apt-cache", "pkgnames", f"{stem}-").split()
    return sorted(name for name in names if name.endswith("-amd64") and name.count("-") == package.count("-"))


def _unpack(package: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    argv = ["dpkg-deb", "--extract", str(package), str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_UNPACK_TIMEOUT_S)
    if done.returncode:
        raise MissingPart(f"{package.name}: cannot be unpacked: {done.stderr.strip()}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
