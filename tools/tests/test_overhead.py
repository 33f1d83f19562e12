# SPDX-License-Identifier: Apache-2.0
"""Dead time between measurements."""

import pytest
from lab.records import point, trial

from xdplab.analysis.runs.overhead import overhead
from xdplab.hosts import waiting
from xdplab.model import PointFailed, TrialRecord


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


def test_what_is_waited_for_is_looked_at_soon_and_then_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(waiting.time, "sleep", pauses.append)
    waiting.wait_until(lambda: len(pauses) == 5, 10.0, "five pauses")
    assert pauses == [0.001, 0.002, 0.004, 0.005, 0.005]
    with pytest.raises(PointFailed, match="nothing: timed out after 0 s"):
        waiting.wait_until(lambda: False, 0.0, "nothing")
