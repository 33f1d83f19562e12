# SPDX-License-Identifier: Apache-2.0
"""Source of a Debian package from another suite of the mirror this machine already uses.

Standard library only, as `ovs/build`.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ci"))  # ovs/build is run by its path

from private_apt import AptError, PrivateApt


class SourceError(Exception):
    """Why the source is not to be had and what to do instead, in one line."""


@dataclass(frozen=True)
class DebianSource:
    """One upstream version of a source package.

    Attributes:
        package: Name of the source package.
        version: Upstream version, without Debian's revision.
        suite: Debian suite that holds it.
        sha256: SHA-256 of the upstream tarball: whatever the mirror says, it is this one or none.
    """

    package: str
    version: str
    suite: str
    sha256: str

    def unpacked(self, cache: Path) -> Path:
        """Folder with the unpacked source, below `cache`; fetched only when it is not there yet.

        Raises:
            SourceError: No mirror, no network, another version, or a tarball with another checksum.
        """
        folder = cache / "sources" / f"{self.package}-{self.version}"
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            work = Path(scratch)
            upstream, debian = self._download(work)
            tree = work / "tree"
            _extract(upstream, tree)
            _extract(debian, tree / "debian")
            _complete(tree)
            tree.rename(folder)
        return folder

    def _download(self, work: Path) -> tuple[Path, Path]:
        """The upstream tarball, checked, and Debian's."""
        where = f"source package {self.package} of Debian {self.suite}"
        apt = PrivateApt(work, (self.suite,), "deb-src", any_age=True)
        try:
            apt.update()
            apt.run("apt-get", "source", "--download-only", "--only-source", self.package)
        except AptError as error:
            raise SourceError(f"{where}: {error}; {self._instead()}") from None
        upstream = sorted(work.glob(f"{self.package}_{self.version}.orig.tar.*[!c]"))
        debian = sorted(work.glob(f"{self.package}_{self.version}-*.debian.tar.*"))
        if len(upstream) != 1 or len(debian) != 1:
            found = ", ".join(path.stem for path in work.glob("*.dsc")) or "nothing"
            raise SourceError(f"{where}: wanted {self.version}, found {found}; {self._instead()}")
        got = hashlib.sha256(upstream[0].read_bytes()).hexdigest()
        if got != self.sha256:
            raise SourceError(f"{upstream[0].name}: SHA-256 is {got} instead of {self.sha256}; {self._instead()}")
        return upstream[0], debian[0]

    def _instead(self) -> str:
        return f"give the unpacked source of {self.version} with --source DIR"


@dataclass(frozen=True)
class DebianTarball:
    """A tarball that a binary package of another suite installs; the package itself is not installed.

    Attributes:
        package: Name of the package.
        version: Upstream version, without Debian's revision.
        suite: Debian suite that holds it.
        path: The tarball in it.
        sha256: Of the tarball: whatever the mirror has, it is this one or none.
    """

    package: str
    version: str
    suite: str
    path: str
    sha256: str

    def fetched(self, cache: Path) -> Path:
        """The tarball, below `cache`; fetched only when it is not there yet.

        Raises:
            SourceError: No mirror, no network, another version, or a tarball with another checksum.
        """
        file = cache / "sources" / f"{self.package}-{self.version}.tar.gz"
        if file.exists():
            return file
        where = f"package {self.package} of Debian {self.suite}"
        instead = f"give the source of {self.version} with --source"
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".fetch-") as scratch:
            work = Path(scratch)
            apt = PrivateApt(work, (self.suite,), any_age=True)
            try:
                apt.update()
                apt.run("apt-get", "download", self.package)
            except AptError as error:
                raise SourceError(f"{where}: {error}; {instead}") from None
            found = list(work.glob(f"{self.package}_{self.version}-*.deb"))
            if len(found) != 1:
                raise SourceError(f"{where}: not of {self.version} any more; {instead}")
            argv = ["dpkg-deb", "--extract", str(found[0]), str(work / "unpacked")]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            tarball = work / "unpacked" / self.path
            if done.returncode or not tarball.exists():
                raise SourceError(f"{found[0].name}: {done.stderr.strip() or f'no {self.path} in it'}; {instead}")
            got = hashlib.sha256(tarball.read_bytes()).hexdigest()
            if got != self.sha256:
                raise SourceError(f"{found[0].name}: SHA-256 of the tarball is {got}, not {self.sha256}; {instead}")
            tarball.rename(file)
        return file


def _complete(tree: Path) -> None:
    """Adds empty files for those of upstream's `debian` folder that Debian left out and `make` wants to be there."""
    for name in re.findall(r"(?<![\w/])debian/[\w.-]+", (tree / "Makefile.in").read_text()):
        if not (tree / name).exists():
            (tree / name).touch()


def _extract(tarball: Path, folder: Path) -> None:
    """Unpacks the only folder in a tarball as `folder`; by tar, since tarfile of Python 3.11.2 has no safe filter."""
    folder.mkdir()
    argv = ["tar", "--extract", "--no-same-owner", "--strip-components=1", f"--directory={folder}", f"--file={tarball}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceError(f"{tarball.name}: cannot be unpacked: {done.stderr.strip()}")
