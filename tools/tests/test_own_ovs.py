# SPDX-License-Identifier: Apache-2.0
"""`build=` of the user's own: source, an installed prefix, a folder of programs; what is compiled when."""

from pathlib import Path

import pytest

from xdplab.forwarders import make_forwarder
from xdplab.forwarders.ovs.builds import find_build, is_source, make, missing
from xdplab.hosts import LocalHost
from xdplab.model import ForwarderSpec, InputError

HOST = LocalHost()
INSTALLED = (
    "sbin/ovs-vswitchd",
    "sbin/ovsdb-server",
    "bin/ovsdb-tool",
    "bin/ovs-vsctl",
    "bin/ovs-ofctl",
    "share/openvswitch/vswitch.ovsschema",
)
FLAT = tuple(Path(path).name for path in INSTALLED)


@pytest.mark.parametrize("layout", [FLAT, INSTALLED])
def test_a_folder_of_programs_or_a_prefix(
    layout: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    for name in layout:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_build(f"./{tmp_path.name}", "/stock", HOST)
    assert set(found.programs) == {str(tmp_path / name) for name in layout}
    assert missing(HOST, found, "") is None
    (tmp_path / layout[-1]).unlink()
    missing.cache_clear()
    with pytest.raises(InputError, match=rf"local has no {tmp_path / layout[-1]}; `ovs/build` makes such a folder"):
        missing(HOST, found, "")


def test_a_name_that_is_neither_ours_nor_a_path() -> None:
    with pytest.raises(InputError, match=r"or a path is expected \(\./NAME for one in this folder\)"):
        make_forwarder(ForwarderSpec.model_validate("ovs-afxdp:build=ovs"))


def test_source_is_compiled_by_a_run_and_not_by_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = tmp_path / "ovs", tmp_path / "cache"
    source.mkdir()
    (source / "configure.ac").write_text("AC_INIT(openvswitch, 3.5.0, bugs@openvswitch.org)\n", encoding="utf-8")
    monkeypatch.setenv("XDPLAB_CACHE", str(cache))
    assert [is_source(str(source)), is_source(f"{source}@main"), is_source(str(tmp_path))] == [True, True, False]
    found = find_build(str(source), "/stock", HOST)
    reason = str(missing(HOST, found, ""))
    assert f"not compiled yet; a run does that first, or `ovs/build --series stock --source {source}`" in reason
    assert found.folder is not None
    assert not Path(found.folder).exists()
    notes: list[str] = []
    with pytest.raises(InputError, match=rf"^build={source}: "):  # there is nothing to compile in it
        make(str(source), notes.append)
    assert any("building Open vSwitch own-3.5.0" in note for note in notes)
    notes.clear()
    Path(found.folder).mkdir(parents=True, exist_ok=True)
    (Path(found.folder) / "build.json").touch()
    make(str(source), notes.append)
    assert notes == []


def test_a_commit_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "configure.ac").write_text("AC_INIT(openvswitch, 3.5.0, x)\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"^build=.*@gone: .*no git checkout, so it has no gone$"):
        make(f"{tmp_path}@gone", print)
