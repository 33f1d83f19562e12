# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Ports that vanish, go down or change under a socket; signals, kill -9. What was counted is told in any case."""

import errno
import json
import pathlib
import re
import signal
import subprocess
import time

import pytest
from conftest import clean, config, counts, net_up, only, sh, stream, xdpgen
from hdrh.histogram import HdrHistogram
from test_refused_sends import refuse_library
from xsk import SOCKETS, frames, xsk

SOME = pytest.mark.parametrize(
    "sockets", [SOCKETS[name] for name in ("native", "generic", "poll", "packet-v2", "packet-v3")]
)


@pytest.fixture
def net():
    """Of its own: its ports are broken."""
    with net_up(("a0", "b0"), ("b1", "c0")) as made:
        yield made


def some_frames(net):
    ports = [net.port("a0", rx="none"), net.port("c0", rx="tc")]
    xdpgen(config(ports, stream(), duration_s=0.05, warmup_s=0, drain_s=0.05))


def lost(running, *words):
    """It ends by itself with one line; the counters so far are on its output."""
    done = running.finish(expect=1, signal=False)
    (line,) = running.complaints
    assert all(word in line for word in words), line
    assert line == f"xsk: {done['error']}"
    assert done["sockets"][0]["rx"] == done["sockets"][1]["tx"] == 100
    return done


@SOME
def test_an_interface_is_removed(net, sockets):
    with xsk(net, "b", "forward", "b0", "b1", **sockets) as forwarder:
        some_frames(net)
        sh("ip", "-n", net.ns("b"), "link", "delete", "b0")
        lost(forwarder, "b0", "removed")


@SOME
def test_an_interface_is_set_down(net, sockets):
    with xsk(net, "b", "forward", "b0", "b1", **sockets) as forwarder:
        some_frames(net)
        sh("ip", "-n", net.ns("b"), "link", "set", "b1", "down")
        lost(forwarder, "b1", "down")


def test_down_and_up_again_between_two_looks(net):
    """The kernel tells of each: a short break is not overlooked."""
    with xsk(net, "b", "forward", "b0", "b1") as forwarder:
        some_frames(net)
        for state in ("down", "up"):
            sh("ip", "-n", net.ns("b"), "link", "set", "b0", state)
        lost(forwarder, "b0", "down")


def test_an_interface_moves_to_another_namespace(net):
    with xsk(net, "b", "forward", "b0", "b1") as forwarder:
        some_frames(net)
        sh("ip", "-n", net.ns("b"), "link", "set", "b0", "netns", net.ns("a"))
        lost(forwarder, "b0", "removed")


def test_the_number_of_queues_changes():
    with net_up(("a0", "b0"), ("b1", "c0")) as net:
        sh("ip", "-n", net.ns("b"), "link", "delete", "b0")
        queues = ["numrxqueues", "2", "numtxqueues", "2"]
        peer = ["peer", "name", "a0", "netns", net.ns("a"), "numrxqueues", "1", "numtxqueues", "1"]
        sh("ip", "link", "add", "b0", "netns", net.ns("b"), *queues, "type", "veth", *peer)
        for port in ("a0", "b0"):
            sh("ip", "-n", net.ns(port[0]), "link", "set", port, "up")
        net.accept_redirects("b0")
        net.exec("b", "ethtool", "-L", "b0", "rx", "1")
        with xsk(net, "b", "forward", "b0", "b1") as forwarder:
            some_frames(net)
            net.exec("b", "ethtool", "-L", "b0", "rx", "2")
            lost(forwarder, "b0", "receive queues were changed from 1 to 2")


def test_a_namespace_is_deleted(net):
    """The process keeps its own namespace alive, but not the other."""
    ports = [{"netns": net.path("b"), "ifname": "b0"}, {"netns": net.path("b"), "ifname": "b1"}]
    with xsk(net, "c", "forward", ports=ports) as forwarder:
        some_frames(net)
        sh("ip", "netns", "delete", net.ns("b"))
        lost(forwarder, "namespace is gone")
        sh("ip", "netns", "add", net.ns("b"))


@SOME
def test_the_peer_vanishes_while_frames_are_on_their_way(net, sockets):
    with xsk(net, "b", "gen", "b0", streams=[frames()], **sockets) as gen:
        time.sleep(0.1)
        sh("ip", "-n", net.ns("a"), "link", "delete", "a0")
        done = gen.finish(expect=1, signal=False)
    assert "b0" in done["error"]
    assert done["sockets"][0]["tx"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("wait", ["spin", "poll"])
def test_signals(middle, number, wait):
    with xsk(middle, "b", "forward", "b0", "b1", wait=wait) as forwarder:
        for event in ("counters", "counters"):
            forwarder.process.send_signal(signal.SIGUSR1)
            assert json.loads(forwarder.line())["event"] == event
        begin = time.monotonic()
        forwarder.process.send_signal(number)
        done = forwarder.finish(signal=False)
        assert time.monotonic() - begin < 3
    assert (done["event"], done["interrupted"], done["error"]) == ("done", True, None)
    assert middle.is_clean("b0", "b1")


def test_a_probe_that_is_interrupted_tells_what_it_has(middle):
    streams = [frames(pps=1000.0)]
    with xsk(middle, "a", "probe", "a0", streams=streams, duration_s=60, max_burst=1000000) as probe:
        time.sleep(0.5)
        done = probe.finish()
    (got,) = done["streams"]
    assert done["interrupted"] and 0.1 < done["trial_s"] < 20
    assert got["intended"] == pytest.approx(1000 * done["trial_s"], abs=2)
    assert got["lost"] == got["sent"] > 100


@pytest.mark.parametrize("role", ["probe", "ping"])
def test_what_is_under_way_at_an_interruption_is_waited_for(middle, role, tmp_path):
    """Each frame takes 0.1 s."""
    options = {"streams": [frames(pps=500.0 if role == "probe" else None)], "drain_s": 5, "timeout_us": 5000000}
    forwarder = middle.forwarder(tmp_path, "b0", "b0", delay=dict.fromkeys(range(2000), 0.1))
    with forwarder, xsk(middle, "a", role, "a0", max_burst=1000000, **options) as tester:
        time.sleep(0.55)
        begin = time.monotonic()
        done = tester.finish()
    (got,) = done["streams"]
    assert done["interrupted"] and time.monotonic() - begin < 2
    assert got["sent"] == got["received"] >= 4 and got["lost"] == 0


def test_a_second_signal_ends_the_wait(middle):
    """Nothing comes back."""
    with xsk(middle, "a", "probe", "a0", streams=[frames(pps=500.0)], drain_s=60) as probe:
        time.sleep(0.3)
        probe.process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            probe.process.wait(0.5)
        done = probe.finish()
    (got,) = done["streams"]
    assert done["interrupted"] and got["lost"] == got["sent"] > 0
    assert done["trial_s"] < 5


#: Sockets whose frames wait in the port's own queue, and keep their slots of the ring meanwhile.
QUEUED = {"backend": "af_packet", "qdisc_bypass": False, "tx_ring": 256}


@pytest.fixture
def dammed(net):
    """a0 sends a few frames, and then 1 byte/s: the TX ring stays full."""
    dam = ["tbf", "rate", "8bit", "burst", "2000", "limit", "100000000"]
    sh("tc", "-n", net.ns("a"), "qdisc", "add", "dev", "a0", "root", *dam)
    return net


@pytest.mark.parametrize("max_burst", [8, 1000000])
@pytest.mark.parametrize("wait", ["spin", "poll"])
def test_a_probe_whose_frames_are_not_taken_ends_and_tells_what_it_has(dammed, wait, max_burst):
    timing = {"warmup_s": 0.1, "duration_s": 0.4, "drain_s": 0.1, "max_burst": max_burst}
    begin = time.monotonic()
    with xsk(dammed, "a", "probe", "a0", streams=[frames(pps=20000.0)], wait=wait, **timing, **QUEUED) as probe:
        done = probe.finish(signal=False)
    assert time.monotonic() - begin < 5
    assert (done["event"], done["interrupted"], done["error"]) == ("done", False, None)
    assert done["tx_stuck"] == ["a0"]
    (got,) = done["streams"]
    assert got["intended"] == pytest.approx(20000 * 0.4, abs=2)
    assert got["received"] == 0 and got["skipped"] > 0.9 * got["intended"]
    assert got["intended"] == got["sent"] + got["skipped"]
    (socket,) = done["sockets"]
    assert socket["tx_full"] > 0 and socket["tx"] < 400


def test_a_full_ring_that_empties_in_time_costs_no_frames(middle):
    """Frames that are late at the end still leave, and the port is not called stuck."""
    rings = dict.fromkeys(("tx_ring", "completion_ring"), 64)
    streams = [frames(pps=200000.0, count=2000)]
    with xsk(middle, "a", "probe", "a0", streams=streams, duration_s=0.01, max_burst=1000000, **rings) as probe:
        done = probe.finish(signal=False)
    (got,) = done["streams"]
    assert (got["sent"], got["skipped"], done["tx_stuck"]) == (2000, 0, [])


@pytest.fixture
def refused(net, monkeypatch, tmp_path):
    """The driver of a0 takes no frame of an AF_XDP socket, as one whose queue has stopped."""
    settings = {"LD_PRELOAD": refuse_library(tmp_path), "REFUSE_PORT": "a0", "REFUSE_CALLS": 1 << 30}
    for name, value in (settings | {"REFUSE_ERRNO": errno.EAGAIN}).items():
        monkeypatch.setenv(name, str(value))
    return net


# where poll() is called the kernel sends in it, which is not refused here
@pytest.mark.parametrize(("stopped", "wait"), [("dammed", "spin"), ("dammed", "poll"), ("refused", "spin")])
@pytest.mark.parametrize(
    ("stopped_pps", "open_pps"),
    [(20000.0, 1000.0), (200.0, 1000.0), (200.0, 20000.0)],
    ids=["slower", "faster", "fast"],
)
def test_one_port_that_takes_nothing_does_not_hold_up_the_other(request, stopped, wait, stopped_pps, open_pps):
    """c0 is the other port of the probe, and its way is open; `max_burst` is as the suite has it at such rates."""
    net = request.getfixturevalue(stopped)
    sh("ip", "-n", net.ns("c"), "link", "set", "c0", "netns", net.ns("a"))
    sh("ip", "-n", net.ns("a"), "link", "set", "c0", "up")
    streams = [frames(pps=stopped_pps, frame_bytes=1518), frames(id=1, tx_port=1, pps=open_pps)]
    sockets = (QUEUED if stopped == "dammed" else {}) | {"tx_ring": 8}  # that many frames fill it
    # a busy machine would be late by more than 32 frames: real-time threads are not
    options = {"duration_s": 0.4, "warmup_s": 0.1, "wait": wait, "max_burst": 32, "policy": "fifo"} | sockets
    with xsk(net, "a", "probe", "a0", "c0", streams=streams, **options) as probe:
        done = probe.finish(signal=False)
    held, other = done["streams"]
    assert done["tx_stuck"] == ["a0"]
    assert held["intended"] == held["sent"] + held["skipped"] == stopped_pps * 0.4
    assert held["skipped"] > held["intended"] - 20
    assert other["sent"] + other["skipped"] == other["intended"] == open_pps * 0.4
    assert other["skipped"] < other["intended"] / 4
    assert HdrHistogram.decode(other["lateness"]["hdr"]).get_value_at_percentile(50) < 100_000


def test_without_privileges_it_forwards_and_takes_its_programs_off(middle):
    with xsk(middle, "b", "forward", "b0", "b1", unprivileged=True, wait="poll") as forwarder:
        status = pathlib.Path(f"/proc/{forwarder.process.pid}/status").read_text()
        result = xdpgen(config([middle.port("a0", rx="tc"), middle.port("c0", rx="tc")], stream(pps=1000.0)))
        done = forwarder.finish()
    found = dict(re.findall(r"^(\w+):\t *(.*?) *$", status, re.M))
    assert set(found["Uid"].split() + found["Gid"].split()) == {"65534"}
    assert int(found["CapEff"], 16) == int(found["CapPrm"], 16) == 0
    assert (found["Groups"], found["NoNewPrivs"]) == ("", "1")
    assert counts(only(result)) == clean(300)
    assert done["error"] is None
    assert middle.is_clean("b0", "b1")


def test_kill_9_leaves_nothing(middle):
    with xsk(middle, "b", "forward", "b0", "b1") as forwarder:
        assert middle.attached("b0")["xdp"] and middle.attached("b1")["xdp"]
        forwarder.process.kill()
        forwarder.process.wait(30)
    time.sleep(0.1)
    assert middle.is_clean("b0", "b1")


def test_a_duration_ends_it(middle):
    with xsk(middle, "b", "sink", "b0", duration_s=0.2) as sink:
        done = sink.finish(signal=False)
    assert done["elapsed_s"] == pytest.approx(0.2, abs=0.15)
    assert not done["interrupted"]
