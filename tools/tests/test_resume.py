# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of a run, then `xdplab run --resume`: nothing twice, nothing missing."""

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import studies
from lab.command import Done, finish, start, wait_for

from xdplab.runner import make_plan
from xdplab.testers import make_tester


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, saboteur: Callable[..., dict[str, str]]) -> Path:
    """Results of a run that was killed after its fourth trial."""
    folder = tmp_path_factory.mktemp("killed")
    results = folder / "results"
    own = {"XDPLAB_RESULTS": str(results), "XDPLAB_STATE": str(folder / "state")}
    path = studies.study_file(folder, tester="slow-fake", repetitions=4)
    process = start("run", path, env=saboteur(LAB_TRIAL_S="0.05", **own))
    wait_for(lambda: sum(bool(line["result"]) for line in studies.lines(results)) >= 4, "four trials")
    process.send_signal(signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    return results


def visits(results: Path) -> Counter[tuple[str, int]]:
    return Counter(studies.measured(studies.only_run(results).trials()))


def test_a_run_that_was_killed_can_be_shown_and_drawn(killed: Path, cli: Callable[..., Done]) -> None:
    rows = cli("show", "--json", "--results", killed).json()
    assert sum(row["repetitions"] for row in rows) == sum(visits(killed).values()) >= 4
    assert cli("report", "--results", killed).code == 0
    assert studies.only_run(killed).report.is_file()


def test_a_resumed_run_is_complete_and_measures_nothing_twice(
    killed: Path, cli: Callable[..., Done], in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TRIAL_S", "0")
    run = studies.only_run(killed)
    before = run.trials()
    journal = run.path / "trials.jsonl"
    journal.write_bytes(journal.read_bytes() + journal.read_bytes().splitlines()[0][:200])  # half a line
    plan = make_plan(studies.study(repetitions=4), studies.a_testbed(), make_tester("fake"))
    for _ in range(2):  # a run that is complete can be resumed too, and stays as it is
        done = cli("run", "--resume", "latest", "--results", killed)
        assert (done.code, done.complaints) == (0, [])
        assert run.trials()[: len(before)] == before
        assert visits(killed) == {(visit.point.id, visit.repetition): 1 for visit in plan.visits}
    head = run.load()
    assert head.finished
    assert not head.ended_early


def test_a_live_run_keeps_its_testbed(
    tmp_path: Path, results: Path, cli: Callable[..., Done], saboteur: Callable[..., dict[str, str]]
) -> None:
    process = start(
        "run", studies.study_file(tmp_path, tester="slow-fake", repetitions=50), env=saboteur(LAB_TRIAL_S="0.2")
    )
    try:
        wait_for(lambda: studies.lines(results), "the first trial")
        cli("run", studies.study_file(tmp_path)).refused("testbed fake: in use by process", str(process.pid))
        cli("down", "--testbed", "fake").refused("in use by process", str(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        finish(process)


def test_run_needs_a_study_or_a_run(cli: Callable[..., Done], tmp_path: Path) -> None:
    cli("run").refused("give a study file, or --resume RUN")
    cli("run", studies.study_file(tmp_path), "--resume", "latest").refused("give a study file, or --resume RUN")
    cli("run", "--resume", "nothing").refused("run 'nothing': no run.json")
