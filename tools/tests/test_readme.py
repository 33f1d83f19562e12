# SPDX-License-Identifier: Apache-2.0
"""Every command of the README does what it says: the make targets exist, all others are run here, in order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [re.sub(r"\s{2,}#.*", "", line).strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def test_the_readme_shows_both_commands() -> None:
    assert {"make latency", "make test"} <= set(commands())


@pytest.mark.parametrize("target", [line.split()[1] for line in commands() if line.startswith("make ")])
def test_make_targets_exist(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


OTHERS = [line for line in commands() if not line.startswith("make ") and line != ". .venv/bin/activate"]


def test_suites_and_commands_are_shown() -> None:
    robots = {path.name for path in (ROOT / "suites").glob("*.robot")}
    shown = {word.removeprefix("suites/") for line in OTHERS for word in line.split() if word.endswith(".robot")}
    assert shown == robots
    assert any(line.startswith("xdplab show") for line in OTHERS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: later commands read the results of earlier ones."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "suites").symlink_to(ROOT / "suites")
    return folder


@pytest.mark.parametrize(
    "document", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_make_targets_that_documents_name_are_there(document: str) -> None:
    named = set(re.findall(r"`make\s+([a-z-]+)", (ROOT / document).read_text(encoding="utf-8")))
    made = set(re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= {target for line in made for target in line.split()}


#: Of these no frame is sent: they need no root, and run beside the tests that do.
SIMULATED = [line for line in OTHERS if line.startswith("xdplab dev ")]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("line", SIMULATED)
def test_every_simulation_works(line: str, place: Path) -> None:
    _run(line, place)


@pytest.mark.root
@pytest.mark.timeout(600)  # RFC 2544 section 23 waits two seconds for what is lost, in each of some sixty trials
@pytest.mark.parametrize("line", [line for line in OTHERS if line not in SIMULATED])
def test_every_other_command_works(line: str, place: Path) -> None:
    _run(line, place)


def _run(line: str, place: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDPLAB_RESULTS": str(place / "results"),
        "XDPLAB_STATE": str(place / "state"),
    }
    done = subprocess.run(
        shlex.split(line), cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=590
    )
    assert done.returncode == 0, f"{done.stdout[-1500:]}{done.stderr[-1500:]}"
