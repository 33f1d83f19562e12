# SPDX-License-Identifier: Apache-2.0
"""Kernels of Debian by their release, each point release that the machine's apt or Debian's suites have."""

import functools
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xdplab.api import InputError, Unsupported
from xdplab_cost.lane import lane

if TYPE_CHECKING:
    from private_apt import PrivateApt

#: All of them that can be had, or those of a series: `debian`, `debian:6.12`.
SERIES = re.compile(r"debian(?::(\d+(?:\.\d+)*))?")
#: `uname -r` without the architecture: 6.1.0-47, 6.12.90+deb12.1. Kernels for clouds and for real time are not in it.
RELEASE = re.compile(r"\d+\.\d+\.\d+(?:-\d+|\+deb\d+(?:\.\d+)?)")
_IMAGE = re.compile(rf"linux-image-({RELEASE.pattern})-amd64")
#: Of newer kernels the package of that name is empty, and needs those that have image and modules.
_PARTS = re.compile(rf"linux-(?:binary|modules)-{RELEASE.pattern}-amd64")
#: The machine's own apt, which has the suites that it uses and their security updates, and one of `_SUITES`.
_PLACES = ("own", "suites")
_SUITES = ("bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid", "experimental")


def sort_key(release: str) -> tuple[int, ...]:
    """To sort by: 6.12.90+deb12.1 comes after 6.12.90+deb12 and before 6.12.101."""
    return tuple(int(digits) for digits in re.findall(r"\d+", release))


def releases(series: str) -> list[str]:
    """Those that can be had, oldest first; series: that their numbers begin with, such as 6.12, or "".

    Raises:
        InputError: There is none of the series.
        Unsupported: No mirror answers.
    """
    failure = _failure()
    try:
        found = {release for place in _PLACES for release in _complete(_apt(place))}
    except failure as error:
        raise Unsupported(f"kernels of Debian: {error}") from None
    begin = sort_key(series)
    kept = sorted((each for each in found if sort_key(each)[: len(begin)] == begin), key=sort_key)
    if not kept:
        there = ", ".join(sorted(found, key=sort_key)) or "none"
        raise InputError(f"--kernel debian{series and ':'}{series}: Debian has none; there are {there}")
    return kept


def _complete(apt: "PrivateApt") -> Iterator[str]:
    """Those with all of their parts: of some that were replaced a suite has the image alone."""
    listed = apt.run("apt-cache", "search", "--names-only", "^linux-(image|binary|modules)-")
    there = {line.partition(" ")[0] for line in listed.splitlines()}
    images = [name for name in there if _IMAGE.fullmatch(name)]
    for about in apt.run("apt-cache", "show", *images).split("\n\n") if images else ():
        image = _IMAGE.search(about)
        if image and set(_PARTS.findall(about)) <= there:
            yield image[1]


def fetch(release: str, folder: Path) -> list[Path]:
    """Downloads its packages to a folder, from the first place that has them; the one of its name comes first.

    Raises:
        Unsupported: They are on no mirror.
    """
    image, why, failure = f"linux-image-{release}-amd64", "", _failure()
    for place in _PLACES:
        try:
            apt = _apt(place)
            if not apt.run("apt-cache", "search", "--names-only", f"^{re.escape(image)}$").strip():
                continue
            needs = _PARTS.findall(apt.run("apt-cache", "show", image).partition("\n\n")[0])
            for name in dict.fromkeys([image, *needs]):
                apt.run("apt-get", "download", name)
        except failure as error:  # one that is only installed here, or that this mirror has no more
            why = f": {error}"
            for package in apt.work.glob("*.deb"):
                package.unlink()
            continue
        for package in apt.work.glob("*.deb"):
            package.rename(folder / package.name)
        return sorted(folder.glob("*.deb"), key=lambda path: (not path.name.startswith(image), path.name))
    raise Unsupported(f"Debian has no kernel {release} (any more){why}; `--kernel debian` takes all that can be had")


def _failure() -> type[Exception]:
    lane()
    from private_apt import AptError

    return AptError


@functools.cache
def _apt(place: str) -> "PrivateApt":
    from private_apt import PrivateApt

    apt = PrivateApt(Path(tempfile.mkdtemp(dir=_scratch().name)), _SUITES)
    if place == "own":  # without what is installed here, which need not be there to be fetched
        (apt.work / "apt.conf").write_text('Dir::State::status "/dev/null";\n', encoding="ascii")
    else:
        apt.update()
    return apt


@functools.cache
def _scratch() -> "tempfile.TemporaryDirectory[str]":
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="xdplab-apt-")
