# SPDX-License-Identifier: Apache-2.0
"""A study does not decide what is started as root: a program that it names must be allowed on the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
from lab import studies
from lab.command import Done
from robot.api import FatalError
from robot.libraries.BuiltIn import BuiltIn

from xdplab import app
from xdplab.forwarders.fake import Box, FakeForwarder
from xdplab.forwarders.ovs.builds import NAMES
from xdplab.model import InputError, NamesProgram, plugins
from xdplab.model.programs import named_programs
from xdplab.robot import XdplabLibrary
from xdplab.testers import make_tester

Cli = Callable[..., Done]


class _Options(Box):
    program: Annotated[str, NamesProgram()] = ""


class _Named(FakeForwarder):
    """One whose option names a program."""

    name = "named"
    options_model = _Options


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forwarder `named` is installed."""
    found = plugins.find
    monkeypatch.setattr(
        plugins, "find", lambda group, kind, name: _Named if name == "named" else found(group, kind, name)
    )


@pytest.mark.parametrize(
    "text",
    [
        "ovs-afxdp:build=/opt/ovs",
        "ovs-afpacket:build=/opt/ovs",
        "ovs-dpdk:build=/opt/ovs",
        "vpp-afxdp:vpp=/opt/ovs",
        "vpp-dpdk:vpp=/opt/ovs",
        "xdpsock:path=/opt/ovs",
    ],
)
def test_a_program_that_an_option_names_must_be_allowed(text: str) -> None:
    study = studies.study(testbed="embedded", tester="xdpgen", forwarders=[text])
    with pytest.raises(
        InputError, match=f"^forwarder {text.partition(':')[0]}: .*=/opt/ovs .*`--allow-program /opt/ovs`"
    ):
        app.prepare(study)
    with pytest.raises(InputError, match="--allow-program"):
        app.prepare(study, ["/opt", "/opt/ovs2", "/opt/ovs/ovs-vswitchd"])
    assert app.prepare(study, ["/usr/bin/vpp", "/opt/../opt/ovs/"]).plan.points


@pytest.mark.parametrize(
    "forwarder", ["ovs-afxdp:raw.other_config.dpdk-extra=-d/tmp/evil.so", "testpmd:raw.argument.a=b"]
)
def test_options_that_are_passed_on_must_be_allowed(forwarder: str) -> None:
    study = studies.study(testbed="embedded", tester="xdpgen", forwarders=[forwarder])
    with pytest.raises(InputError, match=r"raw\.\w+\.\S+ is passed on .*`--allow-program raw` allows"):
        app.prepare(study, ["/opt/raw"])
    assert app.prepare(study, ["raw"]).plan.points


def test_options_of_the_study_and_of_testers_are_no_way_around() -> None:
    by_options = studies.study(
        testbed="embedded", tester="xdpgen", forwarders=["xdp", "vpp-afxdp"], options={"vpp-afxdp": {"vpp": ["", "sh"]}}
    )
    with pytest.raises(InputError, match="vpp=sh would be started as root"):
        app.prepare(by_options)
    by_tester = studies.study(testbed="embedded", tester="trex:path=/opt/trex", forwarders=["xdp"])
    with pytest.raises(InputError, match=r"^tester trex: path=/opt/trex "):
        app.prepare(by_tester)
    assert app.prepare(by_tester, ["/opt/trex"]).testers


def test_our_builds_and_what_is_on_path_need_nothing() -> None:
    ovs = [f"ovs-afxdp:build={name}" for name in NAMES]
    study = studies.study(testbed="embedded", tester="trex", forwarders=[*ovs, "vpp-afxdp", "xdpsock", "ovs-dpdk"])
    assert len(app.prepare(study).plan.points) == len(ovs) + 3
    assert named_programs(make_tester("trex").options) == {}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("named")
def test_the_command_line_allows_it_in_a_dry_run_a_run_and_one_that_goes_on(
    cli: Cli, tmp_path: Path, results: Path
) -> None:
    path = studies.study_file(tmp_path, forwarders=["named:program=/opt/x", "named:program=/opt/y"])
    words = "forwarder named: program=/opt/x would be started as root"
    allow = ["--allow-program", "/opt/x", "--allow-program", "/opt/y"]
    for more in ([], ["--dry-run"]):
        cli("run", path, *more).refused(words, "`--allow-program /opt/x`")
        cli("run", path, *more, *allow[:2]).refused("program=/opt/y")
    assert not results.exists()
    assert "2 points" in cli("run", path, "--dry-run", *allow).out
    assert cli("run", path, *allow).code == 0
    cli("run", "--resume", "latest").refused(words)
    cli("run", "--resume", "latest", "--dry-run").refused(words)
    assert cli("run", "--resume", "latest", *allow).code == 0


@pytest.mark.usefixtures("named")
def test_robot_has_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"${OUTPUT DIR}": str(tmp_path)}
    monkeypatch.setattr(BuiltIn, "get_variable_value", lambda self, name, default=None: variables.get(name, default))
    monkeypatch.setattr(BuiltIn, "set_suite_metadata", lambda *_: None)
    path = studies.study_file(tmp_path, forwarders=["named:program=/opt/x", "named:program=/opt/y"])
    with pytest.raises(FatalError, match=r"started as root.*`-v ALLOW_PROGRAM:/opt/x`"):
        XdplabLibrary().run_study(str(path))
    variables["${ALLOW_PROGRAM}"] = "/opt/y /opt/x"
    ran = XdplabLibrary()
    ran.run_study(str(path))
    ran.every_forwarder_was_measured()
