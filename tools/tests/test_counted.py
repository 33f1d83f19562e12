# SPDX-License-Identifier: Apache-2.0
"""What a trial added to a forwarder's counters, of which some were not at zero when it began."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done

from xdplab.forwarders.base import Counting
from xdplab.forwarders.fake import FakeForwarder
from xdplab.forwarders.kernel.bridge import LinuxBridge
from xdplab.forwarders.kernel.router import LinuxRouter
from xdplab.forwarders.kernel.xdp import XdpForwarder
from xdplab.forwarders.ovs.forwarder import OvsForwarder
from xdplab.forwarders.vpp.forwarder import VppForwarder
from xdplab.forwarders.xsk.forwarder import XskForwarder, XskOptions
from xdplab.model import TrialResult, TrialSpec, plugins
from xdplab.runner.disturbance import added
from xdplab.runner.session import PointSession


def counts(monkeypatch: pytest.MonkeyPatch, **methods: Callable[..., Any]) -> None:
    """Let `fake` be a class of its own: isinstance() remembers for a class which protocols it has."""
    find, other = plugins.find, type("CountingFake", (FakeForwarder,), methods)
    monkeypatch.setattr(
        plugins, "find", lambda *asked: other if asked[-1] == "fake" and "forw" in asked[0] else find(*asked)
    )


def test_only_what_was_added_counts_at_any_depth() -> None:
    before = {"b0": {"rx_pkts": 20, "rx_drop": 7}, "errors": {}, "label": "x"}
    after = {"b0": {"rx_pkts": 120, "rx_drop": 7}, "errors": {"no-buffers": 3}, "label": "x"}
    assert added(before, after) == {"b0": {"rx_pkts": 100, "rx_drop": 0}, "errors": {"no-buffers": 3}}


def test_a_forwarder_that_was_started_anew_has_counted_since_then() -> None:
    assert added({"b0": {"rx": 500, "tx": 1}}, {"b0": {"rx": 90, "tx": 80}}) == {"b0": {"rx": 90, "tx": 80}}


@pytest.mark.parametrize("cumulative", [True, False])
def test_the_record_of_a_trial_has_none_of_the_drops_before_it(
    tmp_path: Path, results: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, cumulative: bool
) -> None:
    """Ports that outlast a forwarder begin with what was dropped in the repetition before."""
    readings = itertools.count(1)

    def counters(_: FakeForwarder) -> dict[str, Any]:
        return {"b0": {"rx_pkts": 1000 * next(readings), "rx_drop": 812}}

    monotonic = (lambda self, counters: counters) if cumulative else (lambda self, counters: {})
    counts(monkeypatch, counters=counters, monotonic=monotonic)
    assert cli("run", studies.study_file(tmp_path)).code == 0
    measured = [trial for trial in studies.only_run(results).trials() if trial.result is not None]
    assert measured
    for trial in measured:
        assert trial.counters["b0"]["rx_drop"] == 812
        assert trial.increments == ({"b0": {"rx_pkts": 1000, "rx_drop": 0}} if cumulative else {})


def test_nothing_is_reported_of_a_trial_in_which_the_forwarder_was_restarted(
    tmp_path: Path, results: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 frames of the old one and 4,000 of the new one would be 3,000."""
    frames = {"rx": 0}

    def run(self: PointSession, spec: TrialSpec, after_s: float, trial: str) -> TrialResult:
        frames["rx"] = 4000
        return self.send(spec).model_copy(update={"restart_own_ns": 1})

    counts(
        monkeypatch,
        counters=lambda self: {"thread": dict(frames)},
        monotonic=lambda self, counters: counters,
        start=lambda self, dut: frames.update(rx=1000),
    )
    monkeypatch.setattr(PointSession, "_run_with_restart", run)
    method = {"name": "rfc2544", "clauses": ["throughput", "reset"], "preset": "quick", "budget_s": 5}
    assert cli("run", studies.study_file(tmp_path, method=method, forwarders=["fake"], repetitions=1)).code == 0
    trials = [trial for trial in studies.only_run(results).trials() if trial.result is not None]
    reported = {trial.result.restart_own_ns is not None: trial.increments for trial in trials if trial.result}
    assert reported[True] == {}
    assert "thread" in reported[False]


def test_switches_whose_counters_outlast_a_trial_say_so() -> None:
    counting = (OvsForwarder, VppForwarder, LinuxBridge, LinuxRouter, XdpForwarder, XskForwarder)
    assert [each for each in counting if not issubclass(each, Counting)] == []


def test_sockets_of_xsk_keep_their_names_and_their_numbers_are_of_the_trial() -> None:
    def reported(rx: int, full: int | None) -> dict[str, Any]:
        kernel = None if full is None else {"rx_ring_full": full}
        socket = {"ifname": "b0", "queue": 3, "number": 1, "rx": rx, "kernel": kernel}
        return {"event": "counters", "elapsed_s": 1.5, "sockets": [socket], "workers": [{"turns": rx * 2}]}

    xsk = XskForwarder(XskOptions())
    assert added(xsk.monotonic(reported(20, 4)), xsk.monotonic(reported(120, 6))) == {
        "sockets": {"b0 queue 3 number 1": {"rx": 100, "kernel": {"rx_ring_full": 2}}},
        "workers": {"0": {"turns": 200}},
    }
    assert xsk.monotonic(reported(20, None))["sockets"]["b0 queue 3 number 1"] == {"rx": 20, "kernel": {}}
