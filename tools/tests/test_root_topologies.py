# SPDX-License-Identifier: Apache-2.0
"""Containers and tunnels in the path of real forwarders: TCP and frames come through, and nothing of them stays."""

import os
import signal
import time
from typing import Any

import pytest
from lab.rooted import Lab

pytestmark = pytest.mark.root

_METHOD = {"name": "applications", "workloads": ["bulk"], "duration_s": 0.2, "warmup_s": 0.05}
#: On two CPUs a program that polls shares the tester's, and is let at it by turns.
_POLLED = {**_METHOD, "patience_s": 6}
#: 40 tables, of which XDP takes what is established.
_NODE = "openflow:suites/openflow/node.yaml"


@pytest.mark.parametrize(
    ("forwarder", "pipelines", "method"),
    [
        ("xdp", ["containers:2", "af-xdp-apps:1"], _METHOD),
        pytest.param("linux-bridge", ["containers:2", "af-xdp-apps:1"], _METHOD, marks=pytest.mark.slow),
        ("ovs-afxdp", ["containers:2", "vxlan-link"], _METHOD),
        pytest.param("ovs-afxdp", ["af-xdp-apps:1", "taps:1", "geneve-link", _NODE], _METHOD, marks=pytest.mark.slow),
        pytest.param("ovs-afpacket", ["containers:1", "taps:2", "geneve-link"], _METHOD, marks=pytest.mark.slow),
        pytest.param(
            {"name": "ovs-dpdk", "options": {"hugepages": True}},
            ["containers:1", "taps:1", "vhost-user:1"],
            _POLLED,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_each_topology_is_measured_and_proven_frame_by_frame(
    shared_lab: Lab, forwarder: Any, pipelines: list[str], method: dict[str, Any]
) -> None:
    """On the testbed of all, whose folder is short: DPDK has a socket below it, and its path 107 characters."""
    shared_lab.run(forwarders=[forwarder], pipeline=pipelines, method=method)
    rows = shared_lab.rows()
    assert {row["pipeline"]: row["status"] for row in rows} == dict.fromkeys(pipelines, "ok"), rows


def test_rules_of_a_node_are_met_in_xdp_and_by_the_tester(shared_lab: Lab) -> None:
    offloading = {"name": "ovs-afxdp", "options": {"flow_offload": True}}
    shared_lab.run(forwarders=[offloading], pipeline=[_NODE], method={"name": "latency", "duration_s": 0.2})
    (row,) = shared_lab.rows()
    assert row["status"] == "ok", row


def test_a_program_that_dies_in_a_container_ends_the_point_and_is_named(lab: Lab) -> None:
    method = {**_METHOD, "duration_s": 5.0}
    run = lab.start("run", lab.study(forwarders=["ovs-afxdp"], pipeline=["af-xdp-apps:1"], method=method))
    deadline = time.monotonic() + 30
    while (
        not (found := [pid for pid, name in lab.processes().items() if name == "xsk"]) and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    time.sleep(1.0)
    os.kill(found[0], signal.SIGKILL)
    run.communicate(timeout=60)
    (row,) = lab.rows()
    assert row["status"] == "failed"
    assert "xsk of container 1 was ended by signal SIGKILL" in row["reason"]
