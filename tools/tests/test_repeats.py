# SPDX-License-Identifier: Apache-2.0
"""What is repeated: a disturbed repetition for all points behind the planned ones, a step of a search at once."""

import io
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.records import result, stream
from rich.console import Console

from xdplab import app
from xdplab.cli.progress import ConsoleListener
from xdplab.measure import make_method
from xdplab.model import Point, RunRecord, TrialRecord, TrialSpec
from xdplab.runner import Listener, Repetition, make_plan, session
from xdplab.runner.repeats import Repeats
from xdplab.testers import make_tester

Bad = Callable[[Repetition, str, int], bool]
SPEC = TrialSpec(streams=(), duration_s=1.0)


@pytest.fixture(autouse=True)
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes a second."""
    monkeypatch.setattr("xdplab.report.page.latency_plots", lambda *_: [])


class Told(Listener):
    """What a run tells its listener."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.begun: list[tuple[int, int, int]] = []
        self.left_s: list[float] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def starting(self, point: Point, repetition: int, number: int, of: int, left_s: float) -> None:
        self.begun.append((repetition, number, of))
        self.left_s.append(left_s)


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Bad], None]:
    """Trials of which `bad(repetition, purpose, attempt)` says so are disturbed."""
    real = session.PointSession._one_trial

    def install(bad: Bad) -> None:
        def trial(self: Any, spec: Any, purpose: str, clause: str, number: int, attempt: int, *rest: Any) -> Any:
            record = real(self, spec, purpose, clause, number, attempt, *rest)
            if not bad(self._repetition, purpose, attempt):
                return record
            return record.model_copy(update={"status": "disturbed", "reason": "sender stalled"})

        monkeypatch.setattr(session.PointSession, "_one_trial", trial)

    return install


def carried_out(folder: Path, reported: Told | None = None, **changes: Any) -> list[TrialRecord]:
    """The journal of a study of two fake forwarders."""
    study = app.read_study(studies.study_file(folder, **{"repetitions": 3, **changes}))
    made, _ = app.run_study(app.prepare(study), reported or Told(), folder / "results")
    return made.trials()


def trials_of(folder: Path) -> RunRecord:
    return studies.only_run(folder / "results").load()


def by_repetition(trials: list[TrialRecord]) -> dict[int, int]:
    """Repetition -> points that were measured in it."""
    return dict(Counter(repetition for _, repetition in studies.measured(trials)))


def slower(at: Repetition) -> bool:
    """Whether it is of the second forwarder of the study."""
    return bool(at.point.forwarder.options)


def test_a_repetition_in_which_one_forwarder_was_disturbed_is_repeated_for_all(
    tmp_path: Path, disturb: Callable[[Bad], None]
) -> None:
    disturb(lambda at, purpose, attempt: slower(at) and at.number == 1)
    reported = Told()
    trials = carried_out(tmp_path, reported)
    assert by_repetition(trials) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert {trial.attempt for trial in trials} == {0}  # none of them had a second try
    assert [(trial.repetition, trial.status) for trial in trials if trial.status == "disturbed"] == [(1, "disturbed")]
    assert reported.begun[5:] == [(2, 6, 6), (3, 7, 8), (3, 8, 8)]
    assert reported.notes[-1] == (
        "repetition 2 is repeated for all 2 points, as repetition 4: fake:base_latency_us=9.0: sender stalled"
    )
    assert all(left_s > 0 for left_s in reported.left_s)


def test_a_repeated_repetition_that_is_disturbed_too_is_repeated_again(
    tmp_path: Path, disturb: Callable[[Bad], None]
) -> None:
    disturb(lambda at, purpose, attempt: at.number in (0, 3))
    reported = Told()
    trials = carried_out(tmp_path, reported, disturbance={"max_repeats_share": 1})
    assert by_repetition(trials) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2}
    assert [note.partition(":")[0] for note in reported.notes[-2:]] == [
        "repetition 1 is repeated for all 2 points, as repetition 4",
        "repetition 4 is repeated for all 2 points, as repetition 5",
    ]


def test_the_bar_on_a_terminal_grows_with_a_round() -> None:
    with ConsoleListener() as listener:
        listener._console = Console(file=io.StringIO(), force_terminal=True)
        _, plan = decided()
        listener.begin(plan, 4, 1.0)
        listener.starting(plan.points[0], 2, 5, 6, 1.0)
        assert listener._progress is not None
        (bar,) = listener._progress.tasks
        assert (bar.completed, bar.total) == (4, 6)


@pytest.mark.parametrize(
    ("rule", "rounds"),
    [
        ({"max_repeats": 1, "max_repeats_share": 20}, 3),
        ({"max_repeats": 2, "max_repeats_share": 20}, 6),
        ({"max_repeats": 0, "max_repeats_share": 20}, 0),
        ({"max_repeats_share": 0.3}, 0),
        ({"max_repeats_share": 0.34}, 1),
        ({}, 1),
        ({"max_repeats_share": 1}, 3),
    ],
)
def test_on_a_machine_that_is_never_quiet_a_run_ends(
    tmp_path: Path, disturb: Callable[[Bad], None], rule: dict[str, Any], rounds: int
) -> None:
    disturb(lambda at, purpose, attempt: True)
    reported = Told()
    assert by_repetition(carried_out(tmp_path, reported, disturbance=rule)) == dict.fromkeys(range(3 + rounds), 2)
    assert reported.notes[-1].startswith(
        "0 of 3 repetitions are clean for every point; no more are repeated (disturbance: "
    )


def test_the_default_budget_holds_two_of_five_repetitions_and_a_third_of_a_long_sweep() -> None:
    forwarders = [f"fake:seed={number}" for number in range(8)]
    assert len(rounds(forwarders=forwarders, repetitions=5)) == 2
    assert len(rounds(forwarders=forwarders, repetitions=3)) == 1
    assert len(rounds(forwarders=forwarders, repetitions=1)) == 0


def rounds(**changes: Any) -> list[int]:
    """Sizes of the rounds that a study gets where everything is disturbed."""
    repeats, plan = decided(**changes)
    for at in plan.order:
        repeats.seen(record(at))
    found = []
    while (more := repeats.next_round()) is not None:
        found.append(len(more.repetitions))
        for at in more.repetitions:
            repeats.seen(record(at))
    return found


def decided(**changes: Any) -> tuple[Repeats, Any]:
    study = studies.study(**changes)
    plan = make_plan(study, studies.a_testbed(), make_tester("fake"))
    return Repeats(study, plan, plan.order), plan


def record(at: Repetition, status: str = "disturbed", **fields: Any) -> TrialRecord:
    had = {} if status == "failed" else {"asked": SPEC, "result": result(stream([1000]))}
    given = {
        "point_id": at.point.id,
        "repetition": at.number,
        "status": status,
        "started": "2026-01-02T03:04:05+00:00",
        **had,
        **fields,
    }
    return TrialRecord(**given)


def test_steps_of_a_search_and_repetitions_share_one_budget() -> None:
    method = {"name": "latency", "duration_s": 1.0, "warmup_s": 0.0, "drain_s": 0.01}
    repeats, plan = decided(repetitions=5, method=method, disturbance={"max_repeats_share": 0.25})
    assert not repeats.may_repeat(0.1)  # a share of what was taken, and nothing was
    for number, at in enumerate(plan.order):
        repeats.seen(record(at, "ok" if number else "disturbed"))
        assert repeats.may_repeat(0.25 * (number + 1))
        assert not repeats.may_repeat(0.25 * (number + 1) + 0.1)
    repeats.seen(record(plan.order[1], "ok", purpose="search", attempt=1))
    assert repeats.may_repeat(1.5)
    assert not repeats.may_repeat(1.6)
    assert repeats.next_round() is None  # two points of 1 s


def test_a_round_that_was_begun_goes_on_whatever_was_spent_in_it() -> None:
    method = {"name": "latency", "duration_s": 1.0, "warmup_s": 0.0, "drain_s": 0.01}
    changes = {"repetitions": 3, "method": method, "disturbance": {"max_repeats_share": 0.34}}
    first, plan = decided(**changes)
    second, _ = decided(**changes)
    step = record(Repetition(plan.points[0], 3), "ok", purpose="search", attempt=1)
    for repeats in (first, second):
        for at in plan.order:
            repeats.seen(record(at))
    begun = first.next_round()
    assert begun is not None
    second.seen(step)
    assert second.next_round() == begun
    assert second.next_round() is None


def test_a_failed_repetition_is_no_reason_for_another_and_a_point_without_figures_is_not_repeated() -> None:
    repeats, plan = decided(repetitions=5)
    works, _ = plan.points
    for at in plan.order:
        repeats.seen(record(at, "ok" if at.point == works else "failed"))
    assert repeats.next_round() is None
    assert repeats.left() is None
    repeats.seen(record(Repetition(works, 4)))
    found = repeats.next_round()
    assert found is not None
    assert [at.point for at in found.repetitions] == [works]
    assert found.text == "repetition 5 is repeated for 1 point, as repetition 6: fake: "


def searched(
    folder: Path,
    disturb: Callable[[Bad], None],
    reported: Told | None = None,
    *,
    bad: Bad = lambda *_: True,
    **changes: Any,
) -> list[TrialRecord]:
    """Of one forwarder: a search, and a latency next to it."""
    disturb(bad)
    method = {"name": "throughput", "preset": "quick", "budget_s": 20, "equal_load": {"latency_pps": 20000}}
    return carried_out(folder, reported, **{"forwarders": "fake", "repetitions": 1, "method": method, **changes})


def test_where_repetitions_are_long_measured_trials_are_marked_and_steps_of_a_search_are_repeated(
    tmp_path: Path, disturb: Callable[[Bad], None]
) -> None:
    reported = Told()
    trials = searched(tmp_path, disturb, reported, bad=lambda at, purpose, attempt: attempt == 0)
    assert [trial.attempt for trial in trials if trial.purpose == "measure" and trial.result] == [0]
    assert 1 in {trial.attempt for trial in trials if trial.purpose == "search"}
    assert {trial.repetition for trial in trials} == {0}
    assert not [note for note in reported.notes if "is repeated" in note]


def test_a_disturbed_step_without_loss_is_not_repeated_and_a_lossy_one_is(
    tmp_path: Path, disturb: Callable[[Bad], None]
) -> None:
    """The load was carried all the same; loss may be the machine's."""
    trials = searched(tmp_path, disturb, disturbance={"max_repeats": 2, "max_repeats_share": 20})
    steps: dict[int, list[TrialRecord]] = {}
    for trial in trials:
        if trial.purpose == "search":
            steps.setdefault(trial.trial, []).append(trial)
    carried, lossy = ([each for each in steps.values() if bool(each[0].result and each[0].result.lost) == lost]
                      for lost in (False, True))  # fmt: skip
    assert len(carried) > 3
    assert len(lossy) > 3
    assert {len(attempts) for attempts in carried} == {1}
    ends = [(len(attempts) == 1 + 2, bool(attempts[-1].result and attempts[-1].result.lost)) for attempts in lossy]
    assert (True, True) in ends
    assert (False, True) not in ends  # until one carries the load, or the rule ends it


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_repeats_of_a_search_stay_within_a_share_of_the_traffic_taken(
    tmp_path: Path, disturb: Callable[[Bad], None], share: float
) -> None:
    """However short it is next to its budget, and at any time: a search that ends here has cost no more."""
    trials = searched(tmp_path, disturb, disturbance={"max_repeats_share": share} if share != 0.4 else {})
    first_s = again_s = 0.0
    for trial in trials:
        if trial.asked is not None and trial.result is not None:
            seconds = trial.asked.warmup_s + trial.asked.duration_s
            first_s, again_s = (first_s, again_s + seconds) if trial.attempt else (first_s + seconds, again_s)
            assert again_s <= share * first_s + 1e-9
    assert again_s > 0.5 * share * first_s  # and most of it is used


def test_a_search_in_which_every_step_was_disturbed_says_a_bound_that_the_machine_set(
    tmp_path: Path, disturb: Callable[[Bad], None]
) -> None:
    trials = searched(tmp_path, disturb, bad=lambda at, purpose, attempt: purpose == "search")
    (one,) = make_method(trials_of(tmp_path).study.method).repetition_figures(trials)
    found = one.figures["ndr_pps"]
    assert (found.limited_by, found.high, found.doubt) == ("machine", math.inf, "")
    assert found.value == found.low > 0
    assert found.share == 1.0


def test_where_bounds_decide_no_repetition_is_repeated(
    tmp_path: Path, disturb: Callable[[Bad], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five that are known to be disturbed by so much say enough; those of an unknown share do not, nor do fewer."""
    assert len(rounds(repetitions=5)) == 2  # of a tester that does not say when its frames left late
    monkeypatch.setattr(
        "xdplab.runner.repeats.disturbed_share", lambda trial: 0.1 if trial.status == "disturbed" else 0.0
    )
    assert len(rounds(repetitions=5)) == 0
    assert len(rounds(repetitions=4, disturbance={"max_repeats_share": 1})) == 4
    disturb(lambda at, purpose, attempt: at.number < 3)
    reported = Told()
    assert by_repetition(carried_out(tmp_path, reported, repetitions=5)) == dict.fromkeys(range(5), 2)
    assert reported.notes[-1] == "2 of 5 repetitions are clean for every point; the others count as bounds"


@pytest.mark.parametrize("repeats", [0, 1, 3])
def test_a_step_of_a_search_is_repeated_so_often_at_the_most(
    tmp_path: Path, disturb: Callable[[Bad], None], repeats: int
) -> None:
    disturb(lambda at, purpose, attempt: purpose == "search")
    trials = carried_out(
        tmp_path,
        forwarders="fake",
        repetitions=1,
        traffic={"load_share": 0.5},
        disturbance={"max_repeats": repeats, "max_repeats_share": 20},
    )
    assert [each.attempt for each in trials if each.purpose == "search"] == list(range(repeats + 1))


def test_a_run_that_was_cut_off_anywhere_goes_on_to_the_same_repetitions(
    tmp_path: Path, results: Path, cli: Callable[..., Done], disturb: Callable[[Bad], None]
) -> None:
    disturb(lambda at, purpose, attempt: attempt == 0 and at.number in (0, 3) and slower(at))
    rule = {"max_repeats_share": 1}  # a disturbed repetition repeats a step of the search too, and that takes its part
    trials = carried_out(tmp_path, disturbance=rule, traffic={"load_share": 0.5})
    whole = studies.measured(trials)
    assert by_repetition(trials) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2}
    run = studies.only_run(results)
    journal = run.path / "trials.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    begun = next(number for number, trial in enumerate(trials) if trial.repetition == 3)
    for kept in (1, begun - 1, begun, begun + 1, begun + 3, begun + 5, len(lines) - 1, len(lines)):
        journal.write_bytes(b"".join(lines[:kept]))
        done = cli("run", "--resume", run.path)
        assert (done.code, done.complaints) == (0, [])
        assert studies.measured(run.trials()) == whole, f"cut off after {kept} of {len(lines)} lines"
