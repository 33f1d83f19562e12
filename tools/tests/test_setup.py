# SPDX-License-Identifier: Apache-2.0
"""ci/setup where programs only note that they were called: which Open vSwitch each target of make builds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xdplab.forwarders.ovs_builds import OFFLOADING, how_to_make
from xdplab.tools import project_root

#: A program that notes its name and its arguments, and ends as told.
_NOTES = '#!/bin/sh\necho "{name} $*" >>{log}\nexit {code}\n'


class Checkout:
    """Makefile and ci/setup, with programs that do nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "called"
        for name in ("Makefile", "ci/setup", "pyproject.toml", "ci/constraints.txt"):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(project_root() / name, folder / name)
        (folder / "bpf").mkdir()
        (folder / "bpf" / "Makefile").write_text("all:\n", encoding="ascii")
        for name in ("ci/check", ".venv/bin/robot", "ovs/build"):
            self.program(name)
        python = folder / ".venv/bin/python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="ascii")
        python.chmod(0o755)
        stamp = "cat pyproject.toml ci/constraints.txt <(pwd) | sha256sum | cut -d' ' -f1 > .venv/.stamp"
        subprocess.run(["bash", "-c", stamp], cwd=folder, check=True)

    def program(self, name: str, code: int = 0) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_NOTES.format(name=name, log=self.log, code=code), encoding="ascii")
        path.chmod(0o755)

    def make(self, target: str, **env: str) -> subprocess.CompletedProcess[str]:
        given = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "WITH_", "SKIP_"))}
        given |= {"SKIP_PACKAGES": "1", **env}
        return subprocess.run(
            ["make", target], cwd=self.folder, env=given, capture_output=True, text=True, timeout=60, check=False
        )

    def built(self) -> list[str]:
        return [line for line in self.log.read_text(encoding="utf-8").splitlines() if line.startswith("ovs/build")]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_latency_builds_what_its_row_of_flows_in_xdp_needs(checkout: Checkout) -> None:
    done = checkout.make("latency")
    assert done.returncode == 0, done.stdout + done.stderr
    assert checkout.built() == ["ovs/build ", how_to_make(OFFLOADING)]


def test_the_tests_do_not_wait_for_it(checkout: Checkout) -> None:
    assert checkout.make("test").returncode == 0
    assert checkout.built() == ["ovs/build "]


def test_who_builds_no_open_vswitch_builds_none(checkout: Checkout) -> None:
    assert checkout.make("latency", SKIP_OVS_BUILD="1").returncode == 0
    assert checkout.built() == []


def test_without_it_the_rest_is_measured(checkout: Checkout) -> None:
    checkout.program("ovs/build", code=2)
    done = checkout.make("latency")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no Open vSwitch with flows in XDP, its rows will be unsupported" in done.stdout
    assert ".venv/bin/robot" in checkout.log.read_text(encoding="utf-8")


def test_what_it_is_compiled_with_is_installed() -> None:
    """`XDP_NEEDS` of ovs/build; its test has the command that builds it."""
    listed = (project_root() / "ci" / "packages.txt").read_text(encoding="utf-8").split()
    assert {"clang", "autoconf", "automake", "libtool"} <= set(listed)
