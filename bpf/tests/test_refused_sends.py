# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a busy kernel refuses to send is sent again at once, and its answers are counted."""

import errno
import subprocess
from pathlib import Path

import pytest
from conftest import clean, config, counts, only, sh, stream, xdpgen
from xsk import SOCKETS, frames, xsk

SOURCE = Path(__file__).with_name("refuse.c")
#: More than xsk tries for one batch.
REFUSALS = 100
#: Far below the time between two departures.
AT_ONCE_NS = 100e6
SOME = pytest.mark.parametrize("sockets", [SOCKETS[name] for name in ("native", "poll", "packet-v2")])
CODES = pytest.mark.parametrize("code", ["EAGAIN", "EBUSY", "ENOBUFS"])


def refuse_library(folder):
    """For LD_PRELOAD: see refuse.c."""
    path = folder / "refuse.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", path, SOURCE], check=True)
    return path


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return refuse_library(tmp_path_factory.mktemp("refuse"))


@pytest.fixture
def refusing(shim, monkeypatch):
    """Programs that are started after it is called: their first sends are refused."""

    def begin(code):
        for name, value in {"LD_PRELOAD": shim, "REFUSE_CALLS": REFUSALS, "REFUSE_ERRNO": getattr(errno, code)}.items():
            monkeypatch.setenv(name, str(value))

    return begin


def refusals(reported):
    """How often of each kind."""
    return {code: n for code in ("EAGAIN", "EBUSY", "ENOBUFS") if (n := reported[f"tx_{code.lower()}"])}


@SOME
@CODES
def test_a_ping(middle, refusing, sockets, code):
    """Its batch is in flight: nothing else would be queued until it times out."""
    with xsk(middle, "b", "reflect", "b0"):
        refusing(code)
        with xsk(middle, "a", "ping", "a0", streams=[frames()], count=3, timeout_us=2000000, **sockets) as ping:
            done = ping.finish(signal=False)
    assert done["timeouts"] == 0
    assert counts(only(done)) == clean(3)
    assert refusals(done["sockets"][0]) == {code: REFUSALS}


@SOME
def test_a_probe(middle, refusing, sockets):
    """The next frame is due after 0.3 s."""
    with xsk(middle, "b", "reflect", "b0"):
        refusing("ENOBUFS")
        options = {"streams": [frames(pps=3.0, count=3)], "duration_s": 2, "max_burst": 1000000}
        with xsk(middle, "a", "probe", "a0", **options, **sockets) as probe:
            done = probe.finish(signal=False)
    assert counts(only(done)) == clean(3)
    assert only(done)["latency"]["max_ns"] < AT_ONCE_NS
    assert refusals(done["sockets"][0]) == {"ENOBUFS": REFUSALS}


def test_a_forwarder_that_sleeps(middle, refusing, monkeypatch):
    """It has nothing else to do, and a sleep lasts for 100 ms."""
    refusing("EAGAIN")
    with xsk(middle, "b", "forward", "b0", "b1", wait="poll") as forwarder:
        monkeypatch.delenv("LD_PRELOAD")
        ports = [middle.port("a0"), middle.port("c0")]
        result = xdpgen(config(ports, stream(pps=1.0, count=1), warmup_s=0, duration_s=1))
        done = forwarder.finish()
    assert only(result)["latency"]["max_ns"] < AT_ONCE_NS / 2
    assert refusals(done["sockets"][1]) == {"EAGAIN": REFUSALS}


def test_the_sender_of_xdpgen(direct, refusing):
    refusing("EBUSY")
    ports = [direct.port("a0"), direct.port("c0")]
    result = xdpgen(config(ports, stream(pps=3.0, count=3), sender="xsk", warmup_s=0, duration_s=2))
    assert counts(only(result)) == clean(3)
    assert only(result)["latency"]["max_ns"] < AT_ONCE_NS
    (thread,) = result["threads"]
    assert refusals(thread) == {"EBUSY": REFUSALS}


def test_a_queue_that_is_still_busy_is_waited_for(direct, shim, monkeypatch):
    """That of a socket which was closed is so for some 30 ms."""
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("REFUSE_BINDS", "5")
    ports = [direct.port("a0"), direct.port("c0")]
    result = xdpgen(config(ports, stream(pps=10.0, count=3), sender="xsk", warmup_s=0, duration_s=1))
    assert counts(only(result)) == clean(3)


def test_a_queue_that_stays_busy_is_reported_in_one_line(direct):
    with xsk(direct, "a", "gen", "a0", streams=[frames()], wait="poll") as gen:
        ports = [direct.port("a0"), direct.port("c0")]
        reported = xdpgen(config(ports, stream(), sender="xsk"), expect=2)
        gen.finish()
    assert reported.startswith("xdpgen: cannot bind AF_XDP socket: a0 queue 0: another socket has this queue")


#: About 8,000 frames/s; each frees a slot of the ring that a sleeper may fill.
RATE = ["tbf", "rate", "4mbit", "burst", "2000", "limit", "1000000"]


def test_a_generator_that_sleeps_wakes_when_there_is_room(middle):
    """Not after 100 ms, in which 640 frames/s would leave."""
    rings = {"backend": "af_packet", "qdisc_bypass": False, "tx_ring": 64}
    sh("tc", "-n", middle.ns("a"), "qdisc", "add", "dev", "a0", "root", *RATE)
    try:
        with xsk(middle, "a", "gen", "a0", streams=[frames()], wait="poll", duration_s=1, **rings) as gen:
            done = gen.finish(signal=False)
    finally:
        sh("tc", "-n", middle.ns("a"), "qdisc", "delete", "dev", "a0", "root")
    assert done["sockets"][0]["tx"] > 4000
    assert done["workers"][0]["waits"] > 50
