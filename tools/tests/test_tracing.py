# SPDX-License-Identifier: Apache-2.0
"""What each way of tracing costs: the method on a forwarder that slows down as told, its figures and the report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lab.reading import render
from lab.records import point, result, run_record, stream, trial

from xdplab import app
from xdplab.analysis import answer, summarise
from xdplab.forwarders import make_forwarder
from xdplab.forwarders.base import ProbeTarget
from xdplab.measure import TrialFigures, make_method
from xdplab.model import (
    ForwarderSpec,
    InputError,
    Interrupted,
    PointFailed,
    StudySpec,
    TrafficSpec,
    TrialRecord,
    TrialResult,
    TrialSpec as Trial,
    Unsupported,
)
from xdplab.stats import Difference, difference_interval
from xdplab.tools import project_root
from xdplab_timeline import recorders
from xdplab_timeline.batches import ProbeRecords, TracedTimes, traced_times
from xdplab_timeline.traced import paired_trials
from xdplab_timeline.tracing import TracingSpec, verdict

SPEC = {"name": "tracing", "rates_pps": [10_000], "pairs": 4, "published": "understanding-delays-afxdp"}
#: What a way costs in ns.
COSTS = {"in-band": 50, "bpf": 1200, "perf": 3000}
COLUMNS = ["begun", "received", "queued", "kicked", "reaped", "frames", "sent"]
RECORDS = [[at, at + 900, at + 1000, at + 2500, 0, 1, 1] for at in range(10_000, 1_000_000, 10_000)]


def records(first: bool = True) -> dict[str, Any]:
    found = [record if first else [0, *record[1:]] for record in RECORDS]
    return {"columns": COLUMNS, "records": found, "batches": len(found), "unmatched": 0, "unsent": 0, "full": 0}


class Session:
    """Its forwarder takes 2 us, and what its tracer costs; a little more with each trial."""

    dut: Any = None
    ceiling_pps = 1e6
    cannot: dict[str, str] = {}

    def __init__(self, spread_ns: int = 0) -> None:
        self.forwarder: Any = self
        self.records: list[TrialRecord] = []
        self.at = point("xsk")
        self.way: str | None = None
        self.spread_ns = spread_ns
        #: What its own recording tells instead of `records()`.
        self.reported: dict[str, Any] = {}
        #: Recorder -> why it cannot begin, or end.
        self.refused: dict[str, Exception] = {}
        self.ends_badly: dict[str, Exception] = {}

    def probes(self, dut: Any) -> ProbeTarget:
        return ProbeTarget("/opt/xsk", 1, 2, "b0", "xsk")

    def start_recording(self) -> None:
        assert self.way is None
        self.way = "in-band"

    def end_recording(self) -> dict[str, Any]:
        assert self.way == "in-band"
        self.way = None
        return {**records(), **self.reported}

    def end(self, recorder: str) -> ProbeRecords:
        if recorder in self.ends_badly:
            raise self.ends_badly[recorder]
        return ProbeRecords.of(records(recorder == "bpf"))

    def trial(self, spec: Trial, purpose: Any = "measure", clause: str = "", **_: Any) -> TrialResult:
        latency = 2_000 + COSTS.get(self.way or "", 0) + self.spread_ns * len(self.records) % 7
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


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()

    @contextmanager
    def probed(dut: Any, target: ProbeTarget, recorder: str, every: int) -> Iterator[Callable[[], ProbeRecords]]:
        assert target.provider == "xsk"
        if recorder in made.refused:
            raise made.refused[recorder]
        made.way = recorder
        try:
            yield lambda: made.end(recorder)
        finally:
            made.way = None

    monkeypatch.setattr(recorders, "probed", probed)
    return made


def measured(session: Session, **changes: Any) -> dict[tuple[str, float], dict[str, Any]]:
    make_method(TracingSpec.model_validate({**SPEC, **changes})).measure(session, TrafficSpec())
    assert session.way is None
    (summary,) = summarise(run_record(session.at, study={"method": {**SPEC, **changes}}), session.records)
    return {(row["way"], row.get("rate_pps", 0)): row for row in summary.model_dump()["figures"]["tracing"]}


def test_each_round_has_a_trial_without_and_one_for_each_way(session: Session) -> None:
    made = make_method(TracingSpec.model_validate(SPEC))
    made.measure(session, TrafficSpec())
    clauses = [record.clause.split()[-1] for record in session.records if record.result]
    one = ["without", "in-band", "bpf", "perf"]
    assert clauses == (one + one[::-1]) * 2
    assert len(clauses) == len(made.trial_seconds(TrafficSpec()))
    assert [record.purpose for record in session.records if record.result].count("measure") == 1


def test_each_way_has_its_cost_its_verdict_and_its_stages(session: Session) -> None:
    rows = measured(session)
    own, bpf, perf = (rows[way, 10_000] for way in COSTS)
    for row, cost in zip((own, bpf, perf), COSTS.values(), strict=True):
        assert row["cost"]["p50"]["difference_us"]["mean"] == pytest.approx(cost / 1000, abs=0.02)
        assert row["cost"]["p50"]["ratio"]["ratio"] == pytest.approx((2000 + cost) / 2000, rel=0.01)
        assert row["pairs"] == 4
        assert row["lowest_us"]["with"] - row["lowest_us"]["without"] == pytest.approx(cost / 1000, abs=0.02)
    assert (own["verdict"], bpf["verdict"], perf["verdict"]) == ("met", "missed", "missed")
    assert own["probe_us"] is None  # stamps are no probes
    assert bpf["probe_us"] == pytest.approx(0.6, abs=0.02)
    assert {name: span["p50"] for name, span in bpf["stages_us"].items()} == pytest.approx(
        {"wait": 0.9, "switch": 0.1, "kick": 1.5, "queued": 1.0, "kicked": 2.5}
    )
    assert (perf["stages_us"]["wait"], perf["stages_us"]["kick"]["p50"]) == (None, 1.5)


def test_the_report_has_both_tables_and_the_published_cost(session: Session) -> None:
    measured(session)
    run = run_record(session.at, study={"method": SPEC})
    html = render(run, session.records)
    for words in ("What the measurement costs", "in-band", "<b>5 to 10</b>", "Understanding Delays", "a probe<br>costs",
                  "Do traced stages agree"):  # fmt: skip
        assert words in html, words
    assert "Throughput (RFC 2544" not in html
    (summary,) = summarise(run, session.records)
    found = answer(run, [summary])
    assert found.sentence == "What tracing costs xsk at p50, 10 kpps, goal below 0.2 µs, differs by way."
    assert found.details[0].startswith("in-band 0.05")
    assert any(each.startswith("bpf 1.2 µs") for each in found.details)


def test_a_way_that_is_missing_is_left_out_with_its_reason(session: Session) -> None:
    session.refused = {"perf": Unsupported("perf is not installed")}
    rows = measured(session)
    assert rows["perf", 0] == {"way": "perf", "reason": "perf is not installed"}
    assert {way for way, rate in rows if rate} == {"in-band", "bpf"}
    assert "unsupported: perf is not installed" in render(
        run_record(session.at, study={"method": SPEC}), session.records
    )


def test_a_forwarder_that_cannot_be_traced_is_unsupported() -> None:
    session = Session()
    session.forwarder = make_forwarder(ForwarderSpec(name="fake"))
    with pytest.raises(Unsupported, match=r"does not stamp batches itself; .*has no probes"):
        make_method(TracingSpec.model_validate(SPEC)).measure(session, TrafficSpec())


def test_what_ended_a_trial_is_reported_and_not_what_came_of_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> dict[str, Any]:
        raise PointFailed("xsk: it does not run")

    monkeypatch.setattr(session, "end_recording", gone)
    with pytest.raises(Interrupted, match="Ctrl-C"), recorders.recording(session, "in-band", 1):
        raise Interrupted("Ctrl-C")


def test_of_few_rounds_there_is_a_cost_and_no_verdict(session: Session) -> None:
    rows = measured(session, pairs=2)
    assert rows["bpf", 10_000]["verdict"] == "no interval"
    assert "no interval" in render(run_record(session.at, study={"method": SPEC}), session.records)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(None, None, "no interval"), (-0.1, 0.19, "met"), (0.2, 0.5, "missed"), (0.1, 0.3, "undecided")],
)
def test_the_whole_interval_decides(low: float | None, high: float | None, words: str) -> None:
    assert verdict(Difference(mean=0.1, low=low, high=high, rounds=3), 0.2) == words


@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)), min_size=3, max_size=11), st.floats(-5, 5))
def test_a_difference_moves_with_what_is_added(pairs: list[tuple[float, float]], more: float) -> None:
    first = difference_interval(pairs)
    second = difference_interval([(a + more, b) for a, b in pairs])
    assert first is not None
    assert second is not None
    assert first.low is not None
    assert first.high is not None
    assert first.low <= first.mean <= first.high
    assert second.mean == pytest.approx(first.mean + more, abs=1e-6)
    assert second.low == pytest.approx(first.low + more, rel=1e-6, abs=1e-6)


def test_a_difference_of_nothing_is_none() -> None:
    assert difference_interval([]) is None


def test_of_no_record_there_are_counts_only() -> None:
    counts = TracedTimes(seen=0, recorded=0, unmatched=0, unsent=0, full=3)
    assert traced_times(ProbeRecords(COLUMNS, [], 0, 0, 0, 3)) == counts


def test_a_study_names_its_ways_once() -> None:
    with pytest.raises(ValueError, match="bpf is there twice"):
        StudySpec.model_validate({"name": "x", "forwarders": ["xsk"], "method": {**SPEC, "ways": ["bpf", "bpf"]}})


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        ({"batches": 500, "unsent": 499}, "nothing recorded at 10 kpps: 2000 batches seen, 1996 not sent"),
        ({"batches": 0}, "nothing recorded at 10 kpps: 0 batches seen"),
    ],
)
def test_a_way_that_recorded_nothing_has_a_reason_and_no_cost(
    session: Session, reported: dict[str, int], words: str
) -> None:
    session.reported = {"records": [], **reported}
    rows = measured(session)
    assert rows["in-band", 0] == {"way": "in-band", "reason": words}
    assert rows["bpf", 10_000]["recorded"] == 4 * len(RECORDS)


def test_a_recorder_that_cannot_end_is_found_before_the_first_trial(session: Session) -> None:
    session.ends_badly = {"perf": PointFailed("perf_probe: perf script: incompatible file format")}
    assert measured(session)["perf", 0]["reason"] == "perf_probe: perf script: incompatible file format"


def test_few_rounds_and_lost_frames_hold_no_cost_against_the_goal(session: Session) -> None:
    """ "met" and "missed" were said of the frames that survived."""
    make_method(TracingSpec.model_validate(SPEC)).measure(session, TrafficSpec())

    def reported(trials: list[TrialRecord]) -> tuple[str, Any]:
        run = run_record(session.at, study={"method": SPEC})
        summaries = summarise(run, trials)
        return summaries[0].model_dump()["figures"]["tracing"][0]["verdict"], answer(run, summaries)

    lossy = {"result": result(stream([2000] * 90, sent=100))}
    spoilt = [one.model_copy(update=lossy) if one.result and one.trial > 4 else one for one in session.records]
    assert reported(spoilt)[0].startswith("undecided: ")
    of_two = Session()
    make_method(TracingSpec.model_validate({**SPEC, "pairs": 2})).measure(of_two, TrafficSpec())
    few, said = reported(of_two.records)
    assert few == "no interval"
    assert said.sentence == "No answer for xsk at 10 kpps, goal below 0.2 µs: too few rounds."
    assert not said.decided


def test_trials_of_different_repetitions_are_no_pair() -> None:
    """Each repetition is slower than the one before, tracing costs nothing, and the first broke off in its round 2."""
    at, taken = point(), list[TrialRecord]()
    for repetition in range(4):
        for number, clause in enumerate(["without", "with", "with", "without"]):
            more = {"clause": clause, "trial": number, "purpose": "search"}
            taken.append(trial(at, repetition, [1000 * (repetition + 1)] * 9, **more))
    pairs = paired_trials([one for one in taken if (one.repetition, one.trial) != (0, 3)], "without", "with")
    assert [tuple((one.repetition, one.trial) for one in pair) for pair in pairs] == [
        ((repetition, without), (repetition, traced))
        for repetition in (1, 2, 3)
        for without, traced in ((0, 1), (3, 2))
    ]


def test_a_trial_without_a_frame_is_in_no_pair() -> None:
    sides = [trial(point(), number, [1000] * 9, clause=clause) for number in range(3) for clause in ("a", "b")]
    sides[0] = trial(point(), 0, [], sent=9, clause="a")
    assert [pair[0].repetition for pair in paired_trials(sides, "a", "b")] == [1, 2]


def test_a_published_document_that_is_not_there_is_refused_before_anything_is_measured() -> None:
    """It was found out by the report, when all had been measured."""
    study = app.read_study(
        project_root() / "suites" / "studies" / "measurement-cost.yaml", {"method.published": "none"}
    )
    with pytest.raises(InputError, match=r"method\.published: 'none'"):
        app.prepare(study)
