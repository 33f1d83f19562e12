# SPDX-License-Identifier: Apache-2.0
"""Who stalls a sender on veth: the forwarder's receive half on its core, or a process that takes the core away."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from lab.rooted import Lab

pytestmark = pytest.mark.root

#: Half more than what the bridge forwards, so that its receive half takes most of the sender's core.
STUDY: dict[str, Any] = {
    "forwarders": ["linux-bridge"],
    "method": {"name": "latency", "duration_s": 0.5, "warmup_s": 0.05},
    "traffic": {"probe_pps": 10_000, "load_share": 1.5},
    "repetitions": 5,
    # only stalls are judged, and those of a machine that other tests share do not count
    "disturbance": {"max_stalled_share": 0.25, "max_steal_share": 1000, "max_run_delay_share": 1000, "max_repeats": 0},
}


@contextmanager
def busy_loop(cpu: int) -> Iterator[None]:
    """A process that takes half of a CPU from whatever else runs there."""
    loop = subprocess.Popen(["taskset", "--cpu-list", str(cpu), sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def judged(lab: Lab) -> list[tuple[str, float, float]]:
    """Status, the machine's share and the forwarder's share of each trial's time."""
    assert lab.run(**STUDY).complaints == []
    trials = [trial for trial in lab.trials() if trial.result and trial.purpose == "measure"]
    assert len(trials) == 5
    shares = [(each.status, each.disturbance) for each in trials]
    return [(status, one.stalled_share, one.receive_half_share) for status, one in shares if one is not None]


@pytest.mark.slow
def test_the_receive_half_of_a_bridge_stalls_the_sender_and_is_no_disturbance(lab: Lab) -> None:
    found = judged(lab)
    # of the time that the sender had its core: other programs may run on this machine
    assert max(forwarder / (1 - machine) for _, machine, forwarder in found) > 0.25, found
    assert [status == "disturbed" for status, *_ in found] == [machine > 0.25 for _, machine, _ in found], found


def test_a_busy_loop_on_the_senders_core_is_one(lab: Lab) -> None:
    with busy_loop(0):
        found = judged(lab)
    assert sum(status == "disturbed" and machine > 0.25 for status, machine, _ in found) >= 4, found


@pytest.mark.slow
def test_a_run_with_every_core_busy_names_no_winner(lab: Lab) -> None:
    """Between two forwarders of which one is several times as fast, judged as every study is."""
    study = {"forwarders": ["xdp", "linux-bridge"], "answer": ["xdp", "linux-bridge"], "tester": "xdpgen"}
    with ExitStack() as stack:
        for cpu in sorted(os.sched_getaffinity(0)):
            stack.enter_context(busy_loop(cpu))
        done = lab.run(**study, method=STUDY["method"], repetitions=3, disturbance={"max_repeats": 1})
    assert "xdplab names no winner" in done.out, done
    assert {row["disturbed"] > 0 for row in lab.rows()} == {True}
