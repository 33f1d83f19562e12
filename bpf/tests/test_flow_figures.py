# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""On request each flow has figures of its own: who loses or delays one flow only is seen."""

import pytest
from conftest import config, only, stream, xdpgen

FLOWS, PPS, FRAMES = 7, 1000.0, 400
#: Of flow 3, each frame is lost, or one of them is late.
LOST_FLOW, LATE_FRAME, LATE_S = 3, 9 * FLOWS + 5, 0.05
RECEIVERS = pytest.mark.parametrize("rx", [{}, {"rx": "tc"}, {"xdp_mode": "generic"}], ids=["native", "tc", "generic"])


def run(net, rx, *streams, **more):
    return xdpgen(config([net.port("a0"), net.port("c0", **rx)], *streams, duration_s=0.4, drain_s=0.3, **more))


def sent_by(flow, frames=FRAMES, flows=FLOWS):
    return len(range(flow, frames, flows))


@RECEIVERS
def test_one_flow_is_lost_and_another_late(middle, tmp_path, rx):
    with middle.forwarder(tmp_path, drop=list(range(LOST_FLOW, FRAMES, FLOWS)), delay={LATE_FRAME: LATE_S}):
        one = only(run(middle, rx, stream(pps=PPS, flows=FLOWS), flow_figures=True))
    figures, late = one["flow_figures"], LATE_FRAME % FLOWS
    sent = [sent_by(flow) for flow in range(FLOWS)]
    lost = [sent[flow] if flow == LOST_FLOW else 0 for flow in range(FLOWS)]
    assert (figures["sent"], figures["lost"]) == (sent, lost)
    assert figures["received"] == [a - b for a, b in zip(sent, lost, strict=True)]
    assert (sum(sent), sum(lost)) == (one["sent"], one["lost"])
    assert [figures[key][LOST_FLOW] for key in ("min_ns", "mean_ns", "max_ns")] == [None] * 3
    arrived = [flow for flow in range(FLOWS) if flow != LOST_FLOW]
    assert all(0 < figures["min_ns"][f] <= figures["mean_ns"][f] <= figures["max_ns"][f] for f in arrived)
    assert min(figures["min_ns"][f] for f in arrived) == one["latency"]["min_ns"]
    assert figures["max_ns"][late] == max(figures["max_ns"][f] for f in arrived) == one["latency"]["max_ns"]
    assert figures["max_ns"][late] > LATE_S * 1e9
    total = sum(figures["mean_ns"][f] * figures["received"][f] for f in arrived)
    assert total / one["received"] == pytest.approx(one["latency"]["mean_ns"], abs=1)


def test_as_many_flows_as_there_may_be_and_a_load_beside_them(direct):
    """Of 10,000 flows each has some frames or none; a load has no latencies."""
    streams = [
        stream(flows=10000, pps=40000.0, count=12345),
        stream(id=1, kind="load", flows=3, pps=1000.0, count=100),
        stream(id=2, kind="load", flows=1, pps=1000.0, count=100),
    ]
    probe, load, single = run(direct, {}, *streams, flow_figures=True)["streams"]
    expected = [sent_by(flow, 12345, 10000) for flow in range(10000)]
    assert probe["flow_figures"]["sent"] == probe["flow_figures"]["received"] == expected
    assert set(probe["flow_figures"]["lost"]) == {0}
    assert load["flow_figures"]["received"] == [34, 33, 33]
    assert load["flow_figures"]["max_ns"] == [None] * 3
    assert single["flow_figures"]["received"] == [100]


def test_warm_up_and_copies_are_in_no_flow(middle, tmp_path):
    with middle.forwarder(tmp_path, duplicate=[5, 12, 13]):
        one = only(run(middle, {}, stream(pps=PPS, flows=FLOWS), flow_figures=True, warmup_s=0.1))
    assert one["duplicated"] == 3
    assert one["flow_figures"]["received"] == one["flow_figures"]["sent"] == [sent_by(flow) for flow in range(FLOWS)]


def test_not_unless_asked_for(direct):
    assert only(run(direct, {}, stream(flows=FLOWS)))["flow_figures"] is None
