# SPDX-License-Identifier: Apache-2.0
"""The testers that are applications: every path, no frame lost, times of the program's own sockets."""

import pytest
from lab.rooted import Lab

pytestmark = pytest.mark.root


@pytest.mark.parametrize(
    ("tester", "paths"), [("xsk", ["through", "hairpin", "reflect"]), ("xsk-afpacket", ["through"])]
)
def test_an_application_measures_every_path(lab: Lab, tester: str, paths: list[str]) -> None:
    traffic = {"probe_pps": 2000, "load_pps": 1000}
    assert lab.run(path=paths, tester=tester, forwarders=["xsk"], traffic=traffic).complaints == []
    rows = lab.rows()
    assert [(row["path"], row["status"], row["loss_ratio"]) for row in rows] == [(path, "ok", 0) for path in paths]
    for row in rows:
        assert row["samples"] > 5  # a busy machine leaves some of the schedule out
        assert 0.5 < row["p50_us"] <= row["p99_us"] < 1e6
    for trial in lab.trials():
        if trial.result:
            assert trial.result.tester == tester
            assert all(stream.received == stream.sent > 20 for stream in trial.result.streams)
    lab.assert_nothing_left()
