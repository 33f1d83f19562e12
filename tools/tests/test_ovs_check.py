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
    assert (plain[0], plain[2]) == tuple(SUITE.splitlines()[::2])
    assert plain[3].endswith(ovs_check.ALLOWED_LOG[0])
    offloaded = ovs_check.generate(tree, "suite", True).read_text(encoding="utf-8").splitlines()
    assert "init -- set Open_vSwitch . other_config:hw-offload=true -- set bridge" in offloaded[0]
    assert offloaded[1] == plain[1]
    assert offloaded[2] == "ethtool -K p0 txvlan off rxvlan off gro on"
    assert offloaded[3:] == plain[3:]


def test_flows_in_xdp_need_their_series() -> None:
    done = subprocess.run([PROGRAM, "--hw-offload"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "ovs/check: --hw-offload: only --series xdp has flows in XDP\n")
