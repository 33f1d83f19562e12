# SPDX-License-Identifier: Apache-2.0
"""What a sentence may say where two rules meet, or a figure is missing (docs/claims.md)."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from lab.claims import LATENCY, OURS, RATE, THEIRS, asked, measured, searched, two, with_repetitions
from lab.reading import a_run
from lab.records import point, result, run_record, stream, trial

from xdplab.analysis import answer, compare_points, summarise
from xdplab.analysis.runs import compare_runs, trends
from xdplab.analysis.words import verdict
from xdplab.cli.tables import comparison_table
from xdplab.measure import Measured
from xdplab.measure.comparison import Answer
from xdplab.measure.measured import RepetitionFigures
from xdplab.methods.latency import LIGHT_LOAD
from xdplab.methods.rfc2544.figures import Contradiction, rfc2544_figures
from xdplab.model import Calibration, Point, TrialRecord

SEARCH = {"method": {"name": "throughput"}}


def test_a_verdict_between_runs_says_of_which_run() -> None:
    """Both sides bear the same name: "ovs-afxdp is faster" was the verdict of a run that had become slower."""
    run = run_record(OURS, study=LATENCY)
    ((_, _, metrics),) = compare_runs(summarise(run, measured(OURS, 3)), summarise(run, measured(OURS, 30)))
    assert metrics["p50_us"]
    assert verdict(metrics["p50_us"]) == "ovs-afxdp (before) is faster; to be sure, measure both in one run"
    lossy = summarise(run, measured(OURS, 30, frames=900, sent=1000))
    ((_, _, metrics),) = compare_runs(summarise(run, measured(OURS, 3)), lossy)
    assert metrics["p50_us"]
    assert metrics["p50_us"].remarks == ("ovs-afxdp (after) lost 10 %, counted as infinitely late",)


def test_a_ratio_that_may_not_be_said_is_not_printed_beside_the_reason() -> None:
    run = run_record(OURS, study=LATENCY)
    failed = [*measured(OURS, 30)[:4], trial(OURS, 4, status="failed", reason="it died")]
    rows = compare_runs(summarise(run, measured(OURS, 3)), summarise(run, failed))
    printed = comparison_table("one", "two", rows, {}, "latency")
    assert "failed in 1 of 5" in printed
    assert " (0.0996) " in printed
    assert "0.0996 (" not in printed


def test_two_that_lost_frames_at_the_lowest_load_were_not_limited_by_the_tester() -> None:
    ours, theirs = (searched(each, [0.0] * 5, "below-minimum", high=2e3) for each in two())
    found = compare_points(ours, theirs, "ndr_pps")
    assert found
    assert verdict(found) == "undecided: both figures are bounds only, and which is higher is not known"


def test_a_repetition_without_a_good_load_stays_in_the_comparison() -> None:
    """Its pair vanished, and with all of them "the two were never measured in the same repetition"."""
    ours, theirs = two()
    some = searched(ours, RATE).by_repetition
    nothing = Measured(value=None, limited_by="tester", doubt="no loss-free load found")
    unknown = {"figures": {**some[4].figures, "ndr_pps": nothing}}
    part = with_repetitions(ours, (*some[:4], some[4].model_copy(update=unknown)))
    found = compare_points(part, searched(theirs, RATE), "ndr_pps")
    assert found
    assert (found.rounds, found.better) == (5, None)
    assert verdict(found) == "undecided: both figures are bounds only, and which is higher is not known"
    none = with_repetitions(ours, [one.model_copy(update=unknown) for one in some])
    alone = compare_points(none, searched(theirs, RATE), "ndr_pps")
    assert alone
    assert (alone.sense, verdict(alone)) == ("unknown", "undecided: ovs-afxdp: no loss-free load found")


def test_a_forwarder_that_let_nothing_through_has_no_latency_to_compare() -> None:
    nothing = [trial(THEIRS, n, [], sent=1000) for n in range(2)]
    found, _ = asked(*measured(OURS, 3), *nothing, *measured(THEIRS, 30)[2:])
    assert not found.decided
    assert "no time-stamped frame of ovs-afpacket's arrived in 2 of 5 repetitions" in found.sentence
    all_lost, _ = asked(*measured(OURS, 3), *[trial(THEIRS, n, [], sent=1000) for n in range(5)])
    assert all_lost.sentence == (
        "At 0.2 kpps xdplab names no winner: no time-stamped frame of ovs-afpacket's arrived in 5 of 5 repetitions."
    )


def test_nothing_is_a_multiple_of_nothing() -> None:
    ours, theirs = two()
    found = compare_points(searched(ours, RATE), searched(theirs, [0.0] * 5), "ndr_pps")
    assert found
    assert verdict(found) == "undecided: ovs-afpacket was 0 in 5 of 5 repetitions, so no ratio can be formed"


def test_new_flows_stand_for_no_probe() -> None:
    traffic = {"probe_pps": 100.0, "load_pps": 100_000.0, "new_flows_pps": 1000.0}
    ours, theirs = (point(name, **traffic) for name in ("ovs-afxdp", "ovs-afpacket"))

    def one(at: Point, number: int, probes: Sequence[int], first: int) -> TrialRecord:
        load = stream([], kind="load", sent=99_000, received=99_000, lost=0)
        streams = (stream(probes, sent=100), load, stream([first] * 1000, new_flows=True))
        return trial(at, number, offered_pps=100_100.0, result=result(*streams))

    trials = [one(ours, n, [], 20_000) for n in range(5)] + [one(theirs, n, [40_000] * 100, 90_000) for n in range(5)]
    run = run_record(ours, theirs, study={"forwarders": ["ovs-afxdp", "ovs-afpacket"], "repetitions": 5})
    found = answer(run, summarise(run, trials), trials)
    assert not found.decided
    assert "no time-stamped frame of ovs-afxdp's arrived in 5 of 5 repetitions" in found.sentence


def test_a_failure_is_counted_by_repetitions() -> None:
    """Two failed trials of one repetition were two repetitions, and with those made anew more than were planned."""
    failed = [trial(THEIRS, 5, status="failed", reason="it died", trial=n) for n in range(2)]
    found, _ = asked(*measured(OURS, 3), *measured(THEIRS, 30), *failed)
    assert "ovs-afpacket failed in 1 of 6 repetitions: it died" in found.sentence


def test_what_can_be_said_at_the_rate_of_the_study_is_an_answer() -> None:
    """Robot skipped a run whose light load alone decided nothing."""
    light = [
        one.model_copy(update={"clause": LIGHT_LOAD}) for one in (*measured(OURS, 2)[:2], *measured(THEIRS, 24)[:2])
    ]
    found, _ = asked(*light, *measured(OURS, 3), *measured(THEIRS, 36))
    assert found.decided
    assert "12 times as fast" in found.sentence
    assert any("xdplab names no winner: 2 of the 3 rounds that" in each for each in found.details)


def test_who_limited_the_load_of_a_latency_says_nothing_of_the_search_of_its_repetition() -> None:
    """Each is a trial of its own."""

    def repetition(at: Point, n: int) -> list[TrialRecord]:
        bound = {"loss_ratio": 0.0, "throughput_pps": 1e6, "lower_pps": 1e6, "upper_pps": 1.01e6}
        figures = {"preset": "quick", "bounds": [{**bound, "limited_by": "forwarder"}], "steps": [], "directions": 1,
                   "traffic_s": 1.0, "top_load_pps": 5e6, "line_rate_bps": None}  # fmt: skip
        cut = result(stream([3000] * 1960, sent=1960, intended=2000, offered_pps=1000.0))
        clause = {"clause": "RFC 2544 26.1"}
        return [
            trial(at, n, purpose="search", **clause),
            trial(at, n, result=cut, offered_pps=1000.0),
            trial(at, n, purpose="figures", result=None, figures=figures, **clause),
        ]

    trials = [one for at in (OURS, THEIRS) for n in range(5) for one in repetition(at, n)]
    ours, theirs = summarise(run_record(OURS, THEIRS, study=SEARCH), trials)
    ndr, p99 = (compare_points(ours, theirs, metric) for metric in ("ndr_pps", "p99_us"))
    assert ndr
    assert p99
    # it is not forgotten next to a search
    assert any("the tester left out frames" in reason for reason in p99.blockers)
    assert ndr.blockers == ()
    assert (ndr.rounds, p99.rounds) == (5, 5)


@pytest.mark.parametrize(("known", "words"), [
    ({}, "1,000 kpps, not 2,000 kpps"),
    ({"limited": "tester"}, "at least 1,000 kpps; whether it reaches 2,000 kpps is not known"),
    ({"limited": "budget", "high": 1.1e6}, "1,000 to 1,100 kpps, not 2,000 kpps"),
    ({"doubt": "its curve says no"}, "1,000 kpps, uncertain: its curve says no"),
    ({"pps": 0.0, "limited": "below-minimum", "high": 2e3}, "below 2 kpps, not 2,000 kpps"),
    ({"pps": None, "limited": "tester"}, "not known; whether it reaches 2,000 kpps is not known"),
    ({"pps": 2e6, "limited": "tester"}, ""),
])  # fmt: skip
def test_a_gate_says_what_is_known_of_a_rate(known: dict[str, Any], words: str) -> None:
    """It said "0 pps without loss (limited by ['tester'])", and took a throughput that was contradicted."""
    rate = known.pop("pps", 1e6)
    assert searched(two()[0], [rate] * 5, **known).measured["ndr_pps"].not_reached(2e6) == words


def by_two_testers(rounds: int = 5) -> Answer:
    """The same path by two testers, one of which adds 50 µs, and 0.2 µs more through a forwarder."""
    first, second = (OURS.model_copy(update={"tester": name}) for name in ("fake", "quick"))
    alone = {
        name: Calibration(
            link="a0-c0", p50_ns=p50, p99_ns=p50, p999_ns=p50, jitter_ns=0, top_pps=5e6, on_schedule_ratio=1.0,
            achieved_error_ratio=0.0, at_pps=1e4, frame_bytes=64, rx_program="none",
        )
        for name, p50 in (("fake", 300), ("quick", 50_300))
    }  # fmt: skip
    study = {**LATENCY, "testers": ["fake", "quick"], "repetitions": 5}
    run = run_record(first, second, study=study, calibrations=alone)
    trials = [*measured(first, 3), *measured(second, 53.2)[:rounds]]
    return answer(run, summarise(run, trials), trials)


def test_testers_agree_by_the_rules_of_a_comparison() -> None:
    """One repetition agreed like any other number of them."""
    fine = by_two_testers()
    assert fine.decided
    assert re.match(r"Through a forwarder quick reports .* more than fake, their own ways subtracted", fine.sentence)
    few = by_two_testers(2)
    assert not few.decided
    assert few.sentence == "Whether fake and quick agree through a forwarder is undecided."
    assert "1 of 1 paths are undecided: 2 of the 3 rounds that an interval needs" in few.text()


def test_a_trend_is_of_facts_only() -> None:
    """Runs that were doubted were "better" and "worse" than those before."""

    def reported(count: int = 5, p99: bool = True, **changes: Any) -> set[str]:
        run = run_record(OURS, study=SEARCH)
        summary = searched(summarise(run, measured(OURS, 3))[0], RATE[:count], **changes)
        if not p99:
            summary = summary.model_copy(update={"measured": {**summary.measured, "p99_us": Measured(value=None)}})
        return {found.metric for found in trends([a_run(run, [summary], str(n)) for n in range(3)])}

    assert reported() == {"p50_us", "p99_us", "ndr_pps"}
    assert reported(count=3) == reported()
    assert reported(count=2) == set()
    assert reported(p99=False) == {"p50_us", "ndr_pps"}  # too few frames lie above it
    assert reported(loss_ratio=0.2) == reported()  # lost frames are infinitely late, so that a percentile stays one
    assert reported(doubt="its curve says no") == {"p50_us", "p99_us"}


def test_a_run_is_not_as_bad_as_its_repetitions_that_are_no_bounds() -> None:
    """Gaps of 5 ms in 3 of 8 repetitions, no gap that shows in the others; then 2 ms in each: it became "better"."""
    gap = Measured(value=5000.0)
    unseen = Measured(value=100.0, low=0.0, high=100.0, limited_by="below-minimum")
    none = Measured(value=0.0)

    def reported(*gaps: Measured) -> list[float]:
        study = {"method": {"name": "changes", "kinds": ["rules"]}}
        repetitions = [RepetitionFigures(repetition=n, figures={"gap_us": each}) for n, each in enumerate(gaps)]
        summary = with_repetitions(summarise(run_record(OURS, study=LATENCY), measured(OURS, 3))[0], repetitions)
        runs = [a_run(run_record(OURS, study=study), [summary], str(n)) for n in range(3)]
        return [each.stretches[0].mean for each in trends(runs)]

    assert reported(gap, gap, gap) == [5000.0]
    assert reported(*[gap] * 3, *[unseen] * 5) == []
    assert reported(*[gap] * 3, none) == [3750.0]
    assert reported(*[none] * 3) == []


def test_percentiles_at_load_are_those_that_the_data_carry() -> None:
    clause = "RFC 2544 26.2"
    loads = {"loads": [{"share": 0.5, "load_pps": 1000.0}], "throughput_pps": 2000.0, "probe_pps": 100.0}
    trials = [
        trial(OURS, 0, list(range(1000, 2000)), clause=f"{clause} at 0.50", purpose="search"),
        trial(OURS, 0, purpose="figures", result=None, clause=clause, figures=loads),
    ]
    (row,) = rfc2544_figures(trials).latency
    assert row.p99_us == pytest.approx(1.99, abs=0.01)
    assert row.p999_us is None  # one frame of a thousand lies above


def test_a_contradiction_is_reported_without_exponents() -> None:
    found = Contradiction(load_pps=14_880_000, loss_ratio=0.999)
    assert found.text() == "the loss curve of the same repetition lost 99.9 % at 14,880 kpps"


def test_frames_that_came_too_late_are_a_doubt_and_a_figure() -> None:
    """Nobody knows whether they had been there before: no winner rests on such a loss."""
    late = measured(OURS, 10, result=result(stream([10_000] * 200, beyond_window=2)))
    found, (ours, _) = asked(*late, *measured(THEIRS, 100))
    assert ours.beyond_window == 10
    assert found.comparison is not None
    assert "10 frames of ovs-afxdp's arrived too late to be distinguished from copies" in found.comparison.blockers[0]
