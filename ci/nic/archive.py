# SPDX-License-Identifier: Apache-2.0
"""Kernel modules in the order they load, and archives that the kernel unpacks at boot (cpio, format newc)."""

import gzip
import lzma
import re
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nic.errors import MissingPart

#: What the kernel looks for at a boundary of 4 bytes (Documentation/driver-api/early-userspace/buffer-format.rst).
_MAGIC = b"070701"


@dataclass(frozen=True)
class Entry:
    """A file, folder (no content) or symbolic link (its target as content) of an archive."""

    path: str
    content: bytes = b""
    mode: int = stat.S_IFREG | 0o644


def folder(path: str) -> Entry:
    """A folder."""
    return Entry(path, b"", stat.S_IFDIR | 0o755)


def link(path: str, target: str) -> Entry:
    """A symbolic link."""
    return Entry(path, target.encode(), stat.S_IFLNK | 0o777)


def program(path: str, content: bytes) -> Entry:
    """A file that may be run."""
    return Entry(path, content, stat.S_IFREG | 0o755)


def cpio(entries: Iterable[Entry]) -> bytes:
    """The archive of these entries; one may be put behind another."""
    parts = [_member(number, entry) for number, entry in enumerate(entries, 1)]
    parts.append(_member(0, Entry("TRAILER!!!", mode=0)))
    return b"".join(parts)


def _member(number: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    fields = (number, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
    header = _MAGIC + b"".join(b"%08X" % field for field in fields) + name
    return _padded(header) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def modules_in_order(tree: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """Module -> its file, unpacked, each after those it depends on; what is no file is built into the kernel.

    Args:
        tree: Folder of the kernel's modules.
        wanted: Names of modules that must be files.

    Raises:
        MissingPart: One is not there.
    """
    files = files_of(tree)
    found: dict[str, bytes] = {}

    def take(name: str) -> None:
        if name in found or name not in files:
            return
        content = _unpacked(files[name])
        for needed in depends(content):
            take(needed)
        found[name] = content

    for name in wanted:
        if name not in files:
            raise MissingPart(f"the kernel in {tree} has no module {name}")
        take(name)
    return found


def files_of(tree: Path) -> dict[str, Path]:
    """Module -> its file: `*.ko`, `*.ko.xz` (Debian 13, Fedora), `*.ko.zst` (Ubuntu), `*.ko.gz`."""
    return {_name(path): path for suffix in _PACKED for path in tree.rglob(f"*.ko{suffix}")}


def _unpacked(path: Path) -> bytes:
    unpack = _PACKED["" if path.suffix == ".ko" else path.suffix]
    return unpack(path.read_bytes())


def _zstd(data: bytes) -> bytes:
    try:
        return subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise MissingPart("modules are packed by zstd, and the program zstd cannot unpack them: install it") from None


#: Suffix behind `.ko` -> what unpacks it.
_PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".zst": _zstd,
}


def depends(module: bytes) -> list[str]:
    """Names of the modules that one needs, from its section .modinfo."""
    match = re.search(rb"\0depends=([^\0]*)\0", module)
    names: str = match.group(1).decode() if match else ""
    return [name.replace("-", "_") for name in names.split(",") if name]


def _name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def base_archive(busybox: bytes) -> bytes:
    """What every run of the guest starts with: busybox and the usual folders."""
    folders = ("proc", "sys", "dev", "tmp", "run", "root", "etc", "usr", "var", "results")
    entries = [folder(path) for path in folders]
    entries += [link(path, f"usr/{path}") for path in ("bin", "sbin", "lib", "lib64")]
    entries.append(link("var/run", "/run"))  # DPDK keeps its files there
    entries += [program("busybox", busybox), Entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")]
    return cpio(entries)


def modules_archive(modules: Mapping[str, bytes]) -> bytes:
    """The modules of a kernel, numbered in their order."""
    numbered = enumerate(modules.items())
    return cpio(
        [folder("modules"), *(Entry(f"modules/{number:02}-{name}.ko", content) for number, (name, content) in numbered)]
    )
