# SPDX-License-Identifier: Apache-2.0
"""Pause frames that are on at a measured port: what a loss, and a rate that losses decide, is doubted for."""

from typing import Any

import pytest
from lab.reading import render
from lab.records import environment, point, run_record, trial
from test_rfc2544_figures import found, repeated

from xdplab.analysis import compare_points, summarise
from xdplab.analysis.doubts import doubts_of_one, loss_above, remarks_of_one
from xdplab.cli.tables import summary_table
from xdplab.measure import make_method
from xdplab.measure.point import PointSummary
from xdplab.model import Environment, Path, RunRecord, TrialRecord

OURS, THEIRS = point("fake"), point("xdp")
SAID = "pause frames are on at b0 (eth2): a full receiver slows the sender instead of losing frames"


def pause(**states: str) -> str:
    return "".join(f"{name}:\t\t{state}\n" for name, state in {"Autonegotiate": "off", **states}.items())


OFF, ON = pause(RX="off", TX="off"), pause(RX="off", TX="on")


def with_ports(**on: str) -> Environment:
    """Ports of a lab; `on`: role -> what `ethtool -a` prints of it."""
    names = {"a0": "eth1", "b0": "eth2", "b1": "eth3", "c0": "eth4", "d0": "eth5", "d1": "eth6"}
    return environment(ports={role: {"ifname": name, "ethtool -a": on.get(role, OFF)} for role, name in names.items()})


def searched(at: Any, rate: float, **more: Any) -> list[TrialRecord]:
    """Three searches for the throughput without loss."""
    records = repeated(*[found(throughput_pps=rate, lower_pps=rate, upper_pps=rate * 1.005)] * 3)
    return [each.model_copy(update={"point_id": at.id, **more}) for each in records]


def rates(ports: Environment, **more: Any) -> tuple[RunRecord, list[TrialRecord]]:
    run = run_record(OURS, THEIRS, study={"method": {"name": "rfc2544"}}, environment=ports)
    return run, searched(OURS, 9e5, **more) + searched(THEIRS, 3e5)


def pausing(run: RunRecord, trials: list[TrialRecord]) -> PointSummary:
    return summarise(run, trials)[0]


def test_a_rate_that_losses_decide_is_doubted_and_wins_nothing() -> None:
    clean, paused = rates(with_ports()), rates(with_ports(b0=ON))
    assert compare_points(*summarise(*clean), "ndr_pps").better
    comparison = compare_points(*summarise(*paused), "ndr_pps")
    assert comparison.better is None
    assert comparison.blockers.count(SAID) == 1
    ours = pausing(*paused)
    assert (ours.pausing, [*doubts_of_one(ours, "ndr_pps")]) == (("b0 (eth2)",), [SAID])
    assert [*doubts_of_one(pausing(*clean), "ndr_pps")] == []


def test_terminal_and_report_say_it_once() -> None:
    run, trials = rates(with_ports(b0=ON))
    table = summary_table(make_method(run.study.method), summarise(run, trials))
    assert table.count(SAID) == 1
    part = make_method(run.study.method).part(run, summarise(run, trials), "throughput")
    assert [*part.lines].index(SAID) == 2
    page = render(run, trials)
    assert f"<li>P{SAID[1:]}; each loss" in page
    clean = rates(with_ports())
    assert SAID not in summary_table(make_method(run.study.method), summarise(*clean))
    assert SAID[1:] not in render(*clean)


def test_a_latency_is_compared_with_the_remark_and_a_loss_is_not_shown_to_be_within_a_limit() -> None:
    trials = [trial(each, number, [1000] * 2000) for each in (OURS, THEIRS) for number in range(3)]
    run = run_record(OURS, THEIRS, environment=with_ports(b0=ON))
    ours, theirs = summarise(run, trials)
    assert [*remarks_of_one(ours, "p50_us")] == [SAID]
    comparison = compare_points(ours, theirs)
    assert (comparison.blockers, comparison.remarks.count(SAID)) == ((), 1)
    assert loss_above(ours, 0.01).endswith(f"its loss is not shown to be within 1 %: {SAID}")
    unpaused = pausing(run_record(OURS, environment=with_ports()), trials)
    assert (loss_above(unpaused, 0.01), [*remarks_of_one(unpaused, "p50_us")]) == ("", [])


@pytest.mark.parametrize("path", Path)
def test_only_ports_of_the_path_count(path: Path) -> None:
    ports = with_ports(**dict.fromkeys(("a0", "b0", "b1", "c0", "d0", "d1"), ON))
    at = OURS.model_copy(update={"path": path})
    roles = ["a0", "b0"] if path is Path.HAIRPIN else ["a0", "b0", "b1", "c0"]
    assert [each[:2] for each in pausing(run_record(at, environment=ports), [trial(at)]).pausing] == roles


def test_a_point_that_sets_pause_frames_itself_has_its_own() -> None:
    set_on = {
        "pause": {
            "eth2": {"autoneg": "off", "rx": "on", "tx": "on"},
            "eth3": {"autoneg": "off", "rx": "off", "tx": "off"},
        }
    }
    run, trials = rates(with_ports(b1=ON), knobs=set_on)
    ours, theirs = summarise(run, trials)
    assert (ours.pausing, theirs.pausing) == (("b0 (eth2)",), ("b1 (eth3)",))


def test_pause_frames_that_came_back_in_the_run_count() -> None:
    ports = with_ports().model_copy(update={"low_latency": {"c0": {"pause": "not in force: pause: eth4 has on"}}})
    assert pausing(*rates(ports)).pausing == ("c0 (eth4)",)


def test_runs_of_before_it_was_recorded_say_nothing() -> None:
    run, trials = rates(environment(ports={"b0": {"ifname": "eth2"}}))
    assert pausing(run, trials).pausing == ()
