# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Slices of the trial: every frame is in one, and clocks mark those in which the machine was away."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from conftest import BPF, XDPGEN, config, only, sh, stream, xdpgen, xdpgen_running
from hdrh.histogram import HdrHistogram
from xsk import xsk

BUCKETS = 234
SLICE_NS = 10_000_000
#: A thread of the path, above all others but the one that takes its CPU; after a second those would get a share.
PATH_PRIORITY, HOG_PRIORITY = 50, 60
MS = 1_000_000
#: Sleeps until a time (ns of CLOCK_MONOTONIC), then does not let go of its CPU until another.
SPIN = "import sys, time\nb, e = map(int, sys.argv[1:])\ntime.sleep(max(0, b - time.monotonic_ns()) / 1e9)\n"
SPIN += "while time.monotonic_ns() < e: pass"
#: Comes back each half ms until then; asleep 100 ms after its begin, when the hog comes: awake it would be put out.
SLEEP = "import sys, time\nb, e = map(int, sys.argv[1:])\nwhile (now := time.monotonic_ns()) < e: "
SLEEP += "time.sleep(0.004 if 0 < b + 100_000_000 - now < 3_000_000 else 0.0005)"
CPU = max(os.sched_getaffinity(0))


def varints(data):
    value = place = 0
    for byte in data:
        value |= (byte & 0x7F) << place
        place += 7
        if byte < 0x80:
            yield value >> 1 ^ -(value & 1)
            value = place = 0


def table(slices):
    """Rows by slice: what was sent, what arrived by bucket, the time away by clock."""
    values = []
    for number in varints(zlib.decompress(base64.b64decode(slices["packed"]))):
        values += [number] if number > 0 else [0] * max(1, -number)
    count = slices["count"]
    rows = 1 + BUCKETS + len(slices["clocks"])
    assert len(values) <= rows * count
    values += [0] * (rows * count - len(values))
    return [values[row * count : (row + 1) * count] for row in range(rows)]


def away(result, name):
    """By slice, of the clocks of this name."""
    slices = result["slices"]
    rows = table(slices)[1 + BUCKETS :]
    its = [row for row, clock in zip(rows, slices["clocks"], strict=True) if clock["clock"] == name]
    return [sum(at) for at in zip(*its, strict=True)]


def bucket_of(ns):
    """As `bpf/common/slices.h` says: 4 ns each up to 64 ns, then 8 for each power of two."""
    units = min(ns, 10**10) // 4
    shift = max(0, units.bit_length() - 4)
    return shift * 8 + (units >> shift)


def ports(net, **rx):
    return [net.port("a0", rx="none", tx_cpu=CPU), net.port("c0", **rx)]


@contextlib.contextmanager
def on_cpu(priority, code, *argv, cpu=CPU):
    argv = ["chrt", "-f", str(priority), "taskset", "-c", str(cpu), sys.executable, "-c", code, *map(str, argv)]
    with subprocess.Popen(argv) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("rx", [{}, {"rx": "tc"}, {"xdp_mode": "generic"}], ids=str)
def test_every_frame_is_in_one_slice(direct, rx):
    got = xdpgen(config(ports(direct, **rx), stream(pps=20_000.0), duration_s=0.25, slices={}))
    sent, *rows = table(got["slices"])
    assert (got["slices"]["slice_ns"], got["slices"]["count"]) == (SLICE_NS, 25)
    assert sum(sent) == only(got)["sent"]
    arrived = [sum(at) for at in zip(*rows[:BUCKETS], strict=True)]
    assert arrived == sent  # nothing is lost on a direct link
    whole = HdrHistogram.decode(only(got)["latency"]["hdr"])
    coarse = [0] * BUCKETS
    for item in whole.get_recorded_iterator():
        coarse[bucket_of(item.value_iterated_to)] += item.count_added_in_this_iter_step
    assert [sum(row) for row in rows[:BUCKETS]] == coarse


def test_a_slice_has_what_left_in_it(direct):
    """A stream that begins in the middle of the eleventh, and ends with its 400 frames in the thirteenth."""
    late = stream(pps=20_000.0, start_ns=105_000_000, count=400)
    sent = table(xdpgen(config(ports(direct), late, duration_s=0.2, slices={}))["slices"])[0]
    first = next(number for number, frames in enumerate(sent) if frames)
    assert first >= 10 and sum(sent) == 400
    assert sent[10] <= 100 and max(sent) <= 400


def test_lost_frames_are_known_by_slice(middle, tmp_path):
    lost = list(range(1000, 1100))
    with middle.forwarder(tmp_path, drop=lost):
        both = [middle.port("a0", rx="none"), middle.port("c0")]
        got = xdpgen(config(both, stream(pps=5000.0, count=2000), duration_s=0.5, slices={}))
    sent, *rows = table(got["slices"])
    missing = [left - sum(at) for left, *at in zip(sent, *rows[:BUCKETS], strict=True)]
    assert sum(missing) == only(got)["lost"] == 100
    assert min(missing) == 0 and sum(1 for each in missing if each) <= 5


def test_loads_and_first_frames_of_flows_are_in_none(direct):
    load = stream(kind="load")
    new = stream(id=1, flow_choice="new", flows=2000)
    probe = stream(id=2, pps=1000.0)
    got = xdpgen(config(ports(direct), load, new, probe, slices={}))
    assert sum(table(got["slices"])[0]) == got["streams"][2]["sent"] == 300


def test_without_the_key_there_are_none(direct):
    assert xdpgen(config(ports(direct)))["slices"] is None


def test_lengths_of_slices(direct):
    """At most 400, of 10 ms or more; what is left over is a slice too."""
    got = xdpgen(config(ports(direct), duration_s=0.1051, slices={}))["slices"]
    assert (got["slice_ns"], got["count"]) == (SLICE_NS, 11)


def planted(net, code, *, own=False):
    """A trial beside a thread of the path, which a hog puts out of its CPU for 30 ms; the slices of that time."""
    begin = time.monotonic_ns() + 1200 * MS
    hogged, runs = (begin, begin + 30 * MS), (begin - 100 * MS, begin + 130 * MS)
    with on_cpu(PATH_PRIORITY, code, *runs) as thread, on_cpu(HOG_PRIORITY, SPIN, *hogged) as hog:
        time.sleep(0.2)
        watched = {"threads": [thread.pid], "processes": [hog.pid] if own else []}
        got = xdpgen(config([net.port("a0", rx="none", tx_cpu=0), net.port("c0")], duration_s=1.6, slices=watched))
    return got, [(ns - got["started_ns"]) // SLICE_NS for ns in hogged]


@pytest.mark.skipif(CPU == 0, reason="needs a CPU beside the sender's")
def test_a_thread_that_is_put_out_of_its_cpu_marks_those_slices(direct):
    got, (first, last) = planted(direct, SPIN)
    found = [number for number, steps in enumerate(away(got, "forwarder")) if steps]
    assert 10 < first < last < 150
    assert found and first <= found[0] <= first + 1 and last - 1 <= found[-1] <= last + 1
    assert found == [*range(found[0], found[-1] + 1)]
    assert 250 <= sum(away(got, "forwarder")) <= 400  # 30 ms in steps of 0.1 ms, rounded up in each slice


@pytest.mark.skipif(CPU == 0, reason="needs a CPU beside the sender's")
def test_a_thread_that_wakes_up_late_marks_none(direct):
    """It had let go of its CPU itself: how long it takes to come back is part of the forwarder."""
    assert not any(away(planted(direct, SLEEP)[0], "forwarder"))


@pytest.mark.skipif(CPU == 0, reason="needs a CPU beside the sender's")
def test_other_threads_of_the_forwarder_mark_none(direct):
    assert not any(away(planted(direct, SPIN, own=True)[0], "forwarder"))


def test_a_sender_that_is_put_out_of_its_cpu_marks_those_slices(direct):
    begin = time.monotonic_ns() + 1200 * MS
    hogged = (begin, begin + 40 * MS)
    with on_cpu(HOG_PRIORITY, SPIN, *hogged):
        got = xdpgen(config(ports(direct), duration_s=1.6, slices={}))
    first, last = ((ns - got["started_ns"]) // SLICE_NS for ns in hogged)
    by_sender = away(got, "sender")
    assert all(by_sender[first + 1 : last])
    assert sum(by_sender[first : last + 1]) >= 390
    # its thread waited: nothing is left for the stalls
    assert sum(away(got, "stalls")[first + 1 : last]) < 40


@pytest.fixture(scope="module")
def away_program(tmp_path_factory):
    """Takes a CPU with its interrupts off."""
    folder = tmp_path_factory.mktemp("away")
    clang, gcc = (line.split() for line in sh("make", "-s", "-C", BPF, "flags").splitlines())
    here = Path(__file__).parent
    subprocess.run([*clang, "-c", "-o", folder / "away.bpf.o", here / "away.bpf.c"], check=True, cwd=BPF)
    subprocess.run([*gcc, "-o", folder / "away", here / "away.c", "-lbpf"], check=True, cwd=BPF)
    return [folder / "away", folder / "away.bpf.o"]


def test_a_cpu_that_is_away_marks_those_slices(direct, away_program):
    """For 6 ms a tick is late; one that looks as if perf had left it out is made good by the sender's stalls."""
    argv = [*away_program, str(CPU)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as taker:
        assert taker.stdout.readline() == "ready\n"
        got = xdpgen(config(ports(direct), duration_s=0.8, slices={}))
        times, _ = taker.communicate("\n")
    late, stalled = away(got, "ticks"), away(got, "stalls")
    begun = [(int(ns) - got["started_ns"]) // SLICE_NS for ns in times.split()]
    within = [number for number in begun if 1 <= number < len(late) - 2]
    assert len(within) >= 5
    assert sum(1 for number in within if late[number] or late[number + 1]) >= len(within) - 2
    # on a machine that is short of CPUs the sender may have been waiting for this one, or it was stolen, at that time
    clocks = [row for row in (late, stalled, away(got, "sender"), away(got, "steal")) if row]
    assert all(any(row[at] for row in clocks for at in (number, number + 1)) for number in within)


def test_the_receive_half_of_a_forwarder_marks_none(middle):
    """It runs in softirqs on the sender's core: 0.4 ms for each burst of frames, of which the sender is late.

    Bursts are 2.3 ms apart, and ticks 4 ms: they do not beat.
    """
    function = {"functions": ["macswap"], "place": "xdp", "work_iterations": 4096}
    both = [middle.port("a0", rx="none", tx_cpu=CPU), middle.port("c0")]
    with xsk(middle, "b", "nf", "b0", "b1", nf=function):
        got = xdpgen(config(both, stream(pps=7000.0, burst=16), batch=64, duration_s=1.0, slices={}))
    (thread,) = got["threads"]
    assert thread["stalls"] > 20
    assert not any(away(got, "stalls"))


def test_what_was_watched_is_reported(direct):
    reported = xdpgen(config(ports(direct), slices={"cpus": [0]}))["slices"]["clocks"]
    names = [(clock["clock"], clock["cpu"]) for clock in reported]
    cpus = [CPU] if CPU == 0 else [CPU, 0]
    each = [(clock, cpu) for cpu in cpus for clock in ("ticks", "steal")]
    assert names == [*each, *((name, None) for name in ("sender", "forwarder", "stalls", "missing"))]
    assert not any(clock["unwatched"] for clock in reported if clock["clock"] != "steal")


def test_a_cpu_that_is_not_there_is_reported(direct):
    reported = xdpgen(config(ports(direct), slices={"cpus": [1023]}))["slices"]["clocks"]
    why = {(clock["clock"], clock["cpu"]): clock["unwatched"] for clock in reported}
    assert why["ticks", 1023] and why["steal", 1023] and not why["ticks", CPU]


def test_thread_ids_of_another_namespace_are_not_taken_for_the_kernels(direct):
    """They would name other threads, or none."""
    cfg = json.dumps(config(ports(direct), slices={"threads": [1]}))
    argv = ["unshare", "--pid", "--fork", "--mount-proc", XDPGEN, "-"]
    done = subprocess.run(argv, input=cfg, capture_output=True, text=True, check=True)
    clocks = {clock["clock"]: clock["unwatched"] for clock in json.loads(done.stdout)["slices"]["clocks"]}
    assert "namespace" in clocks["forwarder"] and "namespace" in clocks["sender"]


def test_a_trial_that_is_ended_early_has_its_slices(direct):
    with xdpgen_running(config(ports(direct), duration_s=20, slices={}), wait_s=0.6) as process:
        process.send_signal(signal.SIGTERM)
        reported, _ = process.communicate(timeout=20)
    got = json.loads(reported)
    assert sum(table(got["slices"])[0]) == only(got)["sent"] > 0
