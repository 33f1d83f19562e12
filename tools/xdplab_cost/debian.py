# SPDX-License-Identifier: Apache-2.0
"""Kernels of Debian by their release, each point release that the machine's apt or Debian's suites have."""

import functools
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xdplab.api import InputError, Unsupported
from xdplab_cost.lane import lane

if TYPE_CHECKING:
    from private_apt import PrivateApt

#: All of them that can be had, or those of a series: `debian`, `debian:6.12`.
ALL = re.compile(r"debian(?::(\d+(?:\.\d+)*))?")
#: `uname -r` without the architecture: 6.1.0-47, 6.12.90+deb12.1. Kernels for clouds and for real time are not in it.
RELEASE = re.compile(r"\d+\.\d+\.\d+(?:-\d+|\+deb\d+(?:\.\d+)?)")
_IMAGE = re.compile(rf"linux-image-({RELEASE.pattern})-amd64")
#: Of newer kernels the package of that name is empty, and needs those that have image and modules.
_PARTS = re.compile(rf"linux-(?:binary|modules)-{RELEASE.pattern}-amd64")
_SUITES = ("bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid", "experimental")


def age(release: str) -> tuple[int, ...]:
    """To sort by: 6.12.90+deb12.1 comes after 6.12.90+deb12 and before 6.12.101."""
    return tuple(int(digits) for digits in re.findall(r"\d+", release))


def releases(series: str) -> list[str]:
    """Those that can be had, oldest first; series: that their numbers begin with, such as 6.12, or "".

    Raises:
        InputError: There is none of the series.
        Unsupported: No mirror answers.
    """
    with _named_errors():
        lines = [line for apt in _apts() for line in apt.run("apt-cache", "search", "linux-image-").splitlines()]
    found = {match[1] for line in lines if (match := _IMAGE.fullmatch(line.partition(" ")[0]))}
    begin = age(series)
    kept = sorted((each for each in found if age(each)[: len(begin)] == begin), key=age)
    if not kept:
        raise InputError(
            f"--kernel debian:{series}: Debian has none; there are {', '.join(sorted(found, key=age)) or 'none'}"
        )
    return kept


def fetch(release: str, folder: Path) -> list[Path]:
    """Downloads its packages to a folder.

    Raises:
        Unsupported: They are not to be had.
    """
    with _named_errors():
        for apt in _apts():
            if _IMAGE.search(
                apt.run("apt-cache", "search", "--names-only", f"^linux-image-{re.escape(release)}-amd64$")
            ):
                break
        else:
            raise Unsupported(f"Debian has no kernel {release} (any more); `--kernel debian` takes all that can be had")
        image = f"linux-image-{release}-amd64"
        needs = _PARTS.findall(apt.run("apt-cache", "show", image).partition("\n\n")[0])
        for name in dict.fromkeys([image, *needs]):
            apt.run("apt-get", "download", name)
            for package in apt.work.glob("*.deb"):
                package.rename(folder / package.name)
    return sorted(folder.glob("*.deb"))


@contextmanager
def _named_errors() -> Iterator[None]:
    lane()
    from private_apt import AptError

    try:
        yield
    except AptError as error:
        raise Unsupported(f"kernels of Debian: {error}") from None


@functools.cache
def _apts() -> "tuple[PrivateApt, ...]":
    """The machine's own, which has the suites that it uses and their security updates, and one of several suites."""
    from private_apt import PrivateApt

    scratch = Path(_scratch().name)
    own = PrivateApt(scratch / "own", ())
    own.work.mkdir()
    (own.work / "apt.conf").touch()
    suites = PrivateApt(scratch / "suites", _SUITES)
    suites.update()
    return own, suites


@functools.cache
def _scratch() -> "tempfile.TemporaryDirectory[str]":
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="xdplab-apt-")
