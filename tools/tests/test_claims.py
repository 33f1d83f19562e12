# SPDX-License-Identifier: Apache-2.0
"""What a sentence may say (docs/claims.md): planted runs in which the obvious sentence is wrong."""

import math
import statistics
from typing import Any

import pytest
from lab.claims import LATENCY, OURS, RATE, THEIRS, asked, measured, searched, two
from lab.records import environment, point, result, run_record, stream, trial

from xdplab.analysis import answer, compare_points, summarise
from xdplab.analysis.compare import compare_all, ratios_of
from xdplab.analysis.runs import compare_runs, what_differs
from xdplab.analysis.words import ratio_cell, verdict
from xdplab.measure.point import PointSummary
from xdplab.methods.latency import LIGHT_LOAD
from xdplab.model import Disturbance, ForwarderSpec, Path, ThreadUse


def test_a_clear_difference_over_rounds_names_the_winner() -> None:
    found, _ = asked(*measured(OURS, 3), *measured(THEIRS, 30))
    assert found.decided
    assert found.sentence.startswith("At 0.2 kpps OVS on AF_XDP is ")
    assert "times as fast as OVS on AF_PACKET" in found.sentence
    assert found.details == ("One-way p50 3 µs against 30 µs, 64-byte frames, 5 rounds.",)


def test_what_the_machine_took_excludes_and_bounds_nothing() -> None:
    """It is recorded: who is slower in the same rounds is slower, and what noise there was is in the interval."""
    half = Disturbance(stalled_share=0.5, steal_share={1: 0.5}, run_delay_share=0.5)
    found, (ours, _) = asked(*measured(OURS, 3, disturbance=half), *measured(THEIRS, 30))
    quiet, _ = asked(*measured(OURS, 3), *measured(THEIRS, 30))
    assert found == quiet
    assert (ours.status, ours.repetitions) == ("ok", 5)


def test_three_rounds_that_differ_as_much_as_the_two_do_ask_for_more() -> None:
    ours = [trial(OURS, n, [us * 1000] * 200) for n, us in enumerate((2, 3, 2))]
    theirs = [trial(THEIRS, n, [us * 1000] * 200) for n, us in enumerate((24, 400, 26))]
    found, _ = asked(*ours, *theirs)
    assert not found.decided
    assert "too little to tell" in found.sentence
    assert found.comparison
    assert found.comparison.more_rounds == 2
    assert "about 2 more rounds would decide it" in found.sentence


def test_a_failed_repetition_names_nobody() -> None:
    found, _ = asked(*measured(OURS, 3), *measured(THEIRS, 30)[:4], trial(THEIRS, 4, status="failed", reason="it died"))
    assert not found.decided
    assert "ovs-afpacket failed in 1 of 5 repetitions: it died" in found.sentence


def test_a_load_that_was_not_sent_names_nobody() -> None:
    short = result(stream([3000] * 180, intended=1000, offered_pps=1000.0))
    ours = [trial(OURS, n, result=short, offered_pps=1000.0) for n in range(5)]
    found, _ = asked(*ours, *measured(THEIRS, 30))
    assert not found.decided
    assert "the tester sent ovs-afxdp 0.18 of 1 kpps" in found.sentence


def test_a_schedule_that_the_tester_cut_names_nobody_by_what_the_cut_may_have_moved() -> None:
    """Of 2 % that were not sent a p50 says no more than p51 or p49 would, and a p99 nothing."""
    short = result(stream([3000] * 1960, sent=1960, intended=2000, offered_pps=2000.0))
    whole = result(stream([30_000] * 2000, offered_pps=2000.0))
    trials = [
        trial(at, n, result=each, offered_pps=2000.0) for at, each in ((OURS, short), (THEIRS, whole)) for n in range(5)
    ]
    found, points = asked(*trials)
    assert found.decided
    by_tail = compare_points(*points, "p99_us")
    assert by_tail is not None
    assert any("the tester left out frames of ovs-afxdp's" in reason for reason in by_tail.blockers)


def test_latencies_at_different_loads_are_not_compared() -> None:
    """`load_share: 0.8` sent 1,600 kpps to one and 200 to the other, which was "4 times as fast"."""
    sides = point("ovs-afxdp", load_share=0.8), point("ovs-afpacket", load_share=0.8)
    trials = [
        trial(at, n, result=result(stream([us * 1000] * 200, achieved_pps=pps)), offered_pps=pps)
        for at, us, pps in zip(sides, (40, 10), (1.6e6, 2e5), strict=True)
        for n in range(5)
    ]
    run = run_record(*sides, study={**LATENCY, "repetitions": 5})
    found = answer(run, summarise(run, trials), trials)
    assert not found.decided
    assert "ovs-afxdp at 1,600 and ovs-afpacket at 200 kpps are latencies at different loads" in found.text()


@pytest.mark.parametrize(("lost", "remark"), [
    (0, None),
    (1, None),
    (5, "ovs-afpacket lost 0.5 %, counted as infinitely late"),
    (25, "ovs-afpacket lost 2.5 %, counted as infinitely late"),
])  # fmt: skip
def test_loss_is_infinitely_late_and_is_said(lost: int, remark: str | None) -> None:
    found, _ = asked(*measured(OURS, 3), *measured(THEIRS, 30, frames=1000 - lost, sent=1000))
    assert found.decided
    assert " 10 times as fast" in found.sentence
    assert found.comparison
    assert found.comparison.remarks == ((remark,) if remark else ())
    assert remark is None or remark in found.text()


@pytest.mark.parametrize(("share", "ours_wins"), [(0.4, True), (0.6, None)])
def test_who_loses_most_frames_has_no_median_and_wins_nothing(share: float, ours_wins: bool | None) -> None:
    """Survivors' latencies were three times as low; of the median nothing is known but that it came too late."""
    lost = round(1000 * share)
    found, (ours, _) = asked(*measured(OURS, 3, frames=1000 - lost, sent=1000), *measured(THEIRS, 30))
    assert found.comparison
    assert found.comparison.better is ours_wins
    assert math.isinf(ours.p50_us or 0.0) == (ours_wins is None)


def test_the_light_load_leads_and_the_rate_of_the_study_stands_beside() -> None:
    light = [
        one.model_copy(update={"clause": LIGHT_LOAD}) for one in (*measured(OURS, 2), *measured(THEIRS, 24, frames=100))
    ]
    found, (ours, theirs) = asked(*light, *measured(OURS, 3), *measured(THEIRS, 36, frames=900, sent=1000))
    assert found.decided
    assert found.comparison
    assert found.comparison.better
    assert found.sentence.startswith("At 0.2 kpps OVS on AF_XDP is 12 times as fast as OVS on AF_PACKET")
    assert found.at_rate
    assert any(each.startswith("At 0.2 kpps OVS on AF_XDP is 12 times as fast") for each in found.details)
    assert "ovs-afpacket lost 10 %, counted as infinitely late" in found.text()
    lights = [each.by_clause[LIGHT_LOAD] for each in (ours, theirs)]
    assert (lights[0].p50_us, ours.p50_us) == pytest.approx((2, 3), rel=0.002)
    assert (lights[1].loss_ratio, theirs.loss_ratio) == (0, pytest.approx(0.1))


def test_a_forwarder_that_lost_frames_at_the_lowest_load_stays_in_the_comparison() -> None:
    ours, theirs = two()
    nothing = searched(theirs, [0.0] * 5, "below-minimum", high=2000.0)
    found = compare_points(searched(ours, RATE), nothing, "ndr_pps")
    assert found
    assert (found.sense, found.better, found.rounds) == ("at least", True, 5)
    assert ratio_cell(found).startswith("at least 4")  # of 500
    back = compare_points(nothing, searched(ours, RATE), "ndr_pps")
    assert back
    assert (back.sense, back.better) == ("at most", False)


def test_a_top_rate_of_the_tester_is_a_bound_and_two_say_nothing() -> None:
    ours, theirs = (searched(each, RATE, "tester") for each in two())
    both = compare_points(ours, theirs, "ndr_pps")
    assert both
    assert (both.sense, both.interval, both.better) == ("unknown", None, None)
    assert "both figures are bounds" in verdict(both)
    half = searched(two()[1], [value / 2 for value in RATE])
    faster = compare_points(ours, half, "ndr_pps")
    assert faster
    assert (faster.sense, faster.better) == ("at least", True)
    slower = compare_points(half, searched(two()[0], RATE, "budget"), "ndr_pps")
    assert slower
    assert (slower.sense, slower.better) == ("at most", False)
    above = compare_points(ours, searched(two()[1], [2 * value for value in RATE]), "ndr_pps")
    assert above
    assert above.better is None
    assert verdict(above) == "too little to tell: a figure is only a bound"


def test_what_a_search_left_open_goes_into_the_ratio() -> None:
    """With a budget that ends every search, AF_XDP's 0.99 to 1.05 Mpps is four times AF_PACKET's 0.24 to 0.26."""

    def ended(summary: PointSummary, share: float) -> Any:
        values = [share * value for value in RATE]
        return searched(summary, values, "budget", high=1.05 * max(values))

    ours, theirs = two()
    apart = compare_points(ended(ours, 1.0), ended(theirs, 0.25), "ndr_pps")
    assert apart
    assert (apart.sense, apart.better) == ("at least", True)
    assert 3 < float(ratio_cell(apart).removeprefix("at least ")) < 4 / 1.05
    alike = compare_points(ended(ours, 1.0), ended(theirs, 0.99), "ndr_pps")
    assert alike
    assert alike.interval
    assert (alike.sense, alike.better, alike.alike) == ("exact", None, False)
    top, mean = 1.05 * max(RATE), statistics.geometric_mean(RATE)
    assert alike.interval.ratio == pytest.approx(1 / 0.99)
    assert alike.interval.low
    assert alike.interval.high
    assert alike.interval.low < mean / (0.99 * top)
    assert alike.interval.high > top / (0.99 * mean)


def test_a_throughput_that_is_doubted_is_not_compared() -> None:
    ours, theirs = two()
    found = compare_points(
        searched(ours, RATE, doubt="its own loss curve has 7 % loss at 90 kpps"),
        searched(theirs, [value / 9 for value in RATE]), "ndr_pps",
    )  # fmt: skip
    assert found
    assert found.better is None
    assert "ovs-afxdp: its own loss curve has 7 % loss" in verdict(found)


def test_paths_sizes_and_settings_are_never_divided_by_one_another() -> None:
    """The report gave the ratio of a round trip to a one-way latency, and of 1518 bytes to 64."""
    base, other = point("fake:seed=1"), point("fake:seed=2")
    points = [
        base, other, base.model_copy(update={"path": Path.HAIRPIN}), other.model_copy(update={"knobs": {"mtu": 1400}}),
        point("fake:seed=2", frame_bytes=1518), point("fake:seed=1", frame_bytes=1518), point("fake:seed=2", flows=9),
    ]  # fmt: skip
    records = [one for at in points for one in measured(at, 10)]
    summaries = summarise(run_record(*points), records)
    pairs = {(key, found.reference_id) for key, found in compare_all(summaries, summaries[0]).items()}
    assert pairs == {(points[1].id, points[0].id), (points[4].id, points[5].id)}


def test_a_table_s_ratios_are_to_the_reference_of_the_answer() -> None:
    """Of two variants that a label hides the answer took the first, and the table the last, ten times as slow."""
    quick, slow = (
        OURS.model_copy(update={"forwarder": ForwarderSpec(name="ovs-afxdp", label="OVS", options={"n_rxq": queues})})
        for queues in (1, 2)
    )
    study = {**LATENCY, "repetitions": 5, "answer": ["ovs-afpacket", "OVS"]}
    run = run_record(THEIRS, quick, slow, study={**study, "options": {"ovs-afxdp": {"n_rxq": [1, 2]}}})
    points = summarise(run, [*measured(THEIRS, 30), *measured(quick, 3), *measured(slow, 60)])
    found = ratios_of(answer(run, points), points)
    assert {point_id: ratio_cell(each) for point_id, each in found.items()} == {THEIRS.id: "0.1", slow.id: "0.05"}


def test_the_answer_compares_at_one_setting() -> None:
    hairpin = THEIRS.model_copy(update={"path": Path.HAIRPIN})
    asks = {**LATENCY, "repetitions": 5, "answer": ["ovs-afxdp", "ovs-afpacket"]}
    run = run_record(hairpin, OURS, THEIRS, study=asks)
    records = [*measured(hairpin, 1), *measured(OURS, 3), *measured(THEIRS, 30)]
    found = answer(run, summarise(run, records), records)
    assert found.comparison
    assert found.comparison.reference_id == THEIRS.id
    only = run_record(hairpin, OURS, study=asks)
    assert "no setting in common" in answer(only, summarise(only, records[:10]), records).sentence


def test_the_answer_does_not_move_to_a_setting_at_which_both_were_measured() -> None:
    large = [
        at.model_copy(update={"traffic": at.traffic.model_copy(update={"frame_bytes": 512})}) for at in (OURS, THEIRS)
    ]
    run = run_record(OURS, THEIRS, *large, study={**LATENCY, "repetitions": 5})
    rest = [*measured(OURS, 3), *measured(large[0], 3), *measured(large[1], 30)]
    for status, words in (
        (
            "failed",
            "No answer: ovs-afpacket was not measured (it fell).",
        ),
        ("unsupported", "At 0.2 kpps OVS on AF_XDP is 10 times as fast as OVS on AF_PACKET"),
    ):
        records = [*rest, trial(THEIRS, 0, status=status, reason="it fell")]
        assert answer(run, summarise(run, records), records).sentence.startswith(words)


def test_a_study_that_names_no_two_forwarders_has_no_answer() -> None:
    names = [point(f"fake:seed={n}") for n in range(3)]
    run = run_record(*names, study={**LATENCY, "repetitions": 5})
    records = [one for at in names for one in measured(at, 3)]
    words = "No answer: the study names no two forwarders (answer)."
    assert answer(run, summarise(run, records), records).sentence == words
    two = run_record(*names[:2], study={**LATENCY, "repetitions": 5})
    assert ") between fake (seed=0) and fake (seed=1)." in answer(two, summarise(two, records[:10]), records).sentence


def test_many_rows_are_corrected_together() -> None:
    names = [point(f"fake:seed={n}") for n in range(60)]
    records = [one for at in names for one in measured(at, 13.5 if at == names[1] else 10)]
    summaries = summarise(run_record(*names), records)
    assert compare_points(summaries[1], summaries[0]).better is False  # type: ignore[union-attr]
    family = compare_all(summaries, summaries[0])
    assert [key for key, found in family.items() if found.better is not None] in ([], [names[1].id])
    assert {found.interval.family for found in family.values() if found.interval} == {59}
    alone = compare_points(summaries[1], summaries[0])
    assert alone
    assert alone.interval
    widened = family[names[1].id].interval
    assert widened
    assert (widened.low or 1) < (alone.interval.low or 0)


def test_one_stall_is_one_sample_however_many_frames_wait_in_it() -> None:
    """100 kpps for 0.2 s, one stall of 3 ms: 300 frames wait, and p99 was its middle."""
    waiting = [3_000_000 - n * 10_000 for n in range(300)]
    frames = stream([2000] * 19_700 + waiting, achieved_pps=100_000.0)
    _, (one, _) = asked(trial(OURS, 0, result=result(frames)))
    assert one.p50_us == pytest.approx(2, rel=0.01)
    assert (one.p99_us, one.p999_us, one.p99999_us) == (None, None, None)
    busy = stream([2000] * 98_000 + [20_000 + n for n in range(2_000)], achieved_pps=100_000.0)
    _, (many, _) = asked(trial(OURS, 0, result=result(busy)))
    assert many.p99_us == pytest.approx(21, rel=0.01)
    assert many.p99999_us is None  # of 100,000 samples one lies above it


def test_no_percentile_is_of_the_frames_that_arrived_alone() -> None:
    """p99 was infinite, and p99.999 122 microseconds; of new flows of which 60 % were lost p50 was 5."""
    kept = [2000 + n for n in range(9_800)]
    _, (one, _) = asked(*[trial(OURS, n, kept, sent=10_000) for n in range(5)])
    assert one.p99_us == math.inf
    assert one.p99999_us in (None, math.inf)
    first = stream([5000] * 400, sent=1000, new_flows=True)
    of_flows = [trial(OURS, n, result=result(stream([2000] * 1000), first)) for n in range(5)]
    (summary,) = summarise(run_record(point("ovs-afxdp", new_flows_pps=1000.0)), of_flows_at(of_flows))
    assert summary.new_flows is not None
    assert summary.new_flows.p50_us == math.inf


def of_flows_at(trials: list[Any]) -> list[Any]:
    """The same at the point that has new flows."""
    there = point("ovs-afxdp", new_flows_pps=1000.0).id
    return [one.model_copy(update={"point_id": there}) for one in trials]


def test_a_tail_that_the_machine_made_is_marked() -> None:
    pmd = ThreadUse(name="pmd", cpu=1, allowed=(1,), ran_ns=0, run_delay_ns=0, nonvoluntary_switches=0)

    def tail(gone: float, waited: float = 0.0, *threads: ThreadUse) -> tuple[str, ...]:
        seen = Disturbance(stalled_share=0.02, steal_share={0: 0.02, 1: gone}, run_delay_share=waited)
        _, (one, _) = asked(*measured(OURS, 3, disturbance=seen, threads=threads))
        return one.machine_tail

    assert tail(0.0, 0.0, pmd) == ()  # what the sender's core lost makes nobody wait
    assert tail(0.004, 0.0, pmd) == ("p999_us", "p99999_us")
    assert tail(0.0, 0.02, pmd) == ("p99_us", "p999_us", "p99999_us")
    assert tail(0.02) == ()  # no thread: it forwards on the sender's core


def test_runs_that_differ_in_two_things_give_no_ratio() -> None:
    first, second = (run_record(OURS, study={**LATENCY, "tester": tester}) for tester in ("fake", "quick"))
    third = second.model_copy(update={"environment": environment(kernel="6.19.0")})
    assert set(what_differs(first, second)) == {"tester"}
    assert set(what_differs(first, third)) == {"tester", "kernel"}
    sides = summarise(first, measured(OURS, 3)), summarise(third, measured(OURS, 30))
    ((_, _, metrics),) = compare_runs(*sides, apart=what_differs(first, third))
    assert metrics["p50_us"]
    assert metrics["p50_us"].better is None
    assert "differ in tester, kernel" in verdict(metrics["p50_us"])
    ((_, _, metrics),) = compare_runs(*sides, apart=what_differs(first, second))
    assert metrics["p50_us"]
    assert metrics["p50_us"].better is False


def test_one_forwarder_alone_is_reported_with_its_figure() -> None:
    run = run_record(OURS, study={**LATENCY, "repetitions": 5})
    records = measured(OURS, 3)
    found = answer(run, summarise(run, records), records)
    assert not found.decided
    assert found.sentence == "No answer: this run has no two forwarders to compare."
    assert found.details == ("OVS on AF_XDP alone at 0.2 kpps: one-way p50 3 µs, 5 repetitions.",)
    lossy = measured(OURS, 3, frames=500, sent=1000)
    said = answer(run, summarise(run, lossy), lossy).text()
    assert said.endswith("5 repetitions; ovs-afxdp lost 50 %, counted as infinitely late.")
