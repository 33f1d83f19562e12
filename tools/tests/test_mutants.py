# SPDX-License-Identifier: Apache-2.0
"""What the replayed exchanges with VPP and TRex are worth: each break of twenty must fail a test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MUTANTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "tools/tests/data/mutants.yaml").read_text(encoding="utf-8"))
#: Which tests play the recordings of which program.
REPLAYS = {"vpp": "test_vpp_replay.py", "trex": "test_trex_records.py"}
#: All that those tests need.
PARTS = (
    "pyproject.toml",
    "tools/xdplab",
    "tools/tests/conftest.py",
    "tools/tests/lab",
    "tools/tests/data",
    "vpp",
    "trex",
)


def replayed(program: str, folder: Path, mutant: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """The replays of a program in a copy of what they need, with one text replaced."""
    for part in (*PARTS, f"tools/tests/{REPLAYS[program]}"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_file():
            shutil.copy(ROOT / part, folder / part)
        else:
            shutil.copytree(ROOT / part, folder / part, copy_function=os.link)  # with what is compiled already
    if mutant:
        broken = folder / mutant["file"]
        text = broken.read_text(encoding="utf-8")
        broken.unlink()  # a second name of ours
        broken.write_text(text.replace(mutant["text"], mutant["replacement"]), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
         "-o", "addopts=", REPLAYS[program]],
        cwd=folder / "tools" / "tests", env={**os.environ, "PYTHONPATH": str(folder / "tools")},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def test_what_they_replace_is_still_there() -> None:
    assert [mutant["program"] for mutant in MUTANTS] == ["vpp"] * 9 + ["trex"] * 10
    counts = {
        mutant["breaks"]: (ROOT / mutant["file"]).read_text(encoding="utf-8").count(mutant["text"])
        for mutant in MUTANTS
    }
    assert {breaks: count for breaks, count in counts.items() if count != 1} == {}
    assert all(mutant["text"] != mutant["replacement"] for mutant in MUTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("program", REPLAYS)
def test_a_copy_with_nothing_broken_passes(program: str, tmp_path: Path) -> None:
    done = replayed(program, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["breaks"])
def test_the_replays_notice(mutant: dict[str, Any], tmp_path: Path) -> None:
    done = replayed(mutant["program"], tmp_path, mutant)
    assert done.returncode == 1, done.stdout + done.stderr  # 2: nothing could be tested
    assert "1 failed" in done.stdout
