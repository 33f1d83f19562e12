# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What is compiled does not depend on where it is compiled: guests of `xdplab cost` boot it, byte by byte."""

import shutil
import subprocess
from pathlib import Path

import pytest

BPF = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_program_is_the_same_to_the_last_byte_wherever_its_checkout_lies(tmp_path: Path) -> None:
    made = []
    for place in ("here", "a/longer/path"):
        folder = tmp_path / place
        shutil.copytree(BPF, folder, ignore=shutil.ignore_patterns("build", "tests"))
        subprocess.run(["make", "--silent", "-C", folder, "build/xdpfwd", "cost"], check=True)
        made.append([(folder / "build" / name).read_bytes() for name in ("xdpfwd", "cost/meter", "cost/count.so")])
    assert made[0] == made[1]
