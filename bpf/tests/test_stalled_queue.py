# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Several receive queues, one of which does not progress: its frames are lost, those of the others are not."""

import contextlib
import os
import subprocess
import sys
import time

import pytest
from conftest import clean, config, counts, net_up, sh, stream
from test_trials import serving

#: A queue of the port for each: on veth frames that were sent on CPU n arrive in queue n modulo queues.
CPUS = sorted(os.sched_getaffinity(0))[:2]
FRAMES = 400
TIMES = {"warmup_s": 0.02, "duration_s": 0.2, "drain_s": 0.1}
#: Shorter than the second in which the kernel lets nobody wait for a real-time thread.
HOG_S = 0.85
#: Real-time priorities: of the thread that keeps a queue from its CPU, of the sender, of the queue that progresses.
HOG, SENDER, PROGRESS = 5, 10, 90
TAKE_THE_CPU = f"""
import os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param({HOG}))
print("ready", flush=True)
end = time.monotonic() + {HOG_S}
while time.monotonic() < end:
    pass
"""

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def napi_threads():
    """Process ids of the threads that poll the queues of a port c0, by the number of the queue's NAPI."""
    found = [line.split() for line in sh("ps", "-eo", "pid=,comm=").splitlines()]
    return {int(name.removeprefix("napi/c0-")): int(pid) for pid, name in found if name.startswith("napi/c0-")}


@pytest.fixture
def queues():
    """a0 -- c0, and the thread of each of the two queues of c0, which is bound to the CPU whose frames it takes."""
    with net_up(("a0", "c0"), queues=2) as net:
        others = napi_threads()
        net.exec("c", "sh", "-c", "echo 1 > /sys/class/net/c0/threaded")
        found = napi_threads()
        threads = [found[napi] for napi in sorted(found.keys() - others.keys())]
        assert len(threads) == 2
        for cpu in CPUS:
            sh("taskset", "-p", "-c", cpu, threads[cpu % 2])
            sh("chrt", "-f", "-p", PROGRESS, threads[cpu % 2])
        yield net, threads


@contextlib.contextmanager
def stalled(thread, cpu):
    """It does not get its CPU: the sender has it, and behind it somebody else. Yields whether that is so still."""
    sh("chrt", "-o", "-p", 0, thread)
    argv = [sys.executable, "-c", TAKE_THE_CPU, str(cpu)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield lambda: process.poll() is None
        finally:
            process.kill()
    sh("chrt", "-f", "-p", PROGRESS, thread)


@pytest.mark.parametrize("receiver", [{}, {"rx": "tc"}], ids=["xdp", "tc"])
@pytest.mark.parametrize("which", [0, 1])
def test_the_other_queue_is_exact_and_nothing_waits_for_the_one_that_is_stalled(queues, which, receiver):
    net, threads = queues
    cpu = CPUS[which]
    ports = [net.port("a0", tx_cpu=CPUS[0]), net.port("c0", **receiver)]
    streams = [stream(id=n, flows=7, tx_cpu=each) for n, each in enumerate(CPUS)]
    run = config(ports, *streams, **TIMES)
    with serving("chrt", "-f", str(SENDER)) as process:
        before = process.trial(run)
        for _ in range(
            10
        ):  # a busy machine may take longer than HOG_S, or have spent some of the kernel's second before
            with stalled(threads[cpu % 2], cpu) as still:
                during = process.trial(run)
                waited_for_none = still()
            after = process.trial(run)
            if waited_for_none and not during["streams"][which]["received"]:
                break
            time.sleep(1.0)
        assert process.end() == (0, "")
    assert waited_for_none
    assert [counts(one) for one in before["streams"]] == [clean(FRAMES)] * 2
    lost = clean(FRAMES) | {"received": 0, "lost": FRAMES}
    expected = [clean(FRAMES)] * 2
    expected[which] = lost
    assert [counts(one) for one in during["streams"]] == expected
    assert during["ports"][1]["rx_cpus"] == {str(CPUS[1 - which]): FRAMES}
    assert during["streams"][which]["gaps"]["trailing"] == FRAMES
    # what was left in the ring is of an earlier trial
    assert [counts(one) for one in after["streams"]] == [clean(FRAMES)] * 2
