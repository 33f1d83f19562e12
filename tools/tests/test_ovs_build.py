# SPDX-License-Identifier: Apache-2.0
"""ovs/build without a compiler: what makes a build another one, what it says is missing, and that the cache is used."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lab.command import load_program, wait_for

from xdplab.forwarders.ovs.builds import PATCHED, how_to_make

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "ovs" / "build"


@pytest.fixture(scope="module")
def ovs_build() -> ModuleType:
    return load_program(PROGRAM)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "configure").write_text("#!/bin/sh\n")
    (folder / "configure.ac").write_text("AC_INIT(openvswitch, 4.0.0, bugs@openvswitch.org)\n")
    return folder


def plan(ovs_build: ModuleType, source: Path, *patches: Path, **changes: Any) -> Any:
    return ovs_build.Plan("patched", source, patches, **changes)


def key(ovs_build: ModuleType, of: Any) -> str:
    return str(ovs_build.cache_key(of.describe()))


def test_key_depends_on_source_patches_and_options(ovs_build: ModuleType, source: Path, tmp_path: Path) -> None:
    patch = tmp_path / "0001-a.patch"
    patch.write_text("one")
    keys = [key(ovs_build, plan(ovs_build, source)), key(ovs_build, plan(ovs_build, source, patch))]
    keys.append(key(ovs_build, plan(ovs_build, source, asan=True)))
    patch.write_text("two")
    keys.append(key(ovs_build, plan(ovs_build, source, patch)))
    (source / "configure").write_text("#!/bin/sh\nexit 1\n")
    keys.append(key(ovs_build, plan(ovs_build, source)))
    assert len(set(keys)) == len(keys)


def test_key_depends_on_the_compiler(ovs_build: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(ovs_build, plan(ovs_build, source))
    monkeypatch.setattr(ovs_build, "compiler_version", lambda _compiler: "gcc (another) 99")
    assert key(ovs_build, plan(ovs_build, source)) != before


def test_key_does_not_depend_on_where_the_source_is(ovs_build: ModuleType, source: Path) -> None:
    before = key(ovs_build, plan(ovs_build, source))
    moved = source.rename(source.with_name("elsewhere"))
    (moved / ".git").mkdir()
    (moved / ".git" / "HEAD").write_text("ref")
    assert key(ovs_build, plan(ovs_build, moved)) == before


def test_missing_packages_are_reported_in_one_line(ovs_build: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/gcc").touch()
    with pytest.raises(ovs_build.BuildError) as error:
        ovs_build.require_packages(root=tmp_path)
    reported = str(error.value)
    assert "\n" not in reported
    assert "apt-get install" in reported
    assert {"libxdp-dev", "clang", "autoconf", "automake", "libtool"} <= set(reported.split())
    assert " gcc " not in reported


def test_series_has_every_patch_once_and_no_patch_makes_a_file(ovs_build: ModuleType) -> None:
    listed = ovs_build.read_series()
    assert sorted(listed) == sorted(ovs_build.PATCHES.glob("*.patch"))
    assert [path.name for path in listed if re.search(r"^new file mode|^--- /dev/null", path.read_text(), re.M)] == []


def test_a_series_that_names_what_is_not_there(
    ovs_build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_build, "PATCHES", tmp_path)
    (tmp_path / "series").write_text("0001-a.patch\n")
    with pytest.raises(ovs_build.BuildError, match=r"series: names 0001-a\.patch, which is not there"):
        ovs_build.read_series()


def test_upto_cuts_the_series(ovs_build: ModuleType, tmp_path: Path) -> None:
    patches = [tmp_path / "0001-fix.patch", tmp_path / "0002-rings.patch", tmp_path / "0003-more-rings.patch"]
    assert ovs_build.cut_series(patches, "2") == patches[:2]
    assert ovs_build.cut_series(patches, "fix") == patches[:1]
    with pytest.raises(ovs_build.BuildError, match="matches 2 patches"):
        ovs_build.cut_series(patches, "rings")


def built(cache: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, "--cache", cache, *argv], capture_output=True, text=True, timeout=60, check=False
    )


def test_each_patch_is_compiled_alone_or_those_since_one(ovs_build: ModuleType, source: Path, tmp_path: Path) -> None:
    counts: list[int] = []

    class Recorder:
        def compile(self, plan: Any, *_: str) -> None:
            counts.append(len(plan.patches))

    patches = [tmp_path / "0001-fix.patch", tmp_path / "0002-rings.patch", tmp_path / "0003-frames.patch"]
    each = plan(ovs_build, source, *patches)
    ovs_build.compile_each(each, Recorder())
    assert counts == [0, 1, 2, 3]
    counts.clear()
    ovs_build.compile_each(each, Recorder(), "rings")
    assert counts == [1, 2, 3]
    with pytest.raises(SystemExit):
        ovs_build.parse(["--since", "rings"])


def test_steps_are_the_source_and_one_patch_more_at_a_time(ovs_build: ModuleType, source: Path) -> None:
    whole = tuple(ovs_build.read_series())
    steps = ovs_build.one_patch_more(plan(ovs_build, source, *whole))
    assert [len(each.patches) for each in steps] == [*range(len(whole) + 1)]
    names = [each.name for each in steps]
    assert (names[:2], names[-1]) == (["patched-upto-0000", "patched-upto-0001"], "patched")
    assert len(set(names)) == len(names)


def test_testsuites_stay_newer_than_what_they_are_made_of(ovs_build: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    names = ["tests/testsuite", "tests/fuzz-regression-list.at", "package.m4", "configure.ac", "tests/automake.mk"]
    for name in names:
        (tmp_path / name).touch()
    ovs_build.keep_testsuites(tmp_path)
    made, listed, package, *inputs = [(tmp_path / name).stat().st_mtime_ns for name in names]
    assert max(inputs) <= package <= listed <= made


def test_cached_build_is_fast_and_linked(ovs_build: ModuleType, source: Path, tmp_path: Path) -> None:
    stock = ovs_build.Plan("stock", source, ())
    folder = tmp_path / "cache" / "ovs" / key(ovs_build, stock)
    folder.mkdir(parents=True)
    (folder / "build.json").write_text(json.dumps(stock.describe()))
    started = time.monotonic()
    done = built(tmp_path / "cache", "--series", "stock", "--source", str(source))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(folder)
    (link,) = (path for path in folder.parent.iterdir() if path.is_symlink())
    assert link.name.startswith("own-4.0.0-")  # never one of our own names
    assert link.resolve() == folder
    assert time.monotonic() - started < 5.0


def test_source_that_is_not_there(tmp_path: Path) -> None:
    done = built(tmp_path, "--source", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "nowhere" in done.stderr or "apt-get install" in done.stderr


def test_source_is_the_version_that_it_says_wherever_it_lies(
    ovs_build: ModuleType, source: Path, tmp_path: Path
) -> None:
    (source / "configure.ac").write_text("AC_INIT(openvswitch, 3.5.0, bugs@openvswitch.org)\n")
    own = str(source)
    assert ovs_build.make_plan("stock", own, tmp_path).name.startswith("own-3.5.0-")
    with pytest.raises(ovs_build.BuildError, match=r"3\.5\.0: our patches are for 4\.0\.0; --series stock"):
        ovs_build.make_plan("patched", own, tmp_path)
    (source / "configure.ac").write_text("AC_INIT(hello, 4.0.0)\n")
    with pytest.raises(ovs_build.BuildError, match="no source of Open vSwitch"):
        ovs_build.make_plan("stock", own, tmp_path)
    (source / "configure.ac").write_text("AC_INIT(openvswitch, 4.0.0, bugs@openvswitch.org)\n")
    tarball = tmp_path / "any-name.tar.gz"
    subprocess.run(["tar", "-czf", tarball, "-C", tmp_path, "source"], check=True)
    assert re.fullmatch(r"own-4\.0\.0-\w{8}-patched", ovs_build.make_plan("patched", str(tarball), tmp_path).name)


def git(folder: Path, *argv: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    return subprocess.run(["git", *who, "-C", folder, *argv], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(source: Path) -> Path:
    """Two commits, the first with a tag; what is compiled in it is ignored."""
    git(source, "init", "--quiet")
    (source / ".gitignore").write_text("*.o\n")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--message=one")
    git(source, "tag", "v4.0.0")
    (source / "lib.c").write_text("int x;\n")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--message=two")
    return source


def test_a_checkout_is_built_as_it_is_or_at_a_commit(ovs_build: ModuleType, checkout: Path, tmp_path: Path) -> None:
    def built_of(text: str) -> tuple[str, str]:
        made = ovs_build.make_plan("stock", text, tmp_path / "cache")
        return made.name, key(ovs_build, made)

    before = sorted((checkout / ".git").rglob("*"))
    head = git(checkout, "rev-parse", "--short=7", "HEAD")
    clean, first = built_of(str(checkout)), built_of(f"{checkout}@v4.0.0")
    assert clean == built_of(f"{checkout}@HEAD")
    assert (first[0], clean[0]) == ("own-v4.0.0", f"own-v4.0.0-1-g{head}")
    assert first[1] != clean[1]
    (checkout / "built.o").write_text("ignored")
    assert built_of(str(checkout)) == clean
    (checkout / "new.c").write_text("int y;\n")
    changed = built_of(str(checkout))
    assert re.fullmatch(rf"own-v4\.0\.0-1-g{head}-changed-\w{{7}}", changed[0])
    assert changed[1] not in (clean[1], first[1])
    assert built_of(f"{checkout}@HEAD") == clean
    assert sorted((checkout / ".git").rglob("*")) == before
    for wrong, words in (("@v9", "git knows no commit v9"), ("@--help", "git knows no commit --help")):
        with pytest.raises(ovs_build.BuildError, match=words):
            built_of(f"{checkout}{wrong}")


def test_what_is_compiled_is_the_commit(ovs_build: ModuleType, checkout: Path, tmp_path: Path) -> None:
    (checkout / "new.c").write_text("int y;\n")
    for text, names in (
        (f"{checkout}@v4.0.0", set()),
        (f"{checkout}@HEAD", {"lib.c"}),
        (str(checkout), {"lib.c", "new.c"}),
    ):
        plan = ovs_build.make_plan("stock", text, tmp_path / "cache")
        tree = tmp_path / plan.name
        ovs_build.unpack(plan.source, tree, tmp_path / "log")
        assert {path.name for path in tree.glob("*.c")} == names


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("gcc (Debian 14.2.0-19) 14.2.0", "-O2"),
        ("gcc (Debian 15.2.0-9) 15.2.0", "-O2 -std=gnu17"),
        ("Debian clang version 21.1.5", "-O2"),
    ],
)
def test_gcc_15_and_later_are_given_std_gnu17(
    compiler: str, flags: str, ovs_build: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_build, "compiler_version", lambda _: compiler)
    of = plan(ovs_build, source)
    assert (of.cflags, f"CFLAGS={flags}" in of.configure) == (flags, True)


@pytest.mark.parametrize(("here", "given"), [("25.11.1", True), ("22.11.11", False), ("", False)])
def test_dpdk_is_taken_only_of_its_release(
    here: str, given: bool, ovs_build: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_build, "dpdk_version", lambda: here)
    assert ("--with-dpdk=shared" in plan(ovs_build, source).configure) == given
    without = replace(plan(ovs_build, source), dpdk=False)
    assert "--with-dpdk=shared" not in without.configure
    assert without.name == f"{plan(ovs_build, source).name}-no-dpdk"


def test_without_a_source_it_is_the_pinned_one_or_a_line_that_says_why_not(
    ovs_build: ModuleType, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_mirror(_: object, _cache: Path) -> Path:
        raise ovs_build.SourceError("no mirror; give the source with --source PATH")

    monkeypatch.setattr(type(ovs_build.BASE), "unpacked", lambda _, cache: source)
    asked = ovs_build.make_plan("stock", None, tmp_path)
    assert (asked.source, asked.version, asked.name) == (source, "4.0.0", "unpatched")
    monkeypatch.setattr(type(ovs_build.BASE), "unpacked", no_mirror)
    with pytest.raises(ovs_build.BuildError, match="no mirror; give the source with --source PATH"):
        ovs_build.make_plan("patched", None, tmp_path)


def test_the_build_that_studies_name_is_the_one_that_is_made(ovs_build: ModuleType, source: Path) -> None:
    program, *argv = how_to_make(PATCHED).split()
    assert (program, ovs_build.parse(argv).series) == ("ovs/build", "patched")
    assert plan(ovs_build, source, *ovs_build.read_series()).name == PATCHED
    assert ovs_build.parse(how_to_make("unpatched").split()[1:]).series == "stock"
    assert ovs_build.Plan("stock", source, ()).name == "unpatched"


def test_only_the_patched_build_has_an_xdp_program_and_depends_on_its_compiler(
    ovs_build: ModuleType, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = ovs_build.Plan("stock", source, ())
    assert "--enable-xdp-offload" in plan(ovs_build, source).configure
    assert "--enable-xdp-offload" not in stock.configure
    before = [key(ovs_build, plan(ovs_build, source)), key(ovs_build, stock)]
    version = ovs_build.compiler_version
    monkeypatch.setattr(ovs_build, "compiler_version", lambda name: "clang 99" if name == "clang" else version(name))
    after = [key(ovs_build, plan(ovs_build, source)), key(ovs_build, stock)]
    assert (after[0] != before[0], after[1] == before[1]) == (True, True)
    (tmp_path / "new").mkdir()
    (tmp_path / "new/a.c").touch()
    monkeypatch.setattr(ovs_build, "FILES", tmp_path / "new")
    last = [key(ovs_build, plan(ovs_build, source)), key(ovs_build, stock)]
    assert (last[0] != after[0], last[1] == after[1]) == (True, True)


def test_autotools_run_only_for_what_they_read(ovs_build: ModuleType, tmp_path: Path) -> None:
    patch = tmp_path / "0001-a.patch"
    for changed, wanted in (("lib/automake.mk", True), ("acinclude.m4", True), ("configure.ac", True),
                            ("lib/netdev-afxdp.c", False), ("tests/system-afxdp.at", False)):  # fmt: skip
        patch.write_text(f"--- a/{changed}\n+++ b/{changed}\n@@ -1 +1 @@\n-a\n+b\n")
        assert ovs_build.changes_autotools(patch) is wanted, changed


CONFIGURE = """#!/bin/sh
echo "#define KNOWN 1" >config.h
echo "/* the same each time */" >same.h
"""
MAKEFILE = """all: $(PROGRAMS) a.o b.o
a.o b.o: %.o: %.c config.h same.h
	echo $* >>compiled; touch $@
$(PROGRAMS):
	mkdir -p $(@D); printf '#!/bin/sh\\necho version\\n' >$@; chmod +x $@
"""
PATCH = """--- a/b.c
+++ b/b.c
@@ -1 +1 @@
-old
+new
--- /dev/null
+++ b/automake.mk
@@ -0,0 +1 @@
+more
"""


@pytest.fixture
def small(ovs_build: ModuleType, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Source of two files, of which a patch for autotools changes the second; `compiled` names those compiled."""
    monkeypatch.setattr(ovs_build, "require_packages", lambda: None)
    (source / "configure").write_text(CONFIGURE)
    (source / "configure").chmod(0o755)
    (source / "Makefile").write_text(MAKEFILE)
    (source / "a.c").write_text("old\n")
    (source / "b.c").write_text("old\n")
    (source / "vswitchd").mkdir()
    (source / "vswitchd/vswitch.ovsschema").write_text("{}")
    (tmp_path / "0001-b.patch").write_text(PATCH)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "autoreconf").write_text("#!/bin/sh\n")
    (programs / "autoreconf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return source


def test_only_what_patches_change_is_compiled_again(
    ovs_build: ModuleType, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new/lib").mkdir(parents=True)
    (tmp_path / "new/lib/new.h").touch()
    monkeypatch.setattr(ovs_build, "FILES", tmp_path / "new")
    tree = ovs_build.Tree(tmp_path / "tree", tmp_path / "log")
    before = plan(ovs_build, small)
    tree.compile(before, "PROGRAMS=")
    assert sorted((tree.path / "compiled").read_text().split()) == ["a", "b"]
    assert (tree.path / "lib/new.h").exists()
    (tree.path / "compiled").unlink()
    tree.compile(replace(before, patches=(tmp_path / "0001-b.patch",)), "PROGRAMS=")
    assert (tree.path / "compiled").read_text().split() == ["b"]


def test_steps_come_out_of_one_tree_and_those_before_a_patch_that_does_not_fit_are_kept(
    ovs_build: ModuleType, small: Path, tmp_path: Path
) -> None:
    patch, another, cache = tmp_path / "0001-b.patch", tmp_path / "0002-c.patch", tmp_path / "cache"
    another.write_text(PATCH)
    with pytest.raises(ovs_build.BuildError, match="patch failed"):
        ovs_build.build(plan(ovs_build, small, patch, another), cache, steps=True)
    made = sorted(path for path in cache.iterdir() if path.is_symlink())
    assert [path.name for path in made] == ["patched-upto-0000", "patched-upto-0001"]
    reported = [json.loads((path / "build.json").read_text()) for path in made]
    assert [len(each["patches"]) for each in reported] == [0, 1]


def test_what_stood_alone_is_not_compiled_again_before_something_changed(
    ovs_build: ModuleType, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small / "Makefile").write_text(f"{ovs_build.ONLY_RESULT[0]}\n{MAKEFILE}")
    patch, cache = tmp_path / "0001-b.patch", tmp_path / "cache"
    wanted = replace(plan(ovs_build, small, patch), usdt=False)

    def compiled(since: str | None = None) -> int:
        ovs_build.build(wanted, cache, check_each=True, since=since)
        return capsys.readouterr().err.count("compiling 0001-b.patch")

    assert compiled(since="b") == 1
    assert compiled() == 1  # with `since` not all was shown
    assert compiled() == 0
    patch.write_text(PATCH.replace("+new", "+newer"))
    assert compiled() == 1
    shutil.rmtree(cache / ovs_build.cache_key(wanted.describe()))
    assert compiled() == 1  # what is wanted is a build, too


def test_what_is_there_is_given_while_another_builds_what_is_not(
    ovs_build: ModuleType, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, wanted = tmp_path / "cache", plan(ovs_build, small)
    lock = cache / f".{ovs_build.cache_key(wanted.describe())}.lock"
    folder = ovs_build.build(wanted, cache)
    with ovs_build.locked(lock):
        assert ovs_build.build(wanted, cache) == folder  # waits for nobody
        assert "waiting for another" not in capsys.readouterr().err
        shutil.rmtree(folder)
        held = threading.Thread(target=ovs_build.build, args=(wanted, cache))
        held.start()
        wait_for(lambda: "waiting for another build" in capsys.readouterr().err, "it says that it waits")
        assert not folder.exists()
    held.join(30)
    assert folder.exists()
