# SPDX-License-Identifier: Apache-2.0
"""Containerfile: what it takes is in the checkout and is not ignored, and its commands are ours (docs/install.md)."""

import re
import subprocess

import pytest

from xdplab import tools
from xdplab.tools import project_root

ROOT = project_root()
LINES = re.sub(r"\\\n\s*", "", (ROOT / "Containerfile").read_text(encoding="utf-8")).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line and not line.startswith("#")]


def of(kind: str) -> list[str]:
    return [rest for step, rest in STEPS if step == kind]


def test_it_is_made_of_debian_and_the_checkout() -> None:
    assert [name.split()[0] for name in of("FROM")] == ["debian:12", "debian:12"]  # a name, and the host of no registry
    copied = [each for rest in of("COPY") if "--from" not in rest for each in rest.split()[:-1]]
    assert {"ci/packages", "ci/packages.txt"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_no_file_of_the_project_is_ignored() -> None:
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=ROOT, capture_output=True, check=True)
    files = listed.stdout.decode().splitlines()
    assert len(files) > 500
    anchored = [each for each in patterns if "*" not in each]
    assert [name for name in files if any(f"{name}/".startswith(f"{each}/") for each in anchored)] == []


@pytest.mark.parametrize("line", of("RUN"))
def test_a_command_is_one_for_the_shell(line: str) -> None:
    subprocess.run(["sh", "-n", "-c", line], check=True)


def test_what_its_python_imports_is_there() -> None:
    imports = [each for line in of("RUN") for each in re.findall(r"from xdplab\.tools import ([\w, ]+)", line)]
    assert imports
    assert [name for each in imports for name in each.split(", ") if not hasattr(tools, name)] == []


def test_its_entry_is_the_command_of_the_wheel() -> None:
    assert of("ENTRYPOINT") == ['["xdplab"]']
