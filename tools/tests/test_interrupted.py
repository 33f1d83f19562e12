# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM, SIGHUP: what was measured is kept, the testbed is free, exit code 130; the third gives up."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import BIN, finish, start, wait_for

from xdplab.hosts import LocalHost
from xdplab.hosts.kernel import has_carrier
from xdplab.hosts.signals import check_interrupted
from xdplab.model import Interrupted, XdplabError
from xdplab.runner import deferred, interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
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


def test_a_signal_is_not_taken_for_an_error_of_what_it_meets() -> None:
    """The file of a port that is down cannot be read: a doctor that met the signal there went on, and ended with 0."""

    class Host(LocalHost):
        def read(self, path: str) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            return super().read(path)

    with interruptible(), pytest.raises(Interrupted, match="SIGINT"):
        has_carrier(Host(), "lo")


def test_a_signal_is_not_lost_where_what_cleans_up_after_it_fails() -> None:
    def trial() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            raise XdplabError("the connection is lost")

    with interruptible():
        check_interrupted()
        with pytest.raises(XdplabError, match="lost"):
            trial()
        with pytest.raises(Interrupted, match="SIGINT"):
            check_interrupted()
    check_interrupted()  # another run of this process


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
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in numbers] == before


def test_nohup_stays_in_force() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_could_not_be_put_back_is_said_next_to_the_signal() -> None:
    def clean_up() -> None:
        with deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            raise XdplabError("b: b0 is not as before")

    with interruptible(), pytest.raises(Interrupted, match="SIGTERM; what was measured is kept; b: b0 is not as"):
        clean_up()


def test_a_closed_terminal_ends_a_run_as_a_signal_does(
    tmp_path: Path, results: Path, state: Path, saboteur: Callable[..., dict[str, str]]
) -> None:
    """All that it writes from then on fails, which is in the way of nothing."""
    path = studies.study_file(tmp_path, tester="slow-fake", repetitions=100)
    terminal, its_end = os.openpty()
    process = subprocess.Popen(
        [str(BIN / "xdplab"), "run", str(path)],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        env=saboteur(LAB_TRIAL_S="0.1"),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(its_end)
    threading.Thread(target=_drain, args=(terminal, stop := threading.Event()), daemon=True).start()
    wait_for(lambda: len(studies.lines(results)) >= 2, "two trials")
    stop.set()
    assert process.wait(30) == 130
    run = studies.only_run(results)
    assert "SIGHUP" in (run.load().ended_early or "")
    assert run.report.exists()
    assert not (state / "fake.json").exists()


def _drain(terminal: int, stop: threading.Event) -> None:
    """Take what is written to a terminal, and close it when that is asked for."""
    while not stop.is_set():
        if select.select([terminal], [], [], 0.05)[0]:
            os.read(terminal, 65536)
    os.close(terminal)


def test_the_third_signal_gives_up_and_says_what_restores() -> None:
    code = (
        "import time, types\nfrom xdplab.runner import deferred, interruptible\n"
        "from xdplab.runner.recovery import guarded\nlab = types.SimpleNamespace(kind='hosts', file='my lab.yaml')\n"
        "with interruptible('my lab.yaml'), guarded(lab), deferred():\n print('here', flush=True)\n time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    lines = iter(process.stderr.readline, "")
    assert any("still putting back what was changed; the next signal gives up" in line for line in lines)
    process.send_signal(signal.SIGINT)
    done = finish(process, 10)
    done.refused("given up by SIGINT", "`xdplab restore --testbed 'my lab.yaml'` does it", code=130)
    assert "being restored" not in done.err.partition("given up")[2]  # nobody does it unasked
