# SPDX-License-Identifier: Apache-2.0
"""What a user is told while a run goes on, when it ends early, and whose files are there after it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import BIN, NOBODY, Done, environment, xdplab
from lab.reading import a_run
from lab.records import run_record
from robot.api import SkipExecution

from xdplab.hosts.base import Completed
from xdplab.robot import XdplabLibrary
from xdplab.runner import make_plan
from xdplab.testers import make_tester

SWEEP: dict[str, Any] = {
    "forwarders": [{"name": "fake", "label": "one", "options": {"base_latency_us": 9.0}}, "fake"],
    "knobs": {"threaded_napi": [0, 1], "mtu": [1500]},
    "frame_bytes": [64, 128],
    "repetitions": 1,
}


def test_a_line_of_a_sweep_tells_what_varies_and_nothing_else() -> None:
    plan = make_plan(studies.study(**SWEEP), studies.a_testbed(), make_tester("fake"))
    names = {plan.called(point) for point in plan.points}
    assert len(names) == len(plan.points) == 8
    assert "fake, threaded_napi=1, bytes=128" in names
    assert not [name for name in names if "mtu" in name or "path" in name]


def test_progress_names_the_settings(cli: Callable[..., Done], tmp_path: Path) -> None:
    """Simulated ports have no settings of NAPI: sizes vary."""
    reported = cli("run", studies.study_file(tmp_path, **{**SWEEP, "knobs": {}})).err
    assert len(set(re.findall(r"^(?:one|fake).*, bytes=(?:64|128) #1: ", reported, re.MULTILINE))) == 4


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("Error: TC classifier not found.\nWe have an error talking to the kernel\n",
         "Error: TC classifier not found.; We have an error talking to the kernel"),
        ("one\n", "one"),
        ("\n".join("abcdefg"), "a; b; ...; f; g"),
        ("", "said"),
    ],
)  # fmt: skip
def test_a_cause_is_not_cut_to_the_last_line(stderr: str, words: str) -> None:
    assert Completed(("tc",), 2, "more\nsaid\n", stderr).complaint == words
    assert Completed(("tc",), 2, "", "").complaint == "exit code 2"


def test_a_row_that_was_not_asked_for_names_its_variable() -> None:
    library = XdplabLibrary()
    library.read = a_run(run_record())
    with pytest.raises(SkipExecution, match=r"ovs-dpdk was not asked for \(variable FORWARDERS\)"):
        library.forwarder_was_measured("ovs-dpdk")
    with pytest.raises(SkipExecution, match=r"patched was not asked for \(variable VARIANTS\)"):
        library.variant_was_compared("patched")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"-v": "TESTBED:nothing"}, "testbed 'nothing': no such file"),
        ({"XDPLAB_RESULTS": ""}, "XDPLAB_RESULTS: is empty; name a folder, or unset it"),
    ],
    ids=["input", "variable"],
)
def test_bad_input_through_robot_is_one_line_and_ends_the_run(
    tmp_path: Path, given: dict[str, str], words: str
) -> None:
    """Robot tells of a fatal error once, and in its own words that the other rows were not tried."""
    suite = tmp_path / "bad.robot"
    study = studies.study_file(tmp_path)
    suite.write_text(
        "*** Settings ***\nLibrary    xdplab.robot.XdplabLibrary\n"
        f"Suite Setup    Run Study    {study}    testbed=${{TESTBED}}\n"
        "*** Variables ***\n${TESTBED}    ${EMPTY}\n*** Test Cases ***\nOne\n    Log    1\nTwo\n    Log    2\n",
        encoding="utf-8",
    )
    argv = [BIN / "robot", "--outputdir", tmp_path / "out", *(("-v", given["-v"]) if "-v" in given else ()), suite]
    env = environment({key: value for key, value in given.items() if key != "-v"})
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=60)
    assert done.returncode != 0
    assert done.stdout.count(words) >= 1
    assert "Traceback" not in done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if words in line and len(line) > 400] == []


def test_an_interruption_while_libraries_are_loaded_is_no_traceback(tmp_path: Path) -> None:
    """As it comes at any of the imports: each is made to raise it in turn, the first ones and the slow ones."""
    study = studies.study_file(tmp_path)
    for late in ("typer", "xdplab.cli.lab", "xdplab.cli.main", "pydantic", "numpy", "xdplab.app"):
        code = f"""
import sys
class Late:
    def find_spec(self, name, path=None, target=None):
        if name == {late!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Late())
from xdplab.cli import main
sys.argv = ["xdplab", "run", {str(study)!r}, "--dry-run"]
main()
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.strip()) == (130, "xdplab: interrupted"), late


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_the_doctor_works_for_a_user_after_a_run_by_root(open_folder: Path) -> None:
    state = open_folder / "state"
    state.mkdir(mode=0o700)
    done = xdplab("doctor", env=environment({"XDPLAB_STATE": str(state)}), wrap=NOBODY)
    assert done.code == 2
    assert re.search(
        r"^missing  testbed: .*owned by another user, so not visible   -> run it with sudo$", done.out, re.M
    )
    assert re.search(r"^\S+ +namespaces: ", done.out, re.MULTILINE)
    assert done.err == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_files_of_a_sudo_run_belong_to_who_called_it(
    cli: Callable[..., Done], tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65533")
    assert cli("run", studies.study_file(tmp_path)).code == 0
    made = [results, *results.rglob("*")]
    assert {path.name for path in made} >= {"results", "latest", "run.json", "trials.jsonl", "report.html"}
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(65534, 65533)}


def test_a_journal_is_never_a_link(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    """The run's folder may belong to somebody else than who writes."""
    cli("run", studies.study_file(tmp_path))
    journal = studies.only_run(results).path / "trials.jsonl"
    before = journal.read_bytes()
    lines = before.splitlines(keepends=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"".join(lines[:2]))
    journal.unlink()
    journal.symlink_to(elsewhere)
    assert cli("run", "--resume", "latest").code != 0
    assert elsewhere.read_bytes() == b"".join(lines[:2])
