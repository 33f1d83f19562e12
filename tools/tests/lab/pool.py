# SPDX-License-Identifier: Apache-2.0
"""Suites that pabot runs over a pool of testbeds."""

import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

from lab.command import BIN, environment

_SUITE = """*** Settings ***
Library    xdplab.robot.XdplabLibrary

*** Test Cases ***
{name}
    Run Study    {study}    testbed=${{TESTBED}}
    Every Forwarder Was Measured
"""


def pool_of(folder: Path, entries: dict[str, str]) -> Path:
    """A resource file: section -> its lines."""
    path = folder / "pool.dat"
    path.write_text("".join(f"[{name}]\n{lines}\n" for name, lines in entries.items()), encoding="utf-8")
    return path


def suite(folder: Path, name: str, study: Path) -> Path:
    """A Robot suite of one test, which runs a study on the testbed that it is given."""
    path = folder / f"{name}.robot"
    path.write_text(_SUITE.format(name=name, study=study), encoding="utf-8")
    return path


def pabot(
    folder: Path, *args: object, testbed: str = "pool", env: Mapping[str, str] | None = None
) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code, and test -> (status, message)."""
    output = folder / "robot"
    argv = [str(BIN / "pabot"), "--outputdir", str(output), "--pabotlibport", "0", "-v", f"TESTBED:{testbed}"]
    argv += map(str, args)
    given = {**(env or environment()), "PATH": f"{BIN}:{os.environ['PATH']}"}  # pabot starts `robot` by its name
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, env=given, cwd=folder, check=False)
    assert (output / "output.xml").exists(), done.stdout + done.stderr
    tests = ET.parse(output / "output.xml").getroot().iter("test")
    found = {test.attrib["name"]: test.find("status") for test in tests}
    return done.returncode, {
        name: (status.attrib["status"], status.text or "") for name, status in found.items() if status is not None
    }
