# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A card's time stamps are used where its clock follows CLOCK_TAI, with which they are compared."""

import subprocess
from pathlib import Path

import pytest
from xsk import xsk

SOURCE = Path(__file__).with_name("ptp.c")


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """Programs that are started after it is called: their ports have a clock that is so far ahead."""
    path = tmp_path / "ptp.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", path, SOURCE], check=True)

    def begin(ahead_ns):
        monkeypatch.setenv("LD_PRELOAD", str(path))
        monkeypatch.setenv("PTP_AHEAD_NS", str(ahead_ns))

    return begin


def stamps(net):
    with xsk(net, "b", "sink", "b0", stages=True) as sink:
        sink.finish()
    return sink.ready["ports"][0]["stamps"]


def test_a_clock_that_follows_tai(middle, clock):
    clock(0)
    assert stamps(middle).startswith("hardware")


@pytest.mark.parametrize("ahead_ns", [-37_000_000_000, 50_000])
def test_a_clock_of_its_own(middle, clock, ahead_ns):
    """UTC, as many drivers set it, or one that nobody steers."""
    clock(ahead_ns)
    reported = stamps(middle)
    assert reported.startswith("software: the card's clock is ") and "ns ahead of CLOCK_TAI" in reported
    assert int(reported.split()[5]) == pytest.approx(ahead_ns, abs=20_000)


def test_a_port_without_a_clock(middle):
    assert stamps(middle).startswith("software: the card's clock cannot be read")
