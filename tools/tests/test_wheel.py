# SPDX-License-Identifier: Apache-2.0
"""What `make wheel` makes, in an environment of its own that has no checkout: all is in it, and it measures."""

import email.message
import email.parser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab.command import NOBODY
from lab.compiling import hop

from dev.bench_cost import program as xdp_program
from dev.commands import man_page
from xdplab import __version__, tools
from xdplab.tools import project_root

ROOT = project_root()
_SDIST = "from setuptools import build_meta; build_meta.build_sdist('made')"


def tracked(*folders: str) -> list[str]:
    argv = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    found = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in found if (ROOT / name).is_file()]


def bare_environment() -> dict[str, str]:
    """Ours, from where nothing leads to the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("XDPLAB_", "PYTHON"))}


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and a folder that is no checkout."""

    wheel: Path
    bin: Path
    place: Path

    def run(
        self, *argv: str, wrap: tuple[str, ...] = (), env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        given = bare_environment() | {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "XDPLAB_CACHE": str(self.place / "cache"),
            **(env or {}),
        }
        return subprocess.run(
            [*wrap, *argv], cwd=self.place, env=given, capture_output=True, text=True, timeout=170, check=False
        )

    def xdplab(self, *args: str, wrap: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> str:
        done = self.run(str(self.bin / "xdplab"), *args, wrap=wrap, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def members(self) -> dict[str, zipfile.ZipInfo]:
        with zipfile.ZipFile(self.wheel) as archive:
            return {each.filename: each for each in archive.infolist()}


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    """Sources, of them the archive, of that alone the wheel; the libraries are those of our environment."""
    with tempfile.TemporaryDirectory(prefix="lab-wheel-") as folder:  # pytest's own are closed to who has no rights
        Path(folder).chmod(0o755)
        yield installed_in(Path(folder))


def installed_in(folder: Path) -> Installed:
    for name in tracked():
        copy = folder / "sources" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    subprocess.run([sys.executable, "-c", _SDIST], cwd=folder / "sources", stdout=subprocess.DEVNULL, check=True)
    (sdist,) = (folder / "sources" / "made").iterdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-index", "--no-deps"]
    argv = [*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(folder), str(sdist)]
    subprocess.run(argv, check=True)
    (wheel,) = folder.glob("*.whl")
    place = folder / "place"
    place.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    argv = [*pip, "--python", str(place / "venv"), "install", *offline, str(wheel)]
    subprocess.run(argv, env=bare_environment(), check=True)
    (site,) = (place / "venv").glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return Installed(wheel, place / "venv" / "bin", place)


def test_the_wheel_has_all_that_is_read_without_a_checkout(installed: Installed) -> None:
    members = installed.members()
    wanted = [
        name
        for name in tracked("bpf", "suites", "ovs", "trex", "vpp")
        if name.rpartition("/")[2] != "README.md"
        and ("/tests/" not in name or name.startswith("ovs/files/"))
        and name not in ("ovs/check", "ovs/export", "ovs/send", "ovs/programs.py", "bpf/.clang-format")
    ]
    wanted += [
        name for name in tracked("ci/nic") if "/" not in name.removeprefix("ci/nic/") and not name.endswith("/init")
    ]
    assert len(wanted) > 200
    assert [name for name in wanted if f"xdplab/_share/{name}" not in members] == []
    with zipfile.ZipFile(installed.wheel) as archive:
        changed = [name for name in wanted if archive.read(f"xdplab/_share/{name}") != (ROOT / name).read_bytes()]
    assert changed == []
    beside = (f"tools/xdplab_{name}" for name in ("applications", "changes", "cost", "delays", "timeline"))
    modules = {name.removeprefix("tools/") for name in tracked("tools/xdplab", *beside)}
    assert modules <= set(members)
    assert not any(name.endswith((".o", ".pyc")) for name in members)
    assert {name.partition("tests/")[0] for name in members if "tests/" in name} == {"xdplab/_share/ovs/files/"}
    assert members["xdplab/_share/ovs/build"].external_attr >> 16 & 0o111


def metadata(installed: Installed) -> email.message.Message:
    with zipfile.ZipFile(installed.wheel) as archive:
        text = archive.read(f"xdplab-{__version__}.dist-info/METADATA").decode()
    return email.parser.Parser().parsestr(text)


def test_its_version_and_its_licences_are_reported(installed: Installed) -> None:
    reported = metadata(installed)
    assert reported["License-Expression"] == "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)"
    assert sorted(reported.get_all("License-File", [])) == sorted(tracked("LICENSES"))
    assert installed.xdplab("--version").strip() == reported["Version"] == __version__


def test_it_brings_the_man_page(installed: Installed) -> None:
    page = installed.bin.parent / "share" / "man" / "man1" / "xdplab.1"
    assert page.read_text(encoding="utf-8") == man_page()


def test_it_is_installed_for_a_package(installed: Installed, tmp_path: Path) -> None:
    """As debian/rules calls it: nothing is written elsewhere, and its commands run the system's Python."""
    argv = ["make", "--old-file=wheel", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr", f"WHEEL={installed.wheel}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"usr"}
    assert (tmp_path / "usr/bin/xdplab").read_text(encoding="utf-8").startswith("#!/usr/bin/python3\n")
    assert (tmp_path / "usr/share/man/man1/xdplab.1").exists()
    packages = next((tmp_path / "usr/lib").rglob("xdplab/__init__.py")).parents[1]
    assert list(packages.glob("xdplab-*.dist-info/licenses"))


@pytest.mark.slow
def test_its_parts_are_found_in_it(installed: Installed) -> None:
    share = installed.xdplab("where", "suites").strip().removesuffix("/suites")
    assert share.startswith(str(installed.place))
    assert installed.xdplab("where", "results").strip() == str(installed.place / "results")
    assert f"robot {share}/suites/latency.robot" in installed.xdplab("explain", "latency")
    listed = installed.xdplab("list")
    assert all(path.stem in listed for path in (ROOT / "suites" / "studies").glob("*.yaml"))
    done = installed.run(
        str(installed.bin / "python"), "-m", "robot", "--dryrun", "--output", "none", f"{share}/suites"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert subprocess.run([f"{share}/ovs/build", "--list"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_without_root_it_runs_a_study_on_the_simulated_testbed(installed: Installed, open_folder: Path) -> None:
    results = {"XDPLAB_RESULTS": str(open_folder), "XDPLAB_STATE": str(open_folder / "state"), "HOME": str(open_folder)}
    open_folder.chmod(0o777)
    wrap = NOBODY if os.geteuid() == 0 else ()
    found = re.search(r"`xdplab (run [^`]+fake[^`]+)`", (ROOT / "docs" / "install.md").read_text(encoding="utf-8"))
    assert found
    installed.xdplab(*shlex.split(found.group(1)), "--set", "repetitions=1", wrap=wrap, env=results)
    rows = json.loads(installed.xdplab("show", "latest", "--json", wrap=wrap, env=results))
    assert {row["status"] for row in rows} == {"ok"}
    assert (open_folder / "latest" / "report.html").is_file()
    head = json.loads((open_folder / "latest" / "run.json").read_text(encoding="utf-8"))
    assert f"wheel of {__version__}" in json.dumps(head)


def recipe(program: str) -> list[str]:
    """The gate of docs/ci.md without root that compares such a program."""
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    section = page.partition("### Without root")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"^(?: *- run: )?xdplab (gate \"?{program}.*)$", section, re.MULTILINE)
    return shlex.split(re.sub(r"\$\{\{ [\w.]*\.(base|head)\.sha \}\}", r"\1", found))


def compared(program: str, folder: Path) -> Path:
    """What its recipe compares, in a folder where it is then run: twice the same but for Open vSwitch."""
    if program == "xdp":
        for layout, name in enumerate(("old", "new")):
            made = xdp_program(folder, layout, 0).partition("=")[2]
            Path(made).rename(folder / f"{name}.bpf.o")
    elif program == "command":
        for name in ("old", "new"):
            (folder / name).mkdir()
            hop(folder / name, "hop", {})
    elif program == "vpp-afxdp":
        prefix = os.environ.get("XDPLAB_VPP", "")
        if not Path(prefix, "bin/vpp").is_file():
            pytest.skip("no VPP: XDPLAB_VPP names no prefix")
        for name in ("old", "new"):
            (folder / name).symlink_to(prefix)
    else:
        subprocess.run([ROOT / "ovs" / "export", folder / "ovs"], check=True)
        subprocess.run(["git", "-C", folder / "ovs", "tag", "--delete", "base"], check=True)  # of the source itself
        for branch, commit in (("base", "HEAD~1"), ("head", "HEAD")):
            subprocess.run(["git", "-C", folder / "ovs", "branch", branch, commit], check=True)
        return folder / "ovs"
    return folder


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", ["xdp", "command", "vpp-afxdp", "ovs-afxdp"])
def test_without_root_or_a_checkout_a_gate_counts_instructions(
    program: str, installed: Installed, open_folder: Path
) -> None:
    """As in a hosted runner (docs/ci.md); what the lane's cache has is not fetched again."""
    place = compared(program, open_folder)
    (open_folder / "cache").mkdir()
    here = tools.cache_folder() / "nic"
    if here.is_dir():
        subprocess.run(["cp", "-r", "--reflink=auto", here, open_folder / "cache"], check=True)
    subprocess.run(["chmod", "-R", "a+rwX", open_folder], check=True)
    given = {"XDPLAB_CACHE": str(open_folder / "cache"), "HOME": str(open_folder)}
    given |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": str(place)}
    wrap = (*(NOBODY if os.geteuid() == 0 else ()), "env", "-C", str(place))
    done = subprocess.run(
        [*wrap, str(installed.bin / "xdplab"), *recipe(program)],
        env=bare_environment() | given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pass: the new one's cost of a frame is not worse" in done.stdout
    if program == "xdp":
        assert len((place / "summary.md").read_text(encoding="utf-8").splitlines()) <= 20


def test_why_its_programs_cannot_be_built_is_reported(installed: Installed, tmp_path: Path) -> None:
    env = {"XDPLAB_CACHE": str(tmp_path), "XDPLAB_STATE": str(tmp_path / "state"), "CLANG": "false"}
    done = installed.run(str(installed.bin / "xdplab"), "doctor", "--json", env=env)
    assert done.returncode == 2, done.stderr
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert (found["xdpgen"]["state"], found["xdpgen"]["found"]) == ("missing", "not built: make failed")
    assert "false" in Path(found["xdpgen"]["fix"].removeprefix("less ")).read_text(encoding="utf-8")


def test_packages_that_are_missing_are_named(tmp_path: Path) -> None:
    for path in tools._BUILD_NEEDS.values():
        if "libbpf" not in path:
            (tmp_path / path.replace("*", "x86_64-linux-gnu")).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path.replace("*", "x86_64-linux-gnu")).touch()
    assert tools._missing_packages(tmp_path) == ["libbpf-dev"]
    assert set(tools._BUILD_NEEDS) <= set((ROOT / "ci" / "packages.txt").read_text(encoding="utf-8").split())


@pytest.mark.slow
@pytest.mark.root
def test_root_it_builds_its_programs_once_and_measures(installed: Installed) -> None:
    env = {"XDPLAB_STATE": str(installed.place / "state")}
    changes = ("--set", "forwarders=[xdp, linux-bridge]", "--set", "answer=null", "--set", "repetitions=1")
    short = ("--set", "method.duration_s=0.2")
    done = installed.run(str(installed.bin / "xdplab"), "run", "latency", *changes, *short, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("building the tester and the XDP programs, once") == 1
    rows = json.loads(installed.xdplab("show", "--json", env=env))
    assert {row["forwarder"] for row in rows if row["status"] == "ok"} == {"xdp", "linux-bridge"}
    (built,) = (installed.place / "cache" / "bpf").glob("*/")
    assert {path.name for path in built.iterdir()} == {"ovsprobe", "xdpapp", "xdpends", "xdpfwd", "xdpgen", "xsk"}
    assert "building" not in installed.run(str(installed.bin / "xdplab"), "doctor", env=env).stderr
