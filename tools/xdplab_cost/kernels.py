# SPDX-License-Identifier: Apache-2.0
"""The kernels that guests boot: those that are pinned, and any other of the user's.

Of the user's there are an image with its modules, packages, and source, which is built with `kernel.config`.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xdplab.api import DoesNotCompile, InputError, Unsupported, cache_folder
from xdplab_cost import debian
from xdplab_cost.lane import lane

if TYPE_CHECKING:
    from nic.artefact import Artefact

#: Modules that a guest loads, by kernel of the lane; what they depend on comes by itself.
PINNED: dict[str, tuple[str, ...]] = {
    "6.1": ("crc32c_generic", "veth", "bridge", "openvswitch", "tun", "igb", "virtio_pci", "virtio_net"),
    "6.12": ("crc32c_generic", "veth", "bridge", "openvswitch", "tun", "igb", "virtio_net"),
    "7.2": ("veth", "bridge", "openvswitch", "tun", "igb", "virtio_net"),
}
#: Of any other kernel: those that it has as files, for all else may be built in or not be there.
_WANTED = tuple(dict.fromkeys(module for modules in PINNED.values() for module in modules))
CONFIG = Path(__file__).with_name("kernel.config")
#: What names the time, place and builder in an image; the same source is the same image.
_REPRODUCIBLE = {
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01", "KBUILD_BUILD_USER": "xdplab", "KBUILD_BUILD_HOST": "xdplab",
    "KBUILD_BUILD_VERSION": "1", "LC_ALL": "C",
}  # fmt: skip
#: make ends with the process that started it, and starts no other compiler.
_WITH_US = ("setpriv", "--pdeathsig", "TERM")
_TOOLS = ("setpriv", "make", "gcc", "ld", "flex", "bison", "bc", "xz")
_BUILD_LIMIT_S, _STEP_LIMIT_S = 7200.0, 600.0
#: linux/Documentation/arch/x86/boot.rst: "HdrS" at 0x202, and where the version's text is, less 0x200, at 0x20e.
_MAGIC_AT, _VERSION_AT, _VERSION_BASE = 0x202, 0x20E, 0x200
_FORMS = (
    "a release of Debian (6.18.5+deb13; debian: all that can be had), an image (IMAGE or IMAGE:MODULES), "
    "packages (A.deb or A.deb:B.deb), a source tree (TREE) or its commit (TREE@REF)"
)


@dataclass(frozen=True)
class _Source:
    """A tree, and the commit of it that is built; "": as the folder is."""

    tree: Path
    ref: str = ""


def chosen_kernels(names: Sequence[str]) -> list[str]:
    """Those that were asked for, each once: Debian's, pinned and others, by age, then the rest as they were given.

    Raises:
        InputError: one is neither.
        Unsupported: Debian's are asked for, and no mirror answers.
    """
    of_debian: set[str] = set()
    others: list[str] = []
    for name in dict.fromkeys(names):
        if series := debian.SERIES.fullmatch(name):
            of_debian.update(debian.releases(series[1] or ""))
        elif name in PINNED or debian.RELEASE.fullmatch(name):
            of_debian.add(name)
        else:
            _read(name)
            others.append(name)
    return [*sorted(of_debian, key=_sort_key), *others]


def _sort_key(name: str) -> tuple[int, ...]:
    """Of a pinned one that of its package: 6.1 is a point release like others."""
    lane()
    from nic.artefact import read_pins

    packages = [pin.package for pin in read_pins() if pin.part == name]
    found = next((match[0] for each in packages if (match := debian.RELEASE.search(each))), name)
    return debian.sort_key(found)


def obtain(name: str, say: Callable[[str], None]) -> "Artefact":
    """QEMU and a kernel: from the cache, fetched, or built now.

    Raises:
        InputError: it is none.
        Unsupported: a part is not to be had.
        DoesNotCompile: source does not.
    """
    lane()
    from nic import artefact
    from nic.errors import MissingPart

    try:
        pins = artefact.read_pins()
        if name in PINNED:
            return artefact.obtain(artefact.cache_folder(), pins, name, PINNED[name], say)
        emulator = artefact.obtain_emulator(artefact.cache_folder(), pins, say)
        return artefact.Artefact(emulator, _made(name, say))
    except MissingPart as error:
        raise Unsupported(str(error)) from None


def _read(name: str) -> "_Source | str | tuple[Path, ...]":
    """Source, a release of Debian, or the files: an image and the folder of its modules, or packages.

    Raises:
        InputError: it is none of these, in one line.
    """
    if debian.RELEASE.fullmatch(name):
        return name
    paths = [Path(part).expanduser() for part in name.split(":")]
    if all(path.suffix == ".deb" for path in paths):
        for path in paths:
            if not path.is_file():
                raise InputError(f"--kernel {name}: there is no file {path}")
        return tuple(path.resolve() for path in paths)
    if paths[0].is_file():
        return _image(name, paths)
    folder, at, ref = name.rpartition("@") if "@" in name and not Path(name).is_dir() else (name, "", "")
    tree = Path(folder).expanduser()
    if not at and not tree.is_dir():
        raise InputError(f"--kernel {name}: it is one of {', '.join(PINNED)}, or {_FORMS}")
    if not (tree / "net/xdp").is_dir() or not (tree / "Kbuild").is_file():
        raise InputError(f"--kernel {name}: {tree} is no source tree of Linux (no net/xdp and Kbuild there)")
    if at:
        ref = _git(
            tree, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", error=f"--kernel {name}: no such commit"
        )
    return _Source(tree.resolve(), ref)


def _image(name: str, paths: Sequence[Path]) -> tuple[Path, ...]:
    release = release_of(paths[0])
    if not release:
        raise InputError(f"--kernel {name}: {paths[0]} is no kernel image (bzImage)")
    folders = paths[1:] or [Path("/lib/modules") / release]
    if len(folders) > 1 or not folders[0].is_dir():
        raise InputError(
            f"--kernel {name}: the modules of Linux {release} are not in {folders[0]}; "
            f"name their folder: --kernel {paths[0]}:FOLDER"
        )
    return (paths[0].resolve(), folders[0].resolve())


def release_of(image: Path) -> str:
    """`uname -r` of a bzImage, from its header; "" of another file."""
    with image.open("rb") as file:
        head = file.read(0x10000)
    if head[_MAGIC_AT : _MAGIC_AT + 4] != b"HdrS":
        return ""
    at = int.from_bytes(head[_VERSION_AT : _VERSION_AT + 2], "little") + _VERSION_BASE
    return head[at : at + 200].partition(b" ")[0].partition(b"\0")[0].decode("ascii", "replace")


def _made(name: str, say: Callable[[str], None]) -> Path:
    """A folder with image, modules and where they are from, as the lane's cache has them."""
    found = _read(name)
    if isinstance(found, _Source):
        return _built(name, found, say)
    if isinstance(found, str):
        return _of_debian(found, say)
    if found[0].suffix == ".deb":
        return _unpacked(name, found)
    image, modules = found
    return _kept(image, modules, {"package": f"linux {release_of(image)}", "version": "image of the user's"})


def _of_debian(release: str, say: Callable[[str], None]) -> Path:
    """Fetched once; its name leads to what was kept of it."""
    from nic.artefact import locked

    modules = hashlib.sha256(" ".join(_WANTED).encode()).hexdigest()[:8]
    link = cache_folder() / "cost/kernels" / f"{release}-{modules}"
    link.parent.mkdir(parents=True, exist_ok=True)
    with locked(link.with_name(f".{link.name}.lock")):
        if not (link / "packages.json").is_file():
            say(f"fetching Debian's kernel {release}; some 100 MB, once")
            with tempfile.TemporaryDirectory(prefix="xdplab-kernel-") as scratch:
                folder = _unpacked(release, debian.fetch(release, Path(scratch)))
            link.unlink(missing_ok=True)
            link.symlink_to(folder.name)
    return link.resolve()


def _unpacked(name: str, packages: Sequence[Path]) -> Path:
    with tempfile.TemporaryDirectory(prefix="xdplab-kernel-") as scratch:
        for package in packages:
            _run(["dpkg-deb", "--extract", str(package), scratch], f"--kernel {name}: {package.name}")
        trees = [*Path(scratch).glob("usr/lib/modules/*"), *Path(scratch).glob("lib/modules/*")]
        images = [
            *(image for tree in trees for image in tree.glob("vmlinuz")),
            *Path(scratch).glob("boot/vmlinuz-*"),
        ]
        if len(trees) != 1 or len(images) != 1:
            raise InputError(
                f"--kernel {name}: {len(images)} images and {len(trees)} folders of modules, not one of each; "
                "where a kernel is in two packages, give both: A.deb:B.deb"
            )
        return _kept(images[0], trees[0], {"package": packages[0].stem, "version": release_of(images[0])})


def _kept(image: Path, tree: Path, words: dict[str, str]) -> Path:
    """In the cache, by what it is."""
    from nic.archive import files_of, modules_archive, modules_in_order

    here = files_of(tree)
    modules = modules_archive(modules_in_order(tree, [each for each in _WANTED if each in here]))
    digest = hashlib.sha256(image.read_bytes() + modules + json.dumps(words).encode()).hexdigest()[:16]
    folder = cache_folder() / "cost/kernels" / digest
    if not (folder / "packages.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            fresh = Path(scratch, "fresh")
            fresh.mkdir()
            shutil.copyfile(image, fresh / "vmlinuz")
            (fresh / "modules.cpio").write_bytes(modules)
            (fresh / "packages.json").write_text(json.dumps({"pins": [words]}) + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    return folder


def _built(name: str, source: _Source, say: Callable[[str], None]) -> Path:
    """Each tree has a folder of objects, so that what a change does not touch is not compiled again."""
    from nic.artefact import locked

    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise Unsupported(
            f"--kernel {name}: a kernel is built with {', '.join(missing)}, not installed; "
            "`apt-get install make gcc flex bison bc xz-utils libelf-dev` has all that is needed"
        )
    work = cache_folder() / "cost/kernels" / f"build-{hashlib.sha256(str(source.tree).encode()).hexdigest()[:12]}"
    work.mkdir(parents=True, exist_ok=True)
    with locked(work / ".lock"):
        tree = _checked_out(source, work / "tree") if source.ref else source.tree
        objects = work / ("objects-ref" if source.ref else "objects")
        log = work / "log"
        log.write_bytes(b"")
        make = ["make", "-C", str(tree), f"O={objects}", f"-j{len(os.sched_getaffinity(0))}"]
        began = "" if (objects / "vmlinux").exists() else "; the first build compiles some 1,500 files"
        say(f"building {name} with {CONFIG.name}{began}; log: {log}")
        _make(name, [*make, f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig"], log)
        gaps = lost(CONFIG, objects / ".config")
        if gaps:
            say(f"{name}: this kernel does not have {', '.join(gaps)}")
        _make(name, [*make, "bzImage", "modules"], log)
        with tempfile.TemporaryDirectory(dir=work) as scratch:
            _make(name, [*make, f"INSTALL_MOD_PATH={scratch}", "modules_install"], log)
            (modules,) = Path(scratch).glob("lib/modules/*")
            image = objects / "arch/x86/boot/bzImage"
            config = hashlib.sha256((objects / ".config").read_bytes()).hexdigest()[:12]
            words = {"package": f"linux {release_of(image)} of {_commit(source)}", "version": f"config {config}"}
            folder = _kept(image, modules, words)
        shutil.copyfile(objects / ".config", folder / "config")
    return folder


def lost(wanted: Path, config: Path) -> list[str]:
    """Options that a kernel's configuration has not as they were asked for: renamed, gone, or excluded."""
    has = set(config.read_text(encoding="utf-8").splitlines())
    asked = [line for line in wanted.read_text(encoding="utf-8").splitlines() if line.startswith("CONFIG_")]
    return [line.partition("=")[0] for line in asked if not line.endswith("=n") and line not in has]


def _checked_out(source: _Source, tree: Path) -> Path:
    """The commit in a clone of ours, which has the user's objects: files of the commit before keep their times."""
    if not (tree / ".git").exists():
        _run(
            ["git", "clone", "--quiet", "--shared", "--no-checkout", str(source.tree), str(tree)],
            f"clone of {source.tree}",
        )
    if _git(tree, "cat-file", "--batch-check", given=source.ref).endswith(" missing"):  # the clone of a shallow tree
        _git(tree, "fetch", "--quiet", str(source.tree), source.ref)
    _git(tree, "checkout", "--quiet", "--force", "--detach", source.ref)
    return tree


def _commit(source: _Source) -> str:
    if source.ref:
        return f"commit {source.ref[:12]}"
    if not (source.tree / ".git").exists():
        return "a source tree"
    head = _git(source.tree, "rev-parse", "HEAD")[:12]
    changed = _git(source.tree, "status", "--porcelain", "--untracked-files=no")
    return f"commit {head}{' with changes' if changed else ''}"


def _make(name: str, argv: Sequence[str], log: Path) -> None:
    """Raises: DoesNotCompile: with the compiler's first error."""
    with log.open("ab") as file:
        making = subprocess.Popen(
            [*_WITH_US, *argv], stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0,
            env={**os.environ, **_REPRODUCIBLE},
        )  # fmt: skip
        try:
            code = making.wait(_BUILD_LIMIT_S)
        except BaseException as exc:  # Ctrl-C, too: with it its compilers
            with suppress(ProcessLookupError):
                os.killpg(making.pid, signal.SIGTERM)
            making.wait()
            if isinstance(exc, subprocess.TimeoutExpired):
                message = f"--kernel {name}: make timed out after {_BUILD_LIMIT_S:g} s; log: {log}"
                raise DoesNotCompile(message) from None
            raise
    if code:
        text = log.read_text(encoding="utf-8", errors="replace")
        if "is not clean" in text:
            raise DoesNotCompile(f"--kernel {name}: it was built in; `make mrproper` there, or name a commit, TREE@REF")
        said = next((line for line in text.splitlines() if _ERROR.search(line)), text[-200:])
        raise DoesNotCompile(f"--kernel {name}: {said.strip()}; log: {log}")


_ERROR = re.compile(r"error:|\*\*\* \S|fatal:")


def _git(tree: Path, *words: str, error: str = "", given: str = "") -> str:
    return _run(["git", "-C", str(tree), *words], error or f"git {words[0]} in {tree}", given).strip()


def _run(argv: Sequence[str], what: str, given: str = "") -> str:
    """Raises: InputError: it fails; `what` and its last line."""
    try:
        done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=_STEP_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{what}: {error}") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise InputError(f"{what}: {last[0]}")
    return done.stdout
