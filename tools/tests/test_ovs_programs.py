# SPDX-License-Identifier: Apache-2.0
"""What the programs of ovs/tests make and judge without a switch: random frames, random tables, frames gone astray."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

from xdplab.tools import project_root

STORMS = ("offload_storm.py", "option_storm.py", "pipeline_storm.py")


@pytest.fixture(scope="module")
def modules() -> Iterator[SimpleNamespace]:
    """The modules of that folder, which is no package."""
    folder = str(project_root() / "ovs" / "tests")
    # theirs is called `lab`, too
    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "lab"}
    names = ("diff_packets", "diff_tables", "frames", "storm_traffic", "storm_rules")
    sys.path.insert(0, folder)
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in names})
    finally:
        sys.path.remove(folder)
        for name in (*names, "lab"):
            del sys.modules[name]
        sys.modules.update(ours)


def test_a_seed_makes_the_same_frames_and_tables_again(modules: SimpleNamespace) -> None:
    made = [
        ([packets.frame(port) for port in (0, 1, 2) * 30], modules.diff_tables.Tables("1/2", 3).table())
        for packets in (modules.diff_packets.Packets("1/2", 3), modules.diff_packets.Packets("1/2", 3))
    ]
    assert made[0] == made[1]
    assert made[0][0] != [modules.diff_packets.Packets("1/3", 3).frame(port) for port in (0, 1, 2) * 30]


def test_frames_of_every_kind_come_and_fit_a_link(modules: SimpleNamespace) -> None:
    packets = modules.diff_packets.Packets("7", 3)
    frames = [packets.frame(number % 3) for number in range(3000)]
    assert all(14 <= len(frame) <= 1514 for frame in frames)
    assert all(frame[6:12] in modules.diff_packets.macs(number % 3) for number, frame in enumerate(frames))
    assert packets.kinds.keys() == {
        "IPv4", "IPv4 options", "IPv4 fragment", "IPv6", "IPv6 with extension headers", "ARP", "MPLS", "LLC", "tagged",
        "tagged twice or more", "cut", "trailing bytes", "wrong length", "wrong version or header length",
        "other Ethernet types",
    }  # fmt: skip
    assert min(packets.kinds.values()) > 10


def test_right_checksums_are_right(modules: SimpleNamespace) -> None:
    packets = modules.diff_packets.Packets("8", 3)
    heads = [packets._ipv4()[1][:20] for _ in range(2000)]
    plain = [head for head in heads if head[0] == 0x45]
    right = sum(modules.diff_packets.checksum(head) == 0 for head in plain)
    assert 0.75 * len(plain) < right < 0.95 * len(plain)


def test_every_table_ends_with_a_flow_that_takes_the_rest(modules: SimpleNamespace) -> None:
    tables = modules.diff_tables.Tables("3", 3)
    made = [tables.table() for _ in range(200)]
    assert {table.kind for table in made} == set(modules.diff_tables.KINDS)
    for table in made:
        assert table.flows[-1].startswith("priority=0,actions=")
        priorities = [flow.partition("priority=")[2].partition(",")[0] for flow in table.flows]
        assert len(set(priorities)) == len(priorities)  # which flow a frame meets is no accident


@pytest.mark.parametrize("fault", ["port", "bytes", "count"])
def test_what_is_planted_differs_in_the_catch_all(fault: str, modules: SimpleNamespace) -> None:
    table = modules.diff_tables.Tables("3", 3).table()
    left, right = modules.diff_tables.planted(table, fault)
    assert left != right
    assert left.flows[:-1] == table.flows[:-1] == right.flows[: len(table.flows) - 1]


def test_the_tag_that_the_kernel_took_out_is_put_back(modules: SimpleNamespace) -> None:
    frame = bytes(range(12)) + b"\x08\x00rest"
    reported = modules.frames.AUXDATA.pack(1 << 4 | 1 << 6, 60, 60, 0, 0, 0x2007, 0x88A8)
    assert modules.frames.with_tag(frame, [(263, 8, reported)]) == frame[:12] + b"\x88\xa8\x20\x07" + frame[12:]
    assert modules.frames.with_tag(frame, [(263, 8, bytes(20))]) == frame


def test_a_frame_astray_or_twice_is_seen_and_only_when_it_is_certain(modules: SimpleNamespace) -> None:
    traffic = modules.storm_traffic
    arrival = partial(traffic.Arrival, shape=traffic.Shape())
    named = {(0, 1): traffic.Named(frozenset({1})), (0, 2): traffic.Named()}
    cases = [
        ("right", arrival(1, (0, 1), 1, 150, 160), 0),
        ("by another port", arrival(0, (0, 1), 2, 150, 160), 1),
        ("of a flow that drops", arrival(1, (0, 2), 3, 150, 160), 1),
        ("sent before", arrival(0, (0, 1), 4, 100, 160), 0),
        ("the second time", arrival(1, (0, 1), 1, 150, 170), 1),
    ]
    judge = modules.storm_traffic.Judge()
    for words, frame, wrong in cases:
        before = len(judge.wrong)
        judge.judge([frame], 100, named)
        assert len(judge.wrong) - before == wrong, words
    judge.judge([arrival(0, (0, 1), 9, 150, 160)], None, named)
    assert Counter(word for text in judge.wrong for word in ("twice", "names port 2", "drops") if word in text) == {
        "twice": 1, "names port 2": 1, "drops": 1,
    }  # fmt: skip


def test_a_frame_that_a_later_one_of_its_flow_overtook_is_counted(modules: SimpleNamespace) -> None:
    judge, named = modules.storm_traffic.Judge(), modules.storm_traffic.Named(frozenset({1}))
    for number, flow in ((5, 1), (9, 1), (7, 1), (6, 2), (8, 1)):
        shape = modules.storm_traffic.Shape()
        judge.judge([modules.storm_traffic.Arrival(1, (0, flow), number, 150, 160, shape)], None, {})
    assert (judge.overtaken, judge.most_overtaken, judge.wrong) == (2, 2, [])
    judge.judge([modules.storm_traffic.Arrival(1, (0, 2), 2, 150, 160, shape)], 100, {(0, 2): named})
    assert (judge.overtaken, judge.most_overtaken) == (3, 2)


def test_a_frame_may_leave_by_all_ports_that_are_named_and_by_no_more_at_once(modules: SimpleNamespace) -> None:
    traffic = modules.storm_traffic
    arrival = partial(traffic.Arrival, entry=(0, 1), sent_ns=150, got_ns=160, shape=traffic.Shape())
    for most, wrong in ((2, 0), (1, 1)):  # a group of all, or one that selects
        judge = traffic.Judge(most=3)
        named = {(0, 1): traffic.Named(frozenset({1, 2}), most)}
        judge.judge([arrival(1, number=1), arrival(2, number=1), arrival(2, number=2)], 100, named)
        assert len(judge.wrong) == wrong
    judge.judge([arrival(1, number=3)], 100, {(0, 1): traffic.Named(frozenset({1}), 1, traffic.Shape(ttl=5))})
    assert "should look like" in judge.wrong[-1]


@pytest.mark.parametrize("tagged", [False, True])
def test_a_frame_that_is_damaged_anywhere_behind_its_addresses_is_seen(modules: SimpleNamespace, tagged: bool) -> None:
    traffic = modules.storm_traffic
    number, size = 77, 40
    head = traffic.headers(3, size, tagged)
    stamp = traffic.STAMP.pack(traffic.MARK, 0, 3, number, 1)
    whole = head + stamp + traffic.filler(number, size)
    assert traffic.look(whole, len(head)) == traffic.Shape(tags=(traffic.TAG,) if tagged else ())
    tag = {14, 15} if tagged else set()  # another tag is another shape
    for at in (*range(12, len(head)), *range(len(head) + len(stamp), len(whole))):
        damaged = whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]
        seen = traffic.look(damaged, len(head))
        assert isinstance(seen, str) != (at in tag), at
    assert isinstance(traffic.look(whole[:-1], len(head)), str)


def test_a_rule_names_how_its_frames_look(modules: SimpleNamespace) -> None:
    switch = SimpleNamespace(ofctl=lambda *_, **__: "")
    rules, planted = (modules.storm_rules.Rules(1, switch, plant) for plant in (None, "shape"))
    for each in (rules, planted):
        each.replace_all((0, 1, None))
    assert {**rules.named} == {**planted.named}
    seen: Counter[str] = Counter()
    for entry, says in rules.named.items():
        actions = rules.texts[entry].partition("actions=")[2]
        if actions == "drop":
            assert says == modules.storm_traffic.Named()
            continue
        dst = bytes.fromhex("020000008803" if "mod_dl_dst" in actions else "020000008802")
        tags, ttl = (7,) if "push_vlan" in actions else (), 5 if "mod_nw_ttl" in actions else 64
        assert says.shape == modules.storm_traffic.Shape(dst, tags, ttl)
        assert "mod_nw_ttl:9" in planted.texts[entry]
        seen[actions.partition(":")[0]] += 1
    assert {"push_vlan", "mod_nw_ttl", "mod_dl_dst", "output", "in_port"} == seen.keys()


def left(traffic: Any, leave: Callable[[Any], object]) -> None:
    """Leaves the context in that way, when its thread has ended."""
    with traffic:
        traffic._thread.join()
        leave(traffic)


def test_what_reading_raises_ends_the_storm_with_these_words(modules: SimpleNamespace) -> None:
    def receive() -> None:
        raise ValueError("outer headers")

    wire = SimpleNamespace(send=lambda frame: None, receive=receive)
    error = sys.modules["lab"].StormError
    for leave in (lambda traffic: traffic.take(), lambda traffic: traffic.stop(), lambda traffic: None):
        traffic = modules.storm_traffic.Traffic([wire], 1, 1000)
        with pytest.raises(error, match="no more traffic: outer headers"):
            left(traffic, leave)
    with pytest.raises(ZeroDivisionError):  # is not hidden
        left(modules.storm_traffic.Traffic([wire], 1, 1000), lambda _: 1 / 0)


def test_what_was_never_offloaded_is_not_called_the_same(modules: SimpleNamespace) -> None:
    tables = modules.diff_tables
    flows = (
        "recirc_id(0),in_port(d0),eth_type(0x0800), packets:2, actions:set(ipv4(ttl=9)),push_vlan(vid=1),d1\n"
        "recirc_id(0),in_port(d0),eth_type(0x8100),encap(eth_type(0x0800)), packets:2, actions:pop_vlan,d1\n"
        "recirc_id(0),in_port(d0),eth_type(0x0806), packets:2, actions:d1\n"
    )
    edits = tables.edits(flows)
    assert edits == {"set(": 1, "push_vlan": 1, "pop_vlan": 1}
    edits.update(tables.EDITS)
    several = Counter(tables.SEVERAL)
    assert tables.not_offloaded(tables.MANY, 1, edits, several) == []
    assert tables.not_offloaded(tables.MANY, 0, edits, several) == ["nothing was offloaded"]
    assert tables.not_offloaded(tables.MANY, 1, edits, Counter(recirc=1, tunnel=1)) == [
        "no frame of a table of conntrack met several flows in XDP"
    ]
    del edits["set("]
    assert tables.not_offloaded(tables.MANY, 1, edits, several) == ["no flow with set was offloaded"]
    assert tables.not_offloaded(tables.MANY - 1, 1, edits, several) == []


def test_frames_in_a_tunnel_are_mostly_right_ones(modules: SimpleNamespace) -> None:
    packets = modules.diff_packets.Packets("1", 3)
    right = Counter[str]()
    for _ in range(300):
        frame = Ether(packets.frame(0, tunnels=1.0))
        for kind in (VXLAN, GENEVE):
            if kind in frame and frame[IP].dst == modules.diff_packets.TUNNEL_IP:
                right[kind.__name__] += frame[kind].payload.name == "Ethernet"
    assert min(right["VXLAN"], right["GENEVE"]) > 90, right


def test_frames_of_a_connection_come_step_by_step_and_are_mostly_right(modules: SimpleNamespace) -> None:
    connections = modules.diff_packets.Connections("1", 30)
    steps = list(connections.steps())
    assert len(steps[0]) == 30
    seen = Counter[str]()
    for step in steps:
        heads = [Ether(frame).getlayer(IP) or Ether(frame)[IPv6] for _, frame in step]
        assert len({frozenset((head.src, head.dst)) for head in heads}) == len(step)  # each of another connection
        for port, data in step:
            frame = Ether(data)
            seen["from the side of its port"] += frame.src == modules.diff_packets.macs(port)[0].hex(":")
            seen["all"] += 1
            if TCP in frame:
                was = frame[TCP].chksum
                del frame[TCP].chksum
                seen["tcp"] += 1
                seen["right"] += Ether(bytes(frame))[TCP].chksum == was
    assert seen["from the side of its port"] == seen["all"]
    assert 0.85 * seen["tcp"] < seen["right"] < seen["tcp"]


def run(program: str, *argv: str, **env: str) -> "subprocess.CompletedProcess[str]":
    path = project_root() / "ovs" / "tests" / program
    done = subprocess.run(
        [sys.executable, str(path), "--build", "/none", *argv], capture_output=True, text=True, check=False, env=env
    )
    assert done.stdout == ""
    return done


@pytest.mark.parametrize(
    ("program", "option", "value"),
    [
        *((storm, option, "0") for storm in STORMS for option in ("--check", "--changes")),
        *((storm, "--pause", "-1") for storm in STORMS),
        ("offload_storm.py", "--pps", "nan"),
        *(("offload_diff.py", option, "0") for option in ("--frames", "--packets", "--times", "--stop-after")),
        *(("offload_queues.py", option, "0") for option in ("--cpus", "--seconds", "--repetitions")),
        *(("miss_cost.py", option, "0") for option in ("--frames", "--repetitions")),
        *(("new_flows.py", option, "0") for option in ("--pps", "--burst-pps", "--repetitions", "--flows")),
        *(("option_loss.py", option, "0") for option in ("--pps", "--repetitions")),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(program: str, option: str, value: str) -> None:
    done = run(program, option, value)
    assert done.returncode == 2
    assert f"argument {option}: {value} is not " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("program", [*STORMS, "offload_diff.py", "miss_cost.py", "option_loss.py", "port_memory.py"])
def test_what_is_missing_is_reported_by_name(program: str) -> None:
    done = run(program, PATH="/none")
    assert done.returncode == 2
    reported = {line.partition(": needs ")[2] for line in done.stderr.splitlines()}
    assert {"ip, which is not there", "a result of ovs/build: /none has no ovs-vswitchd"} <= reported
    assert ("bpftool, which is not there" in reported) == (program == "miss_cost.py")


def test_source_nat_may_take_another_port(modules: SimpleNamespace) -> None:
    traffic = modules.storm_traffic
    head = bytearray(traffic.headers(3))
    stamp = traffic.STAMP.pack(traffic.MARK, 0, 3, 77, 1)
    head[34:36] = b"\x10\x10"
    assert isinstance(traffic.look(bytes(head) + stamp, len(head)), str)
    head[24:26], head[26:30] = b"\0\0", b"\x0a\x4d\x09\x09"
    head[24:26] = modules.diff_packets.checksum(bytes(head[14:34])).to_bytes(2, "big")
    assert traffic.look(bytes(head) + stamp, len(head)) == traffic.Shape(src=b"\x0a\x4d\x09\x09")
