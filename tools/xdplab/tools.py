# SPDX-License-Identifier: Apache-2.0
"""Where the project's own programs and folders are: in a checkout, or in what its wheel has installed."""

import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
#: What setup.py puts into the wheel, laid out as in a checkout.
_SHARE = _PACKAGE / "_share"
_PROGRAMS = ("ovsprobe", "xdpapp", "xdpends", "xdpfwd", "xdpgen", "xsk")
#: Debian package -> a file of it that compiling the programs of bpf/ takes.
_BUILD_NEEDS = {
    "bpftool": "usr/sbin/bpftool",
    "clang": "usr/bin/clang",
    "gcc": "usr/bin/gcc",
    "libbpf-dev": "usr/include/bpf/libbpf.h",
    "libc6-dev": "usr/include/stdio.h",
    "libelf-dev": "usr/include/libelf.h",
    "libjansson-dev": "usr/include/jansson.h",
    "libxdp-dev": "usr/include/xdp/xsk.h",
    "make": "usr/bin/make",
    "pkg-config": "usr/bin/pkg-config",
    "systemtap-sdt-dev": "usr/include/*/sys/sdt.h",
    "zlib1g-dev": "usr/include/zlib.h",
}


def checkout() -> Path | None:
    """The checkout that this package runs from; None: it was installed from a wheel."""
    return None if _SHARE.is_dir() else _PACKAGE.parents[1]


def project_root() -> Path:
    """The folder with `suites/`, `bpf/`, `ovs/`, `vpp/` and `trex/`, of a checkout and of an installed wheel alike."""
    return checkout() or _SHARE


def setup_command() -> str:
    """What a user types to get the programs of the distribution that are missing."""
    if checkout():
        return "ci/setup"
    return "sh $(xdplab where packages) | xargs apt-get install -y --no-install-recommends"


def provision_command(testbed: str = "...", options: str = "") -> str:
    """What installs everything on the hosts of a testbed, or a part (docs/provision.md): the wheel does not have it."""
    command = f"make provision TESTBED={testbed}" + (f' ANSIBLE="{options}"' if options else "")
    return command if checkout() else f"{command} (in a checkout of xdplab)"


def folder_of(variable: str, default: Path) -> Path:
    """The folder that a variable of the environment names, or the default.

    Raises:
        OSError: it is set and empty, which as a path would be the current folder.
    """
    given = os.environ.get(variable)
    if given == "":
        raise NotADirectoryError(errno.ENOTDIR, "is empty; name a folder, or unset it", variable)
    return Path(given or default)


def results_folder() -> Path:
    """`XDPLAB_RESULTS`, else `results/` of the checkout; of an installed xdplab `results/` where it is called."""
    return folder_of("XDPLAB_RESULTS", (checkout() or Path.cwd()) / "results")


def cache_folder() -> Path:
    """What is built once and kept: `XDPLAB_CACHE`, else `~/.cache/xdplab`."""
    return Path(os.environ.get("XDPLAB_CACHE") or "~/.cache/xdplab").expanduser()


def studies_folder() -> Path:
    """`suites/studies/` of the project."""
    return project_root() / "suites" / "studies"


def testbeds_folder() -> Path:
    """`suites/testbeds/` of the project."""
    return project_root() / "suites" / "testbeds"


def bpf_program(name: str) -> Path | None:
    """A program of `bpf/`, or None when it is not built; `build_gap` says why.

    It is in `XDPLAB_BPF_DIR`, else in `bpf/build` of the checkout. An installed xdplab builds all of them when one is
    asked for the first time, and keeps them in the cache.
    """
    path = folder_of("XDPLAB_BPF_DIR", _build_folder()) / name
    if _builds_itself():
        _why_no_build(path.parent)
    return path if os.access(path, os.X_OK) else None


def build_gap() -> tuple[str, str]:
    """Why a program of `bpf/` is not there, and the command that fixes it."""
    return (_builds_itself() and _why_no_build(_build_folder())) or ("not built", "make -C bpf")


def program_digest(name: str) -> str:
    """SHA-256 of a program of `bpf/`; `absent` when it is not built."""
    path = bpf_program(name)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else "absent"


def _builds_itself() -> bool:
    return checkout() is None and "XDPLAB_BPF_DIR" not in os.environ


@cache
def _build_folder() -> Path:
    """Of a wheel by the hash of the sources: another version has another."""
    here = checkout()
    if here:
        return here / "bpf" / "build"
    digest = hashlib.sha256()
    for path in sorted((_SHARE / "bpf").rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(_SHARE).as_posix().encode() + path.read_bytes())
    return cache_folder() / "bpf" / digest.hexdigest()[:16]


@cache
def _why_no_build(folder: Path) -> tuple[str, str] | None:
    """Build the programs into the folder unless they are there; None, or a gap as above. Tried once a process."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be at it: wait, and find them
        if folder.is_dir():
            return None
        sys.stderr.write(f"building the tester and the XDP programs, once, into {folder}\n")
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            log = folder.with_suffix(".log")
            if not _made(Path(scratch), log):
                missing = " ".join(_missing_packages())
                install = f"apt-get install --no-install-recommends {missing}"
                return (
                    (f"not built: {missing} missing", install) if missing else ("not built: make failed", f"less {log}")
                )
            finished = Path(scratch) / "finished"
            finished.mkdir()
            for name in _PROGRAMS:
                (Path(scratch) / name).rename(finished / name)
            finished.rename(folder)
            log.unlink()
    return None


def _made(build: Path, log: Path) -> bool:
    argv = ["make", "-C", str(_SHARE / "bpf"), f"-j{len(os.sched_getaffinity(0))}", f"BUILD={build}"]
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # bpftool's, which only root's has
    if shutil.which("make", path=path) is None:
        return False
    with log.open("wb") as output:
        done = subprocess.run(argv, stdout=output, stderr=output, env={**os.environ, "PATH": path}, check=False)
    return done.returncode == 0


def _missing_packages(root: Path = Path("/")) -> list[str]:
    """Of compiling: those of which no file is there."""
    return [name for name, path in _BUILD_NEEDS.items() if not any(root.glob(path))]
