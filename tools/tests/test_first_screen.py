# SPDX-License-Identifier: Apache-2.0
"""The first screen: forwarders in order with intervals and bars, goals in five lines; the strip; the console."""

import math
import re
from pathlib import Path

import pytest
from lab.claims import LATENCY, NOISE
from lab.reading import render
from lab.records import point, run_record, trial

from xdplab.analysis import summarise
from xdplab.analysis.answers.order import in_order, orders
from xdplab.analysis.run import Run
from xdplab.cli.tables import run_text, wrapped
from xdplab.measure import make_method
from xdplab.model import Disturbance, Point, RunRecord, TrialRecord
from xdplab.report.pictures import course, panels

OVS, PACKET, XDP, BRIDGE = (point(name) for name in ("ovs-afxdp", "ovs-afpacket", "xdp", "linux-bridge"))
TURNS = 4
POINTS = (OVS, PACKET, XDP, BRIDGE)
#: The bridge and OVS on AF_XDP are not separated: their rounds go up and down against one another.
TOOK_US = {
    "ovs-afxdp": [2.0, 2.2, 2.0, 2.2, 2.0],
    "linux-bridge": [2.15, 2.05, 2.15, 2.05, 2.15],
    "ovs-afpacket": [40.0] * 5,
    "xdp": [0.8] * 5,
}


def taken(share: float) -> Disturbance:
    return Disturbance(stalled_share=share, steal_share={0: share / 2}, run_delay_share=0.0)


def trials_of(points: tuple[Point, ...] = POINTS, lost: int = 0) -> list[TrialRecord]:
    return [
        trial(
            at,
            n,
            [round(1000 * TOOK_US[at.forwarder.title][n] * NOISE[turn]) + k for k in range(1200)],
            sent=1200 + (lost if at is PACKET else 0),
            turn=turn,
            trial=turn,
            started=f"2026-01-02T03:04:{n * 10 + turn:02d}.000+00:00",
            disturbance=taken(0.02 * (n == 3)),
        )
        for n in range(5)
        for turn in range(TURNS)
        for at in points
    ]


def run_of(*points: Point) -> RunRecord:
    study = {**LATENCY, "repetitions": 5, "answer": ("ovs-afxdp", "ovs-afpacket")}
    return run_record(*(points or POINTS), study=study)


def read(record: RunRecord, trials: list[TrialRecord]) -> Run:
    return Run(Path("nowhere"), record, trials)


def test_forwarders_stand_in_order_and_neighbours_that_are_not_separated_are_joined() -> None:
    run = read(run_of(), trials_of())
    (order,) = orders(run.method, run.points)
    assert [each.point.forwarder for each in order.rows] == ["xdp", "ovs-afxdp", "linux-bridge", "ovs-afpacket"]
    assert [each.separated for each in order.rows] == [True, False, True, True]
    for each in order.rows:
        assert each.interval is not None
        assert each.interval[0] <= each.value <= each.interval[1]
    (panel,) = panels([order], {"ovs-afxdp", "ovs-afpacket"})
    assert panel["bars"] == [(1, 2)]
    assert [row["marked"] for row in panel["rows"]] == [False, True, False, True]
    assert [row["at"] for row in panel["rows"]] == sorted(row["at"] for row in panel["rows"])
    assert panel["title"] == "p50, µs at 1.2 kpps"
    html = render(run.record, run.trials)
    assert html.index("<svg") < html.index("Which should you use") < html.index('<h2 id="section-result"')
    assert html.count("Not separated: no comparison of these neighbours") == 1


def test_all_of_a_row_are_joined_where_no_neighbours_are_separated() -> None:
    run = read(run_of(OVS, BRIDGE), trials_of((OVS, BRIDGE)))
    (panel,) = panels(orders(run.method, run.points), set())
    assert panel["bars"] == [(0, 2)]
    assert panels([], set()) == []


def test_a_lost_frame_s_percentile_comes_last_and_at_the_edge() -> None:
    run = read(run_of(), trials_of(lost=3000))
    (order,) = orders(run.method, run.points)
    assert order.rows[-1].value == math.inf
    (panel,) = panels([order], set())
    assert (panel["rows"][-1]["text"], panel["rows"][-1]["ends"]) == ("∞", None)
    assert panel["rows"][-1]["at"] == 500.0


def test_tables_are_in_that_order_and_points_without_a_figure_come_last() -> None:
    record = run_of()
    points = summarise(record, [each for each in trials_of() if each.point_id != BRIDGE.id])
    found = in_order(make_method(record.study.method), points)
    assert [each.forwarder for each in found] == ["xdp", "ovs-afxdp", "ovs-afpacket", "linux-bridge"]


def test_goals_are_at_most_five_lines_and_say_how_far() -> None:
    run = read(run_of(), trials_of())
    html = render(run.record, run.trials)
    table = re.search(r"<caption>simulated: figures of no machine</caption>(.*?)</table>", html, re.DOTALL)
    assert table
    assert 2 <= table[1].count("<tr>") <= 6
    assert ">XDP redirect, 1.4 µs<" in table[1]
    assert re.search(r">1\.\d+ \(1\.\d+ to 2\.\d+\) times as fast as OVS on AF_XDP<", table[1])
    assert "<b>" not in table[1]
    two = [each for each in run.advice if "among switches" in each.goal]
    assert two[0].first == "OVS on AF_XDP, Linux bridge: not separated"


def test_a_strip_has_a_dot_for_each_turn_and_what_the_machine_took_above() -> None:
    run = read(run_of(), trials_of())
    found = course(run)
    assert [row["name"] for row in found["rows"]] == [
        "XDP redirect", "OVS on AF_XDP", "Linux bridge", "OVS on AF_PACKET"
    ]  # fmt: skip
    for row in found["rows"]:
        (path,) = row["paths"].values()
        assert path.count("M") == path.count("h0") == 5 * TURNS
        assert all(2 <= float(y) <= 28 for y in re.findall(r" ([\d.]+)h0", path))
        assert re.fullmatch(r"(M\d+(\.\d)? \d+\.\dh0)+", path)
        assert [one["round"] for one in row["rounds"]] == list("12345")
    assert found["rounds"].count("M") == 4  # between rounds
    assert (found["taken"].count("M"), found["most"]) == (TURNS, "2 %")
    html = render(run.record, run.trials)
    assert html.count('<details class="course">') == 4
    assert course(read(run_of(), [])) == {}


def test_steps_of_searches_are_in_the_strip_by_their_loss() -> None:
    steps = [trial(OVS, n, [1000] * (100 - n), sent=100, purpose="search") for n in range(3)]
    used = [trial(OVS, n, [1000] * 50) for n in range(2)]
    run = read(run_of(OVS), [*used, *steps])
    run.__dict__["by_point"] = {OVS.id: steps}
    (row,) = course(run)["rows"]
    assert {label: path.count("M") for label, path in row["paths"].items()} == {
        "load, nothing lost": 1,
        "load, frames lost": 2,
    }


def test_the_tail_of_all_turns_stands_next_to_the_median_over_turns() -> None:
    html = render(run_of(), trials_of())
    assert re.search(r'<div class="soft">all turns [\d.]+</div>', html)
    assert "which is the machine&#39;s tail as well" in html


@pytest.mark.parametrize("lost", [0, 30])
def test_the_console_has_sentence_and_ordered_table_in_a_hundred_columns(lost: int) -> None:
    run = read(run_of(), trials_of(lost=lost))
    lines = run_text(run, run.trials).split("\n")
    assert max(map(len, lines)) <= 100
    assert run.answer.sentence.startswith(lines[0])
    names = [line.split()[0] for line in lines if re.match(r"(xdp|ovs-|linux-)\S* .* \([\d.]+ to [\d.]+\)  ", line)]
    assert names[:4] == ["xdp", "ovs-afxdp", "linux-bridge", "ovs-afpacket"]
    assert any(line.startswith("all rows: ") for line in lines)
    assert wrapped(["a " * 80]).count("\n") == 1


def test_an_answer_is_a_sentence_and_at_most_two_lines() -> None:
    run = read(run_of(), trials_of())
    assert len(run.answer.details) <= 2
    assert run.answer.details[0].endswith("64-byte frames, 5 rounds.")
