# SPDX-License-Identifier: Apache-2.0
"""Method `changes` on namespaces: what the forwarder shows behind each step, and a change that it takes in silence.

How long anything takes is said by no test: the machine may be busy.
"""

from pathlib import Path
from typing import Any

import pytest
from lab import studies

import xdplab_changes
from xdplab import app
from xdplab.analysis import summarise
from xdplab.cli.study import ConsoleListener
from xdplab.forwarders.ovs.changes import OvsChanges

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("in_process")]


def measured(results: Path, forwarder: str, *kinds: str, pipeline: str = "route:3", **method: Any) -> dict[str, Any]:
    """Change -> its summary, of one repetition."""
    study = studies.study(
        testbed="embedded", tester="quick", forwarders=forwarder, answer=None, pipeline=pipeline, repetitions=1,
        traffic={"probe_pps": 2000},
        method={"name": "changes", "kinds": kinds, "rules": 200, **method},
    )  # fmt: skip
    found: dict[str, Any] = {}
    for _ in range(3):  # as it asks for itself, where others had the CPUs when the change was to begin
        with ConsoleListener() as listener:
            folder, _ = app.run_study(app.prepare(study), listener, results)
        found = {str(one.levels["change"]): one for one in summarise(folder.load(), folder.trials())}
        if not any("repeat on an idle machine" in one.reason for one in found.values()):
            break
    return found


@pytest.mark.parametrize(("forwarder", "kinds"), [("ovs-afxdp", ("rules", "port-added")), ("linux-router", ("rules",))])
def test_changes_are_seen_to_have_happened_and_it_works_behind_them(
    results: Path, forwarder: str, kinds: tuple[str, ...]
) -> None:
    found = measured(results, forwarder, *kinds, duration_s=1.2, once_s=2.0)
    assert {name: one.reason for name, one in found.items() if one.failed or not one.by_repetition} == {}
    (one,) = found["rules"].by_repetition
    assert (one.value("installed_per_s") or 0) > 0
    assert (one.value("removed_per_s") or 0) > 0
    if "port-added" in found:
        (one,) = found["port-added"].by_repetition
        assert 100 < (one.value("first_frame_us") or 0) < 5e6


def test_new_flows_are_new_connections_of_a_firewall(results: Path) -> None:
    """It has them in its table by its own count, or the point would have failed, and each came through."""
    found = measured(results, "linux-router", "new-flows", pipeline="conntrack", duration_s=0.5)["new-flows"]
    assert found.failed == 0
    (one,) = found.by_repetition
    assert one.value("lost_frames") == 0
    assert (one.value("new_flows_per_s") or 0) > 0


def test_a_switch_that_takes_rules_and_has_none_is_found_out(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OvsChanges, "sender", lambda self, asked: lambda: None)
    monkeypatch.setattr(xdplab_changes, "_SEEN_S", 0.1)
    found = measured(results, "ovs-afpacket", "rules", duration_s=0.5)
    assert "the change was accepted but did not happen: 0 rules are there, not 200" in found["rules"].reason
