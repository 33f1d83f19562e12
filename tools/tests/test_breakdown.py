# SPDX-License-Identifier: Apache-2.0
"""From time stamps of the probes to stages, and the method that takes them, on a simulated probe stream."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab.reading import render
from lab.records import point, result, run_record, stream

from xdplab.analysis import answer, summarise
from xdplab.forwarders.base import ProbeTarget, probes_of
from xdplab.measure import TrialFigures, make_method
from xdplab.model import StudySpec, TrafficSpec, TrialRecord, TrialResult, TrialSpec, Unsupported
from xdplab_timeline import recorders
from xdplab_timeline.batches import STAGES, ProbeRecords, StageTimes, stage_times, traced_times
from xdplab_timeline.breakdown import BreakdownFigures, BreakdownSpec
from xdplab_timeline.recorders import one_in

COLUMNS = ("begun", "received", "queued", "kicked", "reaped", "frames", "sent")
Record = tuple[int, int, int, int, int, int, int]


def simulated(count: int, wait_ns: float = 400, switch_ns: float = 900, kick_ns: float = 1500) -> list[Record]:
    """Batches of a PMD thread whose stages take about that long, one in fifty with a stall in the kick."""
    chance = random.Random(7)
    records, now = [], 10_000_000
    for number in range(count):
        stages = [round(mean * chance.uniform(0.9, 1.1)) for mean in (wait_ns, switch_ns, kick_ns)]
        if number % 50 == 0:
            stages[2] += 50_000
        received = now + stages[0]
        queued = received + stages[1]
        records.append((now, received, queued, queued + stages[2], 98_000 if number else 0, 1, 1))
        now += 100_000
    return records


def records_of(count: int, **stages: float) -> ProbeRecords:
    return ProbeRecords(COLUMNS, simulated(count, **stages), batches=count, unmatched=0, unsent=0, full=0)


def times_of(found: ProbeRecords) -> StageTimes:
    times = stage_times(found)
    assert times is not None
    return times


def test_the_stages_of_a_median_batch_add_up_to_its_whole_way() -> None:
    found = times_of(records_of(2000))
    typical = dict(found.typical_us.p50)
    assert tuple(typical) == tuple(STAGES)
    assert typical == {
        "wait": pytest.approx(0.4, rel=0.05),
        "switch": pytest.approx(0.9, rel=0.05),
        "kick": pytest.approx(1.5, rel=0.05),
    }
    assert sum(typical.values()) == pytest.approx(found.whole_us.p50, rel=0.01)
    assert found.reaped_us == 98.0
    assert (found.batches, found.frames_per_batch) == (2000, 1.0)


def test_a_stall_of_one_stage_shows_in_that_stage_at_p99_alone() -> None:
    found = times_of(records_of(2000))
    assert found.typical_us.p99.kick > 40
    assert found.typical_us.p99.wait < 0.5
    assert found.stage_us.kick.p99 > 40 > found.stage_us.switch.p99


def test_batches_whose_redirect_was_not_seen_are_counted_and_left_out() -> None:
    unknown = (0, 5_000, 6_000, 7_000, 0, 3, 3)
    found = times_of(ProbeRecords(COLUMNS, [unknown, *simulated(100)], batches=101, unmatched=1, unsent=0, full=0))
    assert (found.seen, found.batches, found.unmatched) == (101, 100, 1)


@given(st.permutations(COLUMNS))
def test_columns_are_known_by_their_names(columns: list[str]) -> None:
    records = [[dict(zip(COLUMNS, record, strict=True))[name] for name in columns] for record in simulated(50)]
    counts = {"batches": 50, "unmatched": 0, "unsent": 0, "full": 0}
    found = ProbeRecords.of({"columns": columns, "records": records, **counts})
    assert stage_times(found) == stage_times(records_of(50))
    assert traced_times(found) == traced_times(records_of(50))


@given(count=st.integers(1, 60))
def test_however_few_batches_there_are_each_percentile_has_one(count: int) -> None:
    typical = times_of(records_of(count)).typical_us
    for means in (typical.p50, typical.p99):
        assert all(value > 0 for _, value in means), means  # NaN is not


def test_without_a_record_there_are_no_times() -> None:
    assert stage_times(records_of(0)) is None


class FakeSession:
    """Answers trials with a latency that is longer while the probes are attached, and journals."""

    forwarder: Any
    dut: Any = None
    ceiling_pps = 1e6

    def __init__(self, records: list[TrialRecord]) -> None:
        self.forwarder = self
        self.records = records
        self.attached = 0
        self.at = point("fake")

    def probes(self, dut: Any) -> ProbeTarget:
        return ProbeTarget("/opt/ovs/ovs-vswitchd", 1, 2, "b0")

    def trial(self, spec: TrialSpec, purpose: Any = "measure", clause: str = "", **_: Any) -> TrialResult:
        latency = 3_000 if self.attached else 2_000
        reported = result(stream([latency - 1, latency, latency + 1]))
        self._journal(purpose=purpose, clause=clause, asked=spec, result=reported, trial=len(self.records))
        return reported

    def let_others(self) -> None:
        """It stands alone."""

    def record_figures(self, clause: str, figures: TrialFigures) -> None:
        self._journal(purpose="figures", clause=clause, figures=figures.journaled())

    def progress(self, text: str) -> None:
        pass

    def _journal(self, **fields: Any) -> None:
        started = "2026-01-02T03:04:05.678+00:00"
        self.records.append(TrialRecord(point_id=self.at.id, repetition=0, status="ok", started=started, **fields))


SPEC = {"name": "breakdown", "rates_pps": [10_000, 400_000], "pairs": 3}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A session whose probes give a simulated stream, and which saw how dense a record was asked for."""
    made = FakeSession([])

    @contextmanager
    def probed(dut: Any, target: ProbeTarget, recorder: str, every: int) -> Iterator[Callable[[], ProbeRecords]]:
        made.attached += 1
        yield lambda: getattr(made, "batches", records_of(500))
        made.attached -= 1

    monkeypatch.setattr(recorders, "probed", probed)
    return made


def test_each_rate_is_measured_in_pairs_without_and_with_the_probes(session: FakeSession) -> None:
    made = make_method(BreakdownSpec.model_validate(SPEC))
    made.measure(session, TrafficSpec())
    assert session.attached == 0
    clauses = [record.clause for record in session.records if record.result]
    without, traced = "breakdown 10000 without", "breakdown 10000 with"
    assert clauses[:6] == [without, traced, traced, without, without, traced]
    assert len(clauses) == 12 == len(made.trial_seconds(TrafficSpec()))
    assert [record.purpose for record in session.records if record.result].count("measure") == 1


def test_the_summary_holds_stages_and_what_the_probes_cost(session: FakeSession) -> None:
    make_method(BreakdownSpec.model_validate(SPEC)).measure(session, TrafficSpec())
    session.records.append(session.records[-1].model_copy(update={"purpose": "end", "clause": "", "figures": {}}))
    run = run_record(session.at, study={"method": SPEC})
    (summary,) = summarise(run, session.records)
    assert (summary.status, summary.repetitions) == ("ok", 1)
    assert summary.p50_us == pytest.approx(2.0, rel=0.01)
    low, high = summary.model_dump()["figures"]["breakdown"]
    assert (low["rate_pps"], high["rate_pps"], low["pairs"]) == (10_000, 400_000, 3)
    assert low["without_us"]["p50_us"] == pytest.approx(2.0, rel=0.01)
    assert low["with_us"]["p50_us"] == pytest.approx(3.0, rel=0.01)
    assert low["cost"]["ratio"] == pytest.approx(1.5, rel=0.01)
    assert low["batches"] == 1500
    assert low["probe_cost_us"] == pytest.approx(0.5, rel=0.02)  # two probes are on a frame's way
    less = {stage: low["typical_us"]["p50"][stage] - low["typical_less_us"][stage] for stage in STAGES}
    assert less == {"wait": pytest.approx(0.25, rel=0.02), "switch": pytest.approx(0.5, rel=0.02),
                    "kick": pytest.approx(0.5, rel=0.02)}  # fmt: skip
    assert answer(run, [summary]).sentence.startswith("fake, median frame at 400 kpps: wait 0.15 µs, switch 0.40 µs")
    html = render(run, session.records)
    for words in ("Where a frame's time goes", "with probes", "kick", "frames<br>per batch"):
        assert words in html
    assert "Throughput (RFC 2544" not in html


def test_where_frames_share_a_batch_no_cost_is_taken_off(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = [(*record[:5], 3, 3) for record in simulated(500)]
    monkeypatch.setattr(session, "batches", ProbeRecords(COLUMNS, crowded, 500, 0, 0, 0), raising=False)
    make_method(BreakdownSpec.model_validate(SPEC)).measure(session, TrafficSpec())
    (summary,) = summarise(run_record(session.at, study={"method": SPEC}), session.records)
    assert {(one["probe_cost_us"], one["typical_less_us"]) for one in summary.model_dump()["figures"]["breakdown"]} == {
        (None, None)
    }
    said = answer(run_record(session.at, study={"method": SPEC}), [summary]).text()
    assert said.startswith("No answer: at no rate was a frame alone in its batch")
    assert "At 10 kpps a batch held 3 frames: lower rates_pps" in said


def test_no_answer_says_what_was_wrong(session: FakeSession) -> None:
    make_method(BreakdownSpec.model_validate(SPEC)).measure(session, TrafficSpec())
    run = run_record(session.at, study={"method": SPEC})
    (summary,) = summarise(run, session.records)
    without = {"typical_less_us": None, "probe_cost_us": None}
    noisy = [one.model_copy(update=without) for one in BreakdownFigures.of(summary).breakdown]
    said = answer(run, [summary.model_copy(update={"figures": BreakdownFigures(breakdown=noisy)})]).text()
    assert "took no longer with the probes than without" in said
    refused = summary.model_copy(update={"figures": BreakdownFigures(), "reason": "it has none: build it"})
    assert answer(run, [refused]).text() == "No answer: nothing was traced.\n  fake: it has none: build it."


def test_rates_above_the_room_for_records_are_thinned() -> None:
    assert (one_in(400_000, 0.6), one_in(1000, 0.6)) == (8, 1)
    spec = StudySpec.model_validate({"name": "x", "forwarders": ["ovs-afxdp"], "method": SPEC})
    assert spec.method == BreakdownSpec.model_validate(SPEC)


def test_a_forwarder_without_probes_is_unsupported() -> None:
    from xdplab.forwarders import make_forwarder
    from xdplab.model import ForwarderSpec

    with pytest.raises(Unsupported, match="fake: it has no probes"):
        probes_of(make_forwarder(ForwarderSpec(name="fake")), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("batches", [1, 2, 3, 7])
def test_few_batches_still_have_a_typical_one(batches: int) -> None:
    records = [[1000, 2000 + 10 * n, 3000 + 10 * n, 4000 + 100 * n, 0, 1, 1] for n in range(batches)]
    typical = times_of(ProbeRecords(COLUMNS, records, batches, 0, 0, 0)).typical_us
    for means in (typical.p50, typical.p99):
        assert sum(value for _, value in means) == pytest.approx(3.0, rel=0.5)


def test_stages_of_two_pairs_of_trials_are_no_answer(session: FakeSession) -> None:
    spec = {**SPEC, "pairs": 2}
    make_method(BreakdownSpec.model_validate(spec)).measure(session, TrafficSpec())
    run = run_record(session.at, study={"method": spec})
    found = answer(run, summarise(run, session.records))
    assert not found.decided
    assert found.sentence == "No answer: 2 pairs of trials, 3 are needed."
    assert found.details[0].startswith("fake, median frame at ")


def test_a_rate_without_a_pair_of_trials_has_stages_and_no_comparison(session: FakeSession) -> None:
    make_method(BreakdownSpec.model_validate(SPEC)).measure(session, TrafficSpec())
    left = [each for each in session.records if each.result is None or each.clause != "breakdown 400000 without"]
    run = run_record(session.at, study={"method": SPEC})
    (summary,) = summarise(run, left)
    assert [one.pairs for one in BreakdownFigures.of(summary).breakdown] == [3, 0]
    assert "Where a frame's time goes" in render(run, left)
