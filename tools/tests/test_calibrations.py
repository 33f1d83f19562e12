# SPDX-License-Identifier: Apache-2.0
"""Whose calibration holds for the next run too, and what ends that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.reading import render

from xdplab import app
from xdplab.hosts import LocalHost
from xdplab.model import Calibration
from xdplab.results import find_run
from xdplab.runner import Listener, calibrations
from xdplab.testers.fake import FakeTester


class Told(Listener):
    """What a run tells its listener."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The fake tester says what it is made of, which a test may change; reports are not drawn; nothing is stolen."""
    parts = {"program": "digest"}
    at_first = calibrations.cpu_use(LocalHost())
    monkeypatch.setattr(calibrations, "cpu_use", lambda host: at_first)
    monkeypatch.setattr(FakeTester, "identity", lambda self: parts)
    monkeypatch.setattr("xdplab.app.write_report", lambda *_: None)
    return parts


def a_run(results: Path, *, fresh: bool = False, **changes: Any) -> tuple[Calibration, list[str]]:
    """Its calibration and what was told of calibrations."""
    reported = Told()
    study = studies.study(**{"repetitions": 1, **changes})
    _, outcome = app.run_study(app.prepare(study), reported, results, recalibrate=fresh)
    assert outcome.record.calibration is not None
    return outcome.record.calibration, [line for line in reported.notes if "calibrat" in line]


def trials(notes: list[str]) -> int:
    """How many of the tester's trials were told."""
    return sum(line.startswith("calibrating ") for line in notes)


def test_the_next_run_has_the_calibration_of_the_one_before_and_says_so(results: Path) -> None:
    first, notes = a_run(results)
    assert trials(notes) == 3
    assert first.taken is not None
    assert first.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    assert not first.reused
    second, notes = a_run(results)
    assert trials(notes) == 0
    assert second == first.model_copy(update={"reused": True})
    assert (
        f"(calibration of {first.taken[11:19]} UTC, boot {first.boot_id[:8]}; --calibrate measures again)" in notes[0]
    )


def test_the_report_says_that_a_calibration_is_of_an_earlier_run(results: Path) -> None:
    pages = []
    for _ in range(2):
        taken = a_run(results)[0].taken
        newest = find_run("latest", results)
        pages.append(render(newest.load(), newest.trials()))
    said = [f"was calibrated for an earlier run, at {taken}, of the same boot" in page for page in pages]
    assert said == [False, True]


def test_it_is_measured_anew_when_that_is_asked_for(results: Path, tmp_path: Path, cli: Callable[..., Done]) -> None:
    a_run(results)
    second, notes = a_run(results, fresh=True)
    assert trials(notes) == 3
    assert not second.reused
    study = studies.study_file(tmp_path, repetitions=1)
    assert "--calibrate measures again" in cli("run", study).err
    assert "--calibrate measures again" not in cli("run", study, "--calibrate").err


def test_a_tester_that_does_not_say_what_it_is_made_of_is_always_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeTester, "identity", lambda self: None)
    assert [trials(a_run(results)[1]) for _ in range(2)] == [3, 3]


def test_another_build_of_the_tester_is_measured(results: Path, program: dict[str, str]) -> None:
    a_run(results)
    program["program"] = "another digest"
    _, notes = a_run(results)
    assert trials(notes) == 3
    assert "is discarded: tester.program differs" in notes[0]


def test_another_frame_and_another_setting_of_the_machine_are_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(results)
    assert trials(a_run(results, traffic={"frame_bytes": 512, "probe_pps": 1000})[1]) == 3
    capture = app.StudyRun.__init__.__globals__["capture_environment"]
    other = lambda *args: capture(*args).model_copy(update={"governor": "another"})  # noqa: E731
    monkeypatch.setattr("xdplab.runner.run.capture_environment", other)
    _, notes = a_run(results)
    assert trials(notes) == 3
    assert "is discarded: governor differs" in notes[0]


def test_after_another_boot_and_after_ten_minutes_it_is_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(results)
    with monkeypatch.context() as later:
        now_s = calibrations._now_s
        later.setattr(calibrations, "_now_s", lambda: now_s() + calibrations.HOLDS_S - 60)
        assert trials(a_run(results)[1]) == 0
        later.setattr(calibrations, "_now_s", lambda: now_s() + calibrations.HOLDS_S + 1)
        _, notes = a_run(results)
        assert "is discarded: it is 10 min old, and holds for 10" in notes[0]
    _, notes = a_run(results)  # that one is of the future: no clock to go by
    assert trials(notes) == 3
    monkeypatch.setattr(calibrations, "_boot", lambda host: "another boot")
    _, notes = a_run(results)
    assert "is discarded: boot.dut and 1 more differs" in notes[0]
    assert trials(notes) == 3


@pytest.mark.parametrize("disturbed", ["stall", "steal"])
def test_one_of_a_disturbed_machine_holds_for_its_own_run_only(
    results: Path, monkeypatch: pytest.MonkeyPatch, disturbed: str
) -> None:
    real = FakeTester.run
    taken = iter(range(0, 10**16, 10**13))
    with monkeypatch.context() as machine:
        if disturbed == "stall":
            stalled = {"stalled_ns": 10**8, "elapsed_s": 0.5}
            machine.setattr(FakeTester, "run", lambda *args: real(*args).model_copy(update=stalled))
            why = "its sender stalled 20.0% of a trial"
        else:
            really = calibrations.cpu_use

            def stolen(host: Any) -> dict[int, Any]:
                return {cpu: type(each)(each.softirq_ns, next(taken)) for cpu, each in really(host).items()}

            machine.setattr(calibrations, "cpu_use", stolen)
            why = "stolen by the hypervisor"
        _, notes = a_run(results)
        assert any("holds for this run only" in line and why in line for line in notes), notes
    found, notes = a_run(results)
    assert trials(notes) == 3
    assert not found.reused


def test_a_disturbed_one_leaves_no_older_one_behind(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_run(results)
    real = FakeTester.run
    with monkeypatch.context() as machine:
        stalled = {"stalled_ns": 10**8, "elapsed_s": 0.5}
        machine.setattr(FakeTester, "run", lambda *args: real(*args).model_copy(update=stalled))
        a_run(results, fresh=True)
    assert trials(a_run(results)[1]) == 3


@pytest.mark.parametrize("held", ["{", "[]", '{"x": {"at_s": 1}}', '{"x": 1}'])
def test_a_calibration_that_cannot_be_read_is_reported_and_replaced(results: Path, state: Path, held: str) -> None:
    a_run(results)
    [path] = state.glob("*.calibrations")
    path.write_text(held, encoding="utf-8")
    _, notes = a_run(results)
    assert trials(notes) == 3
    assert trials(a_run(results)[1]) == 0


def test_what_is_kept_says_what_a_cpu_of_xdpgen_sends(results: Path) -> None:
    made, _ = a_run(results)
    (path,) = calibrations.volatile_dir().glob("*.calibrations")
    assert calibrations.sender_pps(path.stem, made.frame_bytes) is None  # that was another tester
    path.write_text(path.read_text("utf-8").replace(r"\"fake\"", r"\"xdpgen\""), "utf-8")
    assert calibrations.sender_pps(path.stem, made.frame_bytes) == made.top_pps
    assert calibrations.sender_pps(path.stem, made.frame_bytes + 1) is None
    path.write_text("{", "utf-8")
    assert calibrations.sender_pps(path.stem, made.frame_bytes) is None
