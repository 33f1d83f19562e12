# SPDX-License-Identifier: Apache-2.0
"""ovs/debian_source.py with an apt-get of ours: what it accepts as the source, and what it says when there is none."""

import hashlib
import importlib.util
import subprocess
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
*source*|*download*) cp {archive}/* . ;;
esac
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


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> Apt:
    return Apt(tmp_path, monkeypatch, module)


def wanted(module: ModuleType, apt: Apt, **changes: str) -> Any:
    values = {"package": "thing", "version": "1.0", "suite": "sid", "sha256": apt.sha256, **changes}
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
    with pytest.raises(module.SourceError, match=r"orig\.tar\.xz: SHA-256 is .* instead of 00.*--source DIR"):
        wanted(module, apt, sha256="00").unpacked(tmp_path / "cache")
    assert not (tmp_path / "cache/sources/thing-1.0").exists()


def test_another_version_is_refused(module: ModuleType, apt: Apt, tmp_path: Path) -> None:
    with pytest.raises(module.SourceError, match=r"wanted 2\.0, found thing_1\.0-3; give the unpacked source"):
        wanted(module, apt, version="2.0").unpacked(tmp_path / "cache")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"target": "Others|Others|mirror:/others/"}, "apt knows no Debian mirror yet; run apt-get update"),
        ({"update": "echo 'W: Failed to fetch it' >&2"}, "source package thing of Debian sid: W: Failed to fetch it"),
        ({"update": "echo 'E: no key' >&2; exit 100"}, "source package thing of Debian sid: E: no key"),
    ],
)
def test_what_apt_lacks_is_reported_in_one_line(
    module: ModuleType, apt: Apt, tmp_path: Path, answer: dict[str, str], said: str
) -> None:
    apt.answer(**answer)
    with pytest.raises(module.SourceError, match=said) as error:
        wanted(module, apt).unpacked(tmp_path / "cache")
    assert "\n" not in str(error.value)
    assert "--source DIR" in str(error.value)


def of_package(module: ModuleType, apt: Apt, **changes: str) -> Any:
    """A package thing-source with one file, which is a tarball as far as anybody looks."""
    tree = apt.archive.parent / "package"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: thing-source\nVersion: 1.0-3\nArchitecture: all\nMaintainer: nobody\nDescription: thing\n"
    )
    (tree / "thing.tar.gz").write_text("tarball")
    deb = apt.archive / "thing-source_1.0-3_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, deb], check=True, stdout=subprocess.DEVNULL)
    sha256 = hashlib.sha256(b"tarball").hexdigest()
    values = {"package": "thing-source", "version": "1.0", "suite": "old", "path": "thing.tar.gz", "sha256": sha256}
    return module.DebianTarball(**{**values, **changes})


def test_a_tarball_comes_out_of_a_package_of_another_suite_once(module: ModuleType, apt: Apt, tmp_path: Path) -> None:
    wanted = of_package(module, apt)
    file = wanted.fetched(tmp_path / "cache")
    assert file.read_text() == "tarball"
    calls = apt.log.read_text()
    assert wanted.fetched(tmp_path / "cache") == file
    assert apt.log.read_text() == calls


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sha256": "00"}, "SHA-256 of the tarball is .*, not 00"),
        ({"version": "2.0"}, "not of 2.0 any more"),
        ({"path": "other"}, "no other in it"),
    ],
)
def test_another_than_the_pinned_tarball_is_refused(
    changes: dict[str, str], said: str, module: ModuleType, apt: Apt, tmp_path: Path
) -> None:
    with pytest.raises(module.SourceError, match=f"{said}; give the source of .* with --source"):
        of_package(module, apt, **changes).fetched(tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.gz"))
