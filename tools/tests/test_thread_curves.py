# SPDX-License-Identifier: Apache-2.0
"""Throughput over threads: what is said of it, never firmer than what was measured."""

from typing import Any

import pytest
from lab import studies
from lab.claims import RATE, searched
from lab.records import point, run_record, trial

from xdplab import app
from xdplab.analysis import summarise
from xdplab.methods.rfc2544.cores import Curve, curves
from xdplab.runner import make_plan
from xdplab.testers import make_tester
from xdplab.tools import project_root

STUDY = project_root() / "suites" / "studies" / "scaling.yaml"


def curve_of(two: list[float], *, limited: Any = ("forwarder", "forwarder"), repetitions: int = 5) -> Curve:
    """Open vSwitch with one thread at 1 Mpps, and with two."""
    points = [point(f"ovs-afxdp:pmd_cores={each},n_rxq={each}") for each in (1, 2)]
    run = run_record(*points, study={"method": {"name": "rfc2544"}, "repetitions": 5})
    found = summarise(run, [trial(each, 0) for each in points])
    rates = (RATE[:repetitions], two[:repetitions])
    (curve,) = curves(run, [searched(*each) for each in zip(found, rates, limited, strict=True)])
    return curve


def test_efficiency_is_a_range_between_repetitions() -> None:
    alone, both = curve_of([1.6e6, 1.58e6, 1.62e6, 1.6e6, 1.6e6]).lines
    assert alone == "ovs-afxdp, 64 bytes, through: 1 thread, 1 queue: 1 Mpps"
    assert both == "ovs-afxdp, 64 bytes, through: 2 threads, 2 queues: 1.6 Mpps, 77 to 82 % of 2 times one thread"


def test_what_the_tester_limits_is_a_lower_bound() -> None:
    lines = curve_of([1.6e6] * 5, limited=("forwarder", "tester")).lines
    assert lines[1].endswith("at least 1.6 Mpps, at least 78 % of 2 times one thread (limited by the tester)")


def test_one_thread_that_took_all_has_no_multiple() -> None:
    lines = curve_of([1.6e6] * 5, limited=("tester", "forwarder")).lines
    assert "%" not in " ".join(lines)
    assert lines[-1].endswith("no efficiency: one thread took all that the tester sent")


def test_three_repetitions_are_too_few_to_call_it() -> None:
    assert curve_of([1.6e6] * 5, repetitions=3).lines[-1].endswith("too few repetitions to call it: 3, 4 are needed")


def test_forwarders_without_a_number_of_threads_have_no_curve() -> None:
    points = [point("ovs-afxdp"), point("ovs-afpacket")]
    run = run_record(*points, study={"method": {"name": "rfc2544"}, "repetitions": 5})
    assert curves(run, summarise(run, [trial(each, 0) for each in points])) == []


@pytest.mark.parametrize("name", ["ovs-afxdp", "vpp-afxdp"])
def test_the_study_gives_each_thread_a_queue(name: str) -> None:
    study = app.read_study(STUDY)
    plan = make_plan(study, studies.a_testbed("embedded"), make_tester(study.tester))
    options = [each.forwarder.options for each in plan.points if each.forwarder.name == name]
    threads = [(int(each.get("pmd_cores", each.get("workers", 0))), int(each["n_rxq"])) for each in options]
    assert sorted(threads) == [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4)]
