# SPDX-License-Identifier: Apache-2.0
"""Method `changes` on namespaces: what the forwarder shows behind each step, and a change that it takes in silence.

How long anything takes is said by no test: the machine may be busy.
"""

from pathlib import Path
from typing import Any

import pytest
from lab import studies

from xdplab import app
from xdplab.analysis import summarise
from xdplab.cli.progress import ConsoleListener
from xdplab.forwarders.ovs_changes import OvsChanging
from xdplab.methods.changes import carry_out

pytestmark = pytest.mark.root


def measured(results: Path, forwarders: list[str], kinds: list[str], **method: Any) -> dict[str, Any]:
    """`forwarder change` -> its summary, of one repetition."""
    study = studies.study(
        testbed="embedded", tester="xdpgen", forwarders=forwarders, answer=None, pipeline="route:3", repetitions=1,
        traffic={"probe_pps": 2000}, disturbance={"max_repeats": 0},
        method={"name": "changes", "kinds": kinds, "rules": 200, **method},
    )  # fmt: skip
    with ConsoleListener() as listener:
        folder, _ = app.run_study(app.prepare(study), listener, results)
    return {f"{one.forwarder} {one.levels['change']}": one for one in summarise(folder.load(), folder.trials())}


def test_changes_are_seen_to_have_happened_and_the_switch_works_behind_them(results: Path) -> None:
    kinds = ["rules", "rule-stream", "hit-rule", "port-added"]
    found = measured(results, ["ovs-afxdp"], kinds, duration_s=2.0)
    assert {name: (one.status in ("ok", "disturbed"), one.reason) for name, one in found.items() if one.failed} == {}
    for kind in ("rules", "rule-stream"):
        values = found[f"ovs-afxdp {kind}"].by_repetition[0].values
        assert values["installed_per_s"] > 0 < values["removed_per_s"]
    assert all(one.by_repetition for one in found.values())


def test_the_kernels_routes_are_changed_and_put_back(results: Path) -> None:
    found = measured(results, ["linux-router"], ["rules", "rule-stream", "hit-rule"], duration_s=2.0)
    assert {name: one.reason for name, one in found.items() if one.failed or not one.by_repetition} == {}


def test_a_switch_that_takes_rules_and_has_none_is_found_out(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OvsChanging, "_told_to", lambda self, asked: lambda: None)
    monkeypatch.setattr(carry_out, "_SEEN_S", 0.1)
    found = measured(results, ["ovs-afpacket"], ["rules"], duration_s=0.5)
    assert "the change was taken and did not happen: 0 rules are there, not 200" in found["ovs-afpacket rules"].reason
