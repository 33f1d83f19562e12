# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Through, hairpin, reflect, both directions, one and two sender threads."""

import os

import pytest
from conftest import clean, config, counts, only, stream, xdpgen

TWO_CPUS = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")


@pytest.mark.parametrize("cpus", [(0, 0), (None, None), pytest.param((0, 1), marks=TWO_CPUS)])
def test_bidirectional(middle, cpus):
    ports = [middle.port("a0", tx_cpu=cpus[0]), middle.port("c0", tx_cpu=cpus[1])]
    streams = [
        stream(id=1, pps=10000.0),
        stream(id=2, pps=20000.0, kind="load"),
        stream(id=3, pps=10000.0, tx_port=1, rx_port=0),
        stream(id=4, pps=20000.0, tx_port=1, rx_port=0, kind="load", frame_bytes=1518),
    ]
    with middle.xdpfwd("--if0", "b0", "--if1", "b1"):
        result = xdpgen(config(ports, *streams))
    assert [s["id"] for s in result["streams"]] == [1, 2, 3, 4]
    assert [counts(s) for s in result["streams"]] == [clean(3000), clean(6000)] * 2
    assert len(result["threads"]) == len(set(cpus))
    assert sorted(p for t in result["threads"] for p in t["ports"]) == [0, 1]


def test_hairpin(middle):
    with middle.xdpfwd("--if0", "b0", "--hairpin"):
        result = xdpgen(config([middle.port("a0")], stream(rx_port=0, pps=10000.0)))
    assert counts(only(result)) == clean(3000)


def test_hairpin_over_af_packet(middle, tmp_path):
    with middle.forwarder(tmp_path, "b0", "b0", drop=[5]):
        result = xdpgen(config([middle.port("a0", rx="tc")], stream(rx_port=0)))
    assert counts(only(result)) == clean(600) | {"received": 599, "lost": 1}


def test_reflect(middle, tmp_path):
    """a0 -> b0 -> c0 reflects -> b1 -> a0; the forwarder drops on both ways."""
    ports = [middle.port("a0"), middle.port("c0", reflect=True)]
    with middle.xdpfwd("--if0", "b0", "--if1", "b1"):
        result = xdpgen(config(ports, stream(rx_port=0, pps=20000.0)))
    assert counts(only(result)) == clean(6000)
    assert result["ports"][1]["reflected"] == 6000
    with middle.forwarder(tmp_path, capture=2000) as report:
        result = xdpgen(config(ports, stream(rx_port=0)))
    assert counts(only(result)) == clean(600)
    there, back = "02000000000c02000000000a", "02000000000a02000000000c"
    heads = [frame[:24] for frame in report["captured"]["0"]]
    assert (heads.count(there), heads.count(back)) == (600, 600)


def test_rx_only_port_and_names(direct):
    ports = [direct.port("a0", rx="none", name="left"), direct.port("c0", rx="tc", name="right")]
    result = xdpgen(config(ports))
    left, right = result["ports"]
    assert (left["name"], left["xdp_attach"], left["tc_attach"]) == ("left", "none", "none")
    assert (right["name"], right["xdp_attach"]) == ("right", "none")
    assert right["tc_attach"] in ("tcx", "clsact")
    assert counts(only(result)) == clean(600)


def test_peer_that_takes_no_redirects(direct):
    """Not a loss of the switch: the kernel refuses, and we say why."""
    direct.accept_redirects("c0", on=False)
    ports = [direct.port("a0"), direct.port("c0", rx="tc")]
    try:
        line = xdpgen(config(ports), expect=1)
        ok = xdpgen(config(ports, sender="xsk"))
    finally:
        direct.accept_redirects("c0")
    assert "ethtool -K PEER gro on" in line
    assert counts(only(ok)) == clean(600)
