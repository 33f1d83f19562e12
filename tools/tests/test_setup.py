# SPDX-License-Identifier: Apache-2.0
"""ci/setup where programs only note that they were called: what it builds and installs, and what it says if not."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab.command import load_program

from xdplab.tools import project_root

#: A program that notes its name and its arguments, and ends as told.
_NOTES = '#!/bin/sh\necho "{name} $*" >>{log}\n{end}'


class Checkout:
    """Makefile and ci/setup, with programs that do nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "called"
        for name in ("Makefile", "ci/setup", "ci/uv_settings.py", "pyproject.toml", "ci/constraints.txt"):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(project_root() / name, folder / name)
        (folder / "bpf").mkdir()
        (folder / "bpf" / "Makefile").write_text("all:\n", encoding="ascii")
        for name in ("ci/check", ".venv/bin/robot", "ovs/build"):
            self.program(name)
        python = folder / ".venv/bin/python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="ascii")
        python.chmod(0o755)
        self.has("all,lab,test")

    def has(self, extras: str) -> None:
        digest = "$(cat pyproject.toml ci/constraints.txt <(pwd) | sha256sum | cut -d' ' -f1)"
        subprocess.run(["bash", "-c", f'echo "{digest} {extras}" >.venv/.stamp'], cwd=self.folder, check=True)

    def program(self, name: str, code: int = 0) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_NOTES.format(name=name, log=self.log, end=f"exit {code}\n" if code else ""), encoding="ascii")
        path.chmod(0o755)

    def make(self, target: str, **env: str) -> subprocess.CompletedProcess[str]:
        given = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "WITH_", "SKIP_"))}
        given |= {"SKIP_PACKAGES": "1", **env}
        return subprocess.run(
            ["make", target], cwd=self.folder, env=given, capture_output=True, text=True, timeout=60, check=False
        )

    def called(self, program: str) -> list[str]:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [line.strip() for line in lines if line.partition(" ")[0] == program]

    def without_environment(self) -> None:
        """Of .venv only Python is there, which notes what it is called with, and has one setting for uv."""
        self.program(".venv/bin/python")
        with (self.folder / ".venv/bin/python").open("a", encoding="ascii") as python:
            python.write("echo UV_OFFLINE=1\n")
        (self.folder / ".venv/.stamp").unlink()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("target", ["latency", "test"])
def test_one_call_builds_our_open_vswitch(target: str, checkout: Checkout) -> None:
    done = checkout.make(target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert checkout.called("ovs/build") == ["ovs/build"]


def test_who_builds_no_open_vswitch_builds_none(checkout: Checkout) -> None:
    assert checkout.make("latency", SKIP_OVS_BUILD="1").returncode == 0
    assert checkout.called("ovs/build") == []


def test_without_it_the_machines_own_is_measured_and_it_is_said_how_to_give_a_source(checkout: Checkout) -> None:
    """As in a bare Debian without source entries, on Ubuntu and Fedora; of ovs/build the words are the real ones."""
    words = "ovs/build: source package openvswitch 4.0.0 is not to be had (sid: apt knows no Debian mirror); give it"
    checkout.program("ovs/build", code=2)
    build = checkout.folder / "ovs/build"
    build.write_text(
        build.read_text(encoding="ascii").replace("exit 2", f"echo '{words}' >&2\nexit 2"), encoding="ascii"
    )
    done = checkout.make("latency")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"our Open vSwitch was not built ({words}). `make latency` compares this machine's own over" in done.stdout
    assert "ours too once its source is given: ovs/build --source PATH" in done.stdout
    assert "--argumentfile build/latency.args suites/latency.robot" in checkout.called(".venv/bin/robot")[0]
    given = (checkout.folder / "build/latency.args").read_text(encoding="ascii")
    assert given == "--variable FORWARDERS:ovs-afxdp ovs-afpacket\n"
    checkout.program("ovs/build")
    assert checkout.make("latency").returncode == 0
    assert (checkout.folder / "build/latency.args").read_text(encoding="ascii") == ""


def test_robot_takes_what_it_is_given_then(tmp_path: Path) -> None:
    (tmp_path / "latency.args").write_text("--variable FORWARDERS:ovs-afxdp ovs-afpacket\n", encoding="ascii")
    suite = tmp_path / "a.robot"
    suite.write_text(
        "*** Test Cases ***\nA\n    Should Be Equal    ${FORWARDERS}    ovs-afxdp ovs-afpacket\n", encoding="ascii"
    )
    argv = [sys.executable, "-m", "robot", "--output", "NONE", "--argumentfile", tmp_path / "latency.args", suite]
    assert subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("code", [0, 1])
def test_pip_installs_only_what_uv_does_not_and_that_is_said(code: int, checkout: Checkout) -> None:
    checkout.without_environment()
    checkout.program(".venv/bin/uv", code=code)
    done = checkout.make("latency")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(checkout.called(".venv/bin/uv")) == 1
    by_pip = [line for line in checkout.called(".venv/bin/python") if "--editable .[all]" in line]
    assert (len(by_pip), "uv installed nothing" in done.stdout) == (code, bool(code))


@pytest.mark.parametrize(
    ("target", "there", "installed"),
    [
        ("latency", "", ["all"]),
        ("latency", "all", []),
        ("latency", "all,lab,test", []),
        ("test", "all", ["all,lab,test"]),
        ("test", "all,lab,test", []),
    ],
)
def test_what_only_tests_need_comes_with_the_tests(
    target: str, there: str, installed: list[str], checkout: Checkout
) -> None:
    checkout.without_environment()
    checkout.program(".venv/bin/uv")
    checkout.has(there)
    assert checkout.make(target).returncode == 0
    called = "\n".join(checkout.called(".venv/bin/uv"))
    assert re.findall(r"--editable \.\[(.*)\]", called) == installed


def test_what_fails_ends_what_runs_beside_it(checkout: Checkout) -> None:
    (checkout.folder / "bpf" / "Makefile").write_text("all:\n\tsleep 1; false\n", encoding="ascii")
    slow = checkout.folder / "ovs/build"
    slow.write_text(f"#!/bin/sh\nsleep 5; echo ended >>{checkout.log}\n", encoding="ascii")
    done = checkout.make("latency")
    assert done.returncode == 2
    assert "bpf/ did not build" in done.stderr
    assert "ready" not in done.stdout
    time.sleep(6)
    assert not checkout.log.exists()  # neither the end of ovs/build nor a measurement


def test_whoever_is_not_root_is_stopped_before_anything_is_built(checkout: Checkout) -> None:
    checkout.program("programs/id")
    with (checkout.folder / "programs/id").open("a", encoding="ascii") as program:
        program.write("echo 1000\n")
    path = f"{checkout.folder}/programs:{os.environ['PATH']}"
    done = checkout.make("latency", PATH=path)
    assert done.returncode == 2
    assert "sudo make latency" in done.stderr
    assert checkout.called("ovs/build") == []
    assert checkout.make("test", PATH=path).returncode == 0


@pytest.mark.parametrize(
    ("release", "column"),
    [("ID=debian", 0), ("ID=ubuntu\nID_LIKE=debian", 1), ('ID="rocky"\nID_LIKE="rhel fedora"', 2)],
)
def test_each_distribution_has_its_own_names(release: str, column: int, tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(f"NAME=any\n{release}\n", encoding="ascii")
    (tmp_path / "apt-cache").write_text("#!/bin/sh\necho librte-net-af-xdp9\necho ${2}25\n", encoding="ascii")
    (tmp_path / "apt-cache").chmod(0o755)
    env = {**os.environ, "OS_RELEASE": str(tmp_path / "os-release"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    argv = [project_root() / "ci" / "packages", "core", "forwarders"]
    names = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.split()
    assert ("libbpf-dev" in names, "libbpf-devel" in names) == (column < 2, column == 2)
    assert ("bpftool" in names, "linux-tools-generic" in names) == (column != 1, column == 1)
    assert ("librte-net-af-xdp25" in names) == (column < 2)
    assert "autoconf" not in names


def test_an_unknown_distribution_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text("ID=plan9\n", encoding="ascii")
    env = {**os.environ, "OS_RELEASE": str(tmp_path / "os-release")}
    done = subprocess.run([project_root() / "ci" / "packages"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_what_it_is_compiled_with_is_installed() -> None:
    build = load_program(project_root() / "ovs" / "build")
    assert set(build.BUILD_NEEDS) <= set((project_root() / "ci" / "packages.txt").read_text(encoding="utf-8").split())


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
def test_a_debian_without_source_entries_has_no_source_and_says_how_to_give_one(tmp_path: Path) -> None:
    """The real ovs/build, with the real apt, whose configuration is that of a bare chroot."""
    entries = ("Etc::SourceList", "Etc::SourceParts", "State::Lists")
    lines = [f'Dir::{name} "{tmp_path / "none"}";' for name in entries]
    (tmp_path / "apt.conf").write_text("\n".join(lines), encoding="ascii")
    env = {**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf"), "XDPLAB_CACHE": str(tmp_path / "cache")}
    argv = [project_root() / "ovs" / "build"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ovs/build: source package openvswitch 4.0.0 is not to be had (sid, forky, experimental: ")
    assert "apt knows no Debian mirror: no source names one" in said
    assert said.endswith("give the source of 4.0.0 with --source PATH")
