# SPDX-License-Identifier: Apache-2.0
"""Rules of a node of the user's: its description, what the tester stands for there, and what the switch is given."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab import studies
from lab.ovs_host import OvsHost
from lab.records import point, run_record, trial
from lab.work import dut

from xdplab.analysis.run import rule_differences
from xdplab.forwarders import node, work
from xdplab.forwarders.ovs import openflow
from xdplab.forwarders.ovs.daemon import Ovs
from xdplab.forwarders.ovs.forwarder import OvsAfxdp
from xdplab.forwarders.ovs.options import OvsAfxdpOptions, UserspaceOptions
from xdplab.forwarders.ovs.pipelines import Tables, rule_hits, set_up, tables
from xdplab.hosts import LocalHost
from xdplab.model import InputError, Pipeline, StreamSpec
from xdplab.runner import make_plan
from xdplab.runner.ports import dut_of, tester_ports_of
from xdplab.testbed import Port
from xdplab.testbed.fake import FakeTestbed
from xdplab.testers import make_tester
from xdplab.testers.packets import headers_of
from xdplab_applications.applications.ends import Ends

OURS = "suites/openflow/node.yaml"
DESCRIBED = """
flows: my.flows
ports: [{port: 7, mac: "02:00:00:00:00:07", ip: 10.0.0.7}, {port: 9, mac: "02:00:00:00:00:09", ip: 10.0.0.9}]
"""


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.delenv(node.FOLDER, raising=False)
    (tmp_path / "my.yaml").write_text(DESCRIBED)
    return Pipeline(kind="openflow", file=str(tmp_path / "my.yaml"))


def test_files_are_next_to_the_description_or_in_a_folder_that_the_environment_names(
    described: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = node.missing(described)
    assert reason == f"my.flows is neither next to {described.file} nor in a folder that XDPLAB_OPENFLOW names"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "my.flows").write_text("OFPST_FLOW reply (xid=0x2):\n cookie=0x1, table=0 actions=drop\n")
    monkeypatch.setenv(node.FOLDER, str(tmp_path / "elsewhere"))
    assert node.missing(described) is None
    assert node.flow_lines(described) == ["cookie=0x1, table=0 actions=drop"]
    assert node.facts(described)["count"] == 1
    (tmp_path / "my.flows").write_text("# actions=none\nactions=1\nactions=2\n")
    assert node.flow_lines(described) == ["actions=1", "actions=2"]


def test_lines_of_files_are_arguments_and_no_options(described: Pipeline, tmp_path: Path) -> None:
    """ovs-ofctl takes options behind its arguments too, `--log-file=` among them."""
    owned = tmp_path / "owned"
    evil = [f"--log-file={owned}", f"--log-file={owned} group_id=1"]
    Path(described.file).write_text(f"{DESCRIBED}groups: my.groups\ntlv_map: ['{evil[0]}']\n")
    (tmp_path / "my.groups").write_text(evil[1])
    (tmp_path / "my.flows").write_text(f"{evil[0]} actions=drop\n")
    assert (list(node.node_of(described).tlv_map), node.group_lines(described)) == (evil[:1], evil[1:])
    host = OvsHost()
    switch: Any = replace(dut(str(described)), host=host, rundir=tmp_path)  # type: ignore[arg-type]
    build: Any = SimpleNamespace(ofctl="ovs-ofctl")
    set_up(Ovs("ovs-afxdp", switch, build, 5.0), tables(switch, ("p0", "p1"), UserspaceOptions()))
    words = [argv[1 + argv.index("--") :] for argv in host.runs]
    assert [(command, rest) for command, _, *rest in words] == [
        ("add-tlv-map", evil[:1]), ("add-group", evil[1:]), ("add-flows", ["-"])
    ]  # fmt: skip
    for argv in host.runs if shutil.which("ovs-ofctl") else ():
        subprocess.run(argv, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    assert not owned.exists()


def test_rules_without_end_are_refused(described: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "my.flows").touch()
    os.truncate(tmp_path / "my.flows", 1 << 30)
    with pytest.raises(InputError, match=r"my\.flows: more than the 64 MiB"):
        node.flow_lines(described)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("port: 9", "port: 0"), "ports.1.port"),
        (("02:00:00:00:00:07", "2:7"), "ports.0.mac"),
        (("10.0.0.9", "10.0.0"), "ports.1.ip"),
        (("flows: my.flows", "flows: my.flows\nflow: x"), "flow: unknown key"),
    ],
)
def test_a_description_that_is_none_is_one_line(described: Pipeline, change: tuple[str, str], why: str) -> None:
    Path(described.file).write_text(DESCRIBED.replace(*change))
    with pytest.raises(InputError, match=f"^{re.escape(described.file)}: .*{re.escape(why)}") as reported:
        node.node_of(described)
    assert "\n" not in str(reported.value)


def test_a_description_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"^nowhere\.yaml: No such file"):
        node.node_of(Pipeline(kind="openflow", file="nowhere.yaml"))


def test_the_tester_stands_for_what_is_behind_the_ports_and_its_other_side_answers() -> None:
    study, testbed = studies.study(pipeline=f"openflow:{OURS}", path="through"), studies.a_testbed()
    fake = FakeTestbed(testbed)
    point = make_plan(study, testbed, make_tester(study.tester)).points[0]
    ports = tester_ports_of(fake, point)
    forth, back = (
        headers_of(StreamSpec(kind="load", pps=1, frame_bytes=64, direction=way), ports)
        for way in ("forward", "backward")
    )
    assert (forth.src_mac, forth.dst_mac) == ("02:00:0a:00:01:0b", "02:00:0a:00:01:0c")
    assert (forth.src_ip, forth.dst_ip) == ("10.0.1.11", "10.0.1.12")
    mirrored = (back.dst_mac, back.src_mac, back.dst_ip, back.src_ip, back.udp_dst, back.udp_src)
    assert mirrored == (forth.src_mac, forth.dst_mac, forth.src_ip, forth.dst_ip, forth.udp_src, forth.udp_dst)
    here, there = work.sides(dut_of(fake, point, fake.layout))
    assert (here.station, there.station) == ("10.0.1.11", "10.0.1.12")
    assert (here.peer_mac, there.peer_mac) == (forth.src_mac, forth.dst_mac)


def test_one_pair_of_addresses_is_all_that_two_ports_have() -> None:
    study = studies.study(pipeline=f"openflow:{OURS}", path="through", traffic={"src_addresses": 2, "flows": 10})
    with pytest.raises(InputError, match="a port of a node has one address"):
        make_plan(study, studies.a_testbed(), make_tester(study.tester))


def test_ours_has_forty_tables_and_each_leads_to_one_that_is_there() -> None:
    given = tables(dut(f"openflow:{OURS}"), ("p0", "p1"), UserspaceOptions())
    numbers = {int(re.match(r"table=(\d+)", line)[1]) for line in given.flows}  # type: ignore[index]
    assert numbers == set(range(40))
    targets = {
        int(n) for line in given.flows for n in re.findall(r"goto_table:(\d+)|resubmit\(,(\d+)", line) for n in n if n
    }
    assert targets <= numbers
    ovs: Any = None  # nobody is asked where no rule has a cookie of ours
    assert rule_hits(ovs, given) == {}


def test_no_rule_of_a_node_may_be_missing_and_some_may_be_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    ovs = OvsAfxdp(OvsAfxdpOptions())
    ovs.instance = SimpleNamespace(exchange=None)  # type: ignore[assignment]
    ovs._tables = Tables(["actions=1", "actions=2"], counted=False)
    for there, said in ((1, 1), (2, 2), (5, 2)):
        monkeypatch.setattr(openflow, "rules_there", lambda _, there=there: there)
        assert ovs.rule_count() == (said, 2)


def test_a_lasting_port_keeps_its_address() -> None:
    port = Port(
        role="a0", host=LocalHost(), ifname="a0", mac="02:00:00:00:00:07", mtu=1500, lasting=True, address="10.0.0.7"
    )
    other = replace(port, role="c0", host=LocalHost())
    assert (Ends(port, other, (port,)).why_not() or "").startswith("pipeline openflow needs the embedded testbed")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (' cookie=0x1, table=0, in_port="vm-1" actions=drop', 'in_port="vm-1": vm-1'),
        (" table=0, priority=5,in_port=eth0 actions=drop", "in_port=eth0: eth0"),
        (" table=ingress, ip actions=drop", "table=ingress: ingress"),
        (" table=0, ip actions=output:tap7", "output:tap7: tap7"),
        (" table=0, ip actions=resubmit(,firewall)", "resubmit(,firewall: firewall"),
        (" table=0, ip actions=goto_table:acl", "goto_table:acl: acl"),
    ],
)
def test_a_dump_of_a_terminal_is_refused_with_the_advice(
    described: Pipeline, tmp_path: Path, line: str, what: str
) -> None:
    (tmp_path / "my.flows").write_text(f"NXST_FLOW reply:\n table=0 actions=drop\n{line}\n")
    with pytest.raises(InputError) as caught:
        node.missing(described)
    assert str(caught.value).startswith(
        f"my.flows, line 3: {what} is a name, as ovs-ofctl prints ports and tables on a"
    )
    assert "`ovs-ofctl --no-names dump-flows BRIDGE`" in str(caught.value)


def test_words_that_are_no_names_are_taken(described: Pipeline, tmp_path: Path) -> None:
    actions = (
        "IN_PORT,LOCAL,NORMAL,output:NXM_NX_REG0[0..15],output:reg1[],resubmit(,5),resubmit(in_port,6),resubmit(3,)"
    )
    lines = [
        f"table=0,in_port=LOCAL actions={actions}",
        "table=1,in_port=3 actions=output:LOCAL,enqueue:3:1,CONTROLLER:65535",
    ]
    (tmp_path / "my.flows").write_text("\n".join(lines))
    assert node.missing(described) is None
    assert node.flow_lines(described) == lines


def test_where_datapaths_differ_is_named_by_rule() -> None:
    rules = Pipeline(kind="openflow", file=OURS)
    one, two = (point(f"fake:seed={n}").model_copy(update={"pipeline": rules}) for n in (1, 2))
    both, only = "table=0 priority=1 actions=resubmit(,1)", "table=1 priority=7,ip actions=ct(table=2)"
    met = {one.id: [both, only], two.id: [both]}
    given = [trial(each, 0, [1000], mode={"rules": {"met": met[each.id]}}) for each in (one, two)]
    assert rule_differences(run_record(one, two), given) == [
        f"Pipeline openflow:{OURS}: frames met this rule with fake (seed=1), and not with fake (seed=2): {only}"
    ]
