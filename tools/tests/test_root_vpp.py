# SPDX-License-Identifier: Apache-2.0
"""VPP on namespaces, where it is installed; where it is not, the same commands end green and say how to install it."""

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.bench import Bench
from lab.command import BIN
from lab.rooted import Lab

from xdplab.forwarders import make_forwarder
from xdplab.forwarders.vpp.control import VppControl
from xdplab.forwarders.vpp.forwarder import VppForwarder
from xdplab.model import ForwarderSpec, Path as Way, Point, PointFailed, TestbedSpec, Unsupported
from xdplab.runner.ports import dut_of
from xdplab.runner.work_proof import WorkProof
from xdplab.testbed import open_testbed
from xdplab.tools import project_root

pytestmark = pytest.mark.root

with_vpp = pytest.mark.skipif(
    not (os.environ.get("XDPLAB_VPP") or shutil.which("vpp")),
    reason="VPP is optional: FD.io's packages vpp and vpp-plugin-core, or XDPLAB_VPP=PATH, make this test run",
)
POINT: dict[str, Any] = {"path": Way.THROUGH, "knobs": {}, "traffic": {}}
MODES = {
    "vpp-afxdp": "native copy",
    "vpp-afxdp:zero_copy=copy,rx_mode=interrupt,rx_queue_size=2048,tx_queue_size=1024": "native copy",
    "vpp-afxdp:rx_mode=adaptive,buffers=8192": "native copy",
    "vpp-afxdp:rx_queue_size=16384": "native copy",  # whose fill rings take more than VPP's default buffers
    "vpp-afxdp:workers=0": "native copy",
    "vpp-afxdp:page_size=2M": "native copy",
    "vpp-afpacket": "af_packet v3",
    "vpp-afpacket:tpacket=2,rx_mode=polling": "af_packet v2",
}
#: FD.io's packages have the plugin in a package of its own, and in it not these drivers.
DPDK = {"vpp-dpdk": "native copy", "vpp-dpdk:port=af_packet": "dpdk af_packet"}
UNSUPPORTED = {
    "vpp-afxdp:zero_copy=zero-copy": "has no NETDEV_XDP_ACT_XSK_ZEROCOPY",
    "vpp-afxdp:n_rxq=2": "VPP answers -7 (invalid value)",
    "vpp-afxdp:workers=9": "a CPU of its own is needed for each",
}
KILLED = {"at": "lab.saboteur:QuickXdpgen.measure", "after_s": 0.15, "signal": "SIGKILL", "target": "vpp_main"}


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("xdplab-*")}


@pytest.fixture(scope="module")
def rows(shared_lab: Lab) -> dict[str, dict[str, Any]]:
    """The summary of each point from one run of all, with the tester as it is shipped."""
    before = shared_memory()
    done = shared_lab.run(forwarders=[*MODES, *DPDK, *UNSUPPORTED])
    assert done.complaints == [], done.err
    shared_lab.assert_nothing_left()
    assert shared_memory() == before
    return {row["forwarder"]: row for row in shared_lab.rows()}


@with_vpp
@pytest.mark.parametrize("title", MODES)
def test_vpp_carries_frames_in_the_mode_asked_for(rows: dict[str, dict[str, Any]], shared_lab: Lab, title: str) -> None:
    row = rows[title]
    assert (row["status"], row["reason"], row["mode"]) == ("ok", "", MODES[title])
    assert row["samples"] > 100
    (trial,) = [each for each in shared_lab.trials() if each.point_id == row["point_id"] and each.result]
    assert len(trial.mode["xsk"]) == (2 if title.startswith("vpp-afxdp") else 0)
    assert all(sock["zero_copy"] is False and len(sock["statistics"]) == 6 for sock in trial.mode["xsk"])
    assert [thread.name for thread in trial.threads] == ["vpp_main" if "workers=0" in title else "vpp_wk_0"]
    assert {thread.allowed for thread in trial.threads} == {(1,)}
    assert trial.mode["vpp"]["version"]
    assert trial.result is not None
    came_through = trial.result.received  # where the machine took the worker's CPU away, fewer than were sent
    counted = [trial.counters[each["name"]] for each in trial.mode["vpp"]["interfaces"]]
    assert counted[0]["rx"] >= came_through > 100
    assert counted[1]["tx"] >= came_through
    (nodes,) = trial.increments["nodes"].values()
    (fetched,) = (node["received"] for node in nodes.values() if node["received"])
    added = sum(trial.increments[each["name"]]["rx"] for each in trial.mode["vpp"]["interfaces"])
    assert abs(fetched - added) <= 5  # they are not read in the same moment
    assert row["datapath"]["frames"] == fetched >= came_through
    assert all(cycles > 0 for cycles in row["datapath"]["cycles_by_node"].values())
    assert sum(node["vectors"] >= came_through for node in nodes.values()) > 3  # fetch, Ethernet, work, send


@with_vpp
@pytest.mark.parametrize("title", DPDK)
def test_dpdk_carries_frames_where_vpp_was_built_with_the_drivers(rows: dict[str, dict[str, Any]], title: str) -> None:
    row = rows[title]
    if row["status"] == "unsupported":
        assert "has no dpdk plugin (FD.io's package vpp-plugin-dpdk)" in row["reason"] or "drivers out" in row["reason"]
        pytest.skip(row["reason"])
    assert (row["status"], row["reason"], row["mode"]) == ("ok", "", DPDK[title])
    assert row["samples"] > 100


@with_vpp
@pytest.mark.parametrize("title", UNSUPPORTED)
def test_what_vpp_cannot_do_here_is_unsupported_with_the_reason(rows: dict[str, dict[str, Any]], title: str) -> None:
    row = rows[title]
    assert (row["status"], row["repetitions"]) == ("unsupported", 0)
    assert UNSUPPORTED[title] in row["reason"]


def test_a_vpp_that_is_named_and_not_there_is_bad_input(lab: Lab) -> None:
    forwarder, allow = "vpp-afxdp:vpp=/nowhere/vpp", ["--allow-program", "/nowhere/vpp"]
    lab.run(options=allow, forwarders=[forwarder]).refused("option vpp=/nowhere/vpp: B has no such program")
    lab.run(env={"XDPLAB_VPP": "/nowhere/vpp"}, forwarders=["vpp-afxdp"]).refused("XDPLAB_VPP=/nowhere/vpp")
    lab.assert_nothing_left()


@with_vpp
def test_a_vpp_killed_in_a_trial_fails_its_point_alone(lab: Lab) -> None:
    before = shared_memory()
    done = lab.run(
        {**KILLED, "needs": "vpp_main"},
        forwarders=["vpp-afxdp", "linux-bridge"],
        method={"name": "latency", "duration_s": 0.4},
    )
    lab.assert_nothing_left()
    assert shared_memory() == before
    bad, good = lab.rows()
    assert (good["status"], good["repetitions"]) == ("ok", 1)
    assert (bad["status"], bad["repetitions"]) == ("failed", 0)
    assert "vpp was ended by signal SIGKILL" in bad["reason"]
    assert done.code == 1


@with_vpp
def test_what_comes_after_vpp_on_af_packet_finds_the_links_up(lab: Lab) -> None:
    study = {"forwarders": ["vpp-afpacket", "vpp-afxdp", "ovs-afxdp"], "repetitions": 2}
    assert lab.run(**study).complaints == []
    assert [(row["status"], row["repetitions"]) for row in lab.rows()] == [("ok", 2)] * 3
    lab.assert_nothing_left()


@with_vpp
def test_vpp_sends_frames_back_by_the_port_they_came_from(lab: Lab) -> None:
    assert lab.run(path=["hairpin", "reflect"], forwarders=["vpp-afxdp"]).complaints == []
    assert [(row["path"], row["status"], row["quantity"]) for row in lab.rows()] == [
        ("hairpin", "ok", "round trip"),
        ("reflect", "ok", "round trip"),
    ]
    lab.assert_nothing_left()


@with_vpp
def test_every_pipeline_is_done_to_the_byte(lab: Lab) -> None:
    work = ["bridge", "vlan", "vxlan", "meter", "mirror", "group", "route:50", "acl:50x8", "conntrack", "nat"]
    done = lab.run(forwarders=["vpp-afxdp"], pipeline=work, traffic={"probe_pps": 1000})
    assert done.complaints == [], done.err
    rows = {row["pipeline"]: row for row in lab.rows()}
    assert list(rows) == work
    assert {name: row["reason"] for name, row in rows.items() if row["status"] not in ("ok", "unsupported")} == {}
    for name, row in rows.items():
        if row["status"] == "unsupported":
            assert "has no" in row["reason"] or name == "group", row["reason"]
    lab.assert_nothing_left()


#: Pipeline, what is done to VPP by its command line, and what the proof says of it.
FAULTS = {
    "wrong next hop": (
        "route:5",
        "set ip neighbor static {c} 198.19.255.253 02:00:00:00:00:99",
        "sent on side 0: .*must be on side 1 as",
    ),
    "wrong port": (
        "route:5",
        "ip route add 198.19.0.1/32 via 198.18.255.253 {a}",
        "must be on side 1 as",
    ),
    "missing rule": (
        "route:5",
        "ip route add 10.0.0.16/29 via drop; ip route add 10.0.0.24/29 via drop",
        "by the first prefix sent on side 0",
    ),
    "leak": (
        "acl:5",
        "set acl-plugin interface {a} input acl 0 del",
        "a frame next to rule 5 of 5 came out on side 0",
    ),
    "new connection": (
        "conntrack",
        "set acl-plugin interface {a} output acl 1 del",
        "a new connection from the other side came out",
    ),
    "untranslated": (
        "nat",
        "nat44 forwarding enable",
        "a new connection sent on side 0: it came out on side 1 as .*; it must be",
    ),
    "not in the tunnel": ("vxlan", "set interface l2 xconnect {c} {a}", "sent on side 1"),
    "no copy": ("mirror", "set interface span {c} disable", "it came out on side 1 as .*; it must be on side 0"),
    "flood": ("bridge", "set bridge-domain learn 1 disable; clear l2fib", "where it must not"),
    "no tag": ("vlan", "set interface l2 tag-rewrite {c}.100 disable", "sent on side [01]"),
}


@with_vpp
@pytest.mark.parametrize(("pipeline", "fault", "why"), FAULTS.values(), ids=FAULTS)
def test_a_wrong_rule_in_vpp_fails_the_proof(pipeline: str, fault: str, why: str, tmp_path: Path) -> None:
    spec = ForwarderSpec.model_validate("vpp-afxdp")
    point = Point.model_validate({**POINT, "forwarder": spec, "pipeline": pipeline})
    forwarder = make_forwarder(spec)
    assert isinstance(forwarder, VppForwarder)
    controls: list[VppControl] = []
    forwarder.connect = lambda *sockets: controls.append(VppControl(*sockets)) or controls[-1]
    testbed = open_testbed(TestbedSpec(name=f"faults-{os.getpid()}", kind="embedded"))
    try:
        testbed.up()
        dut = replace(dut_of(testbed, point, testbed.layout), rundir=tmp_path)
        try:
            forwarder.start(dut)
        except Unsupported as exc:
            pytest.skip(str(exc))
        WorkProof(dut).carry_out(tmp_path)
        a, c = (row["name"] for row in forwarder.mode()["vpp"]["interfaces"])
        for command in fault.format(a=a, c=c).split("; "):
            assert "rror" not in controls[0].cli(command)
        with pytest.raises(PointFailed, match=why):
            WorkProof(dut).carry_out(tmp_path)
    finally:
        forwarder.stop()
        testbed.down()


@pytest.mark.slow
def test_without_vpp_the_comparison_ends_green_and_says_how_to_install_it(lab: Lab, tmp_path: Path) -> None:
    forwarders = "vpp-afxdp vpp-afpacket vpp-dpdk ovs-afxdp"
    given = {
        "TESTBED": str(lab.testbed),
        "FORWARDERS": forwarders,
        "REPETITIONS": "1",
        "BUDGET": "1",
    }
    options = [word for name, value in given.items() for word in ("-v", f"{name}:{value}")]
    suite = project_root() / "suites" / "vpp_comparison.robot"
    done = subprocess.run(
        [BIN / "robot", "--outputdir", tmp_path / "robot", "--log", "NONE", "--report", "NONE", *options, suite],
        capture_output=True,
        text=True,
        timeout=100,
        env=lab.env(XDPLAB_VPP=""),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    status = {
        test.attrib["name"]: test.find("status") for test in ET.parse(tmp_path / "robot" / "output.xml").iter("test")
    }
    measured = status["OVS on AF_XDP"]
    assert measured is not None
    assert measured.attrib["status"] == "PASS"
    for name in ("VPP on AF_XDP", "VPP on AF_PACKET, TPACKET_V3", "VPP on DPDK's AF_XDP PMD"):
        found = status[name]
        assert found is not None
        assert found.attrib["status"] == "SKIP"
        assert "install FD.io's Debian packages vpp and vpp-plugin-" in (found.text or "")
    lab.assert_nothing_left()


@with_vpp
def test_vpp_on_a_host_behind_ssh_is_spoken_to_there(tmp_path: Path) -> None:
    """Its messages and its statistics come through the program beside it, which ends with it."""
    before = shared_memory()
    with Bench.up(tmp_path) as bench:
        done = bench.run(forwarders=["vpp-afxdp", "vpp-afpacket"])
        assert done.code == 0, done.err
        assert [(row["status"], row["mode"]) for row in bench.rows()] == [("ok", "native copy"), ("ok", "af_packet v3")]
        counted = [trial.counters for trial in bench.last_run().trials() if trial.result]
        assert all("errors" in each for each in counted)
        bench.assert_as_before()
    assert shared_memory() == before
