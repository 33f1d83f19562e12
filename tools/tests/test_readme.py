# SPDX-License-Identifier: Apache-2.0
"""Every command of the README and of its sequels does what it says: make targets exist, others are run in order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lab.command import environment

ROOT = Path(__file__).resolve().parents[2]
README = "README.md"
#: As a reader comes by them: later commands read the results of earlier ones.
PAGES = (README, "docs/tutorial.md", "docs/suites.md")
#: Commands of these run elsewhere: page -> test.
ELSEWHERE = {
    "docs/ci.md": "test_gate.py",
    "docs/cost.md": "test_cost.py",
    "docs/install.md": "test_wheel.py",
    "docs/kernels.md": "test_cost.py",
    "docs/own-programs.md": "test_root_own_programs.py",
}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def commands(*pages: str) -> list[str]:
    blocks = [block for page in pages for block in re.findall(r"```sh\n(.*?)```", text_of(page), re.DOTALL)]
    lines = [re.sub(r"\s{2,}#.*", "", line).strip() for block in blocks for line in block.splitlines()]
    return [*dict.fromkeys(line for line in lines if line)]


ALL = commands(*PAGES)


def test_the_readme_is_short_enough_for_a_stranger() -> None:
    assert len(text_of(README).splitlines()) < 100


def test_no_page_has_commands_that_no_test_runs() -> None:
    others = [f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if f"docs/{path.name}" not in PAGES]
    assert {page for page in others if commands(page)} == set(ELSEWHERE)
    tests = {page: (Path(__file__).parent / test).read_text(encoding="utf-8") for page, test in ELSEWHERE.items()}
    assert [page for page, text in tests.items() if Path(page).name not in text] == []


def test_the_readme_shows_both_commands() -> None:
    assert {"make latency", "make test"} <= set(commands(README))


@pytest.mark.parametrize("target", [line.split()[1] for line in ALL if line.startswith("make ")])
def test_make_targets_exist(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


OTHERS = [line for line in ALL if not line.startswith("make ") and line != ". .venv/bin/activate"]


def test_suites_and_commands_are_shown() -> None:
    robots = {path.name for path in (ROOT / "suites").glob("*.robot")}
    shown = {word.removeprefix("suites/") for line in OTHERS for word in line.split() if word.endswith(".robot")}
    assert shown == robots
    assert any(line.startswith("xdplab show") for line in OTHERS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: later commands read the results of earlier ones."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("suites", "tools"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize(
    "document", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_make_targets_that_documents_name_are_there(document: str) -> None:
    named = set(re.findall(r"`make\s+([a-z-]+)", (ROOT / document).read_text(encoding="utf-8")))
    made = set(re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= {target for line in made for target in line.split()}


#: What is added to a command where it searches: each trial that loses frames waits two seconds for them (RFC 2544
#: section 23), and at 29,761 frames of 64 bytes a second, what such a medium carries, few trials lose any. Searches
#: that lose frames are those of `ovs_comparison.robot` and `vpp_comparison.robot`, which wait half a second.
SLOW_MEDIUM = {
    "suites/rfc2544.robot": ["-v", "LINE_RATE:20e6"],
    "suites/pytest/test_rfc2544.py": ["--line-rate=20e6"],
}

#: Of these no frame is sent: they need no root, and run next to the tests that do.
SIMULATED = [line for line in OTHERS if line.startswith("python tools/dev ")]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("line", SIMULATED)
def test_every_simulation_works(line: str, place: Path) -> None:
    _run(line, place)


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.timeout(600)
@pytest.mark.parametrize("line", [line for line in OTHERS if line not in SIMULATED])
def test_every_other_command_works(line: str, place: Path) -> None:
    _run(line, place)


def _run(line: str, place: Path) -> None:
    given = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDPLAB_RESULTS": str(place / "results"),
        "XDPLAB_STATE": str(place / "state"),
    }
    program, *words = shlex.split(line)
    more = [word for file, added in SLOW_MEDIUM.items() if file in words for word in added]
    done = subprocess.run(
        [program, *more, *words],
        cwd=place,
        env=environment(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=590,
    )
    assert done.returncode == 0, f"{done.stdout[-1500:]}{done.stderr[-1500:]}"
