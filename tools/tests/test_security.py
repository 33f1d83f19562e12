# SPDX-License-Identifier: Apache-2.0
"""docs/security.md names the test that keeps each promise; and those promises that no other test keeps."""

import ast
import asyncio
import re
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest

from xdplab.hosts import ssh_link
from xdplab.hosts.ssh_link import deploy
from xdplab.model import HostSpec, InputError
from xdplab.runner import session
from xdplab.tools import project_root

PAGE = (project_root() / "docs" / "security.md").read_text(encoding="utf-8")
TESTS = Path(__file__).parent


def test_each_test_that_the_page_names_is_there() -> None:
    there = {
        node.name
        for path in TESTS.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 50
    assert named - there == set()


def test_each_threat_has_a_test_or_says_that_there_is_none() -> None:
    threats = PAGE.partition("## Threats")[2].partition("\n## ")[0].split("\n\n")
    bare = [each.split("**")[1] for each in threats if each.startswith("**") and "[`test_" not in each]
    assert bare == ["A controller that dies, or a cable that is pulled."]


def test_a_connection_takes_known_keys_only_and_nothing_of_the_users_ssh_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    async def connect(*_: Any, **given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(abort=lambda: None)

    monkeypatch.setattr(asyncssh, "connect", connect)
    (known := tmp_path / "known_hosts").write_text("")
    given = {"address": "192.0.2.1", "known_hosts": str(known)}
    for _ in range(2):
        asyncio.run(ssh_link.connect(HostSpec.model_validate({**given, "jump": given}), "dut"))
    assert len(asked) == 4
    for each in asked:
        assert (each["known_hosts"], each["config"], each["preferred_auth"]) == (str(known), None, "publickey")
        assert not [name for name in each if re.search("password|forward|x11|command|passphrase", name)]


@pytest.mark.parametrize(
    ("kind", "uid", "mode"), [(stat.S_IFLNK, 7, 0o700), (stat.S_IFDIR, 8, 0o700), (stat.S_IFDIR, 7, 0o720)]
)
def test_programs_are_put_where_others_cannot_write(kind: int, uid: int, mode: int) -> None:
    class Sftp:
        """A folder that is there already."""

        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: Any) -> None: ...

        async def makedirs(self, *_: Any, **__: Any) -> None: ...

        async def lstat(self, path: str) -> Any:
            return asyncssh.SFTPAttrs(permissions=kind | mode, uid=uid)

        async def stat(self, path: str) -> Any:
            return asyncssh.SFTPAttrs(uid=7)

    connection: Any = SimpleNamespace(start_sftp_client=Sftp)
    with pytest.raises(InputError, match="can be written by others, or is no folder"):
        asyncio.run(deploy(connection, HostSpec(address="192.0.2.1"), "dut", "agent.pyz", b""))


@pytest.mark.parametrize(("lasting", "removed"), [(True, ["br-ours"]), (False, ["br-ours", "eth9"])])
def test_links_of_others_are_not_removed(lasting: bool, removed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a namespace that the run made, everything that came goes."""
    there = {"eth0", "br-ours", "br-also", "eth9"}
    monkeypatch.setattr(session, "link_names", lambda host: frozenset(there))
    host = SimpleNamespace(run=lambda argv: there.remove(argv[-1]))
    run: Any = SimpleNamespace(
        _links_before=frozenset({"eth0", "br-also"}),
        _testbed=SimpleNamespace(dut=host, lock=SimpleNamespace(remember=lambda **_: None)),
        _middle=SimpleNamespace(lasting=lasting),
        _forwarder=SimpleNamespace(own_links=("br-ours", "br-also")),
        _dut=SimpleNamespace(ports=()),
    )
    session.PointSession._remove_links(run)
    assert there == {"eth0", "br-ours", "br-also", "eth9"} - {*removed}
