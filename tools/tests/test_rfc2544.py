# SPDX-License-Identifier: Apache-2.0
"""The clauses of RFC 2544 on simulated boxes, and what is said of their figures."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.records import point, run_record

from xdplab.analysis import summarise
from xdplab.analysis.rfc2544 import rfc2544_figures, throughput_repetitions
from xdplab.cli.bench_search import SimulatedSession, bench_buffer, steady
from xdplab.forwarders.fake import Box, FakeForwarder
from xdplab.methods.rfc2544 import Rfc2544, disruption
from xdplab.methods.rfc2544.back_to_back import back_to_back
from xdplab.methods.rfc2544.scale import QUICK
from xdplab.methods.search import Bound
from xdplab.model import (
    Point,
    Rfc2544Spec,
    StreamResult,
    StreamSpec,
    TrafficSpec,
    TrialRecord,
    TrialResult,
    TrialSpec,
)
from xdplab.report import render
from xdplab.runner import visit
from xdplab.testers import TesterContext
from xdplab.testers.fake import FakeTester
from xdplab.testers.fluid import Sender, flow

AT = point()
TRUE_NDR = Bound(loss_ratio=0.0, lower_pps=1e6, upper_pps=1e6, throughput_pps=1e6, limited_by="forwarder")
BACK_TO_BACK, RECOVERY, RESET = "RFC 2544 26.4", "RFC 2544 26.5", "RFC 2544 26.6"


# the simulation


@pytest.mark.parametrize("rate_pps", [1.1e6, 2e6, 5e6])
def test_a_finite_buffer_loses_the_first_frame_after_its_share_of_a_burst(rate_pps: float) -> None:
    first = 500 / (1 - 1e6 / rate_pps)
    sender = Sender(rate_pps, stall_ratio=0.0, stall_s=0.01, catch_up_frames=0)

    def lost(frames: int) -> float:
        burst = StreamSpec(kind="load", pps=None, frame_bytes=64, count=frames)
        return flow([burst], 1.0, sender, 1e6, 500).lost[0]

    assert lost(round(first) - 1) == 0
    assert lost(round(first) + 100) == pytest.approx(100 * (1 - 1e6 / rate_pps), abs=1)


@pytest.mark.parametrize(("catch_up_frames", "share"), [(0, 0.8), (500, 0.85), (10**9, 1.0)])
def test_a_sender_skips_what_it_does_not_catch_up_with(catch_up_frames: int, share: float) -> None:
    """Ten stalls of 20 ms in a second at 500 kpps: 10,000 frames each."""
    sender = Sender(5e6, stall_ratio=0.2, stall_s=0.02, catch_up_frames=catch_up_frames * 5)
    load = StreamSpec(kind="load", pps=5e5, frame_bytes=64)
    assert flow([load], 1.0, sender, 1e9, 0).sent[0] == pytest.approx(share * 5e5, rel=1e-6)


# back-to-back


@pytest.mark.parametrize("top_pps", [5e6, 1.5e6, 1.2e6])
def test_a_buffer_is_found_whatever_rate_the_bursts_left_at(top_pps: float) -> None:
    session = SimulatedSession(steady(buffer_frames=500, tester_top_pps=top_pps))
    back_to_back(session, spec("back-to-back", preset="rfc2544"), TrafficSpec(), TRUE_NDR)
    figures = session.figures[BACK_TO_BACK]
    assert figures["burst_rate_pps"] == pytest.approx(top_pps, rel=0.001)
    assert figures["corrected_buffer_frames"] == pytest.approx(500, rel=0.01)
    found = bench_buffer(top_pps)  # with the throughput as it is searched
    assert found.buffer_frames == pytest.approx(500, rel=0.01)
    assert found.resolution_frames is not None
    assert abs(found.buffer_frames - 500) <= found.resolution_frames


def test_a_burst_no_faster_than_the_throughput_shows_no_buffer() -> None:
    found = bench_buffer(0.9e6)
    assert found.buffer_frames is None
    assert "its buffer is not seen" in found.reason


def test_a_throughput_known_from_below_gives_no_buffer() -> None:
    session = SimulatedSession(steady(buffer_frames=500))
    below = TRUE_NDR.model_copy(update={"upper_pps": None, "limited_by": "tester"})
    back_to_back(session, spec("back-to-back"), TrafficSpec(), below)
    figures = session.figures[BACK_TO_BACK]
    assert figures["corrected_buffer_frames"] is None
    assert "only known from below" in figures["reason"]


def test_a_burst_that_did_not_leave_whole_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A box without an end to its buffer, and a tester that ends each burst after 3,000 frames."""
    whole = FakeTester.run

    def cut(self: FakeTester, context: TesterContext, trial: TrialSpec) -> TrialResult:
        result = whole(self, context, trial)
        (only,) = result.streams
        few = min(only.sent, 3000)
        return result.model_copy(update={"streams": (only.model_copy(update={"sent": few, "received": few}),)})

    monkeypatch.setattr(FakeTester, "run", cut)
    session = SimulatedSession(steady(buffer_frames=10**9))
    back_to_back(session, spec("back-to-back"), TrafficSpec(), TRUE_NDR)
    figures = session.figures[BACK_TO_BACK]
    assert all(2900 < frames <= 3000 for frames in figures["frames"])
    assert figures["limited_by"] == "tester"


def test_a_burst_with_a_pause_is_not_back_to_back() -> None:
    """The box has no end to its buffer; the sender stands still for a twentieth of each burst."""
    session = SimulatedSession(steady(buffer_frames=10**9, sender_stall_ratio=0.05))
    back_to_back(session, spec("back-to-back"), TrafficSpec(), TRUE_NDR)
    figures = session.figures[BACK_TO_BACK]
    assert (figures["limited_by"], figures["burst_rate_pps"]) == ("tester", None)
    assert figures["reason"] == "no burst of 64 frames or more left the tester whole"


# clauses that lack something


def test_without_a_throughput_the_other_clauses_are_measured_and_say_so() -> None:
    session = SimulatedSession(Box(loss_floor=0.01))
    Rfc2544(spec("rfc2544", loss_ratios=(0.0,))).measure(session, TrafficSpec())
    reason = "it needs a throughput above zero; the forwarder lost frames at the lowest load"
    without = {clause for clause, figures in session.figures.items() if figures.get("unsupported") == reason}
    assert without == {"RFC 2544 26.2", BACK_TO_BACK, RECOVERY}
    assert session.figures["RFC 2544 26.3"]["points"]
    assert RESET in session.figures


def test_recovery_without_overload_is_none() -> None:
    overloaded, idle = SimulatedSession(steady()), SimulatedSession(steady())
    disruption.recovery(overloaded, spec("recovery"), TrafficSpec(), 1e6)
    disruption.recovery(idle, spec("recovery"), TrafficSpec(), 0.5e6)
    assert overloaded.figures[RECOVERY]["recovery_us"] == 0
    assert overloaded.figures[RECOVERY]["overload_pps"] == pytest.approx(1.1e6)
    assert idle.figures[RECOVERY]["recovery_us"] is None
    assert idle.figures[RECOVERY]["reason"] == "was not overloaded: no frame was lost at 550000 pps"


# reset


def test_what_the_suite_does_between_stop_and_start_is_not_the_forwarders(
    cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A forwarder that takes 20 ms to stop and 30 ms to start reads 50 ms, however long the suite waits between."""
    up: list[bool] = []
    monkeypatch.setattr(FakeForwarder, "stop", lambda self: (up.clear(), time.sleep(0.02)))
    monkeypatch.setattr(FakeForwarder, "start", lambda self, dut: (time.sleep(0.03), up.append(True)))
    played = FakeTester.run

    def watch(self: FakeTester, context: TesterContext, trial: TrialSpec) -> TrialResult:
        result = played(self, context, trial)
        if trial.duration_s != _RESET_S:
            return result
        while up:
            time.sleep(0.0002)
        began = time.monotonic_ns()
        while not up:
            time.sleep(0.0002)
        gap: dict[str, Any] = {"longest_gap_ns": time.monotonic_ns() - began}
        return result.model_copy(update={"streams": (result.streams[0].model_copy(update=gap),)})

    monkeypatch.setattr(FakeTester, "run", watch)
    monkeypatch.setattr(disruption, "scale_of", lambda spec: QUICK.__class__(**{**vars(QUICK), "reset_s": _RESET_S}))
    found = {}
    for wait_s in (0.05, 0.25):
        monkeypatch.setattr(visit, "_QUEUE_RELEASE_S", wait_s)
        name = f"reset-{wait_s * 1000:.0f}"
        study = studies.study_file(tmp_path, name=name, forwarders="fake", repetitions=1, method={"name": "reset"})
        assert not cli("run", study).complaints
        (folder,) = [each for each in (tmp_path / "results").iterdir() if each.name.startswith(name)]
        (found[wait_s],) = [each.figures for each in studies.RunFolder(folder).trials() if each.clause == RESET
                            and each.purpose == "figures"]  # fmt: skip
    for wait_s, figures in found.items():
        assert figures["own_us"] >= wait_s * 1e6
        assert figures["gap_us"] == pytest.approx(figures["own_us"] + figures["reset_us"])
        assert 48e3 < figures["reset_us"] < 80e3


#: Unlike the length of any other trial.
_RESET_S = 0.61


def test_a_gap_shorter_than_the_suites_own_part_is_no_time_of_reset() -> None:
    class Restarted(SimulatedSession):
        def trial(self, *args: Any, **more: Any) -> TrialResult:
            result = super().trial(*args, **more)
            streams = tuple(each.model_copy(update={"longest_gap_ns": 9_000_000}) for each in result.streams)
            return result.model_copy(update={"streams": streams, "restart_own_ns": 50_000_000})

    session = Restarted(steady())
    disruption.reset(session, spec("reset"), TrafficSpec(), 1e6)
    figures = session.figures[RESET]
    assert (figures["gap_us"], figures["own_us"], figures["reset_us"]) == (9000, 50_000, None)
    assert "while it was stopped" in figures["reason"]


# figures of repetitions


def found(limited_by: str = "forwarder", ratio: float = 0.0, **more: Any) -> TrialRecord:
    """A search that ended at 334 kpps in each of two directions."""
    bound = {"loss_ratio": ratio, "throughput_pps": 334e3, "lower_pps": 334e3, "upper_pps": 337e3}
    steps = [{"load_pps": pps, "duration_s": 0.5, "offered_pps": pps, "sent": 9, "lost": 0} for pps in (2e3, 334e3)]
    figures = {"preset": "quick", "steps": steps, "traffic_s": 9.0, "directions": 2, "top_load_pps": 5e6,
               "line_rate_bps": None, "bounds": [{**bound, "limited_by": limited_by, **more}]}  # fmt: skip
    return record(AT, purpose="figures", clause="RFC 2544 26.1", figures=figures)


def curve(*points: tuple[float, float], status: str = "ok") -> list[TrialRecord]:
    """Trials of a loss curve: load in pps over all directions, and what share was lost."""
    trials = []
    for number, (pps, share) in enumerate(points):
        stream = StreamResult(
            kind="load", frame_bytes=64, offered_pps=pps, intended=100_000, sent=100_000, achieved_pps=pps,
            received=round(100_000 * (1 - share)), lost=round(100_000 * share), rx_pps=pps * (1 - share),
        )  # fmt: skip
        result = TrialResult(tester="fake", sender="fake", elapsed_s=1.0, streams=(stream,))
        more = {"purpose": "search", "clause": "RFC 2544 26.3", "trial": 100 + number, "offered_pps": pps}
        trials.append(record(AT, status=status, result=result, **more))
    return trials


def record(at: Point, **fields: Any) -> TrialRecord:
    given = {"point_id": at.id, "repetition": 0, "status": "ok", "started": "2026-01-02T03:04:05.678+00:00"}
    return TrialRecord(**{**given, **fields})


def test_a_throughput_below_the_lowest_load_is_zero_and_at_most_that_load() -> None:
    (one,) = throughput_repetitions([found("below-minimum", throughput_pps=None, lower_pps=None)])
    assert (one.ndr_pps, one.limited_by, one.at_most) == (0.0, {"ndr_pps": "below-minimum"}, {"ndr_pps": 4e3})


@pytest.mark.parametrize("limited_by", ["forwarder", "tester", "budget"])
def test_who_set_a_throughput_and_what_it_resolves_go_with_it(limited_by: str) -> None:
    (one,) = throughput_repetitions([found(limited_by)])
    assert (one.ndr_pps, one.limited_by, one.doubts) == (668e3, {"ndr_pps": limited_by}, {})
    assert one.resolution == {"ndr_pps": 0.01}


def test_a_search_that_found_no_load_good_has_no_figure() -> None:
    (one,) = throughput_repetitions([found("tester", throughput_pps=None, lower_pps=None, upper_pps=None)])
    assert one.ndr_pps is None
    assert one.doubts == {"ndr_pps": "no load was found good: limited by the tester"}


def test_a_throughput_with_tolerated_loss_is_no_ndr() -> None:
    (one,) = throughput_repetitions([found(ratio=0.005)])
    assert (one.ndr_pps, one.pdr_pps, one.pdr_loss_ratio) == (None, 668e3, 0.005)
    assert one.limited_by == {"pdr_pps": "forwarder"}


@pytest.mark.parametrize(("overloaded", "limited_by"), [(True, "forwarder"), (False, "tester")])
def test_a_forwarding_rate_without_overload_is_the_testers(overloaded: bool, limited_by: str) -> None:
    clause = "RFC 2285 3.6.1"
    flood = curve((1e6, 0.2))[0].model_copy(update={"clause": clause})
    figures = {"forwarding_rate_pps": 8e5, "overloaded": overloaded}
    (one,) = throughput_repetitions([flood, record(AT, purpose="figures", clause=clause, figures=figures), found()])
    assert one.limited_by == {"forwarding_rate_pps": limited_by, "ndr_pps": "forwarder"}
    assert one.resolution == {"forwarding_rate_pps": 1 / 80_000, "ndr_pps": 0.01}


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
        pytest.param(curve(LOST[0], status="disturbed"), False, id="one disturbed trial"),
        pytest.param(curve(*LOST, status="disturbed"), True, id="two disturbed trials"),
        pytest.param([*curve(LOST[0], status="disturbed"), *curve((380e3, 0.0))], False, id="a quiet second attempt"),
    ],
)
def test_a_loss_curve_contradicts_a_search(trials: list[TrialRecord], contradicted: bool) -> None:
    whole = [found(), *trials]
    (bound,) = rfc2544_figures(whole)["throughput"]["bounds"]
    (one,) = throughput_repetitions(whole)
    assert bool(bound["contradicted_by"]) == contradicted
    assert bool(one.doubts) == contradicted


def test_tolerated_loss_contradicts_nothing() -> None:
    (one,) = throughput_repetitions([found(ratio=0.1), *curve((180e3, 0.07))])
    assert not one.doubts


def test_a_contradicted_throughput_is_not_printed_as_a_fact() -> None:
    page = text_of([found(), *curve(*LOST)])
    assert "not a fact 668 by the search" in page
    assert "NDR: the search found 668 kpps, but the loss curve of the same visit lost 24 % at 380 kpps" in page


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


@pytest.mark.parametrize(("drain_s", "said"), [(2.0, False), (0.1, True)])
def test_the_report_says_what_of_the_rests_is_not_kept(drain_s: float, said: bool) -> None:
    page = text_of([found()], drain_s=drain_s)
    assert "Deviates from §23: the next trial begins without a rest of 5 s" in page
    assert ("late frames are waited for 0.1 s at the most (2 s asked)" in page) == said


def test_frames_are_waited_for_as_long_as_the_rfc_asks() -> None:
    assert spec("throughput").drain_s == 2.0


def test_the_report_says_why_a_figure_is_not_there(
    cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tester that sends 0.9 Mpps beside a forwarder of 1 Mpps: no overload, no buffer, a throughput from below."""
    monkeypatch.setattr(disruption, "scale_of", lambda spec: QUICK.__class__(**{**vars(QUICK), "reset_s": 0.02}))
    slow = "fake:capacity_pps=1000000,jitter_ratio=0,tester_top_pps=900000"
    study = studies.study_file(tmp_path, forwarders=slow, repetitions=1, method={"name": "rfc2544"})
    assert not cli("run", study).complaints
    folder = studies.only_run(tmp_path / "results")
    page = plain(render(folder.load(), folder.trials()))
    assert "≥ 900" in page
    assert "no buffer is given; the forwarder forwards bursts of 900000 pps as they arrive" in page
    assert "no time of recovery; was not overloaded: no frame was lost at 900000 pps" in page
    (row,) = summarise(folder.load(), folder.trials())
    assert [at["achieved_pps"] for at in row.figures["latency"]][-1] == pytest.approx(9e5, rel=0.001)


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


def spec(name: str, **fields: Any) -> Rfc2544Spec:
    return Rfc2544Spec.model_validate({"name": name, **fields})
