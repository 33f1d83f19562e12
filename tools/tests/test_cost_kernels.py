# SPDX-License-Identifier: Apache-2.0
"""The user's own kernels for `xdplab cost`; in place of Linux's source there is a small tree (lab/linux.py)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lab.command import inline, wait_for
from lab.linux import git, header, linux_tree

from xdplab.model import DoesNotCompile, InputError, Unsupported
from xdplab_cost import debian, kernels
from xdplab_cost.lane import lane

lane()
from private_apt import AptError  # noqa: E402 - of ci, whose folder is on the path from now on


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_TOOLS", ("make",))  # all that the tree that stands for Linux needs
    lane()
    return tmp_path / "cache"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return linux_tree(tmp_path)


def made(name: str) -> tuple[dict[str, str], bytes, list[str]]:
    """What it is said to be, its image, and what was said meanwhile."""
    said: list[str] = []
    folder = kernels._made(name, said.append)
    (words,) = json.loads((folder / "packages.json").read_text(encoding="utf-8"))["pins"]
    return words, (folder / "vmlinuz").read_bytes(), said


def test_a_source_tree_is_built_as_it_is_and_as_its_commits_are(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    (tree / "net/xdp/xsk.c").write_text("two", encoding="ascii")
    changed, image, said = made(str(tree))
    assert changed["package"] == f"linux 9.9.0 of commit {head[:12]} with changes"
    assert image.endswith(b"two")
    assert any("does not have CONFIG_BRIDGE" in line for line in said)
    committed, image, _ = made(f"{tree}@HEAD")
    assert committed["package"] == f"linux 9.9.0 of commit {head[:12]}"
    assert image.endswith(b"one")
    assert committed["version"] == changed["version"]  # one configuration
    assert committed["version"].startswith("config ")
    assert (tree / "net/xdp/xsk.c").read_text(encoding="ascii") == "two"


def test_a_later_commit_of_a_shallow_tree_is_fetched(tree: Path, tmp_path: Path) -> None:
    """A clone of a shallow tree does not have its objects."""
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{tree}", shallow], check=True)
    assert made(f"{shallow}@HEAD")[1].endswith(b"one")
    (shallow / "net/xdp/xsk.c").write_text("two", encoding="ascii")
    git(shallow, "commit", "-q", "-a", "-m", "two")
    assert made(f"{shallow}@HEAD")[1].endswith(b"two")


def test_what_does_not_compile_says_the_compilers_first_error(tree: Path) -> None:
    (tree / "net/xdp/xsk.c").write_text("broken", encoding="ascii")
    with pytest.raises(DoesNotCompile, match=r"xsk.c:1:1: error: expected ';'; log: "):
        made(str(tree))


def test_a_tree_that_was_built_in_is_not_taken_for_what_does_not_compile(tree: Path) -> None:
    (tree / "net/xdp/xsk.c").write_text("unclean", encoding="ascii")
    with pytest.raises(DoesNotCompile, match=r"linux: it was built in; `make mrproper` there, or name a commit"):
        made(str(tree))


def test_a_build_ends_with_its_starter(tree: Path) -> None:
    (tree / "net/xdp/xsk.c").write_text("slow", encoding="ascii")
    code = "import sys; from xdplab_cost import kernels, lane; lane.lane(); kernels._TOOLS = ('make',); "
    code += "kernels._made(sys.argv[1], print)"
    building = subprocess.Popen([sys.executable, "-c", code, str(tree)], stdout=subprocess.DEVNULL)
    wait_for(lambda: _runs("sleep 61.257"), "the build")
    building.kill()
    building.wait()
    wait_for(lambda: not _runs("sleep 61.257"), "its end")


def _runs(command: str) -> bool:
    return subprocess.run(["pgrep", "-fx", command], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_a_compiler_that_is_missing_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_TOOLS", ("make", "no-such-flex"))
    with pytest.raises(Unsupported, match=r"no-such-flex, not installed; `apt-get install"):
        made(str(tree))


def test_an_image_has_its_modules_beside_it_or_named(tmp_path: Path) -> None:
    image, modules = tmp_path / "bzImage", tmp_path / "modules"
    image.write_bytes(header("9.9.1"))
    modules.mkdir()
    (modules / "veth.ko.gz").write_bytes(
        subprocess.run(["gzip"], input=b"\0depends=\0", capture_output=True, check=True).stdout
    )
    assert made(f"{image}:{modules}")[0]["package"] == "linux 9.9.1"
    with pytest.raises(InputError, match=r"Linux 9.9.1 are not in /lib/modules/9.9.1; name their folder"):
        kernels.chosen_kernels([str(image)])


def package(folder: Path, name: str, *, image: bool, modules: bool) -> Path:
    """A Debian package of Linux 9.9.2, or a part of it."""
    root = folder / f"{name}.root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: t <t@t>\nDescription: t\n", encoding="ascii"
    )
    if image:
        (root / "boot").mkdir()
        (root / "boot/vmlinuz-9.9.2").write_bytes(header("9.9.2"))
    if modules:
        (root / "lib/modules/9.9.2/kernel").mkdir(parents=True)
        (root / "lib/modules/9.9.2/kernel/veth.ko").write_bytes(b"\0depends=\0")
    made_of = folder / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, made_of], check=True, capture_output=True)
    return made_of


def test_a_package_is_unpacked(tmp_path: Path) -> None:
    words, image, _ = made(str(package(tmp_path, "linux-image", image=True, modules=True)))
    assert words == {"package": "linux-image", "version": "9.9.2"}
    assert image == header("9.9.2")


class Apt:
    """apt with some packages, in the words of apt 2.6 (recorded on Debian 12)."""

    def __init__(self, work: Path, packages: dict[str, str]) -> None:
        self.work, self.packages, self.gone = work, packages, {""}
        work.mkdir()

    def run(self, program: str, *arguments: str) -> str:
        if program == "apt-get":
            assert arguments[0] == "download"
            name = arguments[1]
            if name in self.gone:
                raise AptError(f"E: Can't find a source to download version '1' of '{name}:amd64'")
            whole = not any("binary" in each for each in self.packages.values())
            package(self.work, name, image="binary" in name or whole, modules="modules" in name or whole)
            return ""
        if arguments[0] == "show":
            return "".join(f"Package: {each}\nDepends: {self.packages[each]}\n\n" for each in arguments[1:])
        wanted = re.compile(arguments[-1])
        return "".join(f"{name} - Linux for 64-bit PCs\n" for name in self.packages if wanted.search(name))


@pytest.fixture
def apts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Apt, Apt]:
    own = [
        *(f"linux-image-6.1.0-{abi}{kind}-amd64" for abi in (9, 55) for kind in ("", "-cloud", "-rt")),
        "linux-image-amd64",
    ]
    other = ", ".join(f"linux-{part}-7.2.11+deb13-amd64 (= 7.2.11-1)" for part in ("base", "binary", "modules"))
    suites = {
        "linux-image-6.12.90+deb12.1-amd64": "", "linux-image-6.12.101+deb12-amd64": "",
        "linux-image-7.2.11+deb13-amd64": other, "linux-image-6.1.0-9-amd64-unsigned": "",
        "linux-binary-7.2.11+deb13-amd64": "", "linux-modules-7.2.11+deb13-amd64": "",
        "linux-image-7.1.3+deb13-amd64": other.replace("7.2.11", "7.1.3"), "linux-binary-7.1.3+deb13-amd64": "",
    }  # fmt: skip
    both = Apt(tmp_path / "own", dict.fromkeys(own, "")), Apt(tmp_path / "suites", suites)
    monkeypatch.setattr(debian, "_apt", dict(zip(("own", "suites"), both, strict=True)).__getitem__)
    return both


def test_kernels_of_debian_by_their_age(apts: tuple[Apt, Apt]) -> None:
    all_of_them = ["6.1.0-9", "6.1.0-55", "6.12.90+deb12.1", "6.12.101+deb12", "7.2.11+deb13"]
    assert kernels.chosen_kernels(["debian"]) == all_of_them
    assert kernels.chosen_kernels(["debian:6.1", "7.2", "6.1.0-55"]) == ["6.1.0-9", "6.1.0-55", "7.2"]


def test_a_gate_has_one_kernel_a_side(apts: tuple[Apt, Apt], capsys: pytest.CaptureFixture[str]) -> None:
    inline(capsys, "gate", "xdp", "xsk", "--cost", "--kernel", "debian:6.1").refused("--kernel debian:6.1: a series")


def test_a_kernel_of_debian_is_fetched_once_with_its_parts(apts: tuple[Apt, Apt]) -> None:
    words, image, said = made("7.2.11+deb13")
    assert words == {"package": "linux-image-7.2.11+deb13-amd64", "version": "9.9.2"}
    assert image == header("9.9.2")
    assert said == ["fetching Debian's kernel 7.2.11+deb13; some 100 MB, once"]
    assert made("7.2.11+deb13") == (words, image, [])


def test_a_kernel_that_is_only_installed_here_is_fetched_elsewhere(apts: tuple[Apt, Apt]) -> None:
    own, suites = apts
    name = "linux-image-7.2.11+deb13-amd64"
    own.packages[name], own.gone = "", {name}
    assert made("7.2.11+deb13")[0]["package"] == name
    assert not list(suites.work.glob("*.deb"))


def test_what_was_fetched_of_a_kernel_that_is_not_whole_is_in_no_other(apts: tuple[Apt, Apt]) -> None:
    own, suites = apts
    suites.gone = {"linux-modules-7.1.3+deb13-amd64"}
    with pytest.raises(Unsupported, match=r"no kernel 7.1.3\+deb13 \(any more\): E: Can't find a source"):
        made("7.1.3+deb13")
    assert not [*own.work.glob("*.deb"), *suites.work.glob("*.deb")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("debian:5", "--kernel debian:5: Debian has none; there are 6.1.0-9, 6.1.0-55, "),
        ("6.1.0-54", "Debian has no kernel 6.1.0-54 (any more); `--kernel debian` takes all that can be had"),
    ],
)
def test_a_kernel_that_debian_does_not_have(
    apts: tuple[Apt, Apt], name: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nic.artefact.obtain_emulator", lambda *_: Path())
    inline(capsys, "cost", "xdp", "--kernel", name).refused(said)


def test_pinned_ones_come_first_and_each_once(tree: Path) -> None:
    assert kernels.chosen_kernels([str(tree), "7.2", "6.1", str(tree)]) == ["6.1", "7.2", str(tree)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("5.15", "it is one of 6.1, 6.12, 7.2, or a release"),
        ("{here}", "is no source tree of Linux"),
        ("{here}/linux@nothing", "no such commit"),
        ("{here}/linux/Makefile", "is no kernel image"),
        ("{here}/none.deb", "there is no file"),
    ],
)
def test_what_is_no_kernel_is_refused_in_a_line(
    name: str, said: str, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inline(capsys, "cost", "xdp", "--kernel", name.format(here=tmp_path)).refused(said)
