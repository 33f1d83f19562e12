# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.6 on namespaces: how long the suite itself waits between stop and start is not the forwarder's time."""

from pathlib import Path

import pytest
from lab import studies

from xdplab import app
from xdplab.cli.progress import ConsoleListener
from xdplab.runner import visit

pytestmark = pytest.mark.root

_SHORT_S, _LONG_S = 0.05, 0.25


def shortest_reset(results: Path, monkeypatch: pytest.MonkeyPatch, wait_s: float) -> tuple[float, float]:
    """Of five restarts of `xdp` the time of reset, and the gap that it was read from, of the shortest one, in s."""
    monkeypatch.setattr(visit, "_QUEUE_RELEASE_S", wait_s)
    study = studies.study(
        testbed="embedded", tester="xdpgen", forwarders="xdp", method={"name": "reset"}, repetitions=5,
        disturbance={"max_repeats": 0},
    )  # fmt: skip
    with ConsoleListener() as listener:
        folder, outcome = app.run_study(app.prepare(study), listener, results / str(wait_s))
    assert outcome.error is None
    found = [each.figures for each in folder.trials() if each.purpose == "figures"]
    return min((figures["reset_us"] / 1e6, figures["gap_us"] / 1e6) for figures in found if figures["reset_us"])


def test_a_reset_reads_alike_however_long_the_suite_waits(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ by less than the waits do: on a busy machine the sender itself stands still for part of that."""
    short, short_gap = shortest_reset(results, monkeypatch, _SHORT_S)
    long, long_gap = shortest_reset(results, monkeypatch, _LONG_S)
    assert long_gap - short_gap > 0.5 * (_LONG_S - _SHORT_S)
    assert long - short < 0.7 * (_LONG_S - _SHORT_S)
