# SPDX-License-Identifier: Apache-2.0
"""Which forwarder to use: the leader of each goal by the rules of comparisons, or that nobody is, and plain names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.claims import LATENCY, NOISE
from lab.reading import render
from lab.records import point, run_record, trial

from xdplab.analysis import summarise
from xdplab.analysis.answers import ranking
from xdplab.analysis.answers.ranking import Advice, Contender, standings
from xdplab.analysis.compare import blocker_of, compare_points
from xdplab.analysis.run import Run
from xdplab.forwarders import plain_name
from xdplab.measure.comparison import Comparison
from xdplab.measure.figure import P50
from xdplab.measure.point import PointSummary
from xdplab.model import ForwarderSpec, Pipeline, Point, TrialRecord
from xdplab_changes import WITHOUT
from xdplab_changes.figures import ChangeRecord, StepDone

OVS, PACKET, XDP, BRIDGE = (point(name) for name in ("ovs-afxdp", "ovs-afpacket", "xdp", "linux-bridge"))


def measured(at: Point, us: float, repetitions: int = 5, frames: int = 2000) -> list[TrialRecord]:
    slow = frames // 50
    values = [
        [round(us * 1000 * noise)] * (frames - slow) + [round(us * 1100 * noise) + k for k in range(slow)]
        for noise in NOISE[:repetitions]
    ]
    return [trial(at, n, own, sent=max(2000, frames)) for n, own in enumerate(values)]


def advice(points: Sequence[Point], trials: Sequence[TrialRecord], **fields: Any) -> list[Advice]:
    run = run_record(*points, **{"study": {**LATENCY, "repetitions": 5}, **fields})
    return Run(Path("nowhere"), run, trials).advice


def by_goal(points: Sequence[Point], trials: Sequence[TrialRecord]) -> dict[str, Advice]:
    return {each.goal.partition(" (")[0] + each.goal.partition(")")[2]: each for each in advice(points, trials)}


def test_the_leader_is_named_with_the_next_and_switches_among_themselves() -> None:
    found = by_goal([OVS, PACKET, XDP], [*measured(OVS, 2), *measured(PACKET, 30), *measured(XDP, 0.7)])
    lowest = next(each for goal, each in found.items() if goal.startswith("lowest latency"))
    assert lowest.text.startswith("XDP redirect is ahead with 0.7 µs, 2.86 times as fast as OVS on AF_XDP (99 %")
    texts = [each.text for each in found.values() if "among switches" in each.goal]
    assert any(
        text.startswith("OVS on AF_XDP is ahead with 2 µs, 15 times as fast as OVS on AF_PACKET") for text in texts
    )


def test_a_direct_link_is_read_next_to_forwarders_and_wins_nothing() -> None:
    pair = point("veth-pair")
    points = [OVS, PACKET, XDP, pair]
    trials = [*measured(OVS, 2), *measured(PACKET, 30), *measured(XDP, 0.7), *measured(pair, 0.1)]
    assert advice(points, trials) == advice(points[:3], trials[:15])
    assert "0.7 µs" in advice(points, trials)[0].text
    run = run_record(*points, study={**LATENCY, "repetitions": 5})
    summaries = summarise(run, trials)
    assert [each.value("p50_us") for each in summaries if not each.forwards] == [pytest.approx(0.1, rel=0.01)]
    assert "veth pair without a switch" in render(run, trials)
    alone = run_record(XDP, pair, study={**LATENCY, "repetitions": 5})
    assert Run(Path("nowhere"), alone, trials[10:]).answer.sentence.startswith(
        "No answer: this run has no two forwarders to compare"
    )


def test_equal_ones_are_not_ordered_and_one_repetition_says_nothing() -> None:
    points = [OVS, PACKET, BRIDGE]
    found = advice(points, [*measured(OVS, 2), *measured(PACKET, 2), *measured(BRIDGE, 30)])
    assert "no measurable difference between OVS on AF_XDP (2 µs) and OVS on AF_PACKET (2 µs)" in found[0].text
    assert advice(points, [one for at, us in zip(points, (1, 2, 30), strict=True) for one in measured(at, us, 1)]) == []


def test_two_forwarders_have_their_answer_and_no_advice() -> None:
    assert advice([OVS, PACKET], [*measured(OVS, 2), *measured(PACKET, 30)]) == []


def test_who_lost_frames_is_named_with_its_share() -> None:
    trials = [*measured(OVS, 2), *measured(PACKET, 30, frames=1600), *measured(XDP, 0.7)]
    (found,) = [each for each in advice([OVS, PACKET, XDP], trials) if each.goal.startswith("frames lost")]
    assert found.text == "OVS on AF_PACKET (20 %); none by 2 others"


def test_a_percentile_that_is_a_lost_frame_s_stands_in_nobody_s_way() -> None:
    trials = [*measured(OVS, 2, frames=4000), *measured(PACKET, 30, frames=1600), *measured(XDP, 0.7, frames=4000)]
    tails = [each for each in advice([OVS, PACKET, XDP], trials) if each.goal.startswith("shortest tail")]
    assert tails[0].text.startswith("XDP redirect is ahead with ")
    assert " times as fast as OVS on AF_XDP (99 % interval" in tails[0].text
    run = run_record(OVS, PACKET, XDP, study={**LATENCY, "repetitions": 5})
    lossy = summarise(run, trials)[1]
    assert blocker_of(lossy, "p99_us") == "a lost frame is the p99 of ovs-afpacket"
    assert blocker_of(lossy, "p50_us") == ""


def test_pipelines_that_could_not_be_measured_are_named() -> None:
    points = [
        point(name).model_copy(update={"pipeline": Pipeline(kind=work)})
        for name in ("ovs-afxdp", "linux-bridge")
        for work in ("cross", "nat")
    ]
    trials = [one for at in points[:3] for one in measured(at, 2)]
    (found,) = advice(points, trials, unsupported={points[3].id: "a bridge translates nothing"})
    assert (found.goal, found.text) == ("which of the 2 pipelines work", "OVS on AF_XDP 2; Linux bridge 1 (not nat)")


def test_the_report_has_it_with_its_limits_and_plain_names_with_what_to_type() -> None:
    run = run_record(OVS, PACKET, XDP, study={**LATENCY, "repetitions": 5})
    html = render(run, [*measured(OVS, 2), *measured(PACKET, 30), *measured(XDP, 0.7)])
    assert "Which should you use" in html
    assert "<caption>simulated: figures of no machine</caption>" in html
    assert ">OVS on AF_XDP</a>" in html


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ovs-afxdp", "OVS on AF_XDP"),
        ("ovs-afxdp:build=patched", "OVS on AF_XDP (patched)"),
        ("ovs-afxdp:flow_offload=true", "OVS on AF_XDP, flows in XDP"),
        ("ovs-afxdp:flow_offload=true,n_rxq=2", "OVS on AF_XDP, flows in XDP (n_rxq=2)"),
        ("ovs-dpdk", "OVS-DPDK on AF_XDP"),
        ("ovs-dpdk:port=af_packet", "OVS-DPDK on AF_PACKET"),
        ("testpmd:burst=64", "DPDK testpmd on AF_XDP (burst=64)"),
        ("vpp-dpdk:port=af_packet", "VPP with DPDK on AF_PACKET"),
        ("xdp:object=/tmp/mine.o", "XDP program mine.o"),
        ("veth-pair", "veth pair without a switch"),
        ({"name": "command", "options": {"argv": ["/usr/bin/mine", "{port_a}"]}}, "program mine"),
        ({"name": "xdp", "label": "the floor"}, "the floor"),
    ],
)
def test_a_forwarder_is_called_what_readers_call_it(spec: Any, name: str) -> None:
    assert plain_name(ForwarderSpec.model_validate(spec)) == name


def test_the_leader_is_who_is_ahead_in_rounds_where_medians_are_of_different_repetitions() -> None:
    """The machine became faster halfway, and of the bridge the first rounds are not there."""
    took = [16, 16.1, 15.9, 16, 10, 10.1, 9.9]
    trials = [trial(XDP, n, [round(1000 * us)] * 1000) for n, us in enumerate(took)]
    trials += [trial(BRIDGE, n, [round(1400 * us)] * 1000) for n, us in enumerate(took) if n > 3]
    run = run_record(XDP, BRIDGE, study={**LATENCY, "repetitions": 7})
    ours, theirs = summarise(run, trials)
    assert ours.value("p50_us") == pytest.approx(15.9, 0.01)
    assert theirs.value("p50_us") == pytest.approx(14, 0.01)
    contenders = [Contender(each, P50, each.plain_name, "here") for each in (ours, theirs)]
    for order in (contenders, contenders[::-1]):
        ((_, text, said, *_),) = standings(order)
        assert said
        assert text.startswith("XDP redirect is ahead with 15.9 µs, 1.4 times as fast as Linux bridge")
    found = compare_points(theirs, ours, "p50_us")
    assert found is not None
    assert (found.better, found.rounds) == (False, 3)


def test_where_comparisons_go_round_in_a_circle_nobody_is_ahead_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [OVS, XDP, BRIDGE]
    summaries = summarise(
        run_record(*points, study={**LATENCY, "repetitions": 5}),
        [*measured(OVS, 1), *measured(XDP, 3), *measured(BRIDGE, 9)],
    )
    real = ranking.compare_points
    beats = {(BRIDGE.name, OVS.name)}

    def circular(one: PointSummary, other: PointSummary, metric: str) -> Comparison | None:
        turned = {(one.forwarder, other.forwarder), (other.forwarder, one.forwarder)} & beats
        return real(other, one, metric) if turned else real(one, other, metric)

    monkeypatch.setattr(ranking, "compare_points", circular)
    ((_, text, said, *_),) = standings([Contender(each, P50, each.plain_name, "here") for each in summaries])
    assert said
    assert text.startswith("undecided between ")


def test_what_two_testers_measured_is_ranked_by_tester() -> None:
    """By TRex everything takes three times as long: OVS on AF_PACKET by xdpgen was ahead of OVS on AF_XDP by TRex."""
    points = [at.model_copy(update={"tester": tester}) for at in (OVS, PACKET, BRIDGE) for tester in ("xdpgen", "trex")]
    took = zip(points, (4, 12, 8, 24, 10, 30), strict=True)
    study = {**LATENCY, "testers": ["xdpgen", "trex"], "forwarders": ["ovs-afxdp", "ovs-afpacket", "linux-bridge"]}
    found = advice(points, [one for at, us in took for one in measured(at, us)], study={**study, "repetitions": 5})
    places = [(each.goal, each.text) for each in found if each.goal.startswith("lowest latency")]
    for (goal, text), tester, us in zip(places, ("xdpgen", "trex"), (4, 12), strict=True):
        assert goal == f"lowest latency (p50 at 2 kpps, by {tester})"
        assert text.startswith(f"OVS on AF_XDP, by {tester} is ahead with {us} µs, 2 times as fast as OVS on AF_PACKET")


def test_variants_that_a_label_hides_are_rows_of_their_own() -> None:
    """They overwrote each other: the noisy one, as fast as the bridge, was said to be 20 times as slow."""
    one, two = (
        OVS.model_copy(update={"forwarder": ForwarderSpec(name="ovs-afxdp", label="OVS", options={"n_rxq": queues})})
        for queues in (1, 2)
    )
    noisy = [trial(one, n, [round(2050 * noise)] * 2000) for n, noise in enumerate((1.0, 1.5, 0.8, 1.3, 0.9))]
    study = {**LATENCY, "repetitions": 5, "options": {"ovs-afxdp": {"n_rxq": [1, 2]}}}
    found = advice(
        [BRIDGE, one, two, XDP], [*measured(BRIDGE, 2), *noisy, *measured(two, 40), *measured(XDP, 90)], study=study
    )
    assert found[0].text.startswith("undecided between Linux bridge (2 µs) and OVS (n_rxq=1) (2.05 µs); ")
    assert found[0].text.endswith("Linux bridge is ahead of OVS (n_rxq=2) (40 µs) and XDP redirect (90 µs)")


def test_nobody_is_ahead_past_one_of_which_nothing_may_be_said() -> None:
    """The bridge, as fast as OVS but for a failed repetition, was left out, and OVS ahead of "the next"."""
    failed = [*measured(BRIDGE, 2.02, 4), trial(BRIDGE, 4, status="failed", reason="it ended")]
    found = advice([OVS, PACKET, BRIDGE], [*measured(OVS, 2), *measured(PACKET, 30), *failed])
    why = "no statement about Linux bridge: linux-bridge failed in 1 of 5 repetitions: it ended"
    assert found[0].text == (
        "undecided between OVS on AF_XDP (2 µs) and Linux bridge (2.03 µs); OVS on AF_XDP is ahead of OVS on AF_PACKET "
        f"(30 µs); {why}"
    )
    failed = [*measured(BRIDGE, 20, 4), *failed[4:]]
    found = advice([OVS, PACKET, BRIDGE], [*measured(OVS, 2), *measured(PACKET, 30), *failed])
    assert found[0].text.startswith("OVS on AF_XDP is ahead with 2 µs, 15 times as fast as OVS on AF_PACKET (99 %")
    assert found[0].text.endswith(f", the next that can be compared; {why}")
    failed = [*measured(BRIDGE, 90, 4), *failed[4:]]
    found = advice([OVS, PACKET, BRIDGE], [*measured(OVS, 2), *measured(PACKET, 30), *failed])
    assert found[0].text.endswith(f", the next; {why}")


def test_advice_for_changes_is_of_the_trials_with_the_change() -> None:
    """The fastest without a change, which takes 90 µs next to one, had the "lowest latency" with 2 µs."""
    points = [at.model_copy(update={"levels": {"change": "rules"}}) for at in (OVS, PACKET, BRIDGE)]
    steps = {"installed": StepDone(count=1000, s=1.0), "removed": StepDone(count=1000, s=0.5)}
    figures = {WITHOUT: {}, "rules": ChangeRecord(text="done", rounds=1, steps=steps).journaled()}
    trials = [
        one.model_copy(update={"clause": clause, "trial": number, "figures": figures[clause]})
        for at, took in zip(points, ((2, 90), (10, 20), (12, 40)), strict=True)
        for number, (clause, us) in enumerate(zip((WITHOUT, "rules"), took, strict=True))
        for one in measured(at, us)
    ]
    study = {"method": {"name": "changes", "kinds": ["rules"]}, "repetitions": 5}
    found = advice(points, trials, study=study)
    assert found[0].text.startswith("OVS on AF_PACKET is ahead with 20 µs, 2 times as fast as Linux bridge")
    run = run_record(*points[:2], study=study)
    assert "never measured" not in Run(Path("nowhere"), run, trials[:20]).answer.text()
