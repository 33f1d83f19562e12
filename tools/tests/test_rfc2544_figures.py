# SPDX-License-Identifier: Apache-2.0
"""Figures of RFC 2544: what limits them, what contradicts them, and what the report says of them."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.reading import render
from lab.records import each_figure, point, result, run_record, stream, trial

from xdplab.analysis import summarise
from xdplab.measure.measured import shared_doubt
from xdplab.methods.rfc2544 import clauses
from xdplab.methods.rfc2544.figures import Rfc2544Figures, rfc2544_figures, throughput_repetitions
from xdplab.methods.rfc2544.report import latency_at_load_chart
from xdplab.methods.rfc2544.spec import QUICK, Rfc2544Spec
from xdplab.model import Point, StreamResult, TrialRecord, TrialResult
from xdplab.model.trial import CpuTime

AT = point()


def found(limited_by: str = "forwarder", ratio: float = 0.0, **more: Any) -> TrialRecord:
    """A search that ended at 334 kpps in each of two directions."""
    bound = {"loss_ratio": ratio, "throughput_pps": 334e3, "lower_pps": 334e3, "upper_pps": 337e3}
    steps = [{"load_pps": pps, "duration_s": 0.5, "offered_pps": pps, "sent": 9, "lost": 0} for pps in (2e3, 334e3)]
    figures = {"preset": "quick", "steps": steps, "traffic_s": 9.0, "directions": 2, "top_load_pps": 5e6,
               "line_rate_bps": None, "bounds": [{**bound, "limited_by": limited_by, **more}]}  # fmt: skip
    return record(AT, purpose="figures", clause="RFC 2544 26.1", figures=figures)


def curve(*points: tuple[float, float]) -> list[TrialRecord]:
    """Trials of a loss curve: load in pps over all directions, and what share was lost."""
    trials = []
    for number, (pps, share) in enumerate(points):
        stream = StreamResult(
            kind="load", frame_bytes=64, offered_pps=pps, intended=100_000, sent=100_000, achieved_pps=pps,
            received=round(100_000 * (1 - share)), lost=round(100_000 * share), rx_pps=pps * (1 - share),
        )  # fmt: skip
        result = TrialResult(tester="fake", sender="fake", elapsed_s=1.0, streams=(stream,))
        more = {"purpose": "search", "clause": "RFC 2544 26.3", "trial": 100 + number, "offered_pps": pps}
        trials.append(record(AT, result=result, **more))
    return trials


def record(at: Point, **fields: Any) -> TrialRecord:
    given = {"point_id": at.id, "repetition": 0, "status": "ok", "started": "2026-01-02T03:04:05.678+00:00"}
    return TrialRecord(**{**given, **fields})


def test_a_throughput_below_the_lowest_load_is_zero_and_at_most_that_load() -> None:
    (one,) = throughput_repetitions([found("below-minimum", throughput_pps=None, lower_pps=None)])
    ndr = one.figures["ndr_pps"]
    assert (ndr.value, ndr.limited_by, ndr.low, ndr.high) == (0.0, "below-minimum", 0.0, 4e3)


def test_a_clause_is_a_line_of_a_suite() -> None:
    reset = record(AT, purpose="figures", clause="RFC 2544 26.6", figures={
        "load_pps": 2e5, "gap_us": 820e3, "own_us": 1e3, "reset_us": 819e3, "reason": "", "lost": 9, "came_back": True,
        "resolution_us": 5.0, "trial_s": 4.0,
    })  # fmt: skip
    figures = rfc2544_figures([found("tester"), reset])
    assert figures.clause_text("throughput") == "NDR at least 668 kpps (limited by tester); over both directions"
    assert figures.clause_text("reset") == "819 ms at 200 kpps; loads per direction"
    assert figures.clause_text("recovery") == ""
    one_way = rfc2544_figures([reset])
    assert one_way.clause_text("reset") == "819 ms at 200 kpps"


def test_what_the_tester_or_the_resolution_limited_is_said_as_a_bound() -> None:
    """ "4,000 frames" was the longest burst that was tried, and "after 0 ms" of frames that are 5.4 µs apart."""
    bursts = record(AT, purpose="figures", clause="RFC 2544 26.4", figures={
        "frames": [4000, 4000], "average_frames": 4000.0, "standard_deviation_frames": 0.0,
        "longest_burst_frames": 4000, "limited_by": "tester", "burst_rate_pps": 1.6e6,
    })  # fmt: skip
    recovery = record(AT, purpose="figures", clause="RFC 2544 26.5", figures={
        "overload_pps": 3.7e5, "relief_pps": 1.85e5, "overload_s": 1.0, "lost_in_overload": 900, "lost_after": 0,
        "recovery_us": 0.0, "resolution_us": 5.4, "overloaded": True, "reason": "",
    })  # fmt: skip
    figures = rfc2544_figures([bursts, recovery])
    assert figures.clause_text("back_to_back") == "at least 4,000 frames at 1,600 kpps"
    assert figures.clause_text("recovery") == "after less than 0.0054 ms of 185 kpps, which followed 370 kpps"


def test_times_that_the_tester_limits_are_said_as_the_most_that_they_can_be() -> None:
    """In one of two repetitions the tester's own card dropped frames."""
    recovery = {
        "overload_pps": 3.7e5, "relief_pps": 1.85e5, "overload_s": 1.0, "lost_in_overload": 900, "lost_after": 7,
        "recovery_us": 40e3, "resolution_us": 5.4, "overloaded": True, "reason": "",
    }  # fmt: skip
    reset = {
        "load_pps": 2e5, "gap_us": 820e3, "own_us": 1e3, "reset_us": 819e3, "reason": "", "lost": 9, "came_back": True,
        "resolution_us": 5.0, "trial_s": 4.0,
    }  # fmt: skip
    records = [
        record(AT, purpose="figures", clause=clause, repetition=number, figures={**given, "limited_by": limited_by})
        for clause, given in (("RFC 2544 26.5", recovery), ("RFC 2544 26.6", reset))
        for number, limited_by in enumerate(("forwarder", "tester"))
    ]
    figures = rfc2544_figures(records)
    at_most = "after at most 40 ms (limited by tester) of 185 kpps, which followed 370 kpps"
    assert figures.clause_text("recovery") == at_most
    assert figures.clause_text("reset") == "at most 819 ms (limited by tester) at 200 kpps"
    run = run_record(AT, study={"method": {"name": "rfc2544"}})
    first = [each for each in records if not each.repetition]
    page, clean = (plain(render(run, [found(), *some])) for some in (records, first))
    assert "≤ 40,000 (40,000 to 40,000)" in page
    assert "≤ 819.000" in page
    assert "≤: limited by the tester" in page
    assert "40,000" in clean
    assert not re.search(r"≤ (40,000|819)|≤: limited", clean)


@pytest.mark.parametrize(
    ("limited_by", "upper_pps", "high"),
    [
        ("forwarder", 337e3, 668e3),
        ("budget", 400e3, 800e3),
        ("tester", None, math.inf),
    ],
)
def test_who_set_a_throughput_and_what_it_resolves_go_with_it(
    limited_by: str, upper_pps: float | None, high: float
) -> None:
    """It is a lower bound where another than the forwarder set it, up to what the forwarder is known to lose at."""
    (one,) = throughput_repetitions([found(limited_by, upper_pps=upper_pps)])
    ndr = one.figures["ndr_pps"]
    assert (ndr.value, ndr.low, ndr.high, ndr.limited_by, ndr.doubt) == (668e3, 668e3, high, limited_by, "")
    assert ndr.resolution == 0.01


def test_a_search_that_ran_out_of_time_resolves_what_it_has_left_open() -> None:
    """Its two sides are 5 % apart: a figure, and not a lower bound."""
    (one,) = throughput_repetitions([found("budget", upper_pps=334e3 * 1.05)])
    ndr = one.figures["ndr_pps"]
    assert (ndr.low, ndr.high, ndr.limited_by) == (668e3, 668e3, "forwarder")
    assert ndr.resolution == pytest.approx(0.05)


def repeated(*searches: TrialRecord) -> list[TrialRecord]:
    return [each.model_copy(update={"repetition": number}) for number, each in enumerate(searches)]


LOST_AT_THE_LOWEST = found("below-minimum", throughput_pps=None, lower_pps=None, upper_pps=2e3)
OUT_OF_TIME = found("budget", throughput_pps=None, lower_pps=None)


@pytest.mark.parametrize(
    ("searches", "line", "cell"),
    [
        ([found()] * 2 + [LOST_AT_THE_LOWEST] * 3, "below 4 kpps (limited by below-minimum, forwarder)", "below 4"),
        (
            [found()] * 3 + [LOST_AT_THE_LOWEST] * 2,
            "668 kpps (limited by below-minimum, forwarder)",
            "668 range 0 to 668",
        ),
        ([LOST_AT_THE_LOWEST] * 2, "below 4 kpps (limited by below-minimum)", "below 4"),
        ([found(), OUT_OF_TIME, OUT_OF_TIME], "none was found", "not known"),
        ([found("tester", upper_pps=None)], "at least 668 kpps (limited by tester)", "≥ 668"),
    ],
)
def test_a_repetition_that_found_no_load_good_counts_in_the_median(
    searches: list[TrialRecord], line: str, cell: str
) -> None:
    """Of five, three lost frames at the lowest load: "NDR at least 671 kpps" was the median of the other two."""
    trials = repeated(*searches)
    assert (
        rfc2544_figures(trials).clause_text("throughput").removeprefix("NDR").lstrip(": ")
        == f"{line}; over both directions"
    )
    assert f" 64 {cell} " in text_of(trials)


def test_a_search_that_found_no_load_good_has_no_figure() -> None:
    (one,) = throughput_repetitions([found("tester", throughput_pps=None, lower_pps=None, upper_pps=None)])
    ndr = one.figures["ndr_pps"]
    assert (ndr.value, ndr.low, ndr.high) == (None, 0.0, math.inf)
    assert ndr.doubt == "no loss-free load found (tester-limited)"


def test_a_throughput_with_tolerated_loss_is_no_ndr() -> None:
    (one,) = throughput_repetitions([found(ratio=0.005)])
    assert each_figure(one, "value") == {"pdr_pps": 668e3}
    assert each_figure(one, "called") == {"pdr_pps": "throughput with at most 0.5 % loss"}
    assert each_figure(one, "limited_by") == {"pdr_pps": "forwarder"}


@pytest.mark.parametrize(("overloaded", "limited_by"), [(True, "forwarder"), (False, "tester")])
def test_a_forwarding_rate_without_overload_is_the_testers(overloaded: bool, limited_by: str) -> None:
    clause = "RFC 2285 3.6.1"
    flood = curve((1e6, 0.2))[0].model_copy(update={"clause": clause})
    figures = {
        "forwarding_rate_pps": 8e5,
        "overloaded": overloaded,
        "rates_pps": [8e5],
        "offered_pps": 1e6,
        "intended_pps": 1e6,
    }
    (one,) = throughput_repetitions([flood, record(AT, purpose="figures", clause=clause, figures=figures), found()])
    assert each_figure(one, "limited_by") == {"forwarding_rate_pps": limited_by, "ndr_pps": "forwarder"}
    assert each_figure(one, "resolution") == {"forwarding_rate_pps": 1 / 80_000, "ndr_pps": 0.01}


def test_what_a_cpu_second_forwards_is_of_no_load_above_the_throughput() -> None:
    """Of two trials at 1.4 Mpps one happened to lose nothing; the throughput is 668 kpps, on one whole core."""
    steps = []
    for number, (pps, share) in enumerate(((668e3, 0.0), (1.4e6, 0.1), (1.4e6, 0.0))):
        (one,) = curve((pps, share))
        result = one.result.model_copy(update={"elapsed_s": 100_000 / pps})  # type: ignore[union-attr]
        cpu = CpuTime(elapsed_s=result.elapsed_s, frames=result.received, forwarder_s=result.elapsed_s, polling_s=0.0,
                      kernel_s=0.0, softirq_s=0.0, resolution_s=0.001)  # fmt: skip
        more = {"clause": "RFC 2544 26.1", "trial": number, "result": result, "cpu": cpu}
        steps.append(one.model_copy(update=more))
    (one,) = throughput_repetitions([*steps, found()])
    assert one.figures["ndr_per_core_pps"].value == pytest.approx(668e3, rel=0.01)


# what contradicts a search

LOST = [(380e3, 0.24), (180e3, 0.07)]


@pytest.mark.parametrize(
    ("trials", "contradicted"),
    [
        pytest.param(curve(*LOST), True, id="loss below"),
        pytest.param(curve(LOST[1]), True, id="one load is enough"),
        pytest.param(curve((700e3, 0.24)), False, id="loss above"),
        pytest.param(curve((665e3, 0.01)), False, id="within the search's width"),
        pytest.param(curve((380e3, 0.0)), False, id="no loss"),
    ],
)
def test_a_loss_curve_contradicts_a_search(trials: list[TrialRecord], contradicted: bool) -> None:
    whole = [found(), *trials]
    searched = rfc2544_figures(whole).throughput
    assert searched is not None
    (bound,) = searched.bounds
    (one,) = throughput_repetitions(whole)
    assert bool(bound.contradicted_by) == contradicted
    assert bool(one.figures["ndr_pps"].doubt) == contradicted


def test_one_repetition_of_three_that_is_contradicted_is_in_the_interval() -> None:
    """The doubt stood for the row, whose other repetitions nothing contradicts."""
    others = [each.model_copy(update={"repetition": number}) for number in (2, 3) for each in [found()]]
    searched = rfc2544_figures([found(), *curve(*LOST), *others]).throughput
    assert searched is not None
    assert searched.bounds[0].repetitions == 3
    assert searched.bounds[0].contradicted_by is None
    assert shared_doubt(["lost", "", ""]) == ""
    assert shared_doubt(["", "lost", "lost", ""]) == "lost"
    assert shared_doubt([]) == ""


def test_tolerated_loss_contradicts_nothing() -> None:
    (one,) = throughput_repetitions([found(ratio=0.1), *curve((180e3, 0.07))])
    assert each_figure(one, "doubt") == {}


def test_a_contradicted_throughput_is_not_printed_as_a_fact() -> None:
    page = text_of([found(), *curve(*LOST)])
    assert "doubtful 668 by the search" in page
    assert "NDR: the search found 668 kpps, but the loss curve of the same repetition lost 24 % at 380 kpps" in page


# the report


@pytest.mark.parametrize(
    ("preset", "sentence"),
    [
        ("rfc2544", "Complies with §26.1: the NDR rests on trials of 60 s or more without loss"),
        ("tst009", "Deviates from §26.1: a load counts as good while trials with loss make up no more than 50%"),
        ("quick", "Deviates from §26.1: trials are shorter than 60 s; a load counts as good while"),
    ],
)
def test_the_report_says_what_complies(preset: str, sentence: str) -> None:
    page = text_of([found()], preset=preset)
    assert sentence in page
    assert ("Complies with §26.1" in page) == (preset == "rfc2544")


def test_a_search_with_tolerated_loss_does_not_comply() -> None:
    page = text_of([found(ratio=0.005)], preset="rfc2544")
    assert "Not a throughput as in §26.1: no search was without tolerated loss" in page
    assert "Complies with §26.1" not in page


@pytest.mark.parametrize(
    ("preset", "drain_s", "said"),
    [
        ("rfc2544", 2.0, "."),
        ("rfc2544", 0.1, ", and late frames are waited for 0.1 s at the most (2 s asked)."),
        ("quick", 2.0, ", and late frames are waited for 2.0 s at the most, or until none has arrived for 0.2 s (2 s"),
    ],
)
def test_the_report_says_what_of_the_rests_is_not_kept(preset: str, drain_s: float, said: str) -> None:
    page = text_of([found()], preset=preset, drain_s=drain_s)
    assert f"Deviates from §23: the next trial begins without a rest of 5 s{said}" in page


def test_frames_are_waited_for_as_long_as_the_rfc_asks() -> None:
    assert Rfc2544Spec(name="throughput").drain_s == 2.0


def test_the_report_says_why_a_figure_is_not_there(
    cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tester that sends 0.9 Mpps next to a forwarder of 1 Mpps: no overload, no buffer, a throughput from below."""
    monkeypatch.setattr(clauses, "scale_of", lambda spec: QUICK.__class__(**{**vars(QUICK), "reset_s": 0.02}))
    slow = "fake:capacity_pps=1000000,jitter_ratio=0,tester_top_pps=900000"
    study = studies.study_file(tmp_path, forwarders=slow, repetitions=1, method={"name": "rfc2544"})
    assert not cli("run", study).complaints
    folder = studies.only_run(tmp_path / "results")
    page = plain(render(folder.load(), folder.trials()))
    assert "≥ 900" in page
    assert "no buffer is given; the forwarder forwards bursts of 900000 pps as they arrive" in page
    assert "no time of recovery; was not overloaded: no frame was lost at 900000 pps" in page
    (row,) = summarise(folder.load(), folder.trials())
    assert [at.achieved_pps for at in Rfc2544Figures.of(row).latency][-1] == pytest.approx(9e5, rel=0.001)


def text_of(trials: list[TrialRecord], **method: Any) -> str:
    """The report's text about these trials."""
    study = {"method": {"name": "rfc2544", **method}}
    run = run_record(AT, study=study)
    preset = method.get("preset", "quick")
    records = [
        each.model_copy(update={"figures": {**each.figures, "preset": preset}}) if each.figures else each
        for each in trials
    ]
    return plain(render(run, records))


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)).replace("&ge;", "≥")


def test_a_latency_at_load_of_which_too_much_was_lost_is_infinite_and_shown() -> None:
    """RFC 2544 §26.2 by rank of what was sent: a tenth lost leaves no p99."""
    loads = {"throughput_pps": 1000.0, "probe_pps": 50.0, "loads": [{"share": 0.5, "load_pps": 500.0}]}
    taken = [
        record(AT, purpose="figures", clause="RFC 2544 26.2", figures=loads),
        trial(
            AT,
            result=result(stream([3000 + n % 1000 for n in range(9000)], sent=10000)),
            purpose="search",
            clause="RFC 2544 26.2 at 0.50",
        ),
    ]
    figures = rfc2544_figures([found(), *taken])
    (row,) = figures.latency
    assert figures.clause_text("latency").endswith(" at 50 % of the throughput, 10 % lost")
    assert (row.p50_us, row.p99_us, row.loss_ratio) == (pytest.approx(3.55, rel=0.01), math.inf, 0.1)
    assert row.model_dump(mode="json")["p99_us"] is None
    (point_of,) = summarise(run_record(AT, study={"method": {"name": "rfc2544"}}), [found(), *taken])
    assert [list(one.y) for one in latency_at_load_chart([point_of]).series] == [[row.p50_us]]
