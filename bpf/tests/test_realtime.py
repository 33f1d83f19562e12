# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Senders that never leave their core: `chrt -f`, as users of real-time kernels start the tester."""

import json
import signal
import subprocess

import pytest
from conftest import XDPGEN, clean, config, counts, only, stream

SENDERS = pytest.mark.parametrize("sender", ["live", "xsk"])
ENOUGH_S = 10


def started(net, *prefix, **more):
    ports = [net.port("a0", tx_cpu=0), net.port("c0")]
    argv = [*prefix, XDPGEN, "-"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps(config(ports, stream(pps=1000.0), **more)))
    process.stdin.close()
    process.stdin = None
    return process


def result_of(process):
    try:
        out, _ = process.communicate(timeout=ENOUGH_S)
    finally:
        process.kill()
    assert process.returncode == 0
    return json.loads(out)


@SENDERS
@pytest.mark.parametrize("priority", ["1", "99"])
def test_it_ends(direct, sender, priority):
    """Even when control has no core but that of the sender; no priority is above the highest."""
    process = started(direct, "taskset", "-c", "0", "chrt", "-f", priority, sender=sender)
    assert counts(only(result_of(process))) == clean(300)


@SENDERS
def test_a_signal_ends_it(direct, sender):
    process = started(direct, "chrt", "-f", "1", sender=sender, duration_s=60)
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
    result = result_of(process)
    assert result["interrupted"] and 0 < result["elapsed_s"] < ENOUGH_S
