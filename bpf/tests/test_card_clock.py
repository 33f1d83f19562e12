# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A card's time stamps are used where its clock follows CLOCK_TAI, with which they are compared."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from xsk import xsk

SOURCE = Path(__file__).with_name("ptp.c")


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """Programs that are started after it is called: their ports have a clock that is so far ahead, at each look."""
    path = tmp_path / "ptp.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", path, SOURCE], check=True)

    def begin(*ahead_ns):
        monkeypatch.setenv("LD_PRELOAD", str(path))
        monkeypatch.setenv("PTP_AHEAD_NS", " ".join(map(str, ahead_ns)))

    return begin


HARDWARE = "hardware where the frame has one, else software"


def stamps(net):
    """Where they come from: at the beginning; while it runs, asked so twice; at the end."""
    found = []
    with xsk(net, "b", "sink", "b0", stages=True) as sink:
        for _ in range(2):
            sink.process.send_signal(signal.SIGUSR1)
            found.append(json.loads(sink.line())["stages"]["stamps"])
        found.append(sink.finish()["stages"]["stamps"])
    return sink.ready["ports"][0]["stamps"], *found


def test_a_clock_that_follows_tai(middle, clock):
    clock(0)
    assert stamps(middle) == (HARDWARE,) * 4


def off_by(reported, instead):
    begin = f"{instead}: the card's clock is "
    assert reported.startswith(begin) and "ns ahead of CLOCK_TAI" in reported
    return int(reported.removeprefix(begin).split()[0])


@pytest.mark.parametrize(("looks", "trusted"), [((0, 0, 0, 50_000), 3), ((0, 0, 50_000, 0), 2), ((0, 50_000, 0, 0), 1)])
def test_a_clock_that_goes_astray_during_the_trial(middle, clock, looks, trusted):
    """What was stamped until the look before may be wrong as well, so it stays said."""
    clock(*looks)
    reported = stamps(middle)
    assert reported[:trusted] == (HARDWARE,) * trusted
    for each in reported[trusted:]:
        assert off_by(each, "not to be trusted") == pytest.approx(50_000, abs=20_000)


@pytest.mark.parametrize("ahead_ns", [-37_000_000_000, 50_000])
def test_a_clock_of_its_own(middle, clock, ahead_ns):
    """UTC, as many drivers set it, or one that nobody steers."""
    clock(ahead_ns, 0)
    for reported in stamps(middle):
        assert off_by(reported, "software") == pytest.approx(ahead_ns, abs=20_000)


def test_a_port_without_a_clock(middle):
    for reported in stamps(middle):
        assert reported.startswith("software: the card's clock cannot be read")
