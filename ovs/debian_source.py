# SPDX-License-Identifier: Apache-2.0
"""Source of a Debian package from another suite of the mirror this machine already uses.

apt itself finds, downloads and checks the files, with folders of its own: the machine's configuration is read (mirror,
proxy) and never changed. Standard library only, as `ovs/build`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT_CONF = """
Dir::State "{work}/state";
Dir::State::Lists "{work}/lists";
Dir::Cache "{work}/cache";
Dir::Etc::SourceList "{work}/sources.list";
Dir::Etc::SourceParts "{work}/none";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
"""


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
            upstream, debian = self._download(work, apt_mirror())
            tree = work / "tree"
            _extract(upstream, tree)
            _extract(debian, tree / "debian")
            _complete(tree)
            tree.rename(folder)
        return folder

    def _download(self, work: Path, mirror: str) -> tuple[Path, Path]:
        """The upstream tarball, checked, and Debian's."""
        for name in ("state", "lists/partial", "cache/archives/partial", "none"):
            (work / name).mkdir(parents=True)
        (work / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {mirror} {self.suite} main\n")
        (work / "apt.conf").write_text(APT_CONF.format(work=work))
        apt = ["apt-get", "--config-file", str(work / "apt.conf"), "--quiet"]
        where = f"source package {self.package} of Debian {self.suite}"
        for argv in ([*apt, "update"], [*apt, "source", "--download-only", "--only-source", self.package]):
            self._run(argv, work, where)
        upstream = sorted(work.glob(f"{self.package}_{self.version}.orig.tar.*[!c]"))
        debian = sorted(work.glob(f"{self.package}_{self.version}-*.debian.tar.*"))
        if len(upstream) != 1 or len(debian) != 1:
            found = ", ".join(path.stem for path in work.glob("*.dsc")) or "nothing"
            raise SourceError(f"{where}: wanted {self.version}, found {found}; {self._instead()}")
        got = hashlib.sha256(upstream[0].read_bytes()).hexdigest()
        if got != self.sha256:
            raise SourceError(f"{upstream[0].name}: SHA-256 is {got} instead of {self.sha256}; {self._instead()}")
        return upstream[0], debian[0]

    def _run(self, argv: list[str], cwd: Path, where: str) -> None:
        done = subprocess.run(
            argv, cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
        # `apt-get update` succeeds without a network; the lines with E: and W: tell.
        failed = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W: Failed", "Err:"))]
        if done.returncode or failed:
            said = " ".join(failed) or done.stderr.strip() or f"exit code {done.returncode}"
            raise SourceError(f"{where}: {said}; {self._instead()}")

    def _instead(self) -> str:
        return f"give the unpacked source of {self.version} with --source DIR"


def apt_mirror() -> str:
    """Address of the Debian mirror in the machine's apt configuration.

    Raises:
        SourceError: There is none, or its index was never downloaded.
    """
    if not KEYRING.exists():
        raise SourceError(f"{KEYRING} is missing; install the package debian-archive-keyring")
    argv = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"]
    try:
        lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SourceError(f"apt-get indextargets failed ({error}); give the source with --source DIR") from None
    for line in lines:
        origin, label, uri = line.split("|", 2)
        if origin == label == "Debian":
            return uri
    raise SourceError("apt knows no Debian mirror yet; run apt-get update, or give the source with --source DIR")


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
