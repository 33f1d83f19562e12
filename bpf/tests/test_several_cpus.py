# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The receiver is exact when frames of one stream arrive on two CPUs at once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import config, only, sh, stream, xdpgen_running
from hdrh.histogram import HdrHistogram

INJECT = Path(__file__).with_name("inject.py")
COUNT = 20000


def receiver_of(net, port):
    """Program id and trial epoch of the receiver on a port, once it is there."""
    deadline = time.monotonic() + 20
    while "xdp" not in (link := json.loads(sh("ip", "-n", net.ns(port[0]), "-d", "-j", "link", "show", port))[0]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.2)  # attached last of all that has to be there, but for the sender
    prog = json.loads(sh("bpftool", "-j", "prog", "show", "id", link["xdp"]["prog"]["id"]))
    for map_id in prog["map_ids"]:
        if json.loads(sh("bpftool", "-j", "map", "show", "id", map_id))["name"].endswith(".bss"):
            (entry,) = json.loads(sh("bpftool", "-j", "map", "dump", "id", map_id))
            (values,) = entry["formatted"]["value"].values()
            (epoch,) = [v["trial"]["epoch"] for v in values if "trial" in v]
    return prog["id"], epoch + 1


def inject(*asked):
    """See inject.py."""
    argv = [sys.executable, INJECT, *map(str, asked)]
    subprocess.run(argv, input="go\n", text=True, check=True, timeout=20, stdout=subprocess.DEVNULL)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("case", ["interleaved", "same"])
def test_two_cpus_at_once(direct, case):
    """Neighbours share a word of the window; equal sequences race for one bit."""
    ports = [direct.port("a0"), direct.port("c0", xdp_mode="generic")]
    # the stream's own first frame leaves after all this
    run = config(ports, stream(pps=0.01, start_ns=50_000_000_000), duration_s=60)
    first, step = {"interleaved": ((0, 1), 2), "same": ((0, 0), 1)}[case]
    with xdpgen_running(run) as process:
        prog, epoch = receiver_of(direct, "c0")
        argv = [sys.executable, INJECT]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        injectors = [
            subprocess.Popen([*argv, *map(str, (cpu, prog, epoch, first[cpu], step, COUNT))], **pipes) for cpu in (0, 1)
        ]
        for injector in injectors:
            assert injector.stdout.readline() == "ready\n"
        for injector in injectors:
            injector.stdin.write("go\n")
            injector.stdin.flush()
        for injector in injectors:
            injector.communicate(timeout=20)
            assert injector.returncode == 0
        process.send_signal(signal.SIGINT)
        result = json.loads(process.communicate(timeout=60)[0])
    one = only(result)
    unique = 2 * COUNT if case == "interleaved" else COUNT
    assert (one["sent"], one["received"], one["duplicated"]) == (0, unique, 2 * COUNT - unique)
    assert one["late_beyond_window"] == 0
    assert HdrHistogram.decode(one["latency"]["hdr"]).get_total_count() == one["latency"]["count"] == unique
    assert result["ports"][1]["rx_cpus"] == {"0": COUNT, "1": COUNT}
    assert (one["gaps"]["last_lost"], one["gaps"]["trailing"]) == (None, 0)


def gaps_of(net, *injected):
    """(CPU, first sequence) of each hundred frames, half a second apart."""
    ports = [net.port("a0"), net.port("c0", xdp_mode="generic")]
    run = config(ports, stream(pps=0.01, start_ns=50_000_000_000), duration_s=60, drain_s=0)
    with xdpgen_running(run) as process:
        prog, epoch = receiver_of(net, "c0")
        for cpu, first in injected:
            inject(cpu, prog, epoch, first, 1, 100)
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        return only(json.loads(process.communicate(timeout=60)[0]))["gaps"]


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_one_cpu_after_the_other(direct):
    """As when a forwarder was started again elsewhere: the gap lies between them."""
    gaps = gaps_of(direct, (1, 0), (0, 103))
    assert gaps["longest_ns"] > 0.5e9
    assert (gaps["last_lost"], gaps["trailing"]) == (102, 0)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_gaps_of_two_cpus_are_not_known(direct):
    """Each has gaps where the other received; which frames are missing is known all the same."""
    assert gaps_of(direct, (0, 0), (1, 103), (0, 203)) == {"longest_ns": None, "last_lost": 102, "trailing": 0}
