# SPDX-License-Identifier: Apache-2.0
"""Dead time between measurements."""

import pytest
from lab.records import point, trial

from xdplab.analysis.runs import overhead
from xdplab.hosts import waiting
from xdplab.model import PointFailed, TrialRecord, TrialSpec


def end(repetition_s: float, traffic_s: float, repetition: int = 0, **fields: object) -> TrialRecord:
    given = {"purpose": "end", "repetition_s": repetition_s, "traffic_s": traffic_s, "repetition": repetition, **fields}
    return trial(point(), 0, [1]).model_copy(update={"result": None, **given})


def test_dead_time_is_what_a_repetition_took_beside_its_traffic() -> None:
    found = overhead([trial(point(), 0, [1]), end(3.0, 2.0, forwarder_s=0.75), end(2.5, 2.0, 1), end(4.0, 2.0, 2)])
    assert found is not None
    assert (found.repetitions, found.median_s, found.own_median_s) == (3, 1.0, 0.5)
    assert found.per_trial_s == pytest.approx(3.5)  # three repetitions, one trial
    assert found.p90_s == pytest.approx(1.8)
    assert found.traffic_share == pytest.approx(6.0 / 9.5)


def test_repetitions_without_traffic_say_nothing_of_it() -> None:
    assert overhead([end(3.0, 0.0), end(9.0, 1.0, status="failed")]) is None


def test_simulated_repetitions_have_no_dead_time() -> None:
    """They take less time than the traffic that they stand for: no share of it is 2540 %."""
    assert overhead([trial(point(), 0, [1]), end(0.03, 0.4), end(0.5, 0.4, 1)]) is None


def test_a_turn_s_dead_time_is_between_the_ends_of_two_trials() -> None:
    """Of one round, whoever's turn it was; not across what else was done."""
    asked = TrialSpec(streams=(), duration_s=0.05, warmup_s=0.02)

    def turn(ended_ms: int, repetition: int = 0, purpose: str = "measure") -> TrialRecord:
        made = trial(point(), repetition, [1], turn=0)
        when = f"2026-11-30T09:00:00.{ended_ms:03}+00:00"
        return made.model_copy(update={"asked": asked, "started": when, "purpose": purpose})

    found = overhead(
        [turn(100), turn(200), turn(310), turn(600, 1), turn(690, 1, "search"), turn(900, 1), end(3.0, 2.0)]
    )
    assert found is not None
    assert (found.turn_median_s, found.turn_p90_s) == (pytest.approx(0.035, abs=1e-6), pytest.approx(0.039, abs=1e-6))
    assert overhead([end(3.0, 2.0)]).turn_median_s is None  # type: ignore[union-attr]


def test_what_is_waited_for_is_looked_at_soon_and_then_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(waiting.time, "sleep", pauses.append)
    waiting.wait_until(lambda: len(pauses) == 5, 10.0, "five pauses")
    assert pauses == [0.001, 0.002, 0.004, 0.005, 0.005]
    with pytest.raises(PointFailed, match="nothing: timed out after 0 s"):
        waiting.wait_until(lambda: False, 0.0, "nothing")
