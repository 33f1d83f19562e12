# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Latencies by clocks that differ: of the sender, of a card, of the CPU where a frame arrives."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import BPF, compiled


@pytest.mark.parametrize(
    ("ahead_ns", "latency_ns", "driver_ns", "complete_ns", "reversed_"),
    [(-300, 300, 300, 1300, 0), (0, 0, 0, 1000, 0), (400, 0, 0, 600, 1), (900_000, 0, 0, 0, 1)],
)
def test_a_time_before_it_began_is_0(tmp_path, ahead_ns, latency_ns, driver_ns, complete_ns, reversed_):
    """Not 584 years: an arrival by a clock that is behind the sender's or the card's."""
    used = [path.relative_to(BPF) for path in sorted(BPF.glob("common/*.c"))]
    used += [f"xsk/{name}.c" for name in ("account", "distribution", "samples", "stages")]
    libraries = ("jansson", "bpf", "xdp", "z", "m")
    program = compiled(tmp_path / "behind", Path(__file__).with_name("behind.c"), *used, libraries=libraries)
    done = subprocess.run([program, str(ahead_ns)], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == {
        "latency": [1, latency_ns, latency_ns],
        "sample": latency_ns,
        "driver": driver_ns,
        "stack": 1000,
        "complete": complete_ns,
        "reversed": reversed_,
        "waited": max(0, -ahead_ns),
    }
