# SPDX-License-Identifier: Apache-2.0
"""A connection that is lost costs the repetition that it is lost in, which is taken again once."""

from pathlib import Path

import pytest
from lab import studies

from xdplab import app
from xdplab.cli.study import ConsoleListener
from xdplab.model import HostLost, LinkLost, TrialRecord
from xdplab.testbed import FakeTestbed

LOST = "lost the connection to host b"


def trials(results: Path) -> list[TrialRecord]:
    method = {"name": "latency", "duration_s": 0.05, "light_pps": 1000, "light_duration_s": 0.05}
    study = studies.study(testbed="fake", tester="fake", forwarders=["fake"], method=method, repetitions=2)
    with ConsoleListener() as listener:
        folder, outcome = app.run_study(app.prepare(study), listener, results)
    assert outcome.interrupted is None
    assert not folder.load().ended_early or str(outcome.error) == folder.load().ended_early
    return folder.trials()


class Links:
    """After which of the trials the connection is lost; it can be made again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lost_after: int, again: bool = True) -> None:
        self.taken = -1  # the first check is that of the look at the testbed
        self.lost_after, self.again, self.lost = lost_after, again, False
        monkeypatch.setattr(FakeTestbed, "check_connections", lambda _: self.check())
        monkeypatch.setattr(FakeTestbed, "reconnect", lambda _: self.reconnect())

    def check(self) -> None:
        self.taken += 1
        if self.taken in self.lost_after:
            self.lost = True
            raise LinkLost(LOST)

    def reconnect(self) -> list[str]:
        if self.lost and not self.again:
            raise HostLost("b: not reached again")
        lost, self.lost = self.lost, False
        return ["b"] if lost else []


def ends(found: list[TrialRecord]) -> list[tuple[int, str, str]]:
    return [(trial.repetition, trial.status, trial.reason) for trial in found if trial.purpose == "end"]


def test_it_is_taken_again_with_the_trials_that_it_has(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = trials(results)
    links = Links(monkeypatch, 2)  # the second trial of the first repetition
    found = trials(results)
    assert ends(found) == [(0, "ok", f"{LOST}; repeated once"), (1, "ok", "")]
    key = [(trial.repetition, trial.trial, trial.clause, trial.purpose) for trial in found]
    assert key == [(trial.repetition, trial.trial, trial.clause, trial.purpose) for trial in undisturbed]
    assert links.taken == len([trial for trial in found if trial.result]) + 1
    assert f"repetition 1: {LOST}; the repetition will be repeated once" in " ".join(capsys.readouterr().err.split())


def test_it_is_not_taken_a_third_time(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Links(monkeypatch, 1, 2)
    first, second = ends(trials(results))
    assert first == (0, "failed", f"{LOST}, repeated once with the same result")
    assert second == (1, "ok", "")


def test_a_host_that_does_not_come_back_ends_the_run(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Links(monkeypatch, 1, again=False)
    assert ends(trials(results)) == []
