# SPDX-License-Identifier: Apache-2.0
"""A program that burns CPU time next to its frames is found to have done so; one without a thread costs little."""

import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from lab.rooted import Lab

from xdplab.model import TrialRecord
from xdplab.tools import bpf_program

pytestmark = pytest.mark.root

#: Forwards by xdpfwd, burns 4 of every 10 ms, and writes down what it has taken so far: its own clock is the truth.
_BURNER = """
import subprocess, sys, time
file = open(sys.argv[1], "a")
subprocess.Popen(sys.argv[2:])
while True:
    until, burnt = time.monotonic() + 0.01, time.process_time() + 0.004
    while time.process_time() < burnt:
        pass
    print(time.time(), time.process_time(), file=file, flush=True)
    time.sleep(max(0.0, until - time.monotonic()))
"""
#: A tick of the scheduler, and the looks at the clocks, which are not at one moment.
_TOLERANCE, _TOLERANCE_S = 0.05, 0.03


def burnt_s(file: Path, trial: TrialRecord) -> float:
    """What the program says of the time between the two looks; the record is written right behind the second."""
    assert trial.cpu is not None
    at, taken = np.loadtxt(file).T
    end = datetime.fromisoformat(trial.started).timestamp()
    first, last = np.interp([end - trial.cpu.elapsed_s, end], at, taken)
    return float(last - first)


def test_a_planted_burner_is_found_within_five_per_cent(lab: Lab, tmp_path: Path) -> None:
    burner, log, xdpfwd = tmp_path / "burner.py", tmp_path / "log", str(bpf_program("xdpfwd"))
    burner.write_text(_BURNER, encoding="utf-8")
    argv = [sys.executable, str(burner), str(log), xdpfwd, "--if0={port_a}", "--if1={port_b}"]
    burns = {"name": "command", "label": "burns", "options": {"argv": argv, "redirects": True}}
    method = {"name": "latency", "duration_s": 1.0, "warmup_s": 0.1, "drain_s": 0.5}
    allowed = ["--allow-program", sys.executable]
    planted = alone = None
    # frames of a test on another worker may come to a CPU meanwhile, and nobody knows whose they are
    for _ in range(20):
        done = lab.run(forwarders=[burns, "xdp"], method=method, traffic={"probe_pps": 50_000}, options=allowed)
        assert done.code == 0, done.err
        lab.assert_nothing_left()
        points = {at: point.forwarder.title for at, point in lab.newest().load().points.items()}
        found = {points[trial.point_id]: trial for trial in lab.trials() if trial.result and trial.purpose == "measure"}
        cpu = {title: trial.cpu for title, trial in found.items()}
        if alone is None and cpu["xdp"] and cpu["xdp"].softirq_s is not None:
            alone = cpu["xdp"]
        if cpu["burns"] and cpu["burns"].softirq_s is not None:
            planted, truth = cpu["burns"], burnt_s(log, found["burns"])
            prices = {row["forwarder"]: row["measured"]["cpu_s_per_mframes"] for row in lab.rows()}
        if planted and alone:
            break
    assert planted, cpu["burns"]
    assert alone, cpu["xdp"]
    assert truth > 2 * _TOLERANCE_S  # on a busy machine it gets little, but more than may be missed
    assert planted.forwarder_s == pytest.approx(truth, rel=_TOLERANCE, abs=_TOLERANCE_S)
    assert alone.forwarder_s < 0.01  # its loader sleeps
    assert prices["burns"]["value"] == pytest.approx(1e6 * truth / planted.frames, rel=0.5), prices
