# SPDX-License-Identifier: Apache-2.0
"""The clauses of RFC 2544 on simulated boxes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done

from dev.bench_search import SimulatedSession, bench_buffer, steady
from xdplab.forwarders.fake import Box, FakeForwarder
from xdplab.methods.rfc2544 import Rfc2544, clauses
from xdplab.methods.rfc2544.clauses import back_to_back
from xdplab.methods.rfc2544.records import Bound, RecoveryRecord, ResetRecord, UnsupportedClause
from xdplab.methods.rfc2544.spec import QUICK, Rfc2544Spec
from xdplab.model import (
    StreamSpec,
    TrafficSpec,
    TrialResult,
    TrialSpec,
)
from xdplab.runner import session
from xdplab.testers import TesterContext
from xdplab.testers.fake import FakeTester, Sender, flow

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
    assert figures.burst_rate_pps == pytest.approx(top_pps, rel=0.001)
    assert figures.corrected_buffer_frames == pytest.approx(500, rel=0.01)
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
    assert figures.corrected_buffer_frames is None
    assert "only known from below" in figures.reason


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
    assert all(2900 < frames <= 3000 for frames in figures.frames)
    assert figures.limited_by == "tester"


def test_a_burst_with_a_pause_is_not_back_to_back() -> None:
    """The box has no end to its buffer; the sender stands still for a twentieth of each burst."""
    session = SimulatedSession(steady(buffer_frames=10**9, sender_stall_ratio=0.05))
    back_to_back(session, spec("back-to-back"), TrafficSpec(), TRUE_NDR)
    figures = session.figures[BACK_TO_BACK]
    assert (figures.limited_by, figures.burst_rate_pps) == ("tester", None)
    assert figures.reason == "no burst of 64 frames or more left the tester whole"


# clauses that lack something


def test_without_a_throughput_the_other_clauses_are_measured_and_say_so() -> None:
    session = SimulatedSession(Box(loss_floor=0.01))
    Rfc2544(spec("rfc2544", loss_ratios=(0.0,))).measure(session, TrafficSpec())
    reason = "it needs a throughput above zero; the forwarder lost frames at the lowest load"
    without = {
        clause for clause, figures in session.figures.items() if figures == UnsupportedClause(unsupported=reason)
    }
    assert without == {"RFC 2544 26.2", BACK_TO_BACK, RECOVERY}
    assert session.figures["RFC 2544 26.3"].points
    assert RESET in session.figures


def test_recovery_without_overload_is_none() -> None:
    overloaded, idle = SimulatedSession(steady()), SimulatedSession(steady())
    clauses.recovery(overloaded, spec("recovery"), TrafficSpec(), 1e6)
    clauses.recovery(idle, spec("recovery"), TrafficSpec(), 0.5e6)
    assert overloaded.figures[RECOVERY].recovery_us == 0
    assert overloaded.figures[RECOVERY].overload_pps == pytest.approx(1.1e6)
    assert idle.figures[RECOVERY].recovery_us is None
    assert idle.figures[RECOVERY].reason == "was not overloaded: no frame was lost at 550000 pps"


# reset


def test_what_the_suite_does_between_stop_and_start_is_not_the_forwarders(
    cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A forwarder that takes 20 ms to stop and 30 ms to start reads 50 ms, however long the suite waits between."""
    up: list[bool] = []
    at = {"down": 0, "up": 0}

    def stop(self: FakeForwarder) -> None:
        at["down"] = time.monotonic_ns()
        up.clear()
        time.sleep(0.02)

    def start(self: FakeForwarder, dut: object) -> None:
        time.sleep(0.03)
        at["up"] = time.monotonic_ns()
        up.append(True)

    monkeypatch.setattr(FakeForwarder, "stop", stop)
    monkeypatch.setattr(FakeForwarder, "start", start)
    played = FakeTester.run

    def watch(self: FakeTester, context: TesterContext, trial: TrialSpec) -> TrialResult:
        result = played(self, context, trial)
        if trial.duration_s != _RESET_S:
            return result
        while up:
            time.sleep(0.0002)
        while not up:
            time.sleep(0.0002)
        gap: dict[str, Any] = {"longest_gap_ns": at["up"] - at["down"]}
        return result.model_copy(update={"streams": (result.streams[0].model_copy(update=gap),)})

    monkeypatch.setattr(FakeTester, "run", watch)
    monkeypatch.setattr(clauses, "scale_of", lambda spec: QUICK.__class__(**{**vars(QUICK), "reset_s": _RESET_S}))
    found = {}
    for wait_s in (0.05, 0.25):
        monkeypatch.setattr(session, "wait_for_queues", lambda *_, wait_s=wait_s: time.sleep(wait_s))
        name = f"reset-{wait_s * 1000:.0f}"
        study = studies.study_file(tmp_path, name=name, forwarders="fake", repetitions=1, method={"name": "reset"})
        assert not cli("run", study).complaints
        (folder,) = [each for each in (tmp_path / "results").iterdir() if each.name.startswith(name)]
        (found[wait_s],) = [each.figures for each in studies.RunFolder(folder).trials() if each.clause == RESET
                            and each.purpose == "figures"]  # fmt: skip
    for wait_s, figures in found.items():
        assert figures["own_us"] >= wait_s * 1e6
        assert figures["gap_us"] == pytest.approx(figures["own_us"] + figures["reset_us"])
        assert 48e3 < figures["reset_us"] < 150e3  # a busy machine sleeps longer


#: Unlike the length of any other trial.
_RESET_S = 0.61


def test_a_gap_shorter_than_the_suites_own_part_is_no_time_of_reset() -> None:
    class Restarted(SimulatedSession):
        def trial(self, *args: Any, **more: Any) -> TrialResult:
            result = super().trial(*args, **more)
            streams = tuple(each.model_copy(update={"longest_gap_ns": 9_000_000}) for each in result.streams)
            return result.model_copy(update={"streams": streams, "restart_own_ns": 50_000_000})

    session = Restarted(steady())
    clauses.reset(session, spec("reset"), TrafficSpec(), 1e6)
    figures = session.figures[RESET]
    assert (figures.gap_us, figures.own_us, figures.reset_us) == (9000, 50_000, None)
    assert "while it was stopped" in figures.reason


def test_gaps_of_frames_that_arrived_on_several_cpus_are_no_time_of_reset() -> None:
    class Restarted(SimulatedSession):
        def trial(self, *args: Any, **more: Any) -> TrialResult:
            result = super().trial(*args, **more)
            lost = {"longest_gap_ns": None, "lost": 5}
            streams = tuple(
                each.model_copy(update={**lost, "received": each.sent - 5, "trailing_lost": 0})
                for each in result.streams
            )
            return result.model_copy(update={"streams": streams, "restart_own_ns": 1})

    session = Restarted(steady())
    clauses.reset(session, spec("reset"), TrafficSpec(), 1e6)
    figures = session.figures[RESET]
    assert (figures.gap_us, figures.reset_us, figures.came_back) == (None, None, True)
    assert "several CPUs" in figures.reason


# frames that the tester itself did not send


class Planted(SimulatedSession):
    """Streams with `fields` as given; `steady` boxes lose nothing of what is offered below their capacity."""

    def __init__(self, *tails: dict[str, Any], **more: Any) -> None:
        super().__init__(steady())
        self._tails, self._more = tails, more

    def trial(self, spec: TrialSpec, *args: Any, **more: Any) -> TrialResult:
        """A whole trial sends what it was asked for, but for what the stream's fields say."""
        result = super().trial(spec, *args, **more)
        first = len(result.streams) - len(self._tails)
        streams = list(result.streams)
        for index, given in enumerate(self._tails, first):
            away = given.get("tx_drops") or 0
            sent = streams[index].intended - away - given.get("skipped", 0) - given.get("refused", 0)
            fields = {"sent": sent, "received": sent - given.get("lost", 0), **given}
            fields.pop("refused", None)
            streams[index] = streams[index].model_copy(update=fields)
        return result.model_copy(update={"streams": tuple(streams), **self._more})


def recovered(**tail: Any) -> RecoveryRecord:
    """Of a second at 550 kpps behind an overload in which frames were lost."""
    session = Planted(tail)
    clauses.recovery(session, spec("recovery"), TrafficSpec(), 1e6)
    found = session.figures[RECOVERY]
    assert isinstance(found, RecoveryRecord)
    assert (found.overloaded, found.reason) == (True, "")
    return found


_FRAME_US = 1e6 / 550_000


@pytest.mark.parametrize(
    ("tail", "frames", "limited_by"),
    [
        # the forwarder's own: the 100,000th frame is the last that is missing
        ({"lost": 100_000, "last_lost": 99_999}, 100_000, "forwarder"),
        # 500 of those missing are drops of the card: one of them may be the last
        ({"lost": 99_500, "tx_drops": 500, "last_lost": 299_999}, 300_000, "tester"),
        # all that left arrived, so that each of those missing is the card's
        ({"lost": 0, "tx_drops": 500, "last_lost": 299_999}, 0, "forwarder"),
        # a number says when its frame left, give or take what has none
        ({"lost": 100_000, "last_lost": 99_999, "skipped": 55_000}, 100_000 / 0.9 + 55_000 / 0.9, "tester"),
        ({"lost": 100_000, "last_lost": 99_999, "refused": 55_000}, 100_000 / 0.9 + 55_000 / 0.9, "tester"),
        # 0.2 % of the time is less than a load's tolerance
        ({"lost": 100_000, "last_lost": 99_999, "skipped": 200}, 100_236.4, "forwarder"),
    ],
    ids=["own", "card's drops", "only the card's drops", "skipped", "refused", "few skipped"],
)
def test_what_the_tester_did_not_send_is_not_the_forwarders_recovery(
    tail: dict[str, Any], frames: float, limited_by: str
) -> None:
    found = recovered(**tail)
    assert found.recovery_us == pytest.approx(frames * _FRAME_US, rel=1e-5)
    assert found.limited_by == limited_by


def test_the_time_of_recovery_is_no_longer_than_the_load_that_shows_it() -> None:
    found = recovered(lost=10, last_lost=200_000, skipped=340_000)
    assert (found.recovery_us, found.limited_by) == (1e6, "tester")


def restarted(**fields: Any) -> ResetRecord:
    """Of a trial at 200 kpps with a gap of 100 ms, half of it the suite's own."""
    session = Planted({"longest_gap_ns": 100_000_000, **fields}, restart_own_ns=50_000_000)
    clauses.reset(session, spec("reset"), TrafficSpec(), 1e6)
    found = session.figures[RESET]
    assert isinstance(found, ResetRecord)
    return found


@pytest.mark.parametrize(
    ("fields", "limited_by"),
    [
        ({"lost": 20_000}, "forwarder"),
        ({"lost": 19_000, "tx_drops": 1_000}, "tester"),
        ({"lost": 19_000, "skipped": 1_000}, "tester"),
        ({"lost": 19_000, "refused": 1_000}, "tester"),
        ({"lost": 20_000, "skipped": 40}, "forwarder"),  # 0.2 ms of 50
        # the drops of the card behind the last frame that arrived say nothing against the forwarder
        ({"lost": 0, "tx_drops": 1_000, "trailing_lost": 1_000}, "tester"),
    ],
    ids=["own", "card's drops", "skipped", "refused", "few skipped", "drops at the end"],
)
def test_a_gap_that_the_tester_may_have_made_longer_is_the_most_that_a_reset_took(
    fields: dict[str, Any], limited_by: str
) -> None:
    found = restarted(**fields)
    assert (found.reset_us, found.limited_by) == (50_000, limited_by)
    assert (found.came_back, found.reason) == (True, "")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lost": 20_000, "trailing_lost": 1}, "did not come back"),
        ({"lost": 20_000, "tx_drops": 10, "trailing_lost": 11}, "did not come back"),
        ({"lost": 20_000, "tx_drops": 10, "trailing_lost": 10}, "the tester's own card dropped frames at the end"),
    ],
)
def test_whether_it_came_back_is_not_known_where_the_last_frames_may_be_the_cards_drops(
    fields: dict[str, Any], said: str
) -> None:
    found = restarted(**fields)
    assert (found.gap_us, found.reset_us, found.came_back) == (None, None, False)
    assert said in found.reason


def spec(name: str, **fields: Any) -> Rfc2544Spec:
    return Rfc2544Spec.model_validate({"name": name, **fields})
