# SPDX-License-Identifier: Apache-2.0
"""Which way frames go where a study does not say, who may ask for another, and what a report says of the place."""

import subprocess
from pathlib import Path as FilePath
from typing import Any

import pytest
from lab import studies
from lab.command import BIN, environment
from lab.reading import render
from lab.records import environment as machine, point, run_record, trial
from robot.api import TestSuite as Suite
from test_robot_suite import SUITES, robot

from xdplab import app, tools
from xdplab.model import InputError, Path, Pipeline, RunRecord, TestbedSpec
from xdplab.report.page import Place
from xdplab.runner import make_plan
from xdplab.runner.ports import ports_of, tester_ports_of
from xdplab.testbed import HostsTestbed, Port
from xdplab.testbed.load import load_yaml
from xdplab.testers import make_tester

TWO = load_yaml(tools.testbeds_folder() / "lab-example.yaml")


def lab(*, three: bool = False, **changes: Any) -> TestbedSpec:
    """The shipped lab of two machines; `three`: its c0 on a machine of its own."""
    hosts, ports = dict(TWO["hosts"]), {role: dict(port) for role, port in TWO["ports"].items()}
    if three:
        hosts["far"] = {**hosts["tester"], "address": "192.0.2.30"}
        ports["c0"]["host"] = "far"
    return TestbedSpec.model_validate({**TWO, "hosts": hosts, "ports": ports, **changes})


def one_cable(**changes: Any) -> TestbedSpec:
    """The tester's a0 and the forwarder's b0."""
    return lab(ports={role: TWO["ports"][role] for role in ("a0", "b0")}, **changes)


@pytest.mark.parametrize(
    ("testbed", "path"),
    [
        (one_cable(), Path.HAIRPIN),
        (studies.a_testbed("embedded"), Path.THROUGH),
        (lab(), Path.THROUGH),
        (lab(one_way=False), Path.REFLECT),
        (lab(three=True), Path.REFLECT),
    ],
)
def test_a_study_without_a_path_takes_the_one_of_its_testbed(testbed: TestbedSpec, path: Path) -> None:
    study = studies.study(forwarders=["xdp"], tester="xdpgen")
    assert study.path == ()
    assert {each.path for each in make_plan(study, testbed, make_tester("xdpgen")).points} == {path}
    named = study.model_copy(update={"path": (Path.HAIRPIN,)})
    assert {each.path for each in make_plan(named, testbed, make_tester("xdpgen")).points} == {Path.HAIRPIN}


def test_one_cable_is_enough_for_hairpin_alone() -> None:
    testbed = HostsTestbed(one_cable())
    for role in ("a0", "b0"):
        testbed.ports[role] = Port(role, testbed.dut, role, role, 1500, lasting=True)
    assert testbed.clock == (True, "A has the only port of the tester")
    point = make_plan(studies.study(forwarders=["xdp"], tester="xdpgen"), one_cable(), make_tester("xdpgen")).points[0]
    asked = point.model_copy(update={"pipeline": Pipeline(kind="route")})
    assert [port.role for port in ports_of(testbed, point)] == ["b0"]
    ends = tester_ports_of(testbed, asked)
    assert (ends.first.role, ends.last.role, ends.mirror, ends.routers) == ("a0", "a0", None, ("b0", "b0"))
    study = studies.study(forwarders=["xdp"], tester="xdpgen", path=["through"])
    with pytest.raises(
        InputError, match="path: through needs b1 and c0, and lab-example has one cable; give path: hairpin"
    ):
        make_plan(study, one_cable(), make_tester("xdpgen"))


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (
            ("a0", "b0", "b1"),
            "a0 and b0 are needed, b1 with c0 or neither, d0 with d1 or neither; or a0 and c0 without b0 and b1, "
            "for forwarder external; there are a0, b0, b1",
        ),
        (("b0", "b1", "c0"), "a0 and b0 are needed"),
        (("a0", "b0", "d0"), "d0 with d1 or neither"),
    ],
)
def test_half_a_link_is_none(roles: tuple[str, ...], words: str) -> None:
    ports = {role: {"host": "dut" if role[0] == "b" else "tester", "ifname": role} for role in roles}
    with pytest.raises(ValueError, match=words):
        lab(ports=ports)


@pytest.mark.parametrize("name", ["latency", "rfc2544", "vpp-comparison", "ovs-ablation", "ovs-figures", "agreement"])
def test_a_shipped_study_can_be_measured_on_three_machines(name: str) -> None:
    assert app.read_study(app.find_study(name)).on(lab(three=True)).path == (Path.REFLECT,)


def test_what_came_of_it_is_in_the_run(results: FilePath, tmp_path: FilePath, cli: Any) -> None:
    assert cli("run", studies.study_file(tmp_path, repetitions=1)).code == 0
    assert studies.only_run(results).load().study.path == (Path.THROUGH,)


def test_a_path_that_a_method_would_not_take_is_refused() -> None:
    for name, own in (("afxdp-micro", "hairpin"), ("network-functions", "hairpin and through")):
        with pytest.raises(InputError, match=rf"path: reflect: method \w+ has its own, {own}; leave path out"):
            app.read_study(app.find_study(name), {"path": "reflect"})
        assert app.read_study(app.find_study(name), {"path": "hairpin"}).path == (Path.HAIRPIN,)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.robot")), ids=lambda path: path.stem)
def test_every_suite_takes_a_path_and_a_line_rate(path: FilePath) -> None:
    suite = Suite.from_file_system(path)
    assert {"${PATH}", "${LINE_RATE}"} <= {each.name for each in suite.resource.variables}
    calls = [step for keyword in suite.resource.keywords for step in keyword.body if step.name == "Run Study"]
    assert calls
    for call in calls:
        assert {"path=${PATH}", "traffic.line_rate_bps=${LINE_RATE}"} <= set(call.args)


def test_path_and_line_rate_of_a_suite_reach_the_run(tmp_path: FilePath, results: FilePath) -> None:
    code, _ = robot(tmp_path, FORWARDERS="fake", PATH="hairpin", LINE_RATE="1e9", RATE="50%", REPETITIONS="1")
    assert code == 0
    run = studies.only_run(results).load()
    assert {each.path for each in run.points.values()} == {Path.HAIRPIN}
    (found,) = run.points.values()
    assert found.traffic.probes_text == "50% of the top rate on 1 Gbit/s"
    assert run.traffic(found).probes_per_s == pytest.approx(0.5 * 1e9 / (84 * 8))


def test_a_path_that_is_none_ends_the_suite_in_one_line(tmp_path: FilePath) -> None:
    code, tests = robot(tmp_path, FORWARDERS="fake", PATH="around")
    assert code > 0
    assert any("path" in message and "'through', 'hairpin' or 'reflect'" in message for _, message in tests.values())


def at(testbed: TestbedSpec, driver: str) -> RunRecord:
    ports = {role: {"ethtool -i": f"driver: {driver}\nversion: 6.18\n"} for role in ("a0", "b0", "b1", "c0")}
    run = run_record(point("fake:seed=1"), study={"title": "Which one?"})
    reported = machine(ports=ports, clock="A and C are one machine (tester)")
    return run.model_copy(update={"testbed": testbed, "environment": reported})


@pytest.mark.parametrize(
    ("testbed", "driver", "where", "words"),
    [
        (studies.a_testbed("embedded"), "veth", "on one machine", "figures of this machine, not of a network card"),
        (lab(), "ice", "on hosts tester and dut", "figures of these network cards and machines: ice (a0, b0, b1, c0)"),
        (
            lab(three=True),
            "veth",
            "on hosts tester, dut and far",
            "veth pairs: figures of this machine, not of a network card",
        ),
        (studies.a_testbed(), "veth", "simulated", "simulated: figures of no machine"),
    ],
)
def test_title_and_caveat_are_those_of_the_testbed(testbed: TestbedSpec, driver: str, where: str, words: str) -> None:
    run = at(testbed, driver)
    html = render(run, [trial(next(iter(run.points.values())))])
    assert f"<h1>Which one?, {where}</h1>" in html
    assert f"{words}. A and C are one machine (tester).</p>" in html
    card = driver == "ice"
    assert ("not of a network card" in html) == ("not of a network card" in words)
    assert ("runs where its interrupt does" in html) == card
    assert ("receive half runs on the core that sent it" in html) == (not card and where != "simulated")
    assert ("another network card" in Place(run).beside) == card


@pytest.mark.slow
def test_a_gate_of_pytest_takes_both_too(tmp_path: FilePath, results: FilePath) -> None:
    argv = [BIN / "pytest", "-q", "-p", "no:cacheprovider", SUITES / "pytest" / "test_rfc2544.py", "--testbed=fake"]
    options = ["--tester=fake", "--forwarder=fake", "--path=hairpin", "--line-rate=1e8"]
    done = subprocess.run(
        [*argv, *options], capture_output=True, text=True, timeout=120, env=environment(), check=False
    )
    assert done.returncode == 0, done.stdout
    study = studies.only_run(results).load().study
    assert (study.path, study.traffic.line_rate_bps) == ((Path.HAIRPIN,), 1e8)


def test_who_has_no_checkout_reads_that_provisioning_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tools.provision_command("lab.yaml") == "make provision TESTBED=lab.yaml"
    assert tools.provision_command("x", "--tags boot") == 'make provision TESTBED=x ANSIBLE="--tags boot"'
    monkeypatch.setattr(tools, "checkout", lambda: None)
    assert tools.provision_command("lab.yaml") == "make provision TESTBED=lab.yaml (in a checkout of xdplab)"
