# SPDX-License-Identifier: Apache-2.0
"""Without the libraries of any extra all works that does not need them; what does names the extra in one line."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lab.records import LAYOUT

from xdplab.forwarders import Dut, make_forwarder
from xdplab.forwarders.vpp import forwarder
from xdplab.hosts import LocalHost
from xdplab.model import ForwarderSpec, Path as Way
from xdplab.model.extras import _LIBRARIES
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
_FAKE = ("--testbed", "fake", "--set", "tester=fake", "--set", "answer=null", "--repetitions", "1", "--duration", "0.1")
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


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    blocked = {module for module, *_ in _LIBRARIES.values()} | {"joblib"}
    (folder / "sitecustomize.py").write_text(_BLOCKER.format(blocked=blocked), encoding="utf-8")
    (folder / "many.yaml").write_text(_SWEEP, encoding="utf-8")
    (folder / "far.yaml").write_text(_LAB, encoding="utf-8")
    return folder


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(folder), "XDPLAB_RESULTS": str(folder / "results"), "COLUMNS": "200"}
    return subprocess.run([sys.executable, *argv], cwd=folder, env=env, capture_output=True, text=True, check=False)


def xdplab(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "-c", "from xdplab.cli import main; main()", *argv)


def test_they_are_away(bare: Path) -> None:
    for module, *_ in _LIBRARIES.values():
        assert "ModuleNotFoundError" in run(bare, "-c", f"import {module}").stderr


def test_the_core_works_without_them(bare: Path) -> None:
    """The interface for others, what there is, what is missing, and a study from its trials to its report."""
    assert run(bare, "-c", "import xdplab.api as api; [getattr(api, name) for name in api.__all__]").stderr == ""
    assert "vpp-afxdp" in xdplab(bare, "list").stdout
    doctor = xdplab(bare, "doctor")
    assert "Traceback" not in doctor.stderr + doctor.stdout
    done = xdplab(bare, "run", "latency", *_FAKE, "--set", "forwarders=[fake]")
    assert done.returncode == 0, done.stderr
    shown = xdplab(bare, "show", "--json")
    assert '"status": "ok"' in shown.stdout, shown.stderr
    assert (next((bare / "results").glob("latency-*")) / "report.html").exists()


@pytest.mark.parametrize(
    ("argv", "who", "extra"),
    [
        (("run", "many.yaml"), "study many: what its sweep shows", "sweeps"),
        (("run", "latency", "--testbed", "far.yaml", "--set", "forwarders=[xdp]", "--dry-run"), "host ", "ssh"),
        (("doctor", "--testbed", "far.yaml"), "host ", "ssh"),
    ],
)
def test_what_needs_one_says_which_in_a_line(bare: Path, argv: tuple[str, ...], who: str, extra: str) -> None:
    done = xdplab(bare, *argv)
    lines = [line for line in (done.stderr + done.stdout).splitlines() if "xdplab[" in line]
    assert len(lines) == 1, done.stderr + done.stdout
    assert who in lines[0]
    assert f"is not installed; pip install 'xdplab[{extra}]', or python3-" in lines[0]
    assert "Traceback" not in done.stderr
    if "--dry-run" not in argv:
        assert done.returncode == 2


def test_the_extras_are_those_of_the_project() -> None:
    extras = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    for extra, (_, library, _) in _LIBRARIES.items():
        assert [re.split(r"[<>=]", each)[0] for each in extras[extra]] == [library]
        assert extra in extras["all"][0]


def test_vpp_is_unsupported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "find_vpp", lambda *_: ("/usr/bin/vpp", None))
    monkeypatch.setattr(forwarder, "out_of_reach", lambda *_: None)
    dut = Dut(LocalHost(), (), Way.THROUGH, LAYOUT, Path("/nowhere"))
    made = make_forwarder(ForwarderSpec(name="vpp-afxdp", options={"workers": 0}))
    assert made.supported(dut) is None
    monkeypatch.setattr("xdplab.model.extras.find_spec", lambda name: None)
    assert made.supported(dut) == (
        "VPP's API: the Python library vpp-papi is not installed; pip install 'xdplab[vpp]' installs it"
    )
