# SPDX-License-Identifier: Apache-2.0
"""The study of each group's best under load can be run as it is written, by testers with and without a schedule."""

from typing import Any

import pytest
from lab import records, studies

from xdplab.analysis.sweep import analyse_sweep
from xdplab.analysis.sweep.follow_up import follow_up
from xdplab.model import StudySpec, validated
from xdplab.runner import make_plan
from xdplab.testers import make_tester

SWEPT: dict[str, Any] = {
    "path": "hairpin",
    "forwarders": ["xsk:touch=macswap"],
    "options": {"xsk": {"batch": [1, 64, 128], "wait": ["spin", "poll"]}},
    "knobs": {"napi_defer_hard_irqs": [0, 2]},
    "repetitions": 1,
}


@pytest.mark.parametrize(
    ("tester", "swept", "no_interval"),
    [
        ({"tester": "xdpgen"}, set(), {"load_share": 1.0}),
        ({"tester": "xsk-ping", "tester_options": {"wait": ["spin", "poll"]}}, {"tester.wait"}, {"probe_pps": 100e6}),
    ],
)
def test_the_best_of_each_group_are_planned_at_two_loads(
    tester: dict[str, Any], swept: set[str], no_interval: dict[str, float]
) -> None:
    study = studies.study(**SWEPT, **tester)
    testbed = studies.a_testbed("embedded")
    points = make_plan(study, testbed, *map(make_tester, study.all_testers)).points
    run = records.run_record(*points).model_copy(update={"study": study})
    slow = [point.forwarder.options["wait"] == "poll" for point in points]
    trials = [records.trial(point, 0, [30_000 if waits else 5_000]) for point, waits in zip(points, slow, strict=True)]
    (found,) = analyse_sweep(run, trials)
    written = follow_up(run, found, bandwidth_bps=1e9)
    equation, endless = written["loads"]
    assert equation["probe_pps"] == pytest.approx(1e9 * 5e-6 / 512, rel=0.002)  # the histogram's three digits
    assert endless == no_interval
    listed = written["design"]["points"]
    assert listed
    assert all(swept | {"forwarder", "xsk.batch", "xsk.wait", "napi_defer_hard_irqs"} == set(each) for each in listed)
    again = validated(StudySpec, written, "under load")
    planned = make_plan(again, testbed, *map(make_tester, again.all_testers)).points
    assert len(planned) == 2 * len(listed)
    assert {point.tester for point in planned} <= {"", *again.all_testers}
