# SPDX-License-Identifier: Apache-2.0
"""ovs/send on a source of four files: branches, mails and cover letters, in another order than that of the patches."""

import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from lab.command import load_program

ROOT = Path(__file__).resolve().parents[2]
PATCH = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A Developer <a@developer>
Date: Sun, 22 Nov 2026 07:44:03 +0000
Subject: [PATCH {number}/3] lib: Change {number}.

What it is for.

Signed-off-by: A Developer <a@developer>

{diff}"""
DIFF = """diff --git a/{file} b/{file}
--- a/{file}
+++ b/{file}
@@ -{at} +{at},{count} @@
 {old}
{added}
"""
#: As upstream's: prints what is wrong, and says by its exit code that something is.
CHECKPATCH = """import sys
bad = "Change 3" in open(sys.argv[-1]).read()
print("WARNING: a change too many" if bad else "")
sys.exit(bad)
"""
TABLE = """[[series]]
name = "second"
patches = [2]
title = "lib: The second."
text = "It comes first."
figures = [{ what = "speed", command = "run it", value = "5" }, { what = "weight" }]

[[series]]
name = "rest"
prefix = "RFC PATCH"
patches = [1, 3]
after = ["second"]
title = "lib: The others."
text = "And why."
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def lines_of_test(number: int) -> list[str]:
    return ["", f"AT_SETUP([test {number}])", "AT_CLEANUP"]


def diff(file: str, at: int, old: str, *added: str) -> str:
    return DIFF.format(file=file, at=at, old=old, count=1 + len(added), added="\n".join(f"+{line}" for line in added))


@pytest.fixture
def ovs_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, with a source, three patches and a table of its own."""
    source, patches = tmp_path / "source", tmp_path / "patches"
    write(source / "configure.ac", "AC_INIT(openvswitch, 4.0.0, bugs@openvswitch.org)\n")
    for name in "abc":
        write(source / f"lib/{name}.c", f"int {name};\n")
    write(source / "tests/all.at", "AT_BANNER([all])\n")
    write(source / "utilities/checkpatch.py", CHECKPATCH)
    last, place = "AT_BANNER([all])", 1
    for number, name in enumerate("abc", 1):
        changes = diff(f"lib/{name}.c", 1, f"int {name};", f"int {name}{number};")
        changes += diff("tests/all.at", place, last, *lines_of_test(number))
        write(patches / f"000{number}-change.patch", PATCH.format(number=number, diff=changes))
        last, place = "AT_CLEANUP", place + 3
    write(patches / "series", "0001-change.patch\n0002-change.patch\n0003-change.patch\n")
    write(patches / "sends.toml", TABLE)
    (tmp_path / "files").mkdir()
    program = load_program(ROOT / "ovs" / "send")
    monkeypatch.setattr(program.ovs_build, "FILES", tmp_path / "files")
    monkeypatch.setattr(program.ovs_build, "PATCHES", patches)
    return program


def send(program: ModuleType, folder: Path, *argv: str) -> int:
    more = ("--source", str(folder / "source"), "--cache", str(folder / "cache"))
    return int(program.main([str(folder / "made"), *argv, *more]))


def git(folder: Path, *argv: str) -> str:
    return subprocess.run(["git", "-C", folder, *argv], capture_output=True, text=True, check=True).stdout.strip()


def test_each_series_has_its_branch_its_mails_and_what_is_known_of_it(
    ovs_send: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert send(ovs_send, tmp_path) == 1
    assert capsys.readouterr().out == (
        "second: 1 patches\nrest: 2 patches\n  0002-lib-Change-3.patch: WARNING: a change too many\n"
    )
    made = tmp_path / "made"
    assert git(made, "log", "--reverse", "--format=%an %s", "base..second") == "A Developer lib: Change 2."
    assert git(made, "diff", "--name-only", "base", "second").split() == ["lib/b.c", "tests/all.at"]
    # its own test, none of those that the file had before it
    assert git(made, "show", "second:tests/all.at").splitlines() == ["AT_BANNER([all])", "", *lines_of_test(2)]
    assert git(made, "diff", "--name-only", "topic", "rest") == "tests/all.at"  # in another order
    titles = [git(made, "show", f"{branch}:tests/all.at").count("AT_SETUP") for branch in ("topic", "rest")]
    assert titles == [3, 3]
    (first,) = (made / "mails/second").glob("0001-*")
    assert "Signed-off-by" not in first.read_text(encoding="ascii")
    cover = (made / "mails/second/0000-cover-letter.patch").read_text(encoding="ascii")
    assert "Subject: [PATCH 0/1] lib: The second.\n" in cover
    assert "  speed:\n    5\n    by: run it\n  weight:\n    (to be filled in)\n    by: (to be filled in)\n" in cover
    cover = (made / "mails/rest/0000-cover-letter.patch").read_text(encoding="ascii")
    assert "Subject: [RFC PATCH 0/2] lib: The others.\n" in cover
    assert 'Applies after:\n  "lib: The second."\n' in cover


def test_one_series_alone(ovs_send: ModuleType, tmp_path: Path) -> None:
    assert send(ovs_send, tmp_path, "second") == 0
    assert [path.name for path in (tmp_path / "made/mails").iterdir()] == ["second"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[1, 3]", "[1, 2]", "not in exactly one series, or no patch: 2, 3"),
        ('after = ["second"]', 'after = ["third"]', "rest: after third, which does not come before it"),
        ("patches = [2]", "patches = [2", "sends.toml: "),
        ("text =", "txet =", "sends.toml: "),
    ],
)
def test_a_wrong_table_is_one_line(
    old: str, new: str, words: str, ovs_send: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "patches/sends.toml", TABLE.replace(old, new))
    assert send(ovs_send, tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ovs/send: ")
    assert words in line


def test_a_patch_that_needs_another_is_named(
    ovs_send: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = diff("lib/a.c", 2, "int a1;", "int needs;")
    write(tmp_path / "patches/0002-change.patch", PATCH.format(number=2, diff=changed))
    third = PATCH.format(number=3, diff=diff("lib/c.c", 1, "int c;", "int c3;"))
    write(tmp_path / "patches/0003-change.patch", third)
    assert send(ovs_send, tmp_path) == 2
    assert capsys.readouterr().err == (
        "ovs/send: second: patch 2 does not fit in lib/a.c; name what it needs in `after`\n"
    )
    shutil.rmtree(tmp_path / "made")
    assert send(ovs_send, tmp_path, "third") == 2
    assert capsys.readouterr().err == "ovs/send: sends.toml has no series third\n"


def test_our_table_has_each_patch_once(ovs_send: ModuleType) -> None:
    folder = ROOT / "ovs" / "patches"
    count = len(list(folder.glob("0*.patch")))
    assert sum(len(series.patches) for series in ovs_send.read_table(folder / "sends.toml", count)) == count
