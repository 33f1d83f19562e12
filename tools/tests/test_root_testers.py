# SPDX-License-Identifier: Apache-2.0
"""The testers that are applications: every path, no frame lost, times of the program's own sockets."""

import os
import secrets
from pathlib import Path

import pytest
from lab.rooted import BUSY_POLLING, Lab

from xdplab.model import StreamSpec, TestbedSpec, TrialSpec
from xdplab.testbed import EmbeddedTestbed
from xdplab.testers import TesterContext
from xdplab.testers.xdpgen import Xdpgen, XdpgenOptions

pytestmark = pytest.mark.root


@pytest.mark.parametrize(
    ("tester", "paths"),
    [
        ("xsk", ["through", "hairpin", "reflect"]),
        pytest.param("xsk-afpacket", ["through"], marks=pytest.mark.slow),
    ],
)
def test_an_application_measures_every_path(lab: Lab, tester: str, paths: list[str]) -> None:
    traffic = {"probe_pps": 2000, "load_pps": 1000}
    assert lab.run(path=paths, tester=tester, forwarders=["xsk"], traffic=traffic).complaints == []
    rows = lab.rows()
    assert [(row["path"], row["status"], row["loss_ratio"]) for row in rows] == [(path, "ok", 0) for path in paths]
    for row in rows:
        assert row["samples"] > 5  # a busy machine leaves some of the schedule out
        assert 0.5 < row["p50_us"] < 1e6
    for trial in lab.trials():
        if trial.result:
            assert trial.result.tester == tester
            assert all(stream.received == stream.sent > 20 for stream in trial.result.streams)
    lab.assert_nothing_left()


@pytest.mark.slow
def test_pings_are_a_closed_loop_and_their_sockets_are_swept(lab: Lab) -> None:
    """On path `through` nothing comes back."""
    options = {"wait": ["spin", "poll"], "busy_poll_us": [0, 20]}
    done = lab.run(
        path=["hairpin", "reflect", "through"], tester="xsk-ping", forwarders=["xsk"], traffic={"probe_pps": 1000},
        tester_options=options, method={"name": "latency", "duration_s": 0.1, "warmup_s": 0.05, "drain_s": 0.05},
    )  # fmt: skip
    assert done.complaints == []
    rows = {(row["path"], row["tester"].partition(":")[2]): row for row in lab.rows()}
    for path in ("hairpin", "reflect"):
        for wait in ("spin", "poll"):
            row = rows[path, f"busy_poll_us=0,wait={wait}"]
            assert (row["status"], row["loss_ratio"]) == ("ok", 0), row
            assert 0.5 < row["p50_us"] < 1e6
            assert 5 < row["samples"] <= 101  # the warm-up's are not among them
            row = rows[path, f"busy_poll_us=20,wait={wait}"]
            assert row["status"] == BUSY_POLLING, row
            assert ("busy_poll_us=20 is not in force" in row["reason"]) == (BUSY_POLLING == "unsupported")
    assert all(row["status"] == "unsupported" and "round trips" in row["reason"]
               for (path, _), row in rows.items() if path == "through")  # fmt: skip
    lab.assert_nothing_left()


def test_xdpgen_tells_flows_apart_when_asked_to(lab: Lab) -> None:
    traffic = {"probe_pps": 5000, "load_pps": 5000, "flows": 40}
    assert lab.run(tester="quick:flow_figures=true", traffic=traffic).complaints == []
    (row,) = lab.rows()
    assert (row["status"], row["loss_ratio"], row["flows"]) == ("ok", 0, 80)
    assert [flow["lost"] for flow in row["worst_flows"]] == [0] * 5
    # 25 each were asked for; a busy machine leaves some unsent
    assert all(flow["sent"] == flow["received"] > 0 for flow in row["worst_flows"])
    assert row["worst_flows"][0]["kind"] == "latency"
    assert row["worst_flows"][0]["max_us"] == row["max_us"]
    assert "the worst of 80 flows" in lab.xdplab("show").out
    (trial,) = [each.result for each in lab.trials() if each.purpose == "measure" and each.result]
    for stream in trial.streams:
        assert stream.flow_figures is not None
        assert (sum(stream.flow_figures.sent), len(stream.flow_figures.sent)) == (stream.sent, 40)
        assert 0 < max(stream.flow_figures.sent) <= min(stream.flow_figures.sent) + 1  # they take turns
    lab.assert_nothing_left()


@pytest.mark.slow
def test_a_receiver_that_takes_no_redirects_is_reported(lab: Lab) -> None:
    """AF_PACKET at a veth without NAPI: an XDP forwarder's frames are refused, one by one or at the flush."""
    done = lab.run(forwarders=["xdp"], tester="xsk-afpacket", traffic={"probe_pps": 2000})
    assert done.complaints == []
    (row,) = lab.rows()
    assert row["status"] == "failed"
    assert "no frame came through" in row["reason"]
    assert "dropped there: the peer needs an XDP program or NAPI (ethtool -K PEER gro on)" in row["reason"]
    lab.assert_nothing_left()


def test_a_second_run_need_not_calibrate_the_tester_again(lab: Lab) -> None:
    for _ in range(10):  # one in which the hypervisor took time is not kept
        first = lab.run()
        assert "--calibrate measures again" not in first.err
        if "holds for this run only" not in first.err:
            break
    begun = lab.newest().load().calibration
    second = lab.run()
    assert "--calibrate measures again" in second.err, second.err
    found = lab.newest().load().calibration
    assert found is not None
    assert begun is not None
    assert found == begun.model_copy(update={"reused": True})
    lab.assert_nothing_left()


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_two_cpus_send_a_load_into_two_queues(tmp_path: Path) -> None:
    """On the direct link, where no forwarder needs one of them: CPU n fills queue n."""
    testbed = EmbeddedTestbed(TestbedSpec(name=f"senders-{secrets.token_hex(2)}", kind="embedded", queues=2))
    first, second = testbed.cpus[:2]
    layout = testbed.layout.model_copy(update={"extra_senders": (second,)})
    load = StreamSpec(kind="load", pps=10_000.0, frame_bytes=64, flows=10)
    probe = StreamSpec(kind="latency", pps=1000.0, frame_bytes=64, start_ns=50_000)
    tester = Xdpgen(XdpgenOptions(flow_figures=True))
    testbed.up()
    try:
        ports = testbed.direct_ports()
        context = TesterContext(ports, layout, "xdp", tmp_path)
        reported = tester.run(context, TrialSpec(streams=(load, probe), duration_s=0.5, warmup_s=0.1))
    finally:
        tester.close()
        testbed.down()
    sent = [stream.sent for stream in reported.streams]
    assert [stream.received for stream in reported.streams] == sent
    assert [stream.intended for stream in reported.streams] == [5000, 500]
    assert reported.streams[0].flow_figures is not None
    assert len(reported.streams[0].flow_figures.sent) == 10
    assert sum(reported.streams[0].flow_figures.sent) == sent[0]
    assert set(reported.rx_cpus) == {first, second}
    assert (sum(reported.rx_cpus.values()), reported.senders) == (sum(sent), 2)


def test_new_flows_arrive_beside_the_traffic_of_a_firewall(lab: Lab) -> None:
    traffic = {"probe_pps": 2000, "load_pps": 2000, "flows": 10, "new_flows_pps": 500}
    done = lab.run(tester="xdpgen", forwarders=["linux-router"], pipeline="conntrack", traffic=traffic)
    assert done.complaints == []
    (row,) = lab.rows()
    (reported,) = (trial.result for trial in lab.trials() if trial.result)
    probes, load, new = reported.streams
    assert [(each.kind, each.new_flows, each.offered_pps) for each in reported.streams] == [
        ("latency", False, 2000), ("load", False, 1500), ("latency", True, 500)
    ]  # fmt: skip
    assert [each.received for each in reported.streams] == [each.sent for each in reported.streams]
    assert row["new_flows"]["sent"] == row["new_flows"]["received"] == new.sent > 0
    assert (row["samples"], row["out_of_order"]) == (probes.received, 0)
    assert load.intended == 300
    lab.assert_nothing_left()
