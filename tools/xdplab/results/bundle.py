# SPDX-License-Identifier: Apache-2.0
"""A run in one archive, with the checksums of what is in it, for another installation.

Nothing of an archive is taken on trust: its members are those that a bundle has and nothing else, whole, of the size
and checksum that its manifest says, and within limits. No name that it holds becomes a path.
"""

import gzip
import hashlib
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple

from pydantic import ValidationError

from xdplab.model import SCHEMA_VERSION, InputError, Model
from xdplab.model.reading import HEAD_BYTES, JOURNAL_BYTES, MIB
from xdplab.results.folder import RunFolder, first_error
from xdplab.results.writing import give_back

#: What may be in it, and how large that may be, in bytes.
LIMITS = {"manifest.json": MIB, "run.json": HEAD_BYTES, "trials.jsonl": JOURNAL_BYTES, "report.html": 256 * MIB}
#: What is in it unpacks to no more than so many times its own size, or to this; records of runs, to about ten times.
_RATIO, _SMALL = 100, 64 * MIB
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DAMAGED = (
    gzip.BadGzipFile,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RecursionError,
)


class BundledFile(Model):
    """A file of a bundle."""

    #: SHA-256, as hexadecimal digits.
    sha256: str
    #: Its size.
    size_bytes: int


class Pseudonym(Model):
    """What stands instead of a name; the name itself is not in the bundle."""

    #: `host`, `user`, `MAC`, `IPv4`, `IPv6`, `serial`, `UUID`.
    kind: str
    #: The same wherever the name stood.
    now: str
    #: How often it stands there.
    times: int


class BundleManifest(Model):
    """manifest.json, the first file of a bundle; all of them are in a folder with the run's name."""

    #: Of this file.
    format: Literal["xdplab-bundle"] = "xdplab-bundle"
    #: Of the form of the bundle; one with another is refused.
    version: int = 1
    #: Of run.json and trials.jsonl.
    schema_version: int = SCHEMA_VERSION
    #: Name of the run.
    run_id: str
    #: Version of xdplab that wrote it.
    xdplab: str
    #: Names of people and machines were replaced (`--redact`).
    redacted: bool
    #: What stands in their place.
    replaced: tuple[Pseudonym, ...] = ()
    #: File -> what it must be.
    files: dict[str, BundledFile]


def write_bundle(
    out: Path, folder: Path, run_id: str, version: str, replaced: tuple[Pseudonym, ...] | None = None
) -> BundleManifest:
    """Pack run.json, trials.jsonl and report.html of `folder`; `replaced` is None where nothing was redacted.

    Raises:
        InputError: `out` has neither ending or cannot be written there, or the run's name cannot be a folder's.
    """
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(
            f"bundle: {out}: {'a folder; give a file' if out.is_dir() else 'no such folder; make it first'}"
        )
    if not out.name.endswith((".tar.gz", ".tgz", ".zip")):
        raise InputError(f"bundle: {out}: .tar.gz or .zip is expected at the end")
    if not _RUN.fullmatch(run_id):
        raise InputError(f"bundle: run {run_id!r}: letters, digits, dots and dashes are expected in its name")
    names = [name for name in LIMITS if (folder / name).is_file() and name != "manifest.json"]
    files = {name: BundledFile(sha256=_sha256(folder / name), size_bytes=_size(folder / name)) for name in names}
    over = [name for name, each in files.items() if each.size_bytes > LIMITS[name]]
    if over:
        raise InputError(f"bundle: {folder / over[0]}: more than a bundle may hold, {LIMITS[over[0]] // MIB} MiB")
    manifest = BundleManifest(
        run_id=run_id, xdplab=version, redacted=replaced is not None, replaced=replaced or (), files=files
    )
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as place:
        head, made = Path(place) / "manifest.json", Path(place) / "bundle"
        head.write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        members = {f"{run_id}/{path.name}": path for path in (head, *(folder / name for name in names))}
        (_pack_zip if out.suffix == ".zip" else _pack_tar)(made, members)
        give_back(made)
        made.replace(out)
    return manifest


def _pack_tar(out: Path, members: dict[str, Path]) -> None:
    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o644
        return member

    with tarfile.open(out, "w:gz") as archive:
        for name, path in members.items():
            archive.add(path, name, filter=anonymous)


def _pack_zip(out: Path, members: dict[str, Path]) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in members.items():
            with path.open("rb") as source, archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)


class _Member(NamedTuple):
    name: str
    size: int
    #: Why it is no plain file; empty if it is one.
    oddity: str
    open: Callable[[], IO[bytes]]


def import_bundle(bundle: Path, results: Path, check: Callable[[RunFolder], None]) -> RunFolder:
    """Unpack into `results`, once everything is as its manifest says and `check` has not refused it.

    Raises:
        InputError: it is no bundle, or not a whole one, or another version's; or a run of that name is there.
    """
    if not bundle.is_file():
        raise InputError(f"import: {bundle}: no such file")
    results.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=".import-", dir=results))
    try:
        with _members(bundle) as members:
            found = _expected(bundle, members)
            manifest = _manifest(bundle, *found)
            target = results / manifest.run_id
            if target.exists() or target.is_symlink():
                raise InputError(
                    f"import: {target} is there already; remove it, or choose another folder with --results"
                )
            for name, each in manifest.files.items():
                _unpack(bundle, found[1][name], each, place / name)
        check(RunFolder(place))
        for path in (*place.iterdir(), place):
            give_back(path)
        place.rename(target)
    except _DAMAGED as exc:
        raise InputError(f"import: {bundle}: damaged: {exc}") from None
    except OSError as exc:
        raise InputError(f"import: {exc.filename or results}: {exc.strerror}; nothing was imported") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return RunFolder(target)


def _expected(bundle: Path, members: Iterator[_Member]) -> tuple[str, dict[str, _Member]]:
    """The folder's name, and its files; refused before any of it is read."""
    found: dict[str, _Member] = {}
    folder = ""
    for member in members:
        run, _, name = member.name.partition("/")
        if not _RUN.fullmatch(run) or name not in LIMITS or run != (folder or run):
            raise InputError(f"import: {bundle}: {member.name!r} is no part of a bundle")
        if member.oddity:
            raise InputError(f"import: {bundle}: {member.name} is {member.oddity}, not a plain file")
        if member.size > LIMITS[name]:
            raise InputError(f"import: {bundle}: {member.name} has {member.size} bytes, {LIMITS[name]} are allowed")
        if name in found:
            raise InputError(f"import: {bundle}: {member.name} is in it twice")
        folder, found[name] = run, member
        whole = sum(each.size for each in found.values())
        if whole > max(_SMALL, _RATIO * _size(bundle)):
            raise InputError(f"import: {bundle}: unpacks to {whole // MIB} MiB, more than {_RATIO} times its size")
    if "manifest.json" not in found:
        raise InputError(f"import: {bundle}: no bundle: it has no manifest.json")
    return folder, found


def _manifest(bundle: Path, folder: str, members: dict[str, _Member]) -> BundleManifest:
    with members["manifest.json"].open() as source:
        data = source.read(LIMITS["manifest.json"])
    try:
        manifest = BundleManifest.model_validate_json(data)
    except ValidationError as exc:
        version = re.search(rb'"version":\s*(\d{1,9})', data)
        if version and int(version[1]) != 1:
            raise InputError(f"import: {bundle}: bundle version {int(version[1])}, this xdplab reads 1") from None
        raise InputError(f"import: {bundle}: manifest.json: {first_error(exc)}") from None
    for what, has, reads in (
        ("bundle", manifest.version, 1),
        ("schema", manifest.schema_version, SCHEMA_VERSION),
    ):
        if has != reads:
            raise InputError(f"import: {bundle}: {what} version {has}, this xdplab reads {reads}")
    if manifest.run_id != folder or folder == "latest":
        raise InputError(f"import: {bundle}: manifest.json is of run {manifest.run_id!r}, its folder is {folder!r}")
    listed, there = {"run.json", *manifest.files}, {*members} - {"manifest.json"}
    if listed != there:
        raise InputError(f"import: {bundle}: {min(listed ^ there)} is not both in it and in its manifest")
    return manifest


def _unpack(bundle: Path, member: _Member, expected: BundledFile, to: Path) -> None:
    """What is longer than was said is not written."""
    digest, size = hashlib.sha256(), 0
    with member.open() as source, to.open("xb") as target:
        to.chmod(0o600)
        while data := source.read(MIB):
            size += len(data)
            if size > expected.size_bytes:
                break
            digest.update(data)
            target.write(data)
    if size != expected.size_bytes or digest.hexdigest() != expected.sha256:
        raise InputError(f"import: {bundle}: {member.name}: not what the manifest says (SHA-256): damaged, or changed")


@contextmanager
def _members(bundle: Path) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(bundle):
        with zipfile.ZipFile(bundle) as packed:
            yield (_of_zip(packed, each) for each in packed.infolist())
        return
    with _Unpacked(bundle) as source, tarfile.open(fileobj=source, mode="r:") as archive:
        yield (_of_tar(source, archive, each) for each in archive)


class _Unpacked(gzip.GzipFile):
    """What tarfile reads. A header may ask it to take any number of bytes (of a long name, say) into memory."""

    #: That may still be read: of headers a MiB in all, then members one after another.
    left = MIB

    def read(self, size: int | None = -1) -> bytes:
        """Up to `size` bytes.

        Raises:
            TarError: more than are left were asked for.
        """
        if size is None or not 0 <= size <= self.left:
            raise tarfile.ReadError("its headers are larger than those of a bundle")
        self.left -= size
        return super().read(size)


def _of_zip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    mode = member.external_attr >> 16
    plain = not member.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))
    oddity = "encrypted" if member.flag_bits & 1 else "" if plain else "a folder, a link or a device"
    return _Member(member.filename, member.file_size, oddity, lambda: archive.open(member))


def _of_tar(unpacked: _Unpacked, archive: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    def opened() -> IO[bytes]:
        unpacked.left = member.size + MIB
        source = archive.extractfile(member)
        assert source is not None, "a plain file has contents"
        return source

    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()
    return _Member(member.name, member.size, "" if plain else "a folder, a link or a device", opened)


def _size(path: Path) -> int:
    return path.stat().st_size


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
