# SPDX-License-Identifier: Apache-2.0
"""ovs/check without Open vSwitch: what it makes of a testsuite."""

import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from lab.command import load_program

PROGRAM = Path(__file__).resolve().parents[2] / "ovs" / "check"
SUITE = """AT_CHECK([ovs-vsctl --no-wait init -- set bridge])
ovs-vsctl --no-wait initial
ethtool -K p0 txvlan off
  /netdev_linux.*obtaining netdev stats via vport failed/d
ovs-vsctl del-port ovs-p0
at_fn_check "ovs-vsctl del-port ovs-p0"
at_help_all="1;system-afxdp.at:3;AF_XDP - ping;afxdp;
2;system-afxdp.at:9;AF_XDP - netdev-afxdp/show;afxdp show;
3;system-traffic.at:1;datapath - ping;;
"
"""
RAN = """#!/bin/bash
echo "%s" > "$0".log
exit %d
"""


@pytest.fixture(scope="module")
def ovs_check() -> ModuleType:
    return load_program(PROGRAM)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree whose make has a testsuite of four lines."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "suite.in").write_text(SUITE, encoding="utf-8")
    (tmp_path / "Makefile").write_text("tests/suite:\n\tcp suite.in $@\n", encoding="utf-8")
    return tmp_path


def test_each_test_runs_with_flows_in_xdp_on_demand(ovs_check: ModuleType, tree: Path) -> None:
    plain = ovs_check.generate(tree, "suite").read_text(encoding="utf-8").splitlines()
    assert (plain[0], plain[2]) == tuple(SUITE.splitlines()[0:3:2])
    assert plain[3].endswith(ovs_check.ALLOWED_LOG[0])
    offloaded = ovs_check.generate(tree, "suite", True).read_text(encoding="utf-8").splitlines()
    assert "init -- set Open_vSwitch . other_config:hw-offload=true -- set bridge" in offloaded[0]
    assert offloaded[1] == plain[1]
    assert offloaded[2] == "ethtool -K p0 txvlan off rxvlan off gro on"
    offloaded.remove(ovs_check.OFFLOADED_LOG)
    deletes = 4 + len(ovs_check.ALLOWED_LOG)
    assert offloaded[3:deletes] == plain[3:deletes]
    assert offloaded[deletes].startswith(
        "ovs-vsctl del-port ovs-p0 && for i in 1 2 3 4 5 6 7 8 9; do ip link show ovs-p0 |"
    )
    assert offloaded[deletes + 1 :] == plain[deletes + 1 :]


def test_only_tests_of_system_afxdp_run_unless_all_are_asked_for(ovs_check: ModuleType, tree: Path) -> None:
    suite = ovs_check.generate(tree, "suite")
    assert ovs_check.system_tests(suite, everything=False) == ["1", "2"]
    assert ovs_check.system_tests(suite, everything=True) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("said", "code", "passed"),
    [
        ("All 15 tests were successful.", 0, True),
        ("2 tests were successful.", 0, True),
        ("1 test was successful.", 0, True),
        ("0 tests were successful.", 0, False),
        ("ERROR: 2 tests were run,", 1, False),
        ("", 0, False),
    ],
)
def test_a_testsuite_that_ran_nothing_has_not_passed(
    ovs_check: ModuleType,
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    said: str,
    code: int,
    passed: bool,
) -> None:
    suite = tree / "tests" / "suite"
    suite.write_text(RAN % (said, code), encoding="utf-8")
    monkeypatch.setattr(ovs_check, "CAGE", ())
    monkeypatch.setattr(ovs_check, "ISOLATED", 'exec "$@"')
    assert ovs_check.run_suite(tree, suite, ["4-7"]) is passed
    assert ("ran no test" in capfd.readouterr().err) is (not passed and not code)


def test_flows_in_xdp_need_the_patches() -> None:
    argv = [PROGRAM, "--hw-offload", "--series", "stock"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "ovs/check: --hw-offload: flows in XDP need --series patched\n")
