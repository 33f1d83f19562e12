# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""How long both testers wait for frames after the last was sent: until all are here, or `drain_s` long."""

import contextlib
import json
import signal
import subprocess
import time

import pytest
from conftest import clean, config, counts, only, stream, xdpgen_running
from xsk import wait_for_frames, xsk

TESTERS = pytest.mark.parametrize("tester", ["xdpgen", "xsk"])
FRAMES, PPS = 500, 1000.0
DURATION_S = FRAMES / PPS


def part(result, whole):
    return result if whole else only(result)


@contextlib.contextmanager
def trial(net, tester, drain_s, frame_bytes=64, **more):
    """A trial from a0 to c0 that has begun; yields what gives its stream, or with `whole` the result."""
    timing = {"warmup_s": 0, "duration_s": DURATION_S, "drain_s": drain_s, "max_burst": 1_000_000, **more}
    if tester == "xdpgen":
        with xdpgen_running(
            config([net.port("a0"), net.port("c0")], stream(pps=PPS, frame_bytes=frame_bytes), **timing), wait_s=0
        ) as process:
            yield lambda whole=False: part(json.loads(process.communicate(timeout=30)[0]), whole)
        return
    ports = [{"netns": net.path(name[0]), "ifname": name} for name in ("a0", "c0")]
    with xsk(net, "a", "probe", ports=ports, streams=[stream(pps=PPS, frame_bytes=frame_bytes)], **timing) as probe:
        yield lambda whole=False: part(probe.finish(signal=False), whole)


@TESTERS
def test_a_forwarder_that_is_late_loses_nothing(middle, tester):
    """It has no core when the sending ends, for longer than a quarter of the drain.

    How late this program itself may be, on a busy machine: 0.4 s until the stop, 1.5 s until the end of it.
    """
    drain_s = 3.0
    with xsk(middle, "b", "forward", "b0", "b1", wait="poll") as forwarder:
        with trial(middle, tester, drain_s) as result:
            wait_for_frames(forwarder, "rx", 100)
            forwarder.process.send_signal(signal.SIGSTOP)
            time.sleep((FRAMES - 100) / PPS + drain_s / 2)
            forwarder.process.send_signal(signal.SIGCONT)
            got = result()
        forwarder.finish()
    assert counts(got) == clean(FRAMES)
    assert got["latency"]["max_ns"] > drain_s / 4 * 1e9


@TESTERS
def test_the_whole_drain_is_waited_for_what_is_lost(middle, tmp_path, tester):
    """As many frames come twice as are lost: none of them makes up for another."""
    drain_s = 1.5
    with middle.forwarder(tmp_path, drop=[3, FRAMES - 1], duplicate=[5, 9]):
        begin = time.monotonic()
        with trial(middle, tester, drain_s) as result:
            got = result()
        took_s = time.monotonic() - begin
    assert (got["sent"], got["lost"], got["duplicated"]) == (FRAMES, 2, 2)
    assert took_s > DURATION_S + drain_s


@TESTERS
def test_nothing_is_waited_for_when_all_are_here(direct, tester):
    drain_s = 5.0
    begin = time.monotonic()
    with trial(direct, tester, drain_s) as result:
        got = result()
    assert counts(got) == clean(FRAMES)
    assert time.monotonic() - begin < drain_s


def test_the_drain_ends_when_nothing_arrives_any_more(middle, tmp_path):
    """Frames are lost, and no other is on its way."""
    with middle.forwarder(tmp_path, drop=[3, FRAMES - 1]):
        begin = time.monotonic()
        with trial(middle, "xdpgen", 10.0, drain_idle_s=0.3) as result:
            got = result()
        took_s = time.monotonic() - begin
    assert (got["sent"], got["lost"]) == (FRAMES, 2)
    assert took_s < DURATION_S + 10.0


def test_frames_that_come_within_the_idle_time_are_waited_for(middle):
    """The forwarder stands still for a while that is shorter than the idle time."""
    with xsk(middle, "b", "forward", "b0", "b1", wait="poll") as forwarder:
        with trial(middle, "xdpgen", 10.0, drain_idle_s=3.0) as result:
            wait_for_frames(forwarder, "rx", 100)
            forwarder.process.send_signal(signal.SIGSTOP)
            time.sleep((FRAMES - 100) / PPS + 0.8)
            forwarder.process.send_signal(signal.SIGCONT)
            got = result()
        forwarder.finish()
    assert counts(got) == clean(FRAMES)


def test_a_second_signal_ends_the_drain(middle, tmp_path):
    """The first ends the sending, and what is on its way is waited for all the same."""
    cfg = config([middle.port("a0"), middle.port("c0")], stream(pps=PPS), duration_s=60, drain_s=60)
    with middle.forwarder(tmp_path, drop=[0]), xdpgen_running(cfg, wait_s=1) as process:
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        result = json.loads(process.communicate(timeout=60)[0])
    assert result["interrupted"]
    assert only(result)["lost"] == 1
