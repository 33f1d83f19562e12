# SPDX-License-Identifier: Apache-2.0
"""What the guest of `make nic-test` is made of: archives, modules, packages, cache."""

import lzma
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from lab.cpio import members

from nic import artefact as artefacts, lane
from nic.archive import Entry, cpio, depends, folder, link, modules_archive, modules_in_order, program
from nic.artefact import EMULATOR, Artefact, Pin, cache_key, obtain, read_pins
from nic.errors import MissingPart
from nic.kernels import KERNELS

NONCE = "0123456789abcdef"


names = st.text("abcxyz./-_", min_size=1, max_size=30).filter(lambda name: name != "TRAILER!!!")


@given(st.lists(st.tuples(names, st.binary(max_size=40)), unique_by=lambda entry: entry[0]))
def test_an_archive_holds_what_was_put_in(entries: list[tuple[str, bytes]]) -> None:
    packed = cpio(Entry(name, content) for name, content in entries)
    assert {name: content for name, (_, content) in members(packed).items()} == dict(entries)
    assert len(packed) % 4 == 0  # so that another may follow


def test_kinds_of_entries_keep_their_modes() -> None:
    found = members(cpio([folder("d"), link("l", "usr/l"), program("p", b"x"), Entry("f")]))
    assert {name: oct(mode) for name, (mode, _) in found.items()} == {
        "d": "0o40755", "l": "0o120777", "p": "0o100755", "f": "0o100644",
    }  # fmt: skip
    assert found["l"][1] == b"usr/l"


def kernel_modules(tree: Path, suffix: str = ".ko.xz", **needs: str) -> None:
    for name, needed in needs.items():
        path = tree / f"kernel/{name.replace('_', '-')}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = f"ELF\0license=GPL\0depends={needed}\0name={name}\0".encode()
        path.write_bytes(lzma.compress(content) if suffix == ".ko.xz" else content)


@pytest.mark.parametrize("suffix", [".ko.xz", ".ko"], ids=["Debian 13", "Debian 12"])
def test_modules_come_after_what_they_need(tmp_path: Path, suffix: str) -> None:
    needs = {"igb": "dca,i2c-algo-bit", "i2c_algo_bit": "", "dca": "", "virtio_net": "net_failover", "unused": ""}
    kernel_modules(tmp_path, suffix, **needs)
    found = modules_in_order(tmp_path, ["igb", "virtio_net"])  # net_failover is built in
    assert list(found) == ["dca", "i2c_algo_bit", "igb", "virtio_net"]
    assert b"name=igb" in found["igb"]
    assert depends(found["igb"]) == ["dca", "i2c_algo_bit"]
    packed = members(modules_archive(found))
    loaded = sorted(name for name in packed if name.startswith("modules/"))
    assert loaded == [
        "modules/00-dca.ko",
        "modules/01-i2c_algo_bit.ko",
        "modules/02-igb.ko",
        "modules/03-virtio_net.ko",
    ]


def test_a_kernel_without_the_driver_is_reported(tmp_path: Path) -> None:
    kernel_modules(tmp_path, virtio_net="")
    with pytest.raises(MissingPart, match="has no module igb"):
        modules_in_order(tmp_path, ["virtio_net", "igb"])


# packages and cache


def test_pins_are_read_and_name_no_host(tmp_path: Path) -> None:
    pins = read_pins()
    assert {pin.part for pin in pins} == {EMULATOR, *KERNELS}
    assert {pin.package.split("-")[0] for pin in pins if pin.part == EMULATOR} == {"qemu", "busybox"}
    assert all(pin.package.startswith("linux-") for pin in pins if pin.part != EMULATOR)
    assert "://" not in artefacts.PINS.read_text(encoding="ascii")
    bad = tmp_path / "packages.txt"
    bad.write_text("emulator qemu 1.0\n")
    with pytest.raises(MissingPart, match=r"'emulator qemu 1.0' is not a part, a package, a version and a suite"):
        read_pins(bad)


def test_the_cache_key_depends_on_packages_versions_suites_and_modules_but_not_on_their_order() -> None:
    one, two = Pin("emulator", "qemu", "1", "trixie"), Pin("6.1", "linux", "2", "sid")
    keys = [
        cache_key([one, two]),
        cache_key([one]),
        cache_key([Pin("emulator", "qemu", "3", "trixie"), two]),
        cache_key([Pin("emulator", "qemu", "1", "sid"), two]),
        cache_key([one, two], ["igb"]),
    ]
    assert len(set(keys)) == len(keys)
    assert cache_key([two, one]) == keys[0]


FAKE_APT = """#!/bin/sh
echo "$0 $@" >>{log}
case "$*" in
*indextargets*) echo 'Debian|Debian|mirror:/debian/' ;;
*madison*qemu*) echo 'qemu-system-x86 | 1.0 | mirror:/debian trixie/main amd64 Packages' ;;
*madison*) ;;
*pkgnames*) printf 'linux-binary-7.3.4+deb13-amd64\\nlinux-binary-7.3.4+deb13-cloud-amd64\\n' ;;
esac
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """apt-get and apt-cache that offer QEMU 1.0 and another kernel."""
    (tmp_path / "bin").mkdir()
    for name in ("apt-get", "apt-cache"):
        (tmp_path / "bin" / name).write_text(FAKE_APT.format(log=tmp_path / "apt.log"))
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "keyring.gpg").touch()
    monkeypatch.setattr("private_apt.KEYRING", tmp_path / "keyring.gpg")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "apt.log"


def test_a_version_that_debian_no_longer_has_is_named_with_what_there_is(apt: Path, tmp_path: Path) -> None:
    pins = [
        Pin(EMULATOR, "qemu-system-x86", "1.0", "trixie"),
        Pin("7.2", "linux-binary-7.2.12+deb13-amd64", "7.2.12-1", "sid"),
    ]
    made(tmp_path, pins[:1])
    with pytest.raises(MissingPart) as error:
        obtain(tmp_path / "cache/nic", pins, "7.2", ["igb"], lambda text: None)
    said = str(error.value)
    assert said.startswith("linux-binary-7.2.12+deb13-amd64 7.2.12-1 is not in Debian sid (any more); there is ")
    assert "linux-binary-7.3.4+deb13-amd64" in said
    assert "cloud" not in said
    assert "packages.txt" in said
    assert "\n" not in said
    assert [path.name for path in (tmp_path / "cache/nic").iterdir() if not path.name.startswith(".")] == [
        cache_key(pins[:1])
    ]


def made(tmp_path: Path, pins: list[Pin], modules: tuple[str, ...] = ()) -> Path:
    """A folder of the cache that is complete."""
    folder = tmp_path / "cache/nic" / cache_key(pins, modules)
    folder.mkdir(parents=True)
    (folder / "packages.json").write_text("{}")
    return folder


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_cache_is_used_without_asking_apt(apt: Path, tmp_path: Path, kernel: str) -> None:
    """Kernels share the emulator, and one kernel's folder is not the other's."""
    pins, modules = read_pins(), KERNELS[kernel].modules
    emulator = made(tmp_path, [pin for pin in pins if pin.part == EMULATOR])
    booted = made(tmp_path, [pin for pin in pins if pin.part == kernel], modules)
    assert obtain(tmp_path / "cache/nic", pins, kernel, modules, lambda text: None) == Artefact(emulator, booted)
    assert not apt.exists()


@pytest.mark.parametrize(
    "layout", [("boot/vmlinuz-6.1.0-50-amd64", "lib/modules/6.1.0-50-amd64", ".ko"),
               ("usr/lib/modules/7.2.12/vmlinuz", "usr/lib/modules/7.2.12", ".ko.xz")], ids=["Debian 12", "later"]
)  # fmt: skip
def test_image_and_modules_are_found_where_a_release_of_debian_has_them(
    tmp_path: Path, layout: tuple[str, str, str]
) -> None:
    image, tree, suffix = layout
    kernel_modules(tmp_path / "unpacked" / tree, suffix, veth="", unused="")
    (tmp_path / "unpacked" / image).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "unpacked" / image).write_bytes(b"image")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    artefacts._keep_kernel(tmp_path / "unpacked", fresh, ["veth"])
    found = Artefact(tmp_path, fresh)
    assert found.image.read_bytes() == b"image"
    assert list(members(found.modules.read_bytes())) == ["modules", "modules/00-veth.ko"]


def test_without_apt_the_lane_ends_with_2_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDPLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(lane, "_fresh_folder", lambda kernel: tmp_path)
    monkeypatch.setattr(lane, "bpf_program", lambda name: Path("/bin/true"))
    assert lane.main([]) == 2
    line, *others = capsys.readouterr().err.splitlines()
    assert others == [line] * (len(KERNELS) - 1)  # of the other kernels: the emulator is missing for all
    assert line.startswith("nic-test: qemu-system-x86, busybox-static of Debian: ")
    assert "apt" in line


# command line
