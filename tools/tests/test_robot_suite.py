# SPDX-License-Identifier: Apache-2.0
"""suites/latency.robot on the simulated testbed."""

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from lab import studies
from lab.command import BIN, environment

from xdplab.tools import project_root

SUITE = project_root() / "suites" / "latency.robot"


def robot(tmp_path: Path, **variables: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code, and test or suite -> (status, message)."""
    given = {"TESTBED": "fake", "TESTER": "fake", "REPETITIONS": "2", "DURATION": "0.1", **variables}
    options = [word for name, value in given.items() for word in ("-v", f"{name}:{value}")]
    folder = tmp_path / "robot"
    done = subprocess.run(
        [BIN / "robot", "--outputdir", folder, "--log", "NONE", "--report", "NONE", *options, SUITE],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
    )
    root = ET.parse(folder / "output.xml").getroot()
    status = {
        each.attrib["name"]: each.find("status")
        for kind in ("test", "suite")
        for each in root.iter(kind)
        if "name" in each.attrib
    }
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, {
        name: (each.attrib["status"], each.text or "") for name, each in status.items() if each is not None
    }


def test_the_latency_suite_passes_on_the_simulated_testbed(tmp_path: Path, results: Path) -> None:
    code, tests = robot(tmp_path, FORWARDERS="fake fake:base_latency_us=9.0")
    assert code == 0
    assert tests["Every Other Forwarder Asked For"] == ("PASS", "")
    assert tests["OVS on AF_PACKET"][0] == "SKIP"
    assert "ovs-afpacket was not asked for" in tests["OVS on AF_PACKET"][1]
    assert "PASS" in {status for status, _ in tests.values()}
    assert "FAIL" not in {status for status, _ in tests.values()}
    run = studies.only_run(results)
    assert run.report.is_file()
    assert len(studies.measured(run.trials())) == 4


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"FORWARDERS": "fake fake:fail_to_start=true"}, "did not start, as its option"),
        ({"FORWARDERS": "nothing"}, "forwarder 'nothing': unknown"),
    ],
    ids=["a forwarder fails", "bad input"],
)
def test_the_suite_fails_with_the_reason(tmp_path: Path, variables: dict[str, str], words: str) -> None:
    code, tests = robot(tmp_path, **variables)
    assert code > 0
    assert any(words in message for status, message in tests.values() if status == "FAIL")
