# SPDX-License-Identifier: Apache-2.0
"""Without the libraries of any extra all works that does not need them; what does names the extra in one line."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lab.records import LAYOUT
from packaging.requirements import Requirement

from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.vpp import forwarder
from xdplab.hosts import LocalHost
from xdplab.model import ForwarderSpec, Path as Way
from xdplab.model.plugins import _LIBRARIES, lacking
from xdplab.tools import project_root

#: In the place of an installation without extras: they are not found.
_BLOCKER = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util as util
found = util.find_spec
util.find_spec = lambda name, package=None: None if name.partition(".")[0] in {blocked!r} else found(name, package)
"""
_FAKE = ("--testbed", "fake", "--set", "tester=fake", "--set", "answer=null", "--repetitions", "3", "--duration", "0.1")
_SWEEP = """schema: 1
name: many
title: Which setting?
testbed: fake
tester: fake
forwarders: [fake]
options: {fake: {latency_us: [1, 2, 3, 4, 5, 6, 7, 8]}}
method: {name: latency, duration_s: 0.05}
sweep: {}
"""
_LAB = """schema: 1
name: far
kind: hosts
hosts: {b: {address: b.example}, a: {address: a.example}}
ports: {a0: {host: a, ifname: e0}, b0: {host: b, ifname: e0}, b1: {host: b, ifname: e1}, c0: {host: a, ifname: e1}}
"""


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def library(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def core() -> set[str]:
    """The libraries of an installation without extras: what pyproject.toml asks for, and what that asks for."""
    found, asked = set[str](), [Requirement(each) for each in project()["dependencies"]]
    while asked:
        each = asked.pop()
        if library(each.name) not in found and (each.marker is None or each.marker.evaluate({"extra": ""})):
            found.add(library(each.name))
            asked += map(Requirement, metadata.requires(each.name) or ())
    return found


def beyond_core() -> set[str]:
    """Modules of this environment that would not be in that one."""
    kept = core() | {"xdplab"}
    every = metadata.packages_distributions()
    return {module for module, names in every.items() if not kept & set(map(library, names))}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(_BLOCKER.format(blocked=beyond_core()), encoding="utf-8")
    (folder / "many.yaml").write_text(_SWEEP, encoding="utf-8")
    (folder / "far.yaml").write_text(_LAB, encoding="utf-8")
    return folder


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(folder), "XDPLAB_RESULTS": str(folder / "results"), "COLUMNS": "200"}
    return subprocess.run([sys.executable, *argv], cwd=folder, env=env, capture_output=True, text=True, check=False)


def xdplab(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "-c", "from xdplab.cli import main; main()", *argv)


def test_they_are_away(bare: Path) -> None:
    extras = {module for module, _ in _LIBRARIES.values() if find_spec(module)}
    assert {"asyncssh", "sklearn", "vpp_papi", "cryptography", "joblib"} <= beyond_core()
    assert extras <= beyond_core()
    for module in extras:
        assert "ModuleNotFoundError" in run(bare, "-c", f"import {module}").stderr


@pytest.mark.slow
def test_a_sweep_needs_none_and_the_delay_studys_own_analysis_says_which(bare: Path) -> None:
    done = xdplab(bare, "run", "many.yaml")
    assert done.returncode == 0, done.stderr
    assert "What matters: " in xdplab(bare, "analyse").stdout
    done = run(bare, "-m", "xdplab_delays")
    assert done.returncode == 2
    assert done.stderr.endswith("is not installed; pip install 'xdplab[sweeps]' installs it\n")


@pytest.mark.slow
def test_the_core_works_without_them(bare: Path) -> None:
    """The interface for others, what there is, what is missing, and a study from its trials to its report."""
    assert run(bare, "-c", "import xdplab.api").stderr == ""
    assert "vpp-afxdp" in xdplab(bare, "list").stdout
    doctor = xdplab(bare, "doctor")
    assert "Traceback" not in doctor.stderr + doctor.stdout
    done = xdplab(
        bare,
        "run",
        "latency",
        *_FAKE,
        "--set",
        "forwarders=[fake, {name: fake, options: {base_latency_us: 9}, label: slow}]",
    )
    assert done.returncode == 0, done.stderr
    assert "as fast" in done.stdout  # with an interval
    shown = xdplab(bare, "show", "--json")
    assert '"status": "ok"' in shown.stdout, shown.stderr
    assert (next((bare / "results").glob("latency-*")) / "report.html").exists()


@pytest.mark.parametrize(
    ("argv", "who", "extra"),
    [
        (("run", "latency", "--testbed", "far.yaml", "--set", "forwarders=[xdp]", "--dry-run"), "host ", "ssh"),
        (("doctor", "--testbed", "far.yaml"), "host ", "ssh"),
    ],
)
def test_what_needs_one_says_which_in_a_line(bare: Path, argv: tuple[str, ...], who: str, extra: str) -> None:
    done = xdplab(bare, *argv)
    lines = [line for line in (done.stderr + done.stdout).splitlines() if "xdplab[" in line]
    assert len(lines) == 1, done.stderr + done.stdout
    assert who in lines[0]
    assert lines[0].endswith(f"is not installed; pip install 'xdplab[{extra}]' installs it")
    assert "Traceback" not in done.stderr
    if "--dry-run" not in argv:
        assert done.returncode == 2


def test_the_extras_are_those_of_the_project() -> None:
    extras = project()["optional-dependencies"]
    (every,) = map(Requirement, extras["all"])
    assert every.extras | {"all", "lab", "test"} == set(extras)
    for extra, (_, name) in _LIBRARIES.items():
        assert name in {Requirement(each).name for each in extras[extra]}


@pytest.mark.parametrize("managed", [True, False])
def test_pip_needs_a_switch_to_change_a_distributions_python(
    managed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ("EXTERNALLY-MANAGED" if managed else "other")).touch()
    monkeypatch.setattr("xdplab.model.plugins.find_spec", lambda _: None)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert ("--break-system-packages 'xdplab[vpp]'" in str(lacking("vpp"))) == managed
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")  # an environment of its own
    assert "pip install 'xdplab[vpp]'" in str(lacking("vpp"))


def test_vpp_is_unsupported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "find_vpp", lambda *_: ("/usr/bin/vpp", None))
    dut = Dut(LocalHost(), (), Way.THROUGH, LAYOUT, Path("/nowhere"))
    made = make_forwarder(ForwarderSpec(name="vpp-afxdp", options={"workers": 0}))
    assert made.unsupported(dut) is None
    monkeypatch.setattr("xdplab.model.plugins.find_spec", lambda name: None)
    assert made.unsupported(dut) == (
        "VPP's API: the Python library vpp-papi is not installed; pip install 'xdplab[vpp]' installs it"
    )
