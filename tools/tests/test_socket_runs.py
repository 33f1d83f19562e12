# SPDX-License-Identifier: Apache-2.0
"""Runs of socket studies on the command line: shown, drawn again, compared; their dead time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import studies
from lab.command import Done
from lab.records import environment
from lab.socket_records import record, staged, store, trial

from xdplab.analysis.overhead import socket_overhead
from xdplab.analysis.socket_compare import SocketRunData, compare_cells
from xdplab.model.sockets import SocketStudy, SocketTrial
from xdplab.results import RunFolder, SocketFolder, open_run

NOISE = (1.0, 1.013, 0.991, 1.021, 0.984)
CASES = {"cases": [{"title": "one"}, {"title": "dpdk", "program": "testpmd", "workloads": ["rxdrop"]}]}
BOTH = {**CASES, "workloads": ["rxdrop", "stages"]}
FUNCTIONS: dict[str, Any] = {
    "workloads": ["dropped", "job"],
    "cases": [],
    "network_functions": {"functions": ["firewall"], "modes": ["xdp"]},
}


def rates(mpps: float, shift: int = 0, **more: Any) -> list[SocketTrial]:
    """Five repetitions of a cell about a rate."""
    return [trial(mpps * 1e6 * NOISE[(n * 2 + shift) % 5], repetition=n, **more) for n in range(5)]


def latencies(us: float, shift: int = 0) -> list[SocketTrial]:
    return [staged([int(us * 1000 * NOISE[(n * 2 + shift) % 5])] * 5, repetition=n) for n in range(5)]


def test_a_folder_says_which_kind_of_run_it_holds(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    sockets = store(results, [trial()])
    cli("run", studies.study_file(tmp_path))
    found = open_run(sockets.path.name, results)
    assert isinstance(found, SocketFolder)
    assert found.path == sockets.path
    assert isinstance(open_run("latest", results), RunFolder)


def test_show_prints_what_the_command_itself_prints(cli: Callable[..., Done], results: Path) -> None:
    times = {"visit_s": 1.0, "traffic_s": 0.6}
    trials = [*rates(2, **times), *latencies(3), *rates(5, case="dpdk", visit_s=2.0, traffic_s=0.6)]
    trials.append(trial(None, repetition=5, status="failed", reason="it fell over"))
    store(results, trials, BOTH)
    out = cli("show").out
    assert out.splitlines()[0].split() == ["workload", "case", "mode", "Mpps", "from", "to", "reps"]
    assert "native copy" in out
    assert "peak to peak" in out
    assert "rxdrop: one: partial: it fell over" in out
    assert "dead time of a cell, program xsk: median 0.40 s, p90 0.40 s" in out
    assert "dead time of a cell, program testpmd: median 1.40 s" in out
    rows = cli("show", "--json").json()
    assert [(row["workload"], row["case"]) for row in rows] == [
        ("rxdrop", "one"),
        ("rxdrop", "dpdk"),
        ("stages", "one"),
    ]
    assert rows[0]["mpps"] == pytest.approx(2)
    assert rows[2]["stages"]["complete"]["count"] == 25


def test_show_prints_how_the_order_of_modes_agrees(cli: Callable[..., Done], results: Path) -> None:
    matrix = {"functions": ["router"], "modes": ["xdp", "af_xdp-poll"]}
    study = {
        "workloads": ["pass-through"],
        "cases": [],
        "network_functions": matrix,
        "published": {"source": "x", "modes_mpps": {"pass-through": {"router": {"xdp": 2, "af_xdp-poll": 1}}}},
    }
    of = SocketStudy.model_validate({"schema": 1, "name": "s", **study})
    pps = {"xdp": 3e6, "af_xdp-poll": 2e6}
    cases = [(case.title, case.function.mode) for case in of.all_cases() if case.function]
    store(results, [trial(pps[mode], workload="pass-through", case=title) for title, mode in cases], study)
    assert "xdp > af_xdp-poll" in cli("show").out
    assert "+1.00" in cli("show").out


def test_a_run_without_a_trial_is_shown(cli: Callable[..., Done], results: Path) -> None:
    store(results, [])
    assert cli("show").out == "no cell was visited\n"
    assert cli("show", "--json").json() == []


def test_report_draws_it_again(cli: Callable[..., Done], results: Path) -> None:
    folder = store(results, rates(2, visit_s=1.0, traffic_s=0.6))
    assert cli("report").out.strip() == str(folder.report)
    text = folder.report.read_text(encoding="utf-8")
    assert "Dead time of a cell of program xsk" in text
    assert "median 0.40 s" in text


def test_journals_from_before_dead_time_was_kept_are_read(cli: Callable[..., Done], results: Path) -> None:
    folder = store(results, [])
    old = trial().model_dump(mode="json", exclude={"visit_s", "traffic_s"})
    (folder.path / "trials.jsonl").write_text(json.dumps(old) + "\n", encoding="utf-8")
    done = cli("show")
    assert "rxdrop" in done.out
    assert "dead time" not in done.out
    assert cli("report").code == 0


def test_dead_time_is_of_cells_that_were_measured() -> None:
    study = SocketStudy.model_validate({"schema": 1, "name": "s", **BOTH})
    trials = [
        trial(visit_s=1.0, traffic_s=0.6),
        trial(visit_s=1.2, traffic_s=0.6, status="disturbed"),
        trial(None, visit_s=9.0, status="failed"),
        trial(None, visit_s=9.0, traffic_s=0.6, status="unsupported"),
    ]
    by_program = socket_overhead(study, trials)
    assert by_program.keys() == {"xsk"}
    found = by_program["xsk"]
    assert found.visits == 2
    assert found.median_s == pytest.approx(0.5)
    assert found.per_trial_s == pytest.approx(0.5)
    assert found.traffic_share == pytest.approx(1.2 / 2.2)
    assert socket_overhead(study, [trial()]) == {}


def test_cells_of_two_runs_are_compared(cli: Callable[..., Done], results: Path) -> None:
    first = store(results, [*rates(2), *latencies(3), *rates(4, case="dpdk")], BOTH)
    later = store(
        results,
        [*rates(3, 1), *latencies(6, 1), *rates(4, 2, case="dpdk")],
        {**BOTH, "frame_bytes": 512},
        environment=environment(kernel="6.19.0"),
    )
    told = cli("compare", first.path.name, later.path.name, "--json").json()
    assert told["trend"] == []
    (found,) = told["comparisons"]
    assert (found["reference"], found["run"]) == (first.path.name, later.path.name)
    assert found["environment"] == {"kernel": ["6.18.0", "6.19.0"], "frame_bytes": [64, 512]}
    assert found["not_compared"] == {}
    cells = {(cell["workload"], cell["case"], cell["rate_pps"], cell["metric"]): cell for cell in found["cells"]}
    one = cells["rxdrop", "one", None, "mpps"]
    assert one["interval"]["ratio"] == pytest.approx(1.5, rel=0.01)  # the later over the first
    assert (one["interval"]["pairs"], one["interval"]["confidence"], one["verdict"]) == (5, 0.99, "better")
    assert cells["rxdrop", "dpdk", None, "mpps"]["verdict"] == "no difference seen"
    for metric in ("complete_p50_us", "complete_mean_us"):
        slower = cells["stages", "one", 1000, metric]
        assert slower["interval"]["ratio"] == pytest.approx(2, rel=0.01)
        assert slower["verdict"] == "worse"
    text = cli("compare", first.path, later.path).out
    assert "after / before (99% interval)" in text
    assert "stages: one at 1000 pps" in text
    assert "kernel: 6.18.0 -> 6.19.0" in text
    assert "environment: the same" in cli("compare", first.path, first.path).out


def test_a_cell_that_cannot_be_compared_is_named_with_the_reason(cli: Callable[..., Done], results: Path) -> None:
    first = store(
        results, [*rates(2), trial(case="dpdk"), trial(workload="txonly")], {**CASES, "workloads": ["rxdrop", "txonly"]}
    )
    later = store(
        results, [*rates(2)[:2], trial(None, case="dpdk", status="unsupported", reason="not installed")], CASES
    )
    text = cli("compare", first.path, later.path).out
    assert "too few repetitions" in text
    assert f"not compared: txonly: one: not in {later.path.name}" in text
    assert "not compared: rxdrop: dpdk: unsupported: not installed" in text
    none = store(results, [trial(repetition=7)], CASES)
    text = cli("compare", first.path, none.path).out
    assert "no cell in common" in text
    assert "not compared: rxdrop: one: no repetition in common" in text


def test_options_of_a_case_that_changed_are_told(cli: Callable[..., Done], results: Path) -> None:
    runs = [store(results, rates(2), {"cases": [{"title": "one", "options": {"batch": n}}]}).path for n in (64, 128)]
    (found,) = cli("compare", *runs, "--json").json()["comparisons"]
    ((key, (before, after)),) = found["environment"].items()
    assert key == "case 'one'"
    assert (before["options"], after["options"]) == ({"batch": 64}, {"batch": 128})


def test_less_is_better_for_a_job_only() -> None:
    study = SocketStudy.model_validate({"schema": 1, "name": "s", **FUNCTIONS})
    case = next(case.title for case in study.all_cases() if case.workloads == ("web", "job"))
    of = {"workload": "job", "case": case, "pps": None, "unit": "s per round"}
    runs = [
        SocketRunData(
            name,
            record().model_copy(update={"study": study}),
            [trial(**of, figure=figure * noise, repetition=n) for n, noise in enumerate(NOISE)],
        )
        for name, figure in (("first", 0.2), ("later", 0.1))
    ]
    (found,) = compare_cells(*runs)
    assert (found.metric, found.unit, found.verdict()) == ("figure", "s per round", "better")
    assert found.interval.ratio == pytest.approx(0.5)


def test_a_step_in_a_series_of_runs_is_found(cli: Callable[..., Done], results: Path) -> None:
    kernels = ["6.18.0"] * 4 + ["6.19.0"] * 3
    names = [
        store(results, rates(2 if kernel == "6.18.0" else 1, day % 5), environment=environment(kernel=kernel),
              started=f"2026-11-{day:02}T00:00:00+00:00").path.name
        for day, kernel in enumerate(kernels, 1)
    ]  # fmt: skip
    told = cli("compare", *reversed(names), "--json").json()
    (trend,) = told["trend"]
    assert (trend["workload"], trend["case"], trend["metric"]) == ("rxdrop", "one", "mpps")
    before, after = trend["levels"]
    assert (before["last"], after["first"], after["change"]) == (names[3], names[4], "worse")
    assert after["mean"] == pytest.approx(before["mean"] / 2, rel=0.02)
    assert f"rxdrop: one mpps worse from {names[4]} on: environment differs: kernel" in cli("compare", *names).out


def test_runs_of_two_kinds_are_refused_in_one_line(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    sockets = store(results, [trial()])
    cli("run", studies.study_file(tmp_path))
    done = cli("compare", sockets.path, "latest")
    done.refused("compare: ", sockets.path.name, "is the run of a socket study", "give runs of one kind")
    assert done.out == ""


@pytest.mark.parametrize("command", [["sweep"], ["run", "--resume"], ["false-alarms"]], ids=" ".join)
def test_what_reads_other_runs_only_says_so(cli: Callable[..., Done], results: Path, command: list[str]) -> None:
    folder = store(results, [trial()])
    cli(*command, folder.path).refused("the run of a socket study; show, report and compare read it")


def test_a_merged_report_says_what_it_left_out(cli: Callable[..., Done], tmp_path: Path, results: Path) -> None:
    cli("run", studies.study_file(tmp_path))
    folder = store(results, [trial()])
    assert f"not merged: {folder.path.name}: " in cli("merge").out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "trials.jsonl:2: not a trial record"),
        ({"case": "two"}, "trials.jsonl:2: rxdrop: two: not a cell of its study"),
        ({"workload": "txonly"}, "trials.jsonl:2: txonly: one: not a cell of its study"),
        ({"pps": "fast"}, "trials.jsonl:2: not a trial record: pps"),
        ({"stages": {"driver": staged([5]).stages["driver"].model_dump()}}, "should hold driver, stack, complete"),
    ],
)
def test_a_journal_that_is_not_of_its_run_is_one_line(
    cli: Callable[..., Done], results: Path, line: Any, words: str
) -> None:
    folder = store(results, [trial()])
    text = line if isinstance(line, str) else json.dumps({**trial().model_dump(mode="json"), **line})
    with (folder.path / "trials.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    for command in (["show"], ["report"], ["compare", "latest", "latest"]):
        cli(*command).refused(words)


@pytest.mark.parametrize("text", ["", "[1]", '{"kind": "sockets"}', '{"kind": ["sockets"]}', "[" * 100_000])
def test_a_head_that_is_none_is_one_line(cli: Callable[..., Done], results: Path, text: str) -> None:
    folder = store(results, [trial()])
    (folder.path / "run.json").write_text(text, encoding="utf-8")
    for command in ("show", "report"):
        cli(command).refused(folder.path.name)
