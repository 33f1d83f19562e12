# SPDX-License-Identifier: Apache-2.0
"""QEMU, kernels and their modules, made of pinned Debian packages once and kept in the cache."""

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

from nic.archive import modules_archive, modules_in_order
from nic.errors import MissingPart
from private_apt import AptError, PrivateApt

PINS = Path(__file__).with_name("packages.txt")
#: The part of the packages that is no kernel.
EMULATOR = "emulator"
#: Goes up when what is made of the same packages changes.
_FORMAT = 2
#: Of QEMU's packages; the rest is other machines' firmware, documentation and tools.
_QEMU_KEPT = ("usr/bin/qemu-system-x86_64", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/share/qemu",
              "usr/share/seabios")  # fmt: skip
_UNPACK_TIMEOUT_S = 300


@dataclass(frozen=True)
class Pin:
    """A package in the one version that the lane is tested with, and the part it belongs to: a kernel or `EMULATOR`."""

    part: str
    package: str
    version: str
    suite: str


@dataclass(frozen=True)
class Artefact:
    """Two folders of the cache: the emulator's, and a kernel's."""

    emulator: Path
    kernel: Path

    @property
    def qemu(self) -> Path:
        """Root of QEMU's own files and libraries."""
        return self.emulator / "qemu"

    @property
    def busybox(self) -> Path:
        """The program that process 1 is made of."""
        return self.emulator / "busybox"

    @property
    def image(self) -> Path:
        """The kernel's image."""
        return self.kernel / "vmlinuz"

    @property
    def modules(self) -> Path:
        """An archive of the kernel's modules, to be put behind another."""
        return self.kernel / "modules.cpio"


def read_pins(path: Path = PINS) -> tuple[Pin, ...]:
    """The pinned packages.

    Raises:
        MissingPart: A line has not four words.
    """
    pins = []
    for line in path.read_text(encoding="ascii").splitlines():
        words = line.partition("#")[0].split()
        if len(words) not in (0, 4):
            raise MissingPart(f"{path}: {line!r} is not a part, a package, a version and a suite")
        if words:
            pins.append(Pin(*words))
    return tuple(pins)


def cache_key(pins: Sequence[Pin], modules: Sequence[str] = ()) -> str:
    """16 hexadecimal digits over all that decides what is in the folder."""
    text = json.dumps([_FORMAT, sorted(astuple(pin) for pin in pins), list(modules)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cache_folder() -> Path:
    """`nic` in $XDPLAB_CACHE, or in ~/.cache/xdplab."""
    return Path(os.environ.get("XDPLAB_CACHE") or Path.home() / ".cache/xdplab") / "nic"


def obtain(
    cache: Path, pins: Sequence[Pin], kernel: str, modules: Sequence[str], say: Callable[[str], None]
) -> Artefact:
    """The emulator and a kernel: from the cache, or made now; one maker at a time.

    Args:
        cache: Folder for both.
        pins: All packages.
        kernel: Part of the packages to boot.
        modules: Of that kernel; what they depend on comes by itself.
        say: Called with a line before something is fetched.

    Raises:
        MissingPart: A package is not to be had, or this machine cannot run it.
    """
    return Artefact(obtain_emulator(cache, pins, say), _part(cache, pins, kernel, modules, say))


def obtain_emulator(cache: Path, pins: Sequence[Pin], say: Callable[[str], None]) -> Path:
    """QEMU alone, for a kernel from elsewhere; `Raises` as of `obtain`."""
    if platform.machine() != "x86_64":
        raise MissingPart(f"the NIC lane's packages are for x86_64; this machine is {platform.machine()}")
    cache.mkdir(parents=True, exist_ok=True)
    return _part(cache, pins, EMULATOR, (), say)


def _part(cache: Path, pins: Sequence[Pin], part: str, modules: Sequence[str], say: Callable[[str], None]) -> Path:
    pins = [pin for pin in pins if pin.part == part]
    folder = cache / cache_key(pins, modules)
    with locked(cache / f".{folder.name}.lock"):
        if not (folder / "packages.json").exists():
            say(f"fetching {', '.join(pin.package for pin in pins)} of Debian; up to a minute, once")
            with tempfile.TemporaryDirectory(dir=cache, prefix=".make-") as scratch:
                fresh = Path(scratch) / "fresh"
                _make(Path(scratch), fresh, pins, modules)
                shutil.rmtree(folder, ignore_errors=True)
                fresh.rename(folder)
    return folder


def _make(work: Path, fresh: Path, pins: Sequence[Pin], modules: Sequence[str]) -> None:
    apt = PrivateApt(work / "apt", tuple(dict.fromkeys(pin.suite for pin in pins)))
    try:
        apt.update()
    except AptError as error:
        raise MissingPart(f"{', '.join(pin.package for pin in pins)} of Debian: {error}") from None
    for pin in pins:
        _require(apt, pin)
    emulators = [pin for pin in pins if pin.package.startswith("qemu-system")]
    try:
        for pin in emulators:  # with all that it needs
            apt.run("apt-get", "--yes", "--no-install-recommends", "--download-only", "install", _exact(pin))
        apt.run("apt-get", "download", *(_exact(pin) for pin in pins if pin not in emulators))
    except AptError as error:
        raise MissingPart(f"packages of the NIC lane: {error}") from None
    needed = sorted((apt.work / "cache/archives").glob("*.deb"))
    unpacked = work / "unpacked"
    for package in (*needed, *sorted(apt.work.glob("*.deb"))):
        _unpack(package, unpacked)
    fresh.mkdir()
    if modules:
        _keep_kernel(unpacked, fresh, modules)
    else:
        _keep_emulator(unpacked, fresh)
    found_parts = {"pins": [asdict(pin) for pin in pins], "of QEMU": [path.stem for path in needed]}
    (fresh / "packages.json").write_text(json.dumps(found_parts, indent=2) + "\n")


def _keep_emulator(unpacked: Path, fresh: Path) -> None:
    for path in _QEMU_KEPT:
        (fresh / "qemu" / path).parent.mkdir(parents=True, exist_ok=True)
        (unpacked / path).rename(fresh / "qemu" / path)
    (unpacked / "usr/bin/busybox").rename(fresh / "busybox")


def _keep_kernel(unpacked: Path, fresh: Path, modules: Sequence[str]) -> None:
    """Debian 12 has image and modules in /boot and /lib, later ones have both in /usr/lib/modules."""
    (tree,) = (*unpacked.glob("usr/lib/modules/*"), *unpacked.glob("lib/modules/*"))
    (image,) = (*tree.glob("vmlinuz"), *unpacked.glob("boot/vmlinuz-*"))
    image.rename(fresh / "vmlinuz")
    (fresh / "modules.cpio").write_bytes(modules_archive(modules_in_order(tree, modules)))


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
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
