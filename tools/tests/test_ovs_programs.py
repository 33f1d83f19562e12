# SPDX-License-Identifier: Apache-2.0
"""What the programs of ovs/tests make and judge without a switch: random frames, random tables, frames gone astray."""

import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from xdplab.tools import project_root


@pytest.fixture(scope="module")
def modules() -> Iterator[SimpleNamespace]:
    """The modules of that folder, which is no package."""
    folder = str(project_root() / "ovs" / "tests")
    # theirs is called `lab`, too
    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "lab"}
    names = ("diff_packets", "diff_tables", "frames", "storm_traffic")
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
        assert table.flows[-1].startswith(f"cookie={len(table.flows) - 1},priority=0,actions=")
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
    told = modules.frames.AUXDATA.pack(1 << 4 | 1 << 6, 60, 60, 0, 0, 0x2007, 0x88A8)
    assert modules.frames.with_tag(frame, [(263, 8, told)]) == frame[:12] + b"\x88\xa8\x20\x07" + frame[12:]
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
    judge = modules.storm_traffic.Judge()
    for number, flow in ((5, 1), (9, 1), (7, 1), (6, 2), (8, 1)):
        shape = modules.storm_traffic.Shape()
        judge.judge([modules.storm_traffic.Arrival(1, (0, flow), number, 150, 160, shape)], None, {})
    assert (judge.overtaken, judge.wrong) == (2, [])


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


def test_source_nat_may_take_another_port(modules: SimpleNamespace) -> None:
    traffic = modules.storm_traffic
    head = bytearray(traffic.headers(3))
    stamp = traffic.STAMP.pack(traffic.MARK, 0, 3, 77, 1)
    head[34:36] = b"\x10\x10"
    assert isinstance(traffic.look(bytes(head) + stamp, len(head)), str)
    head[24:26], head[26:30] = b"\0\0", b"\x0a\x4d\x09\x09"
    head[24:26] = modules.diff_packets.checksum(bytes(head[14:34])).to_bytes(2, "big")
    assert traffic.look(bytes(head) + stamp, len(head)) == traffic.Shape(src=b"\x0a\x4d\x09\x09")
