# SPDX-License-Identifier: Apache-2.0
"""Pipelines for real: proven on every kind of forwarder, and proofs that fail when a rule is wrong."""

import subprocess
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest
from lab.rooted import Lab

from xdplab import testbed
from xdplab.analysis.met import ENDS
from xdplab.forwarders import make_forwarder
from xdplab.forwarders.ovs import VSWITCHD, OvsForwarder
from xdplab.forwarders.ovs_builds import find_build, missing
from xdplab.forwarders.ovs_tunnel import TUNNEL
from xdplab.hosts import LocalHost
from xdplab.model import ForwarderSpec, Path, Pipeline, Point, PointFailed, TestbedSpec, TrafficSpec
from xdplab.runner.place import dut_of
from xdplab.runner.work_proof import WorkProof
from xdplab.testbed import EmbeddedTestbed

pytestmark = pytest.mark.root

WORK = ["bridge", "vlan", "vxlan", "meter", "mirror", "group", "route:50", "acl:50x8", "conntrack", "nat"]
#: What these forwarders say that they do not do, or what this kernel has not got.
CANNOT = ("does not do pipeline", "CONFIG_BRIDGE_VLAN_FILTERING", "CONFIG_VXLAN")


@pytest.mark.parametrize("forwarder", ["ovs-afxdp", "linux-bridge", "linux-router"])
def test_every_pipeline_is_done_to_the_byte_or_has_its_reason(lab: Lab, forwarder: str) -> None:
    done = lab.run(forwarders=[forwarder], pipeline=WORK, traffic={"probe_pps": 1000})
    assert done.complaints == [], done.err
    rows = {row["pipeline"]: row for row in lab.rows()}
    assert list(rows) == WORK
    for work, row in rows.items():
        assert row["status"] in ("ok", "unsupported"), (work, row["reason"])
        if row["status"] == "unsupported":
            assert any(why in row["reason"] for why in CANNOT), (work, row["reason"])
    measured = [work for work, row in rows.items() if row["status"] == "ok"]
    assert len(measured) >= {"linux-bridge": 1, "linux-router": 4}.get(forwarder, len(WORK))
    lab.assert_nothing_left()


def test_threads_count_every_frame_of_the_tester_and_where_each_lookup_ended(lab: Lab) -> None:
    builds = [
        each for each in ("stock", "4.0.0-patched") if missing(LocalHost(), find_build(each, VSWITCHD), "") is None
    ]
    titles = [f"{kind}:build={build}" for build in builds for kind in ("ovs-afxdp", "ovs-afpacket")]
    method = {"name": "latency", "duration_s": 0.2, "warmup_s": 0}
    lab.run(forwarders=titles, pipeline="conntrack", method=method, traffic={"flows": 50, "probe_pps": 5000})
    found = {each.point_id: each for each in lab.trials() if each.result}
    rows = lab.rows()
    assert [(row["forwarder"], row["status"], row["reason"]) for row in rows] == [(title, "ok", "") for title in titles]
    for row in rows:
        trial = found[row["point_id"]]
        assert trial.result is not None
        (thread,) = trial.counted["lookups"].values()
        ends = sum(thread[end] for end in ENDS)
        assert (ends, thread["recirculated"]) == (3 * thread["frames"], 2 * thread["frames"])
        assert trial.result.received <= thread["frames"] <= trial.result.sent
        assert row["met"]["frames"] == thread["frames"] > 0
        assert bool(row["met"]["cycles_per_frame"]) == row["forwarder"].startswith("ovs-afxdp")


def test_a_flowtable_carries_connections_where_the_kernel_has_it(lab: Lab) -> None:
    done = lab.run(forwarders=["linux-router:flowtable=true", "linux-router"], pipeline="conntrack")
    assert done.complaints == [], done.err
    rows = {row["forwarder"]: row for row in lab.rows()}
    assert rows["linux-router"]["status"] == "ok"
    row = rows["linux-router:flowtable=true"]
    assert row["status"] == "ok" or "this kernel has no flowtables (CONFIG_NF_FLOW_TABLE)" in row["reason"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTestbed]:
    """A testbed that is up."""
    state = pytest.MonkeyPatch()
    state.setenv("XDPLAB_STATE", str(tmp_path_factory.mktemp("state")))
    made = testbed.open_testbed(TestbedSpec.model_validate({"schema": 1, "name": "work", "kind": "embedded"}))
    assert isinstance(made, EmbeddedTestbed)
    made.up()
    yield made
    made.down()
    state.undo()


#: Pipeline, what is done to its rules, and what the proof says of it.
FAULTS = [
    (Pipeline(kind="route", rules=5), ("mod-flows", "ip,nw_dst=198.19.0.0/16", "output:{c}"), "must be on side 1 as"),
    (Pipeline(kind="route", rules=5), ("del-flows", "ip,nw_dst=10.0.0.16/28"), "by the first prefix sent on side 0"),
    (Pipeline(kind="acl", rules=5), ("add-flow", "table=0,priority=1,actions=goto_table:1"), "where it must not"),
    (Pipeline(kind="conntrack"), ("add-flow", "table=1,priority=1,actions=goto_table:2"), "a new connection from"),
    (Pipeline(kind="nat"), ("mod-flows", "table=1,ip,ct_state=+trk+new-inv", "ct(commit,table=2)"), "a new connection"),
    (Pipeline(kind="bridge"), ("mod-flows", "", "FLOOD,in_port"), "where it must not"),
    (Pipeline(kind="mirror"), ("mod-flows", "", "{c},{a}"), "sent on side 0"),
    (Pipeline(kind="vxlan"), ("mod-flows", "in_port={a}", "output:{c}"), "a plain frame sent on side 0: it came out"),
    (Pipeline(kind="vxlan"), ("mod-flows", "ip,in_port=LOCAL", "set_field:192.0.2.9->ip_dst,output:{c}"), "a plain"),
    (Pipeline(kind="vxlan"), ("add-flow", "priority=1,in_port={c}", "output:{a}"), "a frame outside the tunnel came"),
    (Pipeline(kind="vxlan"), ("set", "Interface", TUNNEL, "options:key=6"), "a plain frame sent on side 0: it came"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pipeline", "fault", "why"),
    FAULTS,
    ids=[
        "wrong next hop",
        "missing rule",
        "leak",
        "new connection",
        "untranslated",
        "flood",
        "no copy",
        "not in the tunnel",
        "another end",
        "leak of a tunnel",
        "another VNI",
    ],
)
def test_a_wrong_rule_fails_the_proof(
    bench: EmbeddedTestbed, tmp_path: FilePath, pipeline: Pipeline, fault: tuple[str, ...], why: str
) -> None:
    spec = ForwarderSpec.model_validate("ovs-afpacket")
    point = Point(forwarder=spec, path=Path.THROUGH, knobs={}, traffic=TrafficSpec(), pipeline=pipeline)
    dut = dut_of(bench, point, bench.layout)
    dut.host.make_folder(dut.rundir)
    forwarder = make_forwarder(spec)
    assert isinstance(forwarder, OvsForwarder)
    try:
        forwarder.start(dut)
        WorkProof(dut).carry_out(tmp_path)
        bridge = f"unix:{dut.rundir}/xdplab0.mgmt"
        a, c = (port.ifname for port in dut.ports)
        command, *rest = [word.format(a=a, c=c) for word in fault]
        if command == "set":
            forwarder._vsctl(command, *rest)
        else:
            told = [",".join(filter(None, (rest[0], *(f"actions={each}" for each in rest[1:]))))]
            subprocess.run(["ovs-ofctl", "-OOpenFlow15", command, bridge, *told], check=True)
        with pytest.raises(PointFailed, match=why):
            WorkProof(dut).carry_out(tmp_path)
    finally:
        forwarder.stop()
        dut.host.remove_folder(dut.rundir)
