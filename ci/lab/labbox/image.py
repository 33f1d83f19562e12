# SPDX-License-Identifier: Apache-2.0
"""A guest's disk: a bare Debian, made from packages without root and kept in the cache.

As debootstrap does it in two stages: the packages' files are put where they belong here, and their scripts run in a
guest, where dpkg is root.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from labbox.machines import MODULES, bare
from nic.archive import Entry, base_archive, cpio, folder, program
from nic.artefact import Artefact, cache_folder, locked, obtain, read_pins
from nic.boot import Guest, supervise
from nic.errors import Hang, MissingPart
from nic.qemu import environment
from private_apt import AptError, PrivateApt

_INIT = Path(__file__).with_name("init")
#: The kernel: its igb has zero-copy.
_KERNEL = "7.2"
#: What a bare Debian has here next to what is essential: what boots it, and what the documents ask of a host.
_PACKAGES = ("apt", "debian-archive-keyring", "iproute2", "kmod", "openssh-server", "procps",
             "python3", "sudo", "systemd", "systemd-sysv")  # fmt: skip
#: Goes up when what is made of the same packages changes.
_FORMAT = 1
_DISK_BYTES = 8 << 30
_MAKE_S, _PROBE_S = 1800.0, 10.0
#: As root in the guest; `awk` is one of the alternatives that mawk's script makes, and scripts before it need.
_SECOND_STAGE = """
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true
chown -hR 0:0 /etc /usr /var
chmod 1777 /tmp /var/tmp
cp /usr/share/base-passwd/passwd.master /etc/passwd
cp /usr/share/base-passwd/group.master /etc/group
ln -sf mawk /usr/bin/awk
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
dpkg --force-depends --force-unsafe-io --force-confdef --force-overwrite --install /var/cache/apt/archives/*.deb
dpkg --configure --pending
dpkg --audit
rm -f /usr/sbin/policy-rc.d /var/cache/apt/archives/*.deb /etc/ssh/ssh_host_*
useradd --create-home --shell /bin/bash lab
echo 'lab ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/lab
systemctl mask serial-getty@ttyS0.service getty@tty1.service
"""


def parts(say: Callable[[str], None]) -> Artefact:
    """QEMU and the kernel, of the NIC lane's cache."""
    return obtain(cache_folder(), read_pins(), _KERNEL, MODULES, say)


def accelerator(artefact: Artefact) -> tuple[str, str]:
    """`kvm` where a guest boots with it, else `tcg`; and why, in a word or two.

    /dev/kvm alone proves nothing: that of a machine that is itself a guest may not boot a kernel.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "no access to /dev/kvm"
    ended = _run_once(artefact, "kvm", "kvm", {"nothing": ""}, Path(os.devnull), _PROBE_S)
    return ("kvm", "/dev/kvm") if ended == 0 else ("tcg", f"/dev/kvm is there and boots nothing: {ended}")


def disk_of(artefact: Artefact, suite: str, accel: str, say: Callable[[str], None]) -> Path:
    """Image of a bare Debian's disk, to be copied: from the cache, or made now.

    Raises:
        MissingPart: Packages are not to be had.
        Hang: Its second stage failed.
    """
    cache = cache_folder().with_name("lab")
    cache.mkdir(parents=True, exist_ok=True)
    image = cache / f"{suite}-{_FORMAT}.ext4"
    with locked(cache / f".{image.name}.lock"):
        if not image.exists():
            say(f"making a bare Debian, {suite}, from its packages; some minutes, once")
            with tempfile.TemporaryDirectory(dir=cache, prefix=".make-") as scratch:
                _make(artefact, suite, accel, Path(scratch)).rename(image)
    return image


def _make(artefact: Artefact, suite: str, accel: str, work: Path) -> Path:
    root, image, log = work / "root", work / "disk", cache_folder().with_name("lab") / f"{suite}.log"
    apt = PrivateApt(work / "apt", (suite,))
    try:
        apt.update()
        apt.run("apt-get", "--yes", "--no-install-recommends", "--download-only", "install", "?essential", *_PACKAGES)
    except AptError as error:
        raise MissingPart(f"packages of Debian {suite}: {error}") from None
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    packages = sorted((apt.work / "cache/archives").glob("*.deb"))
    for package in packages:
        files = _run("dpkg-deb", "--fsys-tarfile", str(package))
        _run("tar", "--extract", "--keep-directory-symlink", "--directory", str(root), given=files)
    for path in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/cache/apt/archives"):
        (root / path).mkdir(parents=True, exist_ok=True)
    for path in ("var/lib/dpkg/status", "var/lib/dpkg/available"):
        (root / path).touch()
    for package in packages:
        shutil.copy(package, root / "var/cache/apt/archives")
    with image.open("wb") as disk:
        disk.truncate(_DISK_BYTES)
    _run("/sbin/mke2fs", "-q", "-t", "ext4", "-d", str(root), str(image))
    ended = _run_once(artefact, accel, f"Debian {suite}", {"task": _SECOND_STAGE}, image, _MAKE_S, log)
    if ended != 0:
        raise Hang(f"packages of Debian {suite} could not be set up: {ended}; the console is {log}")
    return image


def _run(*argv: str, given: bytes | None = None) -> bytes:
    done = subprocess.run(argv, input=given, capture_output=True, check=False)
    if done.returncode:
        raise MissingPart(f"{' '.join(argv)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _run_once(
    artefact: Artefact,
    accel: str,
    name: str,
    files: dict[str, str],
    disk: Path,
    limit_s: float,
    log: Path | None = None,
) -> int | Hang | MissingPart:
    """What a guest without cards ended with."""
    nonce = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="xdplab-lab-") as scratch:
        archive = Path(scratch, "archive.cpio")
        archive.write_bytes(first_files(artefact, {"settings": f"NONCE={nonce}\n", "cards": "", **files}))
        argv, console = bare(artefact, archive, disk, accel, 1024, 3), log or Path(scratch, "console")
        return supervise({name: Guest(argv, environment(artefact), limit_s, nonce, console, lambda _: None)})[name]


def first_files(artefact: Artefact, files: dict[str, str]) -> bytes:
    """A guest's first file system: busybox, the modules, `init`, and `files` in /lab."""
    folders = {str(parent) for path in files for parent in Path("lab", path).parents if str(parent) != "."}
    entries = [program("init", _INIT.read_bytes()), *(folder(path) for path in sorted(folders))]
    for path, text in files.items():
        entries.append(Entry(f"lab/{path}", text.encode(), 0o100600 if path.endswith("_key") else 0o100644))
    return base_archive(artefact.busybox.read_bytes()) + artefact.modules.read_bytes() + cpio(entries)
