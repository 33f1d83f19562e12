# SPDX-License-Identifier: Apache-2.0
"""Who stalls a sender on veth: the forwarder's receive half on its core, or a process that takes the core away."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


def seen(lab: Lab) -> list[tuple[float, float, float]]:
    """Of each trial's time: the sender stood still, by the machine, by the forwarder."""
    assert lab.run(**STUDY).complaints == []
    trials = [trial for trial in lab.trials() if trial.result and trial.purpose == "measure"]
    assert len(trials) == 5
    assert {trial.status for trial in trials} == {"ok"}
    both = [(each.result, each.disturbance) for each in trials]
    return [(result.stalled_share, one.stalled_share, one.receive_half_share) for result, one in both if result and one]


@pytest.mark.slow
def test_the_receive_half_of_a_bridge_stalls_the_sender_and_is_not_the_machine(lab: Lab) -> None:
    found = seen(lab)
    # of the time that the sender had its core: other programs may run on this machine
    assert max(forwarder / (1 - machine) for _, machine, forwarder in found) > 0.25, found
    assert [machine for _, machine, _ in found] == [
        pytest.approx(max(0.0, whole - forwarder)) for whole, _, forwarder in found
    ]


def test_a_busy_loop_on_the_senders_core_is_the_machine(lab: Lab) -> None:
    """How much depends on how busy the sender would be, which other tests decide, too; whose it is does not."""
    with busy_loop(0):
        found = seen(lab)
    assert sum(whole > 0.15 and machine > 0.9 * whole for whole, machine, _ in found) >= 4, found
