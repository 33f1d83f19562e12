# SPDX-License-Identifier: Apache-2.0
"""The user's own kernels for `xdplab cost`; in place of Linux's source there is a small tree (lab/linux.py)."""

import json
import subprocess
from pathlib import Path

import pytest
from lab.command import inline
from lab.linux import git, header, linux_tree

from xdplab.model import DoesNotCompile, InputError, Unsupported
from xdplab_cost import kernels
from xdplab_cost.lane import lane


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


def test_what_does_not_compile_says_the_compilers_first_error(tree: Path) -> None:
    (tree / "net/xdp/xsk.c").write_text("broken", encoding="ascii")
    with pytest.raises(DoesNotCompile, match=r"xsk.c:1:1: error: expected ';'; log: "):
        made(str(tree))


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


def test_a_package_is_unpacked(tmp_path: Path) -> None:
    root = tmp_path / "package"
    for folder in ("DEBIAN", "boot", "lib/modules/9.9.2/kernel"):
        (root / folder).mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: linux-image-9.9.2\nVersion: 1\nArchitecture: all\nMaintainer: t <t@t>\nDescription: t\n",
        encoding="ascii",
    )
    (root / "boot/vmlinuz-9.9.2").write_bytes(header("9.9.2"))
    (root / "lib/modules/9.9.2/kernel/veth.ko").write_bytes(b"\0depends=\0")
    package = tmp_path / "linux-image.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, package], check=True, capture_output=True)
    words, image, _ = made(str(package))
    assert words == {"package": "linux-image", "version": "9.9.2"}
    assert image == header("9.9.2")


def test_pinned_ones_come_first_and_each_once(tree: Path) -> None:
    assert kernels.chosen_kernels([str(tree), "7.2", "6.1", str(tree)]) == ["6.1", "7.2", str(tree)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("5.15", "it is one of 6.1, 6.12, 7.2, or an image"),
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
