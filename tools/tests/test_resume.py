# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of a run, then `xdplab run --resume`: nothing twice, nothing missing."""

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done, finish, start, wait_for, xdplab

from xdplab.runner import make_plan
from xdplab.testers import make_tester


@pytest.fixture
def killed(tmp_path: Path, results: Path, saboteur: Callable[..., dict[str, str]]) -> dict[str, str]:
    """A run that was killed after its fourth trial; the environment that it ran in."""
    env = saboteur(LAB_TRIAL_S="0.05")
    path = studies.study_file(tmp_path, tester="slow-fake", repetitions=6)
    process = start("run", path, env=env)
    wait_for(lambda: len(studies.lines(results)) >= 4, "four trials")
    process.send_signal(signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    return env


def complete(results: Path) -> None:
    found = studies.measured(studies.only_run(results).trials())
    spec = studies.study(repetitions=6)
    visits = make_plan(spec, studies.a_testbed(), make_tester("fake")).visits
    assert Counter(found) == {(visit.point.id, visit.repetition): 1 for visit in visits}


def test_a_resumed_run_is_complete_and_measures_nothing_twice(killed: dict[str, str], results: Path) -> None:
    run = studies.only_run(results)
    before = run.trials()
    journal = run.path / "trials.jsonl"
    journal.write_bytes(
        journal.read_bytes() + journal.read_bytes().splitlines()[0][:200]
    )  # half a line, as kill -9 leaves it
    done = xdplab("run", "--resume", "latest", env=killed)
    assert (done.code, done.complaints) == (0, [])
    assert run.trials()[: len(before)] == before
    complete(results)
    head = run.load()
    assert head.finished
    assert not head.ended_early
    again = xdplab("run", "--resume", run.path, env=killed)
    assert again.code == 0
    complete(results)


def test_a_run_that_was_killed_can_be_shown_and_drawn(killed: dict[str, str], results: Path) -> None:
    assert xdplab("show", env=killed).code == 0
    assert xdplab("report", env=killed).code == 0
    assert "not measured" not in xdplab("show", "--json", env=killed).out
    assert studies.only_run(results).report.is_file()


def test_a_live_run_keeps_its_testbed(tmp_path: Path, results: Path, saboteur: Callable[..., dict[str, str]]) -> None:
    env = saboteur(LAB_TRIAL_S="0.2")
    path = studies.study_file(tmp_path, tester="slow-fake", repetitions=50)
    process = start("run", path, env=env)
    try:
        wait_for(lambda: studies.lines(results), "the first trial")
        xdplab("run", path, env=env).refused("testbed fake: in use by process", str(process.pid))
        xdplab("down", "--testbed", "fake", env=env).refused("in use by process", str(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        finish(process)


def test_run_needs_a_study_or_a_run(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run").refused("give a study file, or --resume RUN")
    cli("run", studies.study_file(tmp_path), "--resume", "latest").refused("give a study file, or --resume RUN")
    cli("run", "--resume", "nothing").refused("run 'nothing': no run.json")
