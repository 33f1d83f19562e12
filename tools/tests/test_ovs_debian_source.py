# SPDX-License-Identifier: Apache-2.0
"""ovs/debian_source.py with an apt-get of ours: what it accepts as the source, and what it says when there is none."""

import hashlib
import importlib.util
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "ovs" / "debian_source.py"
FAKE_APT = """#!/bin/sh
echo "$@" >>{log}
case "$*" in
indextargets*) echo '{target}' ;;
*update) {update} ;;
*source*) cp {archive}/* . ;;
esac
"""
FAKE_CACHE = """#!/bin/sh
case "$PWD" in {suite}) echo 'Package: thing'; echo 'Version: 1.0-3' ;; esac
"""


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("debian_source_under_test", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return loaded


def pack(archive: Path, name: str, files: dict[str, str]) -> str:
    """Makes a tarball with one folder; returns its SHA-256."""
    folder = archive.parent / f"{name}.d" / "top"
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    with tarfile.open(archive / name, "w:xz") as tar:
        tar.add(folder, arcname="top")
    return hashlib.sha256((archive / name).read_bytes()).hexdigest()


class Apt:
    """A mirror in a folder, and an apt-get in PATH that copies from it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
        self.archive, self.log, self._bin = folder / "archive", folder / "apt.log", folder / "bin"
        self.archive.mkdir()
        self._bin.mkdir()
        (folder / "keyring.gpg").touch()
        monkeypatch.setattr(sys.modules["private_apt"], "KEYRING", folder / "keyring.gpg")
        monkeypatch.setenv("PATH", f"{self._bin}:/usr/bin:/bin")
        makefile = "EXTRA_DIST = debian/changelog debian/rules.d utilities/docker/debian/Dockerfile\n"
        self.sha256 = pack(self.archive, "thing_1.0.orig.tar.xz", {"Makefile.in": makefile, "a.c": "int a;\n"})
        pack(self.archive, "thing_1.0-3.debian.tar.xz", {"changelog": "thing (1.0-3)\n"})
        (self.archive / "thing_1.0-3.dsc").touch()
        self.answer()

    def answer(self, target: str = "Debian|Debian|mirror:/debian/", update: str = ":") -> None:
        script = FAKE_APT.format(log=self.log, target=target, update=update, archive=self.archive)
        (self._bin / "apt-get").write_text(script)
        (self._bin / "apt-get").chmod(0o755)
        self.have("*")

    def have(self, suite: str) -> None:
        """Only these suites have a package of it."""
        (self._bin / "apt-cache").write_text(FAKE_CACHE.format(suite=suite))
        (self._bin / "apt-cache").chmod(0o755)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> Apt:
    return Apt(tmp_path, monkeypatch, module)


def wanted(module: ModuleType, apt: Apt, **changes: Any) -> Any:
    values = {"package": "thing", "version": "1.0", "suites": ("sid",), "sha256": apt.sha256, **changes}
    return module.DebianSource(**values)


def test_source_is_upstream_with_the_debian_folder_and_is_fetched_once(
    module: ModuleType, apt: Apt, tmp_path: Path
) -> None:
    folder = wanted(module, apt).unpacked(tmp_path / "cache")
    assert (folder / "a.c").read_text() == "int a;\n"
    assert (folder / "debian/changelog").read_text() == "thing (1.0-3)\n"
    assert (folder / "debian/rules.d").read_text() == ""  # named in Makefile.in, left out by Debian
    assert not (folder / "debian/Dockerfile").exists()
    calls = apt.log.read_text()
    assert wanted(module, apt).unpacked(tmp_path / "cache") == folder
    assert apt.log.read_text() == calls
    assert [path.name for path in folder.parent.iterdir()] == ["thing-1.0"]


def test_an_index_that_is_too_old_is_good_enough_for_what_is_known_by_its_checksum(
    module: ModuleType, apt: Apt, tmp_path: Path
) -> None:
    apt.answer(update="""grep -q 'Check-Valid-Until "false"' "$2" || exit 100""")
    wanted(module, apt).unpacked(tmp_path / "cache")


def test_another_tarball_is_refused(module: ModuleType, apt: Apt, tmp_path: Path) -> None:
    with pytest.raises(module.SourceError, match=r"SHA-256 of thing_1\.0\.orig\.\S+ is \w+, not 00\).*--source PATH"):
        wanted(module, apt, sha256="00").unpacked(tmp_path / "cache")
    assert not (tmp_path / "cache/sources/thing-1.0").exists()


def test_another_version_is_refused(module: ModuleType, apt: Apt, tmp_path: Path) -> None:
    with pytest.raises(module.SourceError, match=r"thing 2\.0 is not .* \(sid: has 1\.0-3\); give the source of 2\.0"):
        wanted(module, apt, version="2.0").unpacked(tmp_path / "cache")


def test_suites_are_asked_in_order_until_one_has_it(module: ModuleType, apt: Apt, tmp_path: Path) -> None:
    apt.have("*/next")
    wanted(module, apt, suites=("sid", "next", "never")).unpacked(tmp_path / "cache")
    lines = apt.log.read_text().splitlines()
    assert [sum(line.endswith(end) for line in lines) for end in ("update", "thing=1.0-3")] == [2, 1]
    with pytest.raises(module.SourceError, match=r"\(sid, never: has none\)"):
        wanted(module, apt, suites=("sid", "never")).unpacked(tmp_path / "other")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"target": "Others|Others|mirror:/others/"}, "apt of this machine has mirrors of Others, and none of Debian"),
        ({"update": "echo 'W: Failed to fetch it' >&2"}, r"thing 1.0 is not to be had \(sid: W: Failed to fetch it\)"),
        ({"update": "echo 'E: no key' >&2; exit 100"}, r"thing 1.0 is not to be had \(sid: E: no key\)"),
    ],
)
def test_what_apt_lacks_is_reported_in_one_line(
    module: ModuleType, apt: Apt, tmp_path: Path, answer: dict[str, str], said: str
) -> None:
    apt.answer(**answer)
    with pytest.raises(module.SourceError, match=said) as error:
        wanted(module, apt).unpacked(tmp_path / "cache")
    assert "\n" not in str(error.value)
    assert "--source PATH" in str(error.value)
