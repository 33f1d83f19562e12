# SPDX-License-Identifier: Apache-2.0
"""Source of a Debian package, from whichever suite of the mirror this machine already uses has it.

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
        suites: Debian suites that may hold it, in the order they are asked in.
        sha256: SHA-256 of the upstream tarball: whatever the mirror says, it is this one or none.
    """

    package: str
    version: str
    suites: tuple[str, ...]
    sha256: str

    def unpacked(self, cache: Path) -> Path:
        """Folder with the unpacked source, below `cache`; fetched only when it is not there yet.

        Raises:
            SourceError: No mirror or network, no suite with this version, or a tarball with another checksum.
        """
        folder = cache / "sources" / f"{self.package}-{self.version}"
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            upstream, debian = self._download(Path(scratch))
            tree = Path(scratch) / "tree"
            _extract(upstream, tree)
            _extract(debian, tree / "debian")
            _complete(tree)
            tree.rename(folder)
        return folder

    def _download(self, scratch: Path) -> tuple[Path, Path]:
        """The upstream tarball, checked, and Debian's, of the first suite that has both."""
        reasons: dict[str, list[str]] = {}
        for suite in self.suites:
            work = scratch / suite
            work.mkdir()
            try:
                return self._download_from(suite, work)
            except (AptError, SourceError) as error:
                reasons.setdefault(str(error), []).append(suite)
        why = "; ".join(f"{', '.join(suites)}: {reason}" for reason, suites in reasons.items())
        raise SourceError(
            f"source package {self.package} {self.version} is not to be had ({why}); "
            f"give the source of {self.version} with --source PATH"
        )

    def _download_from(self, suite: str, work: Path) -> tuple[Path, Path]:
        apt = PrivateApt(work, (suite,), "deb-src", any_age=True)
        apt.update()
        have = re.findall(r"^Version: (\S+)$", apt.run("apt-cache", "showsrc", self.package), re.MULTILINE)
        wanted = next((each for each in have if re.sub(r"^\d+:|-[^-]*$", "", each) == self.version), None)
        if wanted is None:
            raise SourceError(f"has {', '.join(have) or 'none'}")
        apt.run("apt-get", "source", "--download-only", "--only-source", f"{self.package}={wanted}")
        (upstream,) = work.glob(f"{self.package}_{self.version}.orig.tar.*[!c]")
        (debian,) = work.glob(f"{self.package}_{self.version}-*.debian.tar.*")
        got = hashlib.sha256(upstream.read_bytes()).hexdigest()
        if got != self.sha256:
            raise SourceError(f"SHA-256 of {upstream.name} is {got}, not {self.sha256}")
        return upstream, debian


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
