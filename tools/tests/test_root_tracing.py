# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing, measured on a real testbed: all ways at once, and nothing of them left."""

import shutil
from pathlib import Path

import pytest
from lab.rooted import Lab

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("lab")]
UPROBES = Path("/sys/kernel/tracing/uprobe_events")


def test_every_way_is_measured_beside_trials_without(lab: Lab) -> None:
    method = {"name": "tracing", "rates_pps": [5000], "pairs": 2, "duration_s": 0.2, "warmup_s": 0.05}
    done = lab.run(forwarders=["xsk", "xsk:trace_every=10", "xdp"], method=method)
    assert done.complaints == [], done.err
    every, tenth, kernel = lab.rows()
    assert (kernel["status"], kernel["repetitions"]) == ("unsupported", 0)
    assert "does not stamp batches itself" in kernel["reason"]
    for row, most in ((every, 2600), (tenth, 280)):
        assert (row["status"], row["reason"]) == ("ok", "")
        heard = [
            (trial.clause, stream.received) for trial in lab.trials() if trial.result for stream in trial.result.streams
        ]
        assert "tracing" in row["figures"], heard
        ways = {one["way"]: one for one in row["figures"]["tracing"]}
        assert set(ways) == {"in-band", "bpf", "perf"}
        if shutil.which("perf") is None:
            assert "linux-perf" in ways.pop("perf")["reason"]
        for way in ways.values():
            assert way["pairs"] == 2
            assert way["verdict"] == "no interval"
            # of 5000 frames/s in 0.25 s, twice; a busy machine sends fewer
            assert 3 < way["recorded"] <= way["seen"] < most
            assert way["stages_us"]["kick"]["p50"] > 0
        assert (ways["bpf"]["stages_us"]["wait"] is None) == (row is tenth)
    order = [trial.point_id for trial in lab.trials() if trial.result]
    rows = [set(order[at : at + 4]) for at in range(0, len(order), 4)]  # of trials, by turns
    assert [len(row) for row in rows] == [1] * 4, order
    assert (rows[0] != rows[1], rows[2] != rows[3]) == (True, True), order
    assert not UPROBES.exists() or "xdplab_" not in UPROBES.read_text()
    lab.assert_nothing_left()
