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

from xdplab.forwarders.ovs.builds import OFFLOADING, how_to_make

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
    (folder / "configure.ac").write_text("AC_INIT(openvswitch, 3.1.0, bugs@openvswitch.org)\n")
    return folder


def plan(ovs_build: ModuleType, source: Path, *patches: Path, **changes: Any) -> Any:
    return ovs_build.Plan(ovs_build.BASES["3.1.0"], "patched", source, patches, changes.get("asan", False))


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


def test_missing_packages_are_reported_in_one_line(ovs_build: ModuleType, source: Path, tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/gcc").touch()
    with pytest.raises(ovs_build.BuildError) as error:
        ovs_build.require_packages(plan(ovs_build, source), root=tmp_path)
    reported = str(error.value)
    assert "\n" not in reported
    assert "apt-get install" in reported
    assert " libxdp-dev" in reported
    assert " gcc " not in reported


def test_series_has_every_patch_once(ovs_build: ModuleType) -> None:
    for folder in (ROOT / "ovs" / "patches").iterdir():
        listed = [path.name for path in ovs_build.read_series(folder.name)]
        assert sorted(listed) == sorted(path.name for path in folder.glob("*.patch"))


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
    whole = tuple(ovs_build.patches_of("3.1.0", "xdp"))
    asked = ovs_build.Plan(ovs_build.BASES["3.1.0"], "xdp", source, whole)
    steps = ovs_build.plans_on_the_way(asked, steps=True)
    assert [len(each.patches) for each in steps] == [*range(len(whole) + 1)]
    names = [each.name for each in steps]
    ours = len(ovs_build.read_series("3.1.0"))
    assert names[:2] == ["3.1.0-patched-upto-0000", "3.1.0-patched-upto-0001"]
    assert names[ours : ours + 2] == ["3.1.0-patched", "3.1.0-xdp-upto-0001"]
    assert names[-1] == "3.1.0-xdp"
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
    stock = ovs_build.Plan(ovs_build.BASES["3.1.0"], "stock", source, (), False)
    folder = tmp_path / "cache" / "ovs" / key(ovs_build, stock)
    folder.mkdir(parents=True)
    (folder / "build.json").write_text(json.dumps(stock.describe()))
    started = time.monotonic()
    done = built(tmp_path / "cache", "--series", "stock", "--source", str(source))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(folder)
    (link,) = (path for path in folder.parent.iterdir() if path.is_symlink())
    assert link.name.startswith("own-3.1.0-")  # never one of our own names
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
    assert ovs_build.make_plan(None, "stock", own, tmp_path).name.startswith("own-3.5.0-")
    with pytest.raises(ovs_build.BuildError, match=r"3\.5\.0: our patches are for 3\.1\.0 and 4\.0\.0; --series stock"):
        ovs_build.make_plan(None, "patched", own, tmp_path)
    with pytest.raises(ovs_build.BuildError, match=r"Open vSwitch 3\.5\.0, not 4\.0\.0; leave --base out"):
        ovs_build.make_plan("4.0.0", "stock", own, tmp_path)
    (source / "configure.ac").write_text("AC_INIT(hello, 3.1.0)\n")
    with pytest.raises(ovs_build.BuildError, match="no source of Open vSwitch"):
        ovs_build.make_plan(None, "stock", own, tmp_path)
    (source / "configure.ac").write_text("AC_INIT(openvswitch, 3.1.0, bugs@openvswitch.org)\n")
    tarball = tmp_path / "any-name.tar.gz"
    subprocess.run(["tar", "-czf", tarball, "-C", tmp_path, "source"], check=True)
    assert re.fullmatch(r"own-3\.1\.0-\w{8}-patched", ovs_build.make_plan(None, "patched", str(tarball), tmp_path).name)


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
    git(source, "tag", "v3.1.0")
    (source / "lib.c").write_text("int x;\n")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--message=two")
    return source


def test_a_checkout_is_built_as_it_is_or_at_a_commit(ovs_build: ModuleType, checkout: Path, tmp_path: Path) -> None:
    def built_of(text: str) -> tuple[str, str]:
        made = ovs_build.make_plan(None, "stock", text, tmp_path / "cache")
        return made.name, key(ovs_build, made)

    before = sorted((checkout / ".git").rglob("*"))
    head = git(checkout, "rev-parse", "--short=7", "HEAD")
    clean, first = built_of(str(checkout)), built_of(f"{checkout}@v3.1.0")
    assert clean == built_of(f"{checkout}@HEAD")
    assert (first[0], clean[0]) == ("own-v3.1.0", f"own-v3.1.0-1-g{head}")
    assert first[1] != clean[1]
    (checkout / "built.o").write_text("ignored")
    assert built_of(str(checkout)) == clean
    (checkout / "new.c").write_text("int y;\n")
    changed = built_of(str(checkout))
    assert re.fullmatch(rf"own-v3\.1\.0-1-g{head}-changed-\w{{7}}", changed[0])
    assert changed[1] not in (clean[1], first[1])
    assert built_of(f"{checkout}@HEAD") == clean
    assert sorted((checkout / ".git").rglob("*")) == before
    for wrong, words in (("@v9", "git knows no commit v9"), ("@--help", "git knows no commit --help")):
        with pytest.raises(ovs_build.BuildError, match=words):
            built_of(f"{checkout}{wrong}")


def test_what_is_compiled_is_the_commit(ovs_build: ModuleType, checkout: Path, tmp_path: Path) -> None:
    (checkout / "new.c").write_text("int y;\n")
    for text, names in (
        (f"{checkout}@v3.1.0", set()),
        (f"{checkout}@HEAD", {"lib.c"}),
        (str(checkout), {"lib.c", "new.c"}),
    ):
        plan = ovs_build.make_plan(None, "stock", text, tmp_path / "cache")
        tree = tmp_path / plan.name
        ovs_build.unpack(plan.source, tree, tmp_path / "log")
        assert {path.name for path in tree.glob("*.c")} == names


@pytest.mark.parametrize(
    ("compiler", "patched"), [("gcc (Debian 12.2.0-14) 12.2.0", 0), ("gcc (Debian 14.2.0-19) 14.2.0", 1)]
)
def test_a_compiler_that_is_younger_gets_its_patch(
    compiler: str, patched: int, ovs_build: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_build, "compiler_version", lambda _: compiler)
    of = plan(ovs_build, source)
    assert (len(of.portability), len(of.describe().get("portability", []))) == (patched, patched)


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


@pytest.mark.parametrize(("here", "given"), [("22.11.11", True), ("24.11.8", False), ("", False)])
def test_dpdk_is_taken_only_of_its_release(
    here: str, given: bool, ovs_build: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_build, "dpdk_version", lambda: here)
    assert ("--with-dpdk=shared" in plan(ovs_build, source).configure) == given
    without = replace(plan(ovs_build, source), dpdk=False)
    assert "--with-dpdk=shared" not in without.configure
    assert without.name == f"{plan(ovs_build, source).name}-no-dpdk"


def test_the_source_of_3_1_0_is_that_of_debian_12_on_another_release(
    ovs_build: ModuleType, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "configure.ac").write_text("AC_INIT(openvswitch, 3.5.0, bugs@openvswitch.org)\n")
    monkeypatch.setattr(ovs_build, "INSTALLED", source)
    fetched: list[Path] = []
    monkeypatch.setattr(type(ovs_build.OVS_3_1_0), "fetched", lambda _, cache: fetched.append(cache) or cache)
    assert ovs_build.make_plan(None, "stock", None, tmp_path).source == tmp_path
    assert fetched == [tmp_path]


def xdp_plan(ovs_build: ModuleType, source: Path, *patches: Path) -> Any:
    return ovs_build.Plan(ovs_build.BASES["4.0.0"], "xdp", source, patches, False)


@pytest.mark.parametrize("base", ["3.1.0", "4.0.0"])
def test_series_xdp_comes_on_top_of_ours(base: str, ovs_build: ModuleType) -> None:
    ours = ovs_build.patches_of(base, "patched")
    both = ovs_build.patches_of(base, "xdp")
    assert both[: len(ours)] == ours
    assert len(both) > len(ours)
    assert {path.parent.name for path in both[len(ours) :]} == {f"{base}-xdp"}
    assert ovs_build.patches_of(base, "stock") == []


def test_a_base_without_a_series_xdp_says_so(ovs_build: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ovs_build.BuildError, match=r"Open vSwitch 3\.1\.0-xdp: our patches are for 3\.1\.0") as error:
        ovs_build.patches_of("3.1.0", "xdp", tmp_path)
    assert "\n" not in str(error.value)


def test_the_build_that_offloads_is_one_of_those_that_can_be_made(ovs_build: ModuleType) -> None:
    program, *argv = how_to_make(OFFLOADING).split()
    options = ovs_build.parse(argv)
    assert program == "ovs/build"
    assert f"{options.base}-{options.series}" == OFFLOADING
    assert options.series == "xdp"
    assert ovs_build.patches_of(options.base, options.series)


def test_only_series_xdp_needs_clang_and_autotools(ovs_build: ModuleType, source: Path, tmp_path: Path) -> None:
    with pytest.raises(ovs_build.BuildError) as error:
        ovs_build.require_packages(xdp_plan(ovs_build, source), root=tmp_path)
    assert {"clang", "autoconf", "automake", "libtool"} <= set(str(error.value).split())
    with pytest.raises(ovs_build.BuildError) as error:
        ovs_build.require_packages(plan(ovs_build, source), root=tmp_path)
    assert not {"clang", "autoconf", "automake", "libtool"} & set(str(error.value).split())


def test_only_series_xdp_asks_configure_for_the_program(ovs_build: ModuleType, source: Path) -> None:
    assert "--enable-xdp-offload" in xdp_plan(ovs_build, source).configure
    assert "--enable-xdp-offload" not in plan(ovs_build, source).configure


def test_key_of_series_xdp_depends_on_clang(
    ovs_build: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [key(ovs_build, xdp_plan(ovs_build, source)), key(ovs_build, plan(ovs_build, source))]
    version = ovs_build.compiler_version
    monkeypatch.setattr(ovs_build, "compiler_version", lambda name: "clang 99" if name == "clang" else version(name))
    after = [key(ovs_build, xdp_plan(ovs_build, source)), key(ovs_build, plan(ovs_build, source))]
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_autotools_run_only_for_what_they_read(ovs_build: ModuleType, tmp_path: Path) -> None:
    patch = tmp_path / "0001-a.patch"
    for changed, wanted in (("lib/automake.mk", True), ("acinclude.m4", True), ("configure.ac", True),
                            ("lib/netdev-afxdp.c", False), ("tests/system-afxdp.at", False)):  # fmt: skip
        patch.write_text(f"--- a/{changed}\n+++ b/{changed}\n@@ -1 +1 @@\n-a\n+b\n")
        assert ovs_build.changes_autotools(patch) is wanted, changed
    assert not any(ovs_build.changes_autotools(path) for path in ovs_build.patches_of("4.0.0", "patched"))


CONFIGURE = """#!/bin/sh
echo "#define KNOWN 1" >config.h
case "$*" in *--enable-xdp-offload*) echo "#define HAVE_XDP 1" >>config.h; esac
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
    monkeypatch.setattr(ovs_build, "require_packages", lambda _plan: None)
    monkeypatch.setattr(ovs_build, "gcc_release", lambda _: 12)  # a younger one has a patch for files that are not here
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


@pytest.mark.parametrize(("first", "again"), [("old", ["b"]), ("HAVE_XDP", ["a", "b"])])
def test_only_what_patches_change_is_compiled_again(
    first: str, again: list[str], ovs_build: ModuleType, small: Path, tmp_path: Path
) -> None:
    (small / "a.c").write_text(f"{first}\n")
    tree = ovs_build.Tree(tmp_path / "tree", tmp_path / "log")
    before = plan(ovs_build, small)
    tree.compile(before, "PROGRAMS=")
    assert sorted((tree.path / "compiled").read_text().split()) == ["a", "b"]
    (tree.path / "compiled").unlink()
    after = replace(before, series="xdp", patches=(tmp_path / "0001-b.patch",))
    tree.compile(after, "PROGRAMS=")
    assert sorted((tree.path / "compiled").read_text().split()) == again


@pytest.mark.parametrize("fails", [False, True])
def test_one_tree_builds_ours_and_then_series_xdp(
    fails: bool, ovs_build: ModuleType, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = tmp_path / "0001-b.patch"
    if fails:
        patch.write_text(PATCH.replace("-old", "-another"))
    monkeypatch.setattr(ovs_build, "patches_of", lambda _version, series: [patch] if series == "xdp" else [])
    cache = tmp_path / "cache"
    wanted = ovs_build.Plan(ovs_build.BASES["3.1.0"], "xdp", small, (patch,))
    if fails:
        with pytest.raises(ovs_build.BuildError, match="patch failed"):
            ovs_build.build(wanted, cache)
    else:
        assert ovs_build.build(wanted, cache) == (cache / "3.1.0-xdp").resolve()
    made = [name for name in ("3.1.0-patched", "3.1.0-xdp") if (cache / name).exists()]
    assert made == ["3.1.0-patched", "3.1.0-xdp"][: 1 if fails else 2]
    for name in made:
        reported = json.loads((cache / name / "build.json").read_text())
        assert (reported["series"], len(reported["patches"])) == (name[6:], 1 if name == "3.1.0-xdp" else 0)
        assert ("--enable-xdp-offload" in reported["configure"]) is (name == "3.1.0-xdp")


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
