# SPDX-License-Identifier: Apache-2.0
"""Pipelines for real: proven on every kind of forwarder, and proofs that fail when a rule is wrong."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import pytest
from lab.rooted import Lab
from pydantic import TypeAdapter

from xdplab import testbed
from xdplab.forwarders import Dut, Forwarder, make_forwarder
from xdplab.forwarders.ovs.builds import find_build, missing
from xdplab.forwarders.ovs.forwarder import VSWITCHD, OvsForwarder
from xdplab.forwarders.ovs.pipelines import TUNNEL
from xdplab.forwarders.work import BUCKET_MACS
from xdplab.hosts import LocalHost
from xdplab.measure.datapath import ENDS
from xdplab.model import ForwarderSpec, Path, Pipeline, Point, PointFailed, TestbedSpec, TrafficSpec
from xdplab.model.pipeline import PipelineText
from xdplab.runner.ports import dut_of, tester_ports_of
from xdplab.runner.work_proof import WorkProof, prove_work
from xdplab.testbed import EmbeddedTestbed
from xdplab.testers import TesterContext
from xdplab.testers.xdpgen import Xdpgen
from xdplab_applications.functions.nf import XskFunctions

pytestmark = pytest.mark.root

WORK = ["bridge", "vlan", "vxlan", "meter", "mirror", "group", "route:50", "acl:50x8", "conntrack", "nat"]
#: What these forwarders say that they do not do, or what this kernel has not got.
CANNOT = ("does not support pipeline", "CONFIG_BRIDGE_VLAN_FILTERING", "CONFIG_VXLAN")


@pytest.mark.parametrize(
    ("forwarder", "works"),
    [
        ("ovs-afxdp", ["vlan", "meter", "conntrack"]),  # the others of it: `test_a_wrong_rule_fails_the_proof`
        pytest.param("ovs-afxdp", WORK, marks=pytest.mark.slow),
        ("linux-bridge", WORK),
        ("linux-router", WORK),
    ],
    ids=["ovs-afxdp", "ovs-afxdp, all", "linux-bridge", "linux-router"],
)
def test_every_pipeline_is_done_to_the_byte_or_has_its_reason(lab: Lab, forwarder: str, works: list[str]) -> None:
    done = lab.run(forwarders=[forwarder], pipeline=works, traffic={"probe_pps": 1000})
    assert done.complaints == [], done.err
    rows = {row["pipeline"]: row for row in lab.rows()}
    assert list(rows) == works
    for work, row in rows.items():
        assert row["status"] in ("ok", "unsupported"), (work, row["reason"])
        if row["status"] == "unsupported":
            assert any(why in row["reason"] for why in CANNOT), (work, row["reason"])
    measured = [work for work, row in rows.items() if row["status"] == "ok"]
    assert len(measured) >= {"linux-bridge": 1, "linux-router": 4}.get(forwarder, len(works))
    lab.assert_nothing_left()


@pytest.mark.slow
def test_a_network_function_routes_in_every_place(lab: Lab) -> None:
    modes = ["xdp", "af_xdp", "combined"]
    titles = [*(f"nf:mode={mode}" for mode in modes), "nf:functions=macswap", "nf:functions=router"]
    done = lab.run(forwarders=titles, pipeline=["route:50"], traffic={"probe_pps": 1000})
    assert done.complaints == [], done.err
    reported = {row["forwarder"]: (row["status"], row["reason"]) for row in lab.rows()}
    why = "pipeline route:50: nf does it with functions=router, not macswap"
    assert reported == dict.fromkeys(titles, ("ok", "")) | {"nf:functions=macswap": ("unsupported", why)}
    lab.assert_nothing_left()


@pytest.mark.slow
def test_threads_count_every_frame_of_the_tester_and_where_each_lookup_ended(lab: Lab) -> None:
    builds = [
        each
        for each in ("stock", "patched")
        if missing(LocalHost(), find_build(each, VSWITCHD, LocalHost()), "") is None
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
        (thread,) = trial.increments["lookups"].values()
        ends = sum(thread[end] for end in ENDS)
        assert (ends, thread["recirculated"]) == (3 * thread["frames"], 2 * thread["frames"])
        assert trial.result.received <= thread["frames"] <= trial.result.sent
        assert row["datapath"]["frames"] == thread["frames"] > 0
        assert bool(row["datapath"]["cycles_per_frame"]) == row["forwarder"].startswith("ovs-afxdp")


def test_a_flowtable_carries_connections_where_the_kernel_has_it(lab: Lab) -> None:
    done = lab.run(forwarders=["linux-router:flowtable=true", "linux-router"], pipeline="conntrack")
    assert done.complaints == [], done.err
    rows = {row["forwarder"]: row for row in lab.rows()}
    assert rows["linux-router"]["status"] == "ok"
    row = rows["linux-router:flowtable=true"]
    assert row["status"] == "ok" or "this kernel has no flowtables (CONFIG_NF_FLOW_TABLE)" in row["reason"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTestbed]:
    state = pytest.MonkeyPatch()
    state.setenv("XDPLAB_STATE", str(tmp_path_factory.mktemp("state")))
    made = testbed.open_testbed(TestbedSpec.model_validate({"schema": 1, "name": "work", "kind": "embedded"}))
    assert isinstance(made, EmbeddedTestbed)
    made.up()
    yield made
    made.down()
    state.undo()


ACL = Pipeline(kind="acl", rules=100, masks=8)
#: The group that leads to the last port, with one field more to hash.
SPREAD = ",".join(
    (
        "group_id=2,type=select,selection_method=hash,fields(ip_src,ip_dst,udp_src,udp_dst,nw_ttl)",
        *(f"bucket=actions=set_field:{mac}->eth_src,output:{{c}}" for mac in BUCKET_MACS),
    )
)
#: Pipeline, what is done to its rules, and what the proof says of it.
FAULTS = [
    (Pipeline(kind="route", rules=5), ("mod-flows", "ip,nw_dst=198.19.0.0/16", "output:{c}"), "must be on side 1 as"),
    (Pipeline(kind="route", rules=5), ("del-flows", "ip,nw_dst=10.0.0.16/28"), "by the first prefix sent on side 0"),
    (Pipeline(kind="acl", rules=5), ("add-flow", "table=0,priority=1,actions=goto_table:1"), "where it must not"),
    (ACL, ("add-flow", "table=0,udp,nw_src=10.0.0.0/8,tp_dst=20000,actions=goto_table:1"), "a frame next to rule"),
    (ACL, ("add-flow", "table=0,udp,in_port={a},nw_src=198.18.0.0/21,tp_dst=20000", "goto_table:1"), "to rule 100 "),
    (ACL, ("del-flows", "table=0,udp,in_port={a},nw_src=10.0.12.0/30,nw_dst=198.19.0.0/17"), "by rule 97 of 100 sent"),
    (ACL, ("add-flow", "table=0,priority=40000,udp,nw_src=198.18.2.0/23", "drop"), "by rule 100 of 100 sent on side 0"),
    (Pipeline(kind="group"), ("mod-group", SPREAD), "flows took both buckets"),
    (Pipeline(kind="conntrack"), ("add-flow", "table=1,priority=1,actions=goto_table:2"), "a new connection from"),
    (Pipeline(kind="nat"), ("mod-flows", "table=1,ip,ct_state=+trk+new-inv", "ct(commit,table=2)"), "a new connection"),
    (Pipeline(kind="bridge"), ("mod-flows", "", "FLOOD,in_port"), "where it must not"),
    (Pipeline(kind="mirror"), ("mod-flows", "", "{c},{a}"), "sent on side 0"),
    (Pipeline(kind="vxlan"), ("mod-flows", "in_port={a}", "output:{c}"), "a plain frame sent on side 0: it came out"),
    (Pipeline(kind="vxlan"), ("mod-flows", "ip,in_port=LOCAL", "set_field:192.0.2.9->ip_dst,output:{c}"), "a plain"),
    (Pipeline(kind="vxlan"), ("add-flow", "priority=1,in_port={c}", "output:{a}"), "a frame outside the tunnel came"),
    (Pipeline(kind="vxlan"), ("set", "Interface", TUNNEL, "options:key=6"), "a plain frame sent on side 0: it came"),
]  # fmt: skip


@contextlib.contextmanager
def started(bench: EmbeddedTestbed, title: str, pipeline: Pipeline) -> Iterator[tuple[Forwarder[Any], Dut, Point]]:
    spec = ForwarderSpec.model_validate(title)
    point = Point(forwarder=spec, path=Path.THROUGH, knobs={}, traffic=TrafficSpec(), pipeline=pipeline)
    dut = dut_of(bench, point, bench.layout)
    dut.host.make_folder(dut.rundir)
    forwarder = make_forwarder(spec)
    try:
        forwarder.start(dut)
        yield forwarder, dut, point
    finally:
        forwarder.stop()
        dut.host.remove_folder(dut.rundir)


def spoil(forwarder: Forwarder[Any], dut: Dut, fault: tuple[str, ...]) -> None:
    """A command of ovs-ofctl or ovs-vsctl with what it takes, or of nft; {a} and {c} are the ports."""
    a, c = (port.ifname for port in dut.ports)
    command, *rest = [word.format(a=a, c=c) for word in fault]
    if command == "nft":
        dut.host.run([command, *rest])
    elif command == "set":
        assert isinstance(forwarder, OvsForwarder)
        forwarder.instance.vsctl(command, *rest)
    else:
        reported = [",".join(filter(None, (rest[0], *(f"actions={each}" for each in rest[1:]))))]
        subprocess.run(["ovs-ofctl", "-OOpenFlow15", command, f"unix:{dut.rundir}/xdplab0.mgmt", *reported], check=True)


@pytest.mark.parametrize(
    ("pipeline", "fault", "why"),
    FAULTS,
    ids=[
        "wrong next hop",
        "missing rule",
        "leak",
        "wider rules",
        "wider rule of the traffic",
        "missing mask",
        "narrower rule of the traffic",
        "spread within a flow",
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
    bench: EmbeddedTestbed,
    tmp_path: FilePath,
    monkeypatch: pytest.MonkeyPatch,
    pipeline: Pipeline,
    fault: tuple[str, ...],
    why: str,
) -> None:
    with started(bench, "ovs-afpacket", pipeline) as (forwarder, dut, _):
        WorkProof(dut).carry_out(tmp_path)
        spoil(forwarder, dut, fault)
        monkeypatch.setattr("xdplab.runner.proof._ANSWER_S", 2.0)  # some frames never come
        with pytest.raises(PointFailed, match=why):
            WorkProof(dut).carry_out(tmp_path)


#: Forwarder, its pipeline, what drops frames and leaves the number of rules as it is, and where they end.
LOSSES = {
    "a rule": (
        "ovs-afpacket", Pipeline(kind="route", rules=5), ("mod-flows", "ip,nw_dst=10.0.0.16/28", "drop"),
        r"by the first prefix .*; of 200 frames A→C, ovs-afpacket itself counted rule '.*nw_dst=10\.0\.0\.16/28' of "
        r"table 0, which drops: 2\d\d",
    ),
    "a table of somebody else": (
        "linux-router", Pipeline(kind="route", rules=5), ("nft", "add table ip other {{ chain other "
        "{{ type filter hook forward priority -9; policy drop; }}; }}"),
        r"; of 200 frames A→C, 2\d\d .*at b0 and ended in B's own stack \(2\d\d NETFILTER_DROP in \w+\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", LOSSES)
def test_a_frame_of_the_proof_that_does_not_come_out_is_followed(
    bench: EmbeddedTestbed, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    title, pipeline, reported, why = LOSSES[fault]
    monkeypatch.setattr("xdplab.runner.proof._ANSWER_S", 2.0)  # some frames never come
    with started(bench, title, pipeline) as (forwarder, dut, _):
        spoil(forwarder, dut, reported)
        try:
            with pytest.raises(PointFailed, match=why):
                prove_work(forwarder, dut, tmp_path, lambda _: pytest.fail("frame by frame it is right"))
        finally:
            dut.host.run(["nft", "delete", "table", "ip", "other"], check=False)


@pytest.mark.parametrize(("mode", "why"), [("xdp", "has 99 rules of 100"), ("af_xdp", "by the first prefix sent")])
def test_a_network_function_that_lacks_a_route_fails_the_proof(
    bench: EmbeddedTestbed, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch, mode: str, why: str
) -> None:
    reported = XskFunctions._router

    def without_one(self: XskFunctions, dut: Dut) -> dict[str, Any]:
        tables = reported(self, dut)
        return {**tables, "routes": 99, "route_list": tables["route_list"][1:]}

    monkeypatch.setattr(XskFunctions, "_router", without_one)
    monkeypatch.setattr("xdplab.runner.proof._ANSWER_S", 2.0)  # a frame that never comes
    lacking = started(bench, f"nf:mode={mode}", Pipeline(kind="route", rules=50))
    with lacking as (forwarder, dut, _), pytest.raises(PointFailed, match=why):
        prove_work(forwarder, dut, tmp_path, lambda _: pytest.fail("frame by frame it is right"))


#: Forwarder, pipeline, what is done, and what its counts then say: no frame of the proof comes out wrong.
MISCOUNTS = {
    "missing rule": (
        "ovs-afxdp", "acl:100x8", ("del-flows", "table=0,udp,in_port={c},nw_src=10.0.80.0/29"),
        "^acl:100x8: ovs-afxdp has 202 rules of 203$",
    ),
    "another rule": (
        "ovs-afxdp", "route:50", ("add-flow", "table=7,priority=5", "drop"),
        "^route:50: ovs-afxdp has 102 rules of 101$",
    ),
    "no meter": (
        "ovs-afxdp", "meter", ("mod-flows", "in_port={c}", "output:{a}"),
        r"^meter: .* matched by its rules: forth ([\d,]+), back [\d,]+, meter \1$",
    ),
    "missing rule of nftables": (
        "linux-router", "acl:100x8", ("nft", "flush", "chain", "ip", "xdplab", "forward"),
        "^acl:100x8: linux-router has 0 rules of 200$",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", MISCOUNTS)
def test_what_is_not_counted_as_asked_for_fails_the_proof(
    bench: EmbeddedTestbed, tmp_path: FilePath, fault: str
) -> None:
    title, pipeline, reported, why = MISCOUNTS[fault]
    made = TypeAdapter(PipelineText).validate_python(pipeline)
    with started(bench, title, made) as (forwarder, dut, point), contextlib.closing(Xdpgen()) as tester:
        ports = tester_ports_of(bench, point)
        context = TesterContext(ports, bench.layout, "xdp", tmp_path, check_alive=forwarder.crashed)
        prove_work(forwarder, dut, tmp_path, lambda spec: tester.run(context, spec))
        spoil(forwarder, dut, reported)
        with pytest.raises(PointFailed, match=why):
            prove_work(forwarder, dut, tmp_path, lambda spec: tester.run(context, spec))
