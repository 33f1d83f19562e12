# SPDX-License-Identifier: Apache-2.0
"""ovs/export on a source of three files: commits and mails that give the tree that ovs/build compiles."""

import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from lab.command import load_program

ROOT = Path(__file__).resolve().parents[2]
MAIL = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A Developer <a@developer>
Date: Sun, 22 Nov 2026 07:44:03 +0000
Subject: [PATCH {number}/2] lib: {subject}.

What it is for.

diff --git a/lib/{file} b/lib/{file}
--- a/lib/{file}
+++ b/lib/{file}
@@ -1 +1,2 @@
 {old}
+{new}
"""


@pytest.fixture(scope="module")
def ovs_export() -> ModuleType:
    return load_program(ROOT / "ovs" / "export")


class Series:
    """A source, two patches and two new files, in place of ours."""

    def __init__(self, folder: Path, ovs_export: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.files, self.patches = (folder / name for name in ("source", "files", "patches"))
        self.cache = folder / "cache"
        write(self.source / "configure.ac", "AC_INIT(openvswitch, 4.0.0, bugs@openvswitch.org)\n")
        write(self.source / ".gitignore", "*.in\n")
        write(self.source / "made.in", "a release has what .gitignore names\n")
        write(self.source / "lib/automake.mk", "sources =\n")
        write(self.source / "lib/a.c", "int a;\n")
        write(self.files / "lib/new.h", "int new(void);\n")
        write(self.files / "lib/new.c", "int new(void) { return a; }\n")
        write(self.patches / "series", "0001-include.patch\n0002-compile.patch  # and why\n")
        include = MAIL.format(number=1, subject="Include", file="a.c", old="int a;", new='#include "new.h"')
        write(self.patches / "0001-include.patch", include)
        compiled = MAIL.format(number=2, subject="Compile", file="automake.mk", old="sources =", new="+= lib/new.c")
        write(self.patches / "0002-compile.patch", compiled)
        write(self.patches / "cover-letter.txt", "Subject: [PATCH 0/2] lib: New.\n")
        monkeypatch.setattr(ovs_export.ovs_build, "FILES", self.files)
        monkeypatch.setattr(ovs_export.ovs_build, "PATCHES", self.patches)
        self._build = ovs_export.ovs_build

    def tree(self, folder: Path) -> dict[str, str]:
        tree = self._build.Tree(folder, folder.with_suffix(".log"))
        shutil.copytree(self.source, folder)
        shutil.copytree(self.files, folder, dirs_exist_ok=True)
        for patch in self._build.read_series():
            tree.apply(patch)
        return contents(folder)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def contents(folder: Path) -> dict[str, str]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_text(encoding="ascii") for name, path in found.items() if not name.startswith(".git/")}


def git(folder: Path, *argv: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    return subprocess.run(["git", *who, "-C", folder, *argv], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def series(tmp_path: Path, ovs_export: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Series:
    return Series(tmp_path, ovs_export, monkeypatch)


def test_each_patch_is_a_commit_with_the_files_that_it_is_the_first_to_name(
    ovs_export: ModuleType, series: Series, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    assert ovs_export.main([str(made), "--source", str(series.source), "--cache", str(series.cache)]) == 0
    assert contents(made) == series.tree(tmp_path / "tree")
    assert git(made, "log", "--reverse", "--format=%an %s %b", "base..") == (
        "A Developer lib: Include. What it is for.\n\nA Developer lib: Compile. What it is for."
    )
    added = [git(made, "show", "--format=", "--name-only", "--diff-filter=A", commit) for commit in ("HEAD^", "HEAD")]
    assert added == ["lib/new.h", "lib/new.c"]
    assert git(made, "status", "--porcelain") == ""


def test_its_mails_give_the_same_tree(ovs_export: ModuleType, series: Series, tmp_path: Path) -> None:
    mails, copy = tmp_path / "mails", tmp_path / "copy"
    argv = ["--source", str(series.source), "--cache", str(series.cache)]
    assert ovs_export.main([str(mails), "--mails", *argv]) == 0
    assert sorted(path.name for path in mails.iterdir()) == [
        "0001-lib-Include.patch", "0002-lib-Compile.patch", "cover-letter.txt"
    ]  # fmt: skip
    assert not any("Signed-off-by" in path.read_text(encoding="ascii") for path in mails.iterdir())
    shutil.copytree(series.source, copy)
    git(copy, "init", "--quiet")
    git(copy, "add", "--all", "--force")
    git(copy, "commit", "--quiet", "--message=base")
    git(copy, "am", *map(str, sorted(mails.glob("*.patch"))))
    assert contents(copy) == series.tree(tmp_path / "tree")


def test_what_cannot_be_exported_is_one_line(
    ovs_export: ModuleType, series: Series, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--source", str(series.source), "--cache", str(series.cache)]
    assert ovs_export.main([str(tmp_path), *argv]) == 2
    assert capsys.readouterr().err == f"ovs/export: {tmp_path} is there already\n"
    write(series.files / "lib/forgotten.h", "")
    assert ovs_export.main([str(tmp_path / "made"), *argv]) == 2
    assert capsys.readouterr().err == f"ovs/export: {series.files}/lib/forgotten.h: no patch names it\n"
    (series.files / "lib/forgotten.h").unlink()
    write(series.source / "lib/a.c", "int b;\n")
    assert ovs_export.main([str(tmp_path / "made"), *argv]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ovs/export: git am: ")


def test_every_new_file_is_named_by_a_patch(ovs_export: ModuleType) -> None:
    build = ovs_export.ovs_build
    named = ovs_export.new_files(build.read_series(), build.FILES)
    assert sum(map(len, named.values())) == len([path for path in build.FILES.rglob("*") if path.is_file()]) > 5
