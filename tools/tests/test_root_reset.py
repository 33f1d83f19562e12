# SPDX-License-Identifier: Apache-2.0
"""RFC 2544 §26.6 on namespaces: how long the suite itself waits between stop and start is not the forwarder's time.

The rest of a restart is a few ms on a quiet machine and half a second next to a compiler, so nothing here says how long
it may take: each bound holds however slow the machine is.
"""

import time
from pathlib import Path
from typing import Any

import pytest
from lab import studies

from xdplab import app
from xdplab.cli.study import ConsoleListener
from xdplab.forwarders.kernel.xdp import XdpForwarder
from xdplab.runner import session

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("in_process")]

_WAIT_S, _START_S = 0.25, 0.15


@pytest.mark.slow
def test_a_reset_is_the_gap_less_what_the_suite_waits(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all of what the forwarder needs to start is its own."""
    start = XdpForwarder.start

    def slow(self: XdpForwarder, *args: Any) -> None:
        time.sleep(_START_S)
        start(self, *args)

    monkeypatch.setattr(session, "wait_for_queues", lambda *_: time.sleep(_WAIT_S))
    monkeypatch.setattr(XdpForwarder, "start", slow)
    study = studies.study(
        testbed="embedded", tester="quick", forwarders="xdp", method={"name": "reset", "drain_s": 0.5}, repetitions=2,
    )  # fmt: skip
    with ConsoleListener() as listener:
        folder, outcome = app.run_study(app.prepare(study), listener, results)
    assert outcome.error is None
    found = [each.figures for each in folder.trials() if each.purpose == "figures"]
    assert len(found) == 2
    for figures in found:
        assert figures["came_back"]
        assert figures["gap_us"] >= figures["own_us"] >= _WAIT_S * 1e6, "our wait lies within the gap"
        assert figures["reset_us"] == pytest.approx(figures["gap_us"] - figures["own_us"])
        assert figures["reset_us"] >= _START_S * 1e6
