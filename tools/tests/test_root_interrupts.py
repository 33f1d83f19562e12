# SPDX-License-Identifier: Apache-2.0
"""Signals at every stage of a run on real namespaces, and what `xdplab restore` finds after kill -9."""

import os
import signal
from typing import Any

import pytest
from lab.command import guardians, wait_for
from lab.rooted import Lab, hugepages

pytestmark = pytest.mark.root

MEASURE = "lab.saboteur:QuickXdpgen.measure"
UP = {"at": "xdplab.testbed.embedded:EmbeddedTestbed._add_link", "call": 2}
CALIBRATION = {"at": "xdplab.runner.tester_pool:calibrate"}
START = {"at": "xdplab.forwarders.ovs.daemon:Ovs._wait_until_configured"}
TRIAL = {"at": MEASURE, "call": 2, "after_s": 0.15}
CLEAN_UP = {"at": "xdplab.runner.session:PointSession._clean_up", "call": 2}
#: The first call is of `recover`, before the run.
DOWN = {"at": "xdplab.testbed.embedded:EmbeddedTestbed.down", "call": 2}


def struck(lab: Lab, moment: dict[str, Any], number: str, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "forwarders": ["ovs-afxdp"],
        "repetitions": 2,
        "method": {"name": "latency", "duration_s": 0.4},
        **changes,
    }
    return lab.run({"target": "self", "signal": number, **moment}, **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "number"), [(UP, "SIGINT"), (CALIBRATION, "SIGTERM")], ids=["testbed up-SIGINT", "calibration-SIGTERM"]
)
def test_a_signal_before_anything_is_measured_leaves_nothing_at_all(
    lab: Lab, moment: dict[str, Any], number: str
) -> None:
    done = struck(lab, moment, number)
    lab.assert_nothing_left()
    assert not lab.results.exists() or list(lab.results.iterdir()) == []
    done.refused(f"ended by {number}", code=130)


@pytest.mark.parametrize(
    ("moment", "number", "trials"),
    [
        pytest.param(START, "SIGINT", 0, id="forwarder start-SIGINT", marks=pytest.mark.slow),
        pytest.param(TRIAL, "SIGINT", 1, id="trial-SIGINT"),
        pytest.param(TRIAL, "SIGTERM", 1, id="trial-SIGTERM", marks=pytest.mark.slow),
        pytest.param(CLEAN_UP, "SIGTERM", 2, id="clean-up-SIGTERM"),
        pytest.param(DOWN, "SIGINT", 2, id="testbed down-SIGINT", marks=pytest.mark.slow),
    ],
)
def test_a_signal_in_a_run_keeps_the_trials_and_puts_everything_back(
    lab: Lab, moment: dict[str, Any], number: str, trials: int
) -> None:
    done = struck(lab, moment, number)
    lab.assert_nothing_left()
    assert [each.status for each in lab.trials() if each.result] == ["ok"] * trials
    assert (lab.results / "latest" / "report.html").exists()
    done.refused(f"ended by {number}", code=130)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        UP,
        {**TRIAL, "call": 1},
    ],
    ids=["testbed up", "trial"],
)
def test_down_after_kill_9_leaves_nothing(lab: Lab, moment: dict[str, Any]) -> None:
    done = struck(lab, moment, "SIGKILL")
    assert done.code == -signal.SIGKILL
    assert lab.namespaces()
    down = lab.down()
    assert (down.code, down.complaints) == (0, [])
    wait_for(lambda: not lab.processes(), "the tester's end")
    lab.assert_nothing_left()


def test_a_guardian_restores_after_sigterm_and_with_its_output_closed(lab: Lab) -> None:
    """As systemd ends what is left of a service, and where a pipe or a terminal has gone."""
    process = lab.start("run", lab.study(forwarders=["xdp"], method={"name": "latency", "duration_s": 30}))
    wait_for(lambda: {"xdpgen", "xdpfwd"} <= set(lab.processes().values()), "a trial")
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    process.stderr.close()
    (guardian,) = guardians(process.pid)
    os.kill(guardian, signal.SIGTERM)
    process.kill()
    process.wait()
    wait_for(lambda: not lab.processes(), "the guardian's end")
    lab.assert_nothing_left()


@pytest.mark.slow
def test_down_after_kill_9_gives_hugepages_back(lab: Lab) -> None:
    before = hugepages()
    done = struck(lab, {**TRIAL, "call": 1}, "SIGKILL", forwarders=["testpmd:hugepages=true"])
    assert done.code == -signal.SIGKILL
    down = lab.down()
    assert down.complaints == []
    assert f"hugepages_2m back to {before}" in down.out
    assert hugepages() == before
    assert lab.namespaces() == []
    wait_for(lambda: not lab.processes(), "the tester's end")
    lab.assert_nothing_left()


@pytest.mark.parametrize(
    ("forwarder", "pipeline"),
    [
        ("xdp", "cross"),
        ("ovs-afxdp", "cross"),
        pytest.param("testpmd", "cross", marks=pytest.mark.slow),
        pytest.param("xdp", "af-xdp-apps:1", marks=pytest.mark.slow),  # which have given up their privileges
    ],
)
def test_nothing_runs_on_after_kill_9(lab: Lab, forwarder: str, pipeline: str) -> None:
    done = struck(
        lab,
        {**TRIAL, "call": 1, "after_s": 1.0},  # it has read what is asked for, also on a busy machine
        "SIGKILL",
        forwarders=[forwarder],
        pipeline=[pipeline],
        method={"name": "latency", "duration_s": 30},
    )
    assert done.code == -signal.SIGKILL
    wait_for(lambda: not lab.processes(), "the end of tester and forwarder")
    assert lab.namespaces()
    assert lab.down().complaints == []
    lab.assert_nothing_left()


def test_a_run_killed_in_a_trial_is_resumed_to_its_end(lab: Lab) -> None:
    struck(lab, TRIAL, "SIGKILL", forwarders=["xdp"])
    assert len([each for each in lab.trials() if each.result]) == 1
    done = lab.xdplab("run", "--resume", "latest")
    assert done.complaints == []
    assert sorted(each.repetition for each in lab.trials() if each.result) == [0, 1]
    lab.assert_nothing_left()


@pytest.mark.slow
def test_a_search_killed_in_a_trial_is_resumed_without_repeating_one(lab: Lab) -> None:
    method = {"name": "rfc2544", "preset": "quick", "clauses": ["throughput"], "loss_ratios": [0.0]}
    method |= {"budget_s": 2, "drain_s": 0.1}
    done = struck(lab, {**TRIAL, "call": 3}, "SIGKILL", repetitions=1, method=method)
    assert done.code == -signal.SIGKILL
    kept = lab.trials()
    assert kept
    assert not [each for each in kept if each.purpose == "figures"]
    assert lab.xdplab("run", "--resume", "latest").complaints == []
    trials = lab.trials()
    assert [*trials[: len(kept)]] == [*kept]
    numbers = [each.trial for each in trials if each.purpose == "search"]
    assert numbers == list(range(len(numbers)))
    (found,) = [each.figures for each in trials if each.purpose == "figures"]
    asked = [each.offered_pps for each in trials if each.purpose == "search"]
    assert [step["load_pps"] for step in found["steps"]] == asked
    lab.assert_nothing_left()
