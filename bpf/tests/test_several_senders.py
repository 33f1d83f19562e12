# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Several CPUs send for one port: each has streams of its own, and every count is exact."""

import os

import pytest
from conftest import clean, config, counts, net_up, stream, xdpgen
from senders import ports_of, rates, streams_of
from test_trials import serving

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
#: Of two, and which of them the test is about.
CPUS = sorted(os.sched_getaffinity(0))[:2]


@pytest.fixture(scope="module")
def two_queues():
    """a0 -- c0, with a receive queue for each of two CPUs."""
    with net_up(("a0", "c0"), queues=2) as net:
        yield net


@pytest.mark.parametrize("receiver", [{}, {"rx": "tc"}, {"xdp_mode": "generic"}], ids=["native", "tc", "generic"])
def test_each_cpu_sends_its_streams_and_none_is_miscounted(two_queues, receiver):
    net = two_queues
    streams = [
        stream(id=0, pps=4000.0, flows=7),
        stream(id=1, pps=2500.0, flows=5, first_flow=7, tx_cpu=CPUS[1]),
        stream(id=2, kind="load", pps=5000.0, count=501, tx_cpu=CPUS[1]),
    ]
    ports = [net.port("a0", tx_cpu=CPUS[0]), net.port("c0", **receiver)]
    reported = xdpgen(config(ports, *streams, flow_figures=True))
    assert [counts(one) for one in reported["streams"]] == [clean(1200), clean(750), clean(501)]
    assert [thread["tx_cpu"] for thread in reported["threads"]] == CPUS
    assert [list(thread["cpu_seen"]) for thread in reported["threads"]] == [[str(cpu)] for cpu in CPUS]
    figures = [one["flow_figures"]["received"] for one in reported["streams"]]
    assert [(len(each), sum(each)) for each in figures] == [(7, 1200), (5, 750), (1, 501)]
    if receiver == {}:  # NAPI runs where the frame was sent
        assert reported["ports"][1]["rx_cpus"] == {str(CPUS[0]): 1200, str(CPUS[1]): 1251}


def test_what_is_lost_twice_there_or_late_is_reported_the_stream_that_it_is_of(middle, tmp_path):
    """The forwarder knows sequences: the same ones are lost of both streams."""
    plan = {"drop": [5, 6], "duplicate": [9], "swap": [20]}
    streams = [stream(id=n, pps=1000.0, tx_cpu=cpu) for n, cpu in enumerate(CPUS)]
    ports = [middle.port("a0", tx_cpu=CPUS[0]), middle.port("c0")]
    with middle.forwarder(tmp_path, **plan):
        reported = xdpgen(config(ports, *streams))["streams"]
    assert [counts(one) for one in reported] == [
        clean(300) | {"received": 298, "lost": 2, "duplicated": 1, "out_of_order": 1}
    ] * 2


def test_at_top_rate_both_send_at_once_and_every_frame_is_counted(two_queues):
    """How much faster is no test's to say on a busy machine: `bpf/tests/senders.py` tells it."""
    one, of_cpu = rates(two_queues, CPUS, 0.2)
    assert 0 < one <= of_cpu * 1.05


def test_trials_of_one_process_may_differ_in_their_cpus(two_queues):
    ports = ports_of(two_queues, CPUS[0], "xdp")
    with serving() as process:
        for cpus in ([CPUS[0]], [CPUS[1]], CPUS, [CPUS[0]]):
            streams = [stream(id=n, pps=1000.0, tx_cpu=cpu) for n, cpu in enumerate(cpus)]
            reported = process.trial(config(ports, *streams))
            assert [counts(one) for one in reported["streams"]] == [clean(300)] * len(cpus)
            assert [thread["tx_cpu"] for thread in reported["threads"]] == cpus


@pytest.mark.parametrize(
    ("more", "of_port", "text"),
    [
        ({"tx_cpu": 1023}, {"tx_cpu": CPUS[0]}, "streams[0].tx_cpu: no such CPU"),
        ({"tx_cpu": CPUS[1]}, {}, "streams[0].tx_cpu: needs one of its port"),
    ],
)
def test_a_cpu_that_cannot_be_is_refused(two_queues, more, of_port, text):
    ports = [two_queues.port("a0", **of_port), two_queues.port("c0")]
    assert text in xdpgen(config(ports, stream(**more)), expect=2)


def test_a_socket_is_of_one_cpu(two_queues):
    both = config(ports_of(two_queues, CPUS[0], "xdp"), *streams_of(CPUS), sender="xsk")
    assert "cannot start xsk sender: its socket of a port is of one CPU" in xdpgen(both, expect=2)
