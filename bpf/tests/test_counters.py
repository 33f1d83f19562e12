# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Counters are exact to the frame, whatever the switch does to frames."""

import pytest
from conftest import clean, config, counts, only, stream, xdpgen
from hdrh.histogram import HdrHistogram

RECEIVERS = [
    {"rx": "xdp"},
    {"rx": "xdp", "xdp_mode": "generic"},
    {"rx": "tc"},
    {"rx": "tc", "tc_hook": "clsact"},
]
FRAMES = 600
DELAY_S = 0.03


@pytest.mark.parametrize("receiver", RECEIVERS, ids=lambda r: "-".join(r.values()))
def test_known_impairments(middle, tmp_path, receiver):
    drop, duplicate, swap = {0, 7, 8, 100, 599}, {32, 50, 101, 300}, {10, 200, 400, 402}
    delay = {90: DELAY_S, 350: DELAY_S, 351: DELAY_S}
    ports = [middle.port("a0"), middle.port("c0", **receiver)]
    with middle.forwarder(tmp_path, drop=[*drop], duplicate=[*duplicate], swap=[*swap], delay=delay) as report:
        result = xdpgen(config(ports))
    one = only(result)

    assert report["trial"] == FRAMES
    assert counts(one) == {
        "sent": FRAMES,
        "received": FRAMES - len(drop),
        "lost": len(drop),
        "duplicated": len(duplicate),
        "out_of_order": len(swap) + len(delay),
        "late_beyond_window": 0,
    }
    histogram = HdrHistogram.decode(one["latency"]["hdr"])
    late = sum(x.count_added_in_this_iter_step for x in histogram.get_recorded_iterator()
               if x.value_iterated_to >= DELAY_S * 1e9)  # fmt: skip
    assert histogram.get_total_count() == one["latency"]["count"] == one["received"]
    assert late >= len(delay)
    assert one["latency"]["max_ns"] >= DELAY_S * 1e9
    assert sum(result["ports"][1]["rx_cpus"].values()) == FRAMES - len(drop) + len(duplicate)
    assert result["warmup"] == {"sent": 100, "received": 100}
    assert middle.is_clean("a0", "c0")


def test_delays_are_in_the_histogram(middle, tmp_path):
    """Two known groups of delays, far above what a busy machine adds."""
    delay = dict.fromkeys(range(100, 107), 0.15) | dict.fromkeys(range(200, 203), 0.3)
    ports = [middle.port("a0"), middle.port("c0")]
    with middle.forwarder(tmp_path, delay=delay):
        one = only(xdpgen(config(ports, drain_s=1.6)))
    histogram = HdrHistogram.decode(one["latency"]["hdr"])
    values = {x.value_iterated_to: x.count_added_in_this_iter_step for x in histogram.get_recorded_iterator()}
    assert counts(one) == clean(FRAMES) | {"out_of_order": 10}
    assert sum(n for value, n in values.items() if 0.15e9 <= value < 0.3e9) == 7
    assert sum(n for value, n in values.items() if value >= 0.3e9) == 3


def test_beyond_the_window(middle, tmp_path):
    """Sequence 100 + 2^22 takes over the word of 96..127: 28 frames are too late."""
    ports = [middle.port("a0"), middle.port("c0")]
    with middle.forwarder(tmp_path, forge={99: 100 + (1 << 22)}):
        one = only(xdpgen(config(ports)))
    assert counts(one) == {
        "sent": FRAMES,
        "received": FRAMES - 28 + 1,
        "lost": 28 - 1,
        "duplicated": 0,
        "out_of_order": FRAMES - 128,
        "late_beyond_window": 28,
    }


def test_sequence_window_wraps(direct):
    """More frames than the window holds: laps replace each other, exactly."""
    ports = [direct.port("a0", tx_cpu=0), direct.port("c0")]
    one = only(xdpgen(config(ports, stream(pps=None, count=4_500_000), duration_s=20, warmup_s=0)))
    assert counts(one) == clean(4_500_000)


def test_others_pass(middle, tmp_path):
    """Frames of another run or stream are passed on and counted as other."""
    ports = [middle.port("a0"), middle.port("b0"), middle.port("c0")]
    streams = [stream(id=3, rx_port=1), stream(id=4, rx_port=2)]
    with middle.forwarder(tmp_path):
        result = xdpgen(config(ports, *streams, warmup_s=0))
    first, second = result["streams"]
    assert counts(first) == counts(second) == clean(FRAMES)
    # b0's XDP program passes stream 4 on to the forwarder's socket
    assert result["ports"][1]["other"] == FRAMES
    assert result["ports"][2]["other"] == 0
