# SPDX-License-Identifier: Apache-2.0
"""What nodes of VPP cost: `show runtime` read, cleared and summed; polling without frames told apart."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lab.papi import recorded

from xdplab.forwarders.vpp.process import Node, NodeCounts, parse_nodes
from xdplab.model import PointFailed

RECORDED = sorted((Path(__file__).parent / "data" / "vpp" / "26.10").glob("*.json.xz"))
#: As VPP 26.10 prints it (format_vlib_node_stats of vlib/node_cli.c).
HEAD = """Time 1.2, 10.000000 sec internal node vector rate 31.98 loops/sec 1206.72
  vector rates in 2.1338e5, out 2.1338e5, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends     Packet-Clocks   Vectors/Call
"""


def line(name: str, state: str, calls: int, vectors: int, clocks: float, suspends: int = 0) -> str:
    each = f"{vectors / calls if calls else 0:.2f}"
    each = each if each == "0.00" else each.removeprefix("0")
    return f"{name:<30.30}{state[:12]:^12}{calls:>16}{vectors:>16}{suspends:>16}{clocks:>16.2e}{each:>16}\n"


MAIN = "Thread 0 vpp_main (lcore 0)\n" + HEAD + line("api-rx-from-ring", "any wait", 0, 0, 5.31e5, 4)
WORKER = "---------------\nThread 1 vpp_wk_0 (lcore 1)\n" + HEAD


def worker(calls: int, frames: int, clocks: float, with_frames: int = 0) -> str:
    """A window: `clocks` are of each frame, or of each call where there is none."""
    text = MAIN + WORKER + line("af_xdp-input", "polling", calls, frames, clocks)
    text += line("unix-epoll-input", "polling", 100, 0, 3000)
    if frames:
        text += line("l2-input-classify-and-more-of-it", "active", with_frames, frames, 40)
        text += line("bri0-tx", "active", with_frames, frames, 500)
    return text


class Vpp:
    """Prints one window after another; only one that was cleared is over."""

    def __init__(self, *windows: str) -> None:
        self.windows = list(windows)

    def __call__(self, command: str) -> str:
        if command == "clear runtime":
            self.windows.pop(0)
            return ""
        assert command == "show runtime"
        return self.windows[0]


def read(*windows: str) -> list[dict[str, Any]]:
    counts, vpp = NodeCounts(), Vpp(*windows)
    found = [counts.read(vpp)["nodes"] for _ in windows]
    assert vpp.windows == []
    return found


def test_nodes_of_each_thread_are_read_and_processes_are_none() -> None:
    assert parse_nodes(worker(2000, 1000, 300, 100)) == {
        "vpp_main": [],
        "vpp_wk_0": [
            Node("af_xdp-input", True, 2000, 1000, 300_000),
            Node("unix-epoll-input", True, 100, 0, 300_000),  # of calls, where there was no frame
            Node("l2-input-classify-and-more-of-", False, 100, 1000, 40_000),
            Node("bri0-tx", False, 100, 1000, 500_000),
        ],
    }


def test_nodes_of_a_busy_vpp_are_read_as_it_printed_them() -> None:
    """VPP v26.10-rc0 over AF_XDP, 1.5 million frames offered in a second; less than a frame a call has no zero."""
    text = """Time 1.4, 10.000000 sec internal node vector rate 7.06 loops/sec 7646679.80
             Name                 State         Calls          Vectors        Suspends     Packet-Clocks   Vectors/Call
af_xdp-input                     polling           3514652          651992               0          3.54e2             .19
b1-0877/1-tx                     active               2602          651992               0          3.95e3          250.57
ethernet-input                   active               2602          651992               0          7.07e1          250.57
"""  # noqa: E501
    (nodes,) = parse_nodes(text).values()
    assert [(node.name, node.calls, node.vectors) for node in nodes] == [
        ("af_xdp-input", 3514652, 651992),
        ("b1-0877/1-tx", 2602, 651992),
        ("ethernet-input", 2602, 651992),
    ]


def test_a_sleeping_node_with_a_long_name_is_no_other() -> None:
    text = line("acl-plugin-fa-worker-cleaner-process", "interrupt wait", 4, 0, 1000)
    text += line("acl-plugin-in-ip4-fa-first-part", "active", 1, 5, 10) * 2
    (nodes,) = read(HEAD + text)
    assert {name: node["vectors"] for name, node in nodes["vpp_main"].items()} == {"acl-plugin-in-ip4-fa-first-par": 10}


def test_a_vpp_without_workers_prints_no_thread_and_a_sleeping_node_waits_for_interrupts() -> None:
    (nodes,) = read(HEAD + line("af-packet-input", "interrupt wait", 20, 300, 900) + line("x-tx", "active", 20, 300, 9))
    assert list(nodes) == ["vpp_main"]
    assert nodes["vpp_main"]["af-packet-input"]["received"] == 300
    assert nodes["vpp_main"]["x-tx"]["received"] == 0


def test_windows_are_summed_and_polling_without_frames_is_reported_apart() -> None:
    idle, first, second = read(
        worker(1_000_000, 0, 200), worker(50_000, 1000, 11_000, 100), worker(500, 4000, 350, 400)
    )
    assert idle == {}
    fetching = first["vpp_wk_0"]["af_xdp-input"]
    assert (fetching["calls"], fetching["empty"], fetching["received"]) == (50_000, 49_900, 1000)
    assert (fetching["clocks"], fetching["idle"]) == (11_000_000, 49_900 * 200)
    assert first["vpp_wk_0"]["bri0-tx"] == {
        "calls": 100, "empty": 0, "vectors": 1000, "received": 0, "clocks": 500_000, "idle": 0,
    }  # fmt: skip
    assert "unix-epoll-input" not in first["vpp_wk_0"]  # it has nothing to do with frames
    after = second["vpp_wk_0"]["af_xdp-input"]
    assert {key: after[key] - fetching[key] for key in after} == {
        "calls": 500, "empty": 100, "vectors": 4000, "received": 4000, "clocks": 1_400_000, "idle": 20_000,
    }  # fmt: skip


def test_a_few_frames_of_a_long_wait_do_not_hide_what_an_empty_call_takes() -> None:
    _, after = read(worker(1_000_000, 20, 1e7, 20), worker(2000, 1000, 700, 1000))
    assert after["vpp_wk_0"]["af_xdp-input"]["idle"] == pytest.approx(20 * 1e7 - 20 * 200 + 1000 * 200, rel=1e-3)


@pytest.mark.parametrize(("calls", "known"), [(2000, False), (105, True)])
def test_where_nobody_has_seen_an_empty_call_many_of_them_leave_it_open(calls: int, known: bool) -> None:
    first, second = read(worker(calls, 1000, 700, 100), worker(100, 1000, 700, 100))
    for found in (first, second):  # from then on, for no difference can be told of it
        assert ("idle" in found["vpp_wk_0"]["af_xdp-input"]) == known
        assert found["vpp_wk_0"]["bri0-tx"]["idle"] == 0


def shown(path: Path) -> list[str]:
    """What VPP answered `show runtime` with."""
    strings = re.findall(r'"(?:[^"\\]|\\.)*"', recorded(path))
    return [json.loads(each) for each in strings if "internal node vector rate" in each]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_line_of_recorded_exchanges_is_understood(path: Path) -> None:
    for text in shown(path):
        found = parse_nodes(text)
        assert set(found) == set(re.findall(r"^Thread \d+ (\S+)", text, re.MULTILINE) or ["vpp_main"])
        with_frames = re.findall(r"^.{42} *\d+ +[1-9]\d* ", text, re.MULTILINE)
        assert sum(bool(node.vectors) for nodes in found.values() for node in nodes) == len(with_frames)


def test_some_exchange_has_frames() -> None:
    texts = [text for path in RECORDED for text in shown(path)]
    assert any(node.vectors for text in texts for nodes in parse_nodes(text).values() for node in nodes)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("1.23e2", "123 cycles", "line not understood: 'af_xdp-input .*123 cycles"),
        ("polling", "yielding", "state of a node with frames not understood: 'af_xdp-input"),
        ("Packet-Clocks", "Cycles", "no head of columns before 'Name"),
        ("Thread 1 vpp_wk_0 (lcore 1)", "Worker vpp_wk_0", "not understood: 'Worker vpp_wk_0'"),
    ],
)
def test_what_is_not_understood_fails_the_point(before: str, after: str, words: str) -> None:
    text = worker(2000, 1000, 123, 100).replace("1.23e+02", "1.23e2")
    assert before in text
    with pytest.raises(PointFailed, match=f"^VPP: show runtime: .*{words}"):
        parse_nodes(text.replace(before, after))


@pytest.mark.parametrize("text", ["", "unknown input `runtime'"])
def test_an_answer_without_nodes_is_no_answer(text: str) -> None:
    with pytest.raises(PointFailed, match=r"^VPP: show runtime: no "):
        parse_nodes(text)
