# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM: what was measured is kept, the testbed is free, exit code 130."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import finish, start, wait_for

from xdplab.hosts import LocalHost
from xdplab.model import Interrupted
from xdplab.runner import deferred, interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_a_run_with_130_and_keeps_its_trials(
    tmp_path: Path, results: Path, state: Path, saboteur: Callable[..., dict[str, str]], number: signal.Signals
) -> None:
    path = studies.study_file(tmp_path, tester="slow-fake", repetitions=100)
    process = start("run", path, env=saboteur(LAB_TRIAL_S="0.1"))
    wait_for(lambda: len(studies.lines(results)) >= 2, "two trials")
    process.send_signal(number)
    done = finish(process)
    done.refused(f"ended by {number.name}; what was measured is kept", code=130)
    run = studies.only_run(results)
    assert len(run.trials()) >= 2
    assert number.name in (run.load().ended_early or "")
    assert number.name in run.report.read_text(encoding="utf-8")
    assert not (state / "fake.json").exists()
    assert not (state / "fake.dut").exists()


def test_a_signal_waits_until_clean_up_has_ended() -> None:
    steps = []

    def clean_up() -> None:
        with deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("inner")
            with deferred():
                steps.append("nested")
            steps.append("after nested")
        steps.append("never")

    with interruptible(), pytest.raises(Interrupted, match="SIGTERM"):
        clean_up()
    assert steps == ["inner", "nested", "after nested"]


def test_a_signal_while_a_process_is_started_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller never gets to know it, so nobody else could."""
    real, made = subprocess.Popen, []

    def popen(*args: Any, **more: Any) -> Any:
        made.append(real(*args, **more))
        os.kill(os.getpid(), signal.SIGINT)
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with interruptible(), pytest.raises(Interrupted, match="SIGINT"):
        LocalHost().start(["sleep", "60"], log=tmp_path / "log")
    assert [process.poll() for process in made] == [-signal.SIGTERM]


def test_a_signal_wakes_what_waits_at_once() -> None:
    began = time.monotonic()
    alarm = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT])
    alarm.start()
    with interruptible(), pytest.raises(Interrupted, match="SIGINT"):
        time.sleep(20)
    assert time.monotonic() - began < 10


def test_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
